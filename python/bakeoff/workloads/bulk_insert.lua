-- Each thread fills a table of its own by multi-row INSERTs of 512 KiB. An event adds one row to the client's buffer, so tps are
-- rows per second, and latencies mean little: most events send nothing.

sysbench.cmdline.options = {
  mysql_storage_engine = { "Storage engine of the tables", "innodb" },
  create_table_options = { "Options appended to CREATE TABLE", "" },
}

local function table_name(thread)
  return "sbtest" .. (thread + 1)
end

function cmd_prepare()
  local con = sysbench.sql.driver():connect()
  con:query(string.format([[
CREATE TABLE IF NOT EXISTS %s (
  id INTEGER NOT NULL,
  k INTEGER DEFAULT '0' NOT NULL,
  PRIMARY KEY (id)
) /*! ENGINE = %s */ %s]],
    table_name(sysbench.tid), sysbench.opt.mysql_storage_engine, sysbench.opt.create_table_options))
  con:disconnect()
end

sysbench.cmdline.commands = {
  prepare = { cmd_prepare, sysbench.cmdline.PARALLEL_COMMAND },
}

function thread_init()
  con = sysbench.sql.driver():connect()
  -- Goes on where an earlier run ended.
  last_id = tonumber((con:query_row("SELECT MAX(id) FROM " .. table_name(sysbench.tid)))) or 0
  con:bulk_insert_init("INSERT INTO " .. table_name(sysbench.tid) .. " VALUES")
end

function event()
  last_id = last_id + 1
  con:bulk_insert_next(string.format("(%d, %d)", last_id, last_id))
end

function thread_done()
  con:bulk_insert_done()
  con:disconnect()
end

function cleanup()
  local con = sysbench.sql.driver():connect()
  for thread = 0, sysbench.opt.threads - 1 do
    con:query("DROP TABLE IF EXISTS " .. table_name(thread))
  end
  con:disconnect()
end
