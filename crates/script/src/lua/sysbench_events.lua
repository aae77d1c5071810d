-- The event loop. It is Lua, so that LuaJIT compiles loop and event as one.

local runtime = ...
local C = ffi.C
local RESTART_EVENT = sysbench.error.RESTART_EVENT

local function on_error(err)
  if type(err) ~= "table" then
    runtime.traceback = debug.traceback("", 2)
  end
  return err
end

-- Handles a failed event. Returns true if it is to run again; raises any other error.
local function restart(tid, err)
  if type(err) ~= "table" or err.errcode ~= RESTART_EVENT then
    error(err, 0)
  end
  local hook = sysbench.hooks.before_restart_event
  if hook then
    hook(err)
  end
  return C.bakeoff_event_restart(tid)
end

-- Runs events until there are no more (nil) or one asks to stop (true). `again`: first repeat the one that has begun.
-- No pcall in here: a trace cannot return through one, and most traces of an event's inner loops would end there.
local function run_events(tid, again)
  while again or C.sb_more_events(tid) do
    if not again then
      C.sb_event_start(tid)
    end
    again = false
    if event(tid) then
      return true
    end
    C.sb_event_stop(tid)
  end
end

function thread_run(tid)
  local again = false
  repeat
    local ok, result = xpcall(run_events, on_error, tid, again)
    if ok and not result then
      return
    end
    again = not ok and restart(tid, result)
  until not again
  C.bakeoff_event_abandon(tid)
end

local own_thread_run = thread_run

function runtime.thread_run_replaced()
  return thread_run ~= own_thread_run
end

-- Only in bakeoff, not in sysbench.
-- seed: the seed of everything random, whether it was given or not.
bakeoff = { seed = runtime.seed }

-- Tags this event with an operation. Its latency is also recorded under that name.
function bakeoff.operation(name)
  C.bakeoff_operation(name, #name)
end

-- Waits, between two events or within one. Counts towards no latency.
function bakeoff.think(seconds)
  C.bakeoff_think(seconds)
end

-- Waits for all threads of a parallel command; raises when one of them has failed.
function bakeoff.barrier()
  if not C.bakeoff_barrier() then
    error("another thread of this command failed", 0)
  end
end

-- Reports that this thread has finished `done` of `total` units since its last call.
function bakeoff.progress(label, done, total)
  C.bakeoff_progress(label, done, total)
end
