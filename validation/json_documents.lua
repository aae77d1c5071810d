-- Builds a JSON document of a thousand rows an event: the server allocates memory for every one of its members.

require("oltp_common")

function prepare_statements() end

function event()
  local first = sysbench.rand.default(1, math.max(1, sysbench.opt.table_size - 999))
  con:query(string.format("SELECT JSON_LENGTH(JSON_OBJECTAGG(id, c)) FROM sbtest1 WHERE id BETWEEN %d AND %d", first, first + 999))
end
