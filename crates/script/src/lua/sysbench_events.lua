-- The event loop. All of it is Lua, so that LuaJIT compiles loop and event as one.

local runtime = ...
local C = ffi.C
local RESTART_EVENT = sysbench.error.RESTART_EVENT

local function on_error(err)
  if type(err) ~= "table" then
    runtime.traceback = debug.traceback("", 2)
  end
  return err
end

-- After a failed event: true when it is to run again; raises what is not for us.
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

function thread_run(tid)
  while C.sb_more_events(tid) do
    C.sb_event_start(tid)
    local ok, result = xpcall(event, on_error, tid)
    while not ok do
      if restart(tid, result) then
        ok, result = xpcall(event, on_error, tid)
      else
        ok, result = true, true
      end
    end
    if result then
      C.bakeoff_event_abandon(tid)
      break
    end
    C.sb_event_stop(tid)
  end
end

local own_thread_run = thread_run

function runtime.thread_run_replaced()
  return thread_run ~= own_thread_run
end

-- What bakeoff has and sysbench has not.
bakeoff = {}

-- Names an operation that this event turned out to be; its latency is also recorded under that name.
function bakeoff.operation(name)
  C.bakeoff_operation(name, #name)
end

-- Waits between two events; belongs to no event's latency.
function bakeoff.think(seconds)
  C.bakeoff_think(seconds)
end

-- Waits for all threads of a parallel command; raises when one of them has failed.
function bakeoff.barrier()
  if not C.bakeoff_barrier() then
    error("another thread of this command failed", 0)
  end
end

-- `done` of `total` units have been finished by this thread since its last call.
function bakeoff.progress(label, done, total)
  C.bakeoff_progress(label, done, total)
end
