-- UPDATEs of the indexed column: --index_updates of them (1) in each event, each in its own transaction.

require("oltp_common")

function prepare_statements()
  prepare_index_updates()
end

function event()
  execute_index_updates()
  check_reconnect()
end
