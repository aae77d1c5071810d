-- The tables that every script starts from: `sysbench`, the global `ffi`, and the C declarations.
-- Each of our files is called with `runtime`, the table through which Rust and these files talk.

local runtime = ...

-- Global on purpose: scripts rely on it.
ffi = require("ffi")
ffi.cdef(runtime.cdef)
runtime.cdef = nil

-- A transaction of twenty statements calls the same few functions often: with LuaJIT's own limits its trace is given up
-- ("loop unroll limit reached"), and a third of the script's time goes to the interpreter (tests/jit.rs shows it).
jit.opt.start("loopunroll=60", "instunroll=100", "callunroll=10", "maxrecord=10000", "maxsnap=2000", "maxirconst=2000",
  "maxtrace=8000", "maxmcode=8192")

sysbench = {
  tid = runtime.tid,
  version = "1.0.20",
  version_string = "sysbench 1.0.20",
  opt = {},
  error = { NONE = 0, RESTART_EVENT = 1 },
  hooks = {},
}

-- Calls a script's function for Rust. Returns nil, or a message, a traceback, and whether the error is a statement's.
function runtime.call(func, ...)
  runtime.traceback = nil
  local of_statement = false
  local function on_error(err)
    runtime.traceback = runtime.traceback or debug.traceback("", 2)
    if type(err) == "table" and err.errcode == sysbench.error.RESTART_EVENT then
      -- An ignorable error where nothing can be run again: a command, or thread_init.
      of_statement = err.message ~= nil
      return err.message or "event restart asked for outside of an event"
    end
    of_statement = err == runtime.statement_error
    return (type(err) == "string" or type(err) == "number") and tostring(err) or "(not a string)"
  end
  local ok, message = xpcall(func, on_error, ...)
  runtime.flush_output()
  if ok then
    return nil, nil, false
  end
  return message, runtime.traceback, of_statement
end
