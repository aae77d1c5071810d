-- One DELETE by primary key in each event. Nothing is put back, as in sysbench: the table drains. A DELETE that meets no row is
-- counted as "other", and is cheaper. Compare arms over the same number of events from the same data, or keep runs short
-- against --table_size.

require("oltp_common")

function prepare_statements()
  prepare_for_each_table("deletes")
end

function event()
  local table_num = sysbench.rand.uniform(1, sysbench.opt.tables)
  param[table_num].deletes[1]:set(sysbench.rand.default(1, sysbench.opt.table_size))
  stmt[table_num].deletes:execute()
  check_reconnect()
end
