-- One SELECT by primary key in each event. It runs without a transaction.

require("oltp_common")

function prepare_statements()
  -- One by design, whatever --point_selects says.
  sysbench.opt.point_selects = 1
  prepare_point_selects()
end

function event()
  execute_point_selects()
  check_reconnect()
end
