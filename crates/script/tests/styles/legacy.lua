-- sysbench 0.5's style: global functions, options as global texts.

pathtest = string.match(test, "(.*/)") or ""

function set_vars()
   oltp_table_size = tonumber(oltp_table_size) or 10000
   mysql_table_engine = mysql_table_engine or "innodb"
end

function prepare()
   set_vars()
   db_connect()
   db_query("CREATE TABLE sbtest (id INTEGER, k INTEGER, c CHAR(20), pad CHAR(20)) ENGINE = " .. mysql_table_engine)
   db_bulk_insert_init("INSERT INTO sbtest(id, k, c, pad) VALUES")
   for i = 1, oltp_table_size do
      db_bulk_insert_next("(" .. i .. "," .. sb_rand(1, oltp_table_size) .. ",'" .. sb_rand_str("###-@@@") .. "','')")
   end
   db_bulk_insert_done()
   db_disconnect()
end

function thread_init(thread_id)
   set_vars()
   db_connect()
   select_one = db_prepare("SELECT pad FROM sbtest WHERE id=?")
   params = { 1 }
   db_bind_param(select_one, params)
end

function event(thread_id)
   params[1] = sb_rand_uniform(1, oltp_table_size)
   local rs = db_execute(select_one)
   db_store_results(rs)
   db_free_results(rs)
   if db_query("UPDATE sbtest SET c='" .. sb_rand_str("@@@@") .. "' WHERE id=" .. sb_rand_gaussian(1, oltp_table_size)) then
      error("no result set was expected")
   end
   assert(sb_rand_special(1, 9) <= 9 and sb_rand_uniq(1, 9) <= 9 and sb_rnd() >= 0 and sysbench.db.DB_ERROR_NONE == DB_ERROR_NONE)
end

function thread_done()
   db_close(select_one)
   db_disconnect()
end
