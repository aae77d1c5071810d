-- For Debian's sysbench: runs one of its scripts as it is, with the client's and the server's thread of each connection on one CPU.
--
-- Environment: CLIENT_COST_SCRIPT: the script, as in oltp_point_select. CLIENT_COST_CPUS: as in 0,1; the n-th thread gets the n-th,
-- modulo their number. The server needs performance_schema, and the script a global `con` after thread_init.

local ffi = require("ffi")

ffi.cdef("int sched_setaffinity(int thread, size_t bytes, const uint64_t *cpus);")

local THREAD = "SELECT THREAD_OS_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()"
local CALLER = 0

require(os.getenv("CLIENT_COST_SCRIPT"))
local connect = thread_init

local function own_cpu()
   local cpus = {}
   for cpu in os.getenv("CLIENT_COST_CPUS"):gmatch("%d+") do
      cpus[#cpus + 1] = tonumber(cpu)
   end
   return cpus[sysbench.tid % #cpus + 1]
end

local function pin(thread, cpu)
   local set = ffi.new("uint64_t[16]")
   set[math.floor(cpu / 64)] = 2ULL ^ (cpu % 64)
   if ffi.C.sched_setaffinity(thread, ffi.sizeof(set), set) ~= 0 then
      error(string.format("thread %d cannot be pinned to CPU %d: error %d", thread, cpu, ffi.errno()))
   end
end

function thread_init()
   connect()
   local serving = tonumber(con:query_row(THREAD)) or error("the server does not report its threads")
   for _, thread in ipairs({serving, CALLER}) do
      pin(thread, own_cpu())
   end
end
