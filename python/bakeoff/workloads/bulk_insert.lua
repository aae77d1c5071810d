-- Multi-row INSERTs of 512 KiB: each thread fills its own table. An event adds one row to the client's buffer, so tps are
-- rows per second, and latencies mean little: most events send nothing.
--
-- --mysql_storage_engine and --create_table_options are those of the oltp_* workloads. No option is declared, because a
-- script that declares some accepts no others, and sysbench's accepts all.

local function table_name(thread)
  return "sbtest" .. (thread + 1)
end

local function table_options()
  local engine, options = sysbench.opt.mysql_storage_engine or "", sysbench.opt.create_table_options or ""
  return (engine ~= "" and " /*! ENGINE = " .. engine .. " */" or "") .. (options ~= "" and " " .. options or "")
end

local function create_table(con, thread)
  con:query(string.format([[
CREATE TABLE IF NOT EXISTS %s (
  id INTEGER NOT NULL,
  k INTEGER DEFAULT '0' NOT NULL,
  PRIMARY KEY (id))%s]], table_name(thread), table_options()))
end

function prepare()
  local con = sysbench.sql.driver():connect()
  for thread = 0, sysbench.opt.threads - 1 do
    print(string.format("Creating table '%s'...", table_name(thread)))
    create_table(con, thread)
  end
  con:disconnect()
end

function thread_init()
  con = sysbench.sql.driver():connect()
  -- A run may have more threads than `prepare` had. Look first: an account that may only insert cannot create.
  local there = con:query_row(string.format([[
SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '%s']], table_name(sysbench.tid)))
  if not there then
    create_table(con, sysbench.tid)
  end
  -- Continue where an earlier run ended.
  last_id = tonumber((con:query_row("SELECT MAX(id) FROM " .. table_name(sysbench.tid)))) or 0
  con:bulk_insert_init("INSERT INTO " .. table_name(sysbench.tid) .. " VALUES")
end

function event()
  last_id = last_id + 1
  con:bulk_insert_next(string.format("(%d,%d)", last_id, last_id))
end

function thread_done()
  con:bulk_insert_done()
  con:disconnect()
end

function cleanup()
  local con = sysbench.sql.driver():connect()
  for thread = 0, sysbench.opt.threads - 1 do
    print(string.format("Dropping table '%s'...", table_name(thread)))
    con:query("DROP TABLE IF EXISTS " .. table_name(thread))
  end
  con:disconnect()
end
