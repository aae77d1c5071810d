-- UPDATEs of the indexed column, each in a transaction of its own: --index_updates of them (1) in each event.

require("oltp_common")

function prepare_statements()
  prepare_index_updates()
end

function event()
  execute_index_updates()
  check_reconnect()
end
