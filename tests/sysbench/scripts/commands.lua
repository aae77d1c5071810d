-- Custom commands, parallel and not, with custom help.

sysbench.cmdline.options = {
  size = { "How much", 3, sysbench.cmdline.ARG_INT },
  fail_in = { "Thread that fails", -1, sysbench.cmdline.ARG_INT },
}

local function fill()
  if sysbench.tid == sysbench.opt.fail_in then
    error("thread " .. sysbench.tid .. " was asked to fail")
  end
  print(string.format("fill %d of %d, size %d", sysbench.tid, sysbench.opt.threads, sysbench.opt.size))
end

local function count()
  print("count " .. sysbench.opt.size)
end

sysbench.cmdline.commands = {
  fill = { fill, sysbench.cmdline.PARALLEL_COMMAND },
  count = { count },
}

function help()
  print("commands.lua: fill and count")
  sysbench.cmdline.print_test_options()
end

function prepare()
  print("plain prepare, command " .. sysbench.cmdline.command)
end

function event() end
