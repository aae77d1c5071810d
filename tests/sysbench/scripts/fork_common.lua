-- A fork of oltp_common as people keep one: its own options, tables and statements.

sysbench.cmdline.options = {
  table_size = { "Rows in the table", 100 },
  rows_per_insert = { "Rows of one INSERT", 10 },
  tenants = { "Tenants", { "red", "green", "blue" } },
  label = { "Label of the rows", "x", sysbench.cmdline.ARG_STRING },
  strict = { "Check each row", false },
}

function cmd_prepare()
  local drv = sysbench.sql.driver()
  local con = drv:connect()
  for i = sysbench.tid % sysbench.opt.threads + 1, #sysbench.opt.tenants, sysbench.opt.threads do
    local tenant = sysbench.opt.tenants[i]
    con:query("DROP TABLE IF EXISTS t_" .. tenant)
    con:query("CREATE TABLE t_" .. tenant .. " (id INT PRIMARY KEY, n INT NOT NULL, label VARCHAR(20), note VARCHAR(40))")
    con:bulk_insert_init("INSERT INTO t_" .. tenant .. " VALUES")
    for id = 1, sysbench.opt.table_size do
      con:bulk_insert_next(string.format("(%d, %d, '%s', '%s')", id, id * 2, sysbench.opt.label, sysbench.rand.string("@@@-###")))
    end
    con:bulk_insert_done()
    print("loaded " .. tenant)
  end
end

function cleanup()
  local con = sysbench.sql.driver():connect()
  for _, tenant in ipairs(sysbench.opt.tenants) do
    con:query("DROP TABLE IF EXISTS t_" .. tenant)
  end
end

sysbench.cmdline.commands = { prepare = { cmd_prepare, sysbench.cmdline.PARALLEL_COMMAND } }

function thread_init()
  drv = sysbench.sql.driver()
  con = drv:connect()
  stmt, param = {}, {}
  for _, tenant in ipairs(sysbench.opt.tenants) do
    stmt[tenant] = con:prepare("SELECT n, label FROM t_" .. tenant .. " WHERE id = ?")
    param[tenant] = stmt[tenant]:bind_create(sysbench.sql.type.INT)
    stmt[tenant]:bind_param(param[tenant])
  end
end

function thread_done()
  for _, statement in pairs(stmt) do
    statement:close()
  end
  con:disconnect()
end
