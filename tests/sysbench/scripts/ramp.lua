-- Loads the server before the run, as `tpcc` does, for as many statements as asked.

sysbench.cmdline.options = {
  ramp_up = { "Statements before the run", 0 },
}

function thread_init()
  con = sysbench.sql.driver():connect()
  for _ = 1, 5 + sysbench.opt.ramp_up do
    con:query("SELECT 1")
  end
end

function event()
  con:query("SELECT 1")
end
