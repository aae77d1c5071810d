-- Uses the fork beside it, as people's oltp_*.lua files use theirs.

require("fork_common")

local turn = 0

function event()
  turn = turn + 1
  local tenants = sysbench.opt.tenants
  local tenant = tenants[turn % #tenants + 1]
  param[tenant]:set(sysbench.rand.default(1, sysbench.opt.table_size))
  stmt[tenant]:execute()
  if sysbench.opt.strict then
    local n = con:query_row("SELECT n FROM t_" .. tenant .. " WHERE id = 7")
    assert(tonumber(n) == 14, "row 7 of " .. tenant .. " has n = " .. tostring(n))
  end
  con:query(string.format("UPDATE t_%s SET note = '%s' WHERE id = %d", tenant, sysbench.rand.string("##########"), turn))
end
