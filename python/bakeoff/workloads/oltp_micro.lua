-- One statement per event (--statement): reads by a list of keys, a range or a full scan, or an UPDATE by listed keys.
-- The microbenchmarks of `-w micro` are this script with options (workloads/micro.toml).

require("oltp_common")

local options = sysbench.cmdline.options
options.statement = { "What an event runs: points, range, scan, update", "points" }
options.key = { "Column that the condition names: id (primary key) or k (secondary index)", "id" }
options.read = { "What is read: the column id, k or c, or a count of the rows", "c" }
options.list_size = { "Keys in the IN list of points and update", 100 }
options.hot = { "Name the same keys, from 1 on, in every event", false }

local INT, CHAR = sysbench.sql.type.INT, sysbench.sql.type.CHAR

local function marks(count)
  return string.rep("?", count, ", ")
end

local function pick(name, ...)
  local value = sysbench.opt[name]
  for _, known in ipairs({ ... }) do
    if value == known then
      return value
    end
  end
  error(string.format("%s must be one of %s, not %s", name, table.concat({ ... }, ", "), value), 0)
end

local function sql_for(table_num)
  local opt = sysbench.opt
  local kind = pick("statement", "points", "range", "scan", "update")
  local key, read = pick("key", "id", "k"), pick("read", "id", "k", "c", "count")
  read = read == "count" and "COUNT(*)" or read
  if kind == "range" then
    return string.format("SELECT %s FROM sbtest%d WHERE %s BETWEEN ? AND ?", read, table_num, key), 2
  elseif kind == "scan" then
    return string.format("SELECT * FROM sbtest%d WHERE LENGTH(c) < 0", table_num), 0
  elseif kind == "update" then
    return string.format("UPDATE sbtest%d SET c=? WHERE %s IN (%s)", table_num, key, marks(opt.list_size)), opt.list_size
  end
  return string.format("SELECT %s FROM sbtest%d WHERE %s IN (%s)", read, table_num, key, marks(opt.list_size)), opt.list_size
end

local statements

function prepare_statements()
  statements = {}
  for table_num = 1, sysbench.opt.tables do
    local sql, count = sql_for(table_num)
    local statement = con:prepare(sql)
    local keys, bound = {}, {}
    local text = sysbench.opt.statement == "update" and statement:bind_create(CHAR, 4 * sysbench.opt.column_length) or nil
    bound[1] = text
    for i = 1, count do
      keys[i] = statement:bind_create(INT)
      bound[#bound + 1] = keys[i]
    end
    if #bound > 0 then
      statement:bind_param(unpack(bound))
    end
    statements[table_num] = { statement = statement, keys = keys, text = text }
  end
end

function close_statements()
  for _, each in ipairs(statements) do
    each.statement:close()
  end
end

-- Keys of an UPDATE rise, so that two connections lock rows in the same order.
local function draw_keys(keys)
  local opt, drawn = sysbench.opt, {}
  for i = 1, #keys do
    drawn[i] = opt.hot and i or sysbench.rand.default(1, opt.table_size)
  end
  if opt.statement == "update" then
    table.sort(drawn)
  end
  for i = 1, #keys do
    keys[i]:set(drawn[i])
  end
end

function event()
  local opt = sysbench.opt
  local each = statements[opt.hot and 1 or sysbench.rand.uniform(1, opt.tables)]
  if opt.statement == "range" then
    local from = sysbench.rand.default(1, opt.table_size)
    each.keys[1]:set(from)
    each.keys[2]:set(from + opt.range_size - 1)
  else
    draw_keys(each.keys)
  end
  if each.text then
    each.text:set(get_c_value())
  end
  each.statement:execute()
  check_reconnect()
end
