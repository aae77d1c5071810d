-- Replaces every global that oltp_common defines by one that says which of the others called it.

local before = {}
for name in pairs(_G) do
  before[name] = true
end
require("oltp_common")

local callers, said = { "sysbench" }, {}

local function say(...)
  local line = string.format(...)
  if not said[line] then
    said[line] = true
    print(line)
  end
end

for name, own in pairs(_G) do
  if not before[name] and type(own) == "function" then
    say("global %s", name)
    _G[name] = function(...)
      say("%s calls %s", callers[#callers], name)
      callers[#callers + 1] = name
      local result = own(...)
      callers[#callers] = nil
      return result
    end
  end
end

local GROUPS = {
  "point_selects", "simple_ranges", "sum_ranges", "order_ranges", "distinct_ranges", "index_updates", "non_index_updates",
  "delete_inserts",
}

function prepare_statements()
  prepare_begin()
  prepare_commit()
  for _, group in ipairs(GROUPS) do
    _G["prepare_" .. group]()
  end
end

function event()
  begin()
  for _, group in ipairs(GROUPS) do
    _G["execute_" .. group]()
  end
  commit()
end
