-- The API of sysbench 0.5, which 1.0 still has: global functions, options as globals.

function prepare()
  set_vars()
  db_connect()
  db_query("DROP TABLE IF EXISTS legacy_t")
  db_query("CREATE TABLE legacy_t (id INTEGER PRIMARY KEY, v CHAR(20))")
  db_bulk_insert_init("INSERT INTO legacy_t VALUES")
  for i = 1, legacy_rows do
    db_bulk_insert_next("(" .. i .. ", '" .. sb_rand_str("@@@###") .. "')")
  end
  db_bulk_insert_done()
  db_disconnect()
end

function cleanup()
  db_connect()
  db_query("DROP TABLE IF EXISTS legacy_t")
end

function set_vars()
  legacy_rows = tonumber(legacy_rows) or 50
end

function thread_init(thread_id)
  set_vars()
  db_connect()
end

function event(thread_id)
  db_query("SELECT v FROM legacy_t WHERE id = " .. sb_rand_uniform(1, legacy_rows))
  db_query("UPDATE legacy_t SET v = '" .. sb_rand_str("@@@###@@@") .. "' WHERE id = " .. sb_rand(1, legacy_rows))
end
