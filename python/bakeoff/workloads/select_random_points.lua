-- One SELECT per event, by --random_points secondary keys of sbtest1. Each thread has its own slice of the keys.

require("oltp_common")

sysbench.cmdline.options.random_points = { "Number of keys in the IN list", 10 }

local from, to

function prepare_statements() end

function thread_init()
  local opt = sysbench.opt
  local points = opt.random_points
  local slice = math.floor(opt.table_size / opt.threads)
  from = slice * sysbench.tid + 1
  to = math.max(from + slice - 1, from)

  drv = sysbench.sql.driver()
  con = drv:connect()
  local marks = string.rep("?", points, ", ")
  select_points = con:prepare(string.format("SELECT id, k, c, pad FROM sbtest1 WHERE k IN (%s)", marks))
  keys = {}
  for i = 1, points do
    keys[i] = select_points:bind_create(sysbench.sql.type.INT)
  end
  select_points:bind_param(unpack(keys))
end

function thread_done()
  select_points:close()
  con:disconnect()
end

function event()
  for i = 1, #keys do
    keys[i]:set(sysbench.rand.default(from, to))
  end
  select_points:execute()
end
