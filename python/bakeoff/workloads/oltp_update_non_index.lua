-- UPDATEs of a column without index, each in a transaction of its own: --non_index_updates of them (1) in each event.

require("oltp_common")

function prepare_statements()
  prepare_non_index_updates()
end

function event()
  execute_non_index_updates()
  check_reconnect()
end
