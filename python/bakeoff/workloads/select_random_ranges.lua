-- One SELECT count() over ranges of secondary keys: --number_of_ranges of --delta keys in each event, from sbtest1 alone.
-- Each begins in the thread's own slice of the keys.

require("oltp_common")

sysbench.cmdline.options.number_of_ranges = { "Number of ranges in the condition", 10 }
sysbench.cmdline.options.delta = { "Width of a range", 5 }

local first, last

function prepare_statements() end

function thread_init()
  local opt = sysbench.opt
  local ranges = opt.number_of_ranges
  local slice = math.floor(opt.table_size / opt.threads)
  first = slice * sysbench.tid + 1
  last = math.max(first + slice - 1, first)

  drv = sysbench.sql.driver()
  con = drv:connect()
  local conditions = string.rep("k BETWEEN ? AND ?", ranges, " OR ")
  select_ranges = con:prepare("SELECT count(k) FROM sbtest1 WHERE " .. conditions)
  ends = {}
  for i = 1, 2 * ranges do
    ends[i] = select_ranges:bind_create(sysbench.sql.type.INT)
  end
  select_ranges:bind_param(unpack(ends))
end

function thread_done()
  select_ranges:close()
  con:disconnect()
end

function event()
  for i = 1, #ends, 2 do
    local from = sysbench.rand.default(first, last)
    ends[i]:set(from)
    ends[i + 1]:set(from + sysbench.opt.delta)
  end
  select_ranges:execute()
end
