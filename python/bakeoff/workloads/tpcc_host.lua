-- Features of bakeoff's runtime, with fallbacks for plain sysbench: barriers, progress, operations, thinking times.
local ffi = require("ffi")

pcall(ffi.cdef, "int usleep(unsigned int microseconds);")
pcall(ffi.cdef, [[
   typedef struct { long seconds, nanoseconds; } tpcc_timespec;
   int clock_gettime(int clock, tpcc_timespec *time);
]])

local host = {}

local BARRIER_POLL = "0.02" -- seconds between two looks at the other threads' locks
local BARRIER_LIMIT_S = 60 -- a thread that has not shown up at all by then never will

local extras = rawget(_G, "bakeoff") or {}

--- Can rows be fetched from a prepared statement? sysbench itself cannot.
host.reads_prepared = extras.operation ~= nil

--- Seed of a run without --rand-seed; sysbench does not reveal it.
host.seed = extras.seed or 0

local clock = ffi.new("tpcc_timespec")

--- Seconds on a clock that never steps.
function host.now_s()
   ffi.C.clock_gettime(1, clock)
   return tonumber(clock.seconds) + tonumber(clock.nanoseconds) / 1e9
end

--- Names an operation that the present event turned out to be.
host.operation = extras.operation or function() end

--- Tells how many more of `total` units of `label` this thread has finished.
host.progress = extras.progress or function() end

local ends_s -- when a run under plain sysbench is over: from then on nobody waits

--- Waits between two events; belongs to no event's latency, and ends with the run.
host.think = extras.think or function(seconds)
   ends_s = ends_s or host.now_s() + (sysbench.opt.time > 0 and sysbench.opt.time or math.huge)
   seconds = math.max(0, math.min(seconds, ends_s - host.now_s()))
   for _ = 1, math.floor(seconds) do
      ffi.C.usleep(999999) -- usleep may refuse a whole second
   end
   ffi.C.usleep((seconds % 1) * 1e6)
end

--- Is this an error after which the same work may be tried again: a deadlock, a lock wait that took too long?
function host.is_restart(err)
   return type(err) == "table" and err.errcode == sysbench.error.RESTART_EVENT
end

--- The steps of sysbench's event loop, for a script that runs its own loop.
function host.events(thread)
   local C = ffi.C
   if not extras.operation then
      pcall(ffi.cdef, "bool sb_more_events(int); void sb_event_start(int); void sb_event_stop(int);")
   end
   return {
      more = function() return C.sb_more_events(thread) end,
      start = function() C.sb_event_start(thread) end,
      stop = function() C.sb_event_stop(thread) end,
      -- After an ignored error: false when the run is over, and the event is to be given up.
      may_restart = function() return not extras.operation or C.bakeoff_event_restart(thread) end,
      give_up = function()
         if extras.operation then
            C.bakeoff_event_abandon(thread)
         end
      end
   }
end

-- Without the runtime's barriers, threads meet at the server. Each holds a user lock named after the step it is at;
-- thread 0 takes its own once it has seen all others. Before MySQL 5.7 a connection has only one: the next frees it.
local function lock_name(step, thread)
   return string.format("CONCAT(LEFT(DATABASE(), 30), '/tpcc/%d/%d')", step, thread)
end

local function is_held(con, step, thread)
   return con:query_row(string.format("SELECT IS_USED_LOCK(%s)", lock_name(step, thread))) ~= nil
end

local function take(con, step, thread)
   con:query(string.format("DO GET_LOCK(%s, 10)", lock_name(step, thread)))
   if step > 1 then
      con:query(string.format("DO RELEASE_LOCK(%s)", lock_name(step - 1, thread)))
   end
end

local function wait_for(con, step, thread, may_be_gone)
   local limit_s = host.now_s() + BARRIER_LIMIT_S
   while not is_held(con, step, thread) do
      local seen_before = step > 1 and is_held(con, step - 1, thread)
      if step > 1 and not seen_before and not is_held(con, step, thread) then
         if may_be_gone then
            return
         end
         error("tpcc: thread " .. thread .. " ended early; its error is above.", 0)
      elseif step == 1 and host.now_s() > limit_s then
         error("tpcc: thread " .. thread .. " did not start within " .. BARRIER_LIMIT_S .. " s.", 0)
      end
      con:query_row("SELECT SLEEP(" .. BARRIER_POLL .. ")")
   end
end

local function meet_at_server(con, threads, step)
   if sysbench.tid % threads == 0 then
      for thread = 1, threads - 1 do
         wait_for(con, step, thread)
      end
      take(con, step, 0)
   else
      take(con, step, sysbench.tid)
      -- Thread 0 may have met all others, done its work and gone before this one looks.
      wait_for(con, step, 0, true)
   end
end

--- A function that, called by every thread, returns when all have called it as often.
function host.barrier(con, threads)
   if extras.barrier then
      return extras.barrier
   end
   local step = 0
   return function()
      step = step + 1
      if threads > 1 then
         meet_at_server(con, threads, step)
      end
   end
end

return host
