-- UPDATEs of a column without index: --non_index_updates of them (1) in each event, each in its own transaction.

require("oltp_common")

function prepare_statements()
  prepare_non_index_updates()
end

function event()
  execute_non_index_updates()
  check_reconnect()
end
