-- A thread as a set of terminals: it chooses a home and a transaction, runs it until it succeeds, and waits where asked to.
local host = require("tpcc_host")
local options = require("tpcc_options")
local random = require("tpcc_random")
local schema = require("tpcc_schema")
local statements = require("tpcc_statements")
local transactions = require("tpcc_transactions")

local terminal = {}
terminal.__index = terminal

-- Deadlock, lock wait that took too long, record that changed: errors that leave the connection as it is.
local HARMLESS = {[1213] = true, [1205] = true, [1020] = true}

-- {set, warehouse} numbered from 0, sets side by side.
local function place(settings, index)
   return math.floor(index / settings.warehouses) + 1, index % settings.warehouses + 1
end

-- The homes of a thread: all of them for --home_warehouse=random, else its share: one if there are enough threads.
-- The district is that of a terminal's Stock-Level, which stays the same (2.8.1.1).
local function homes_of(settings, thread)
   local places, homes = settings.sets * settings.warehouses, {}
   local function add(index)
      local set, warehouse = place(settings, index)
      homes[#homes + 1] = {
         set = set, warehouse = warehouse, warehouses = settings.warehouses,
         district = math.floor(thread / places) % 10 + 1
      }
   end
   if settings.fixed_home then
      add(thread % places)
      for index = thread + settings.threads, places - 1, settings.threads do
         add(index)
      end
   else
      for index = 0, places - 1 do
         add(index)
      end
   end
   return homes
end

--- A thread's terminals on connection `con`.
function terminal.new(con, settings, thread)
   local uniform = sysbench.rand.uniform
   local names = schema.names(settings, 1)
   local c_load = settings.c_load >= 0 and settings.c_load or schema.loaded_constant(con, names) or random.load_constant(settings.seed)
   local self = setmetatable({
      con = con,
      settings = settings,
      uniform = uniform,
      constants = random.run_constants(settings.seed, c_load),
      deal = options.dealer(settings, uniform),
      homes = homes_of(settings, thread),
      statements = {},
      pending = nil -- the transaction that is dealt and not done: {type, input, home, attempts}
   }, terminal)
   self:set_isolation()
   local cache = statements.new(con, statements.are_prepared(settings))
   for set = 1, settings.sets do
      self.statements[set] = transactions.prepare(cache, schema.names(settings, set))
   end
   return self
end

function terminal:set_isolation()
   self.con:query("SET SESSION TRANSACTION ISOLATION LEVEL " .. self.settings.isolation)
end

--- Deals the next transaction, unless one is still to be done.
function terminal:next()
   if not self.pending then
      local home = self.homes[#self.homes == 1 and 1 or self.uniform(1, #self.homes)]
      local kind = self.deal()
      local input = transactions.types[kind].input(self.uniform, self.constants, home)
      input.multi = self.settings.multi
      self.pending = {kind = kind, input = input, home = home, attempts = 0}
   end
   return self.pending
end

--- Runs the pending transaction. A deadlock ends this with an error; called again, it tries the same transaction again.
function terminal:run()
   local pending = self:next()
   pending.attempts = pending.attempts + 1
   local remark = transactions.types[pending.kind].run(self.con, self.statements[pending.home.set], pending.input)
   self.pending = nil
   host.operation(pending.kind)
   if remark then
      host.operation(pending.kind .. "." .. remark)
   end
   if pending.attempts > 1 then
      host.operation(pending.kind .. ".retried")
   end
   return pending.kind
end

--- After an error the server may have undone the statement or the transaction: undo the rest. A connection that was
--- lost has been made again, and its session is a new one.
function terminal:abandon(err)
   self.con:query("ROLLBACK")
   if not HARMLESS[err.sql_errno] then
      self:set_isolation()
   end
end

-- Tries the pending transaction once. False after an error that calls for another try.
function terminal:try()
   local ok, result = pcall(self.run, self)
   if ok then
      return result
   elseif not host.is_restart(result) then
      error(result, 0)
   end
   self:abandon(result)
   return false
end

--- Runs transactions that nobody counts, for so many seconds.
function terminal:warm_up(seconds)
   local until_s = host.now_s() + seconds
   while host.now_s() < until_s do
      self:try()
   end
end

-- Thinking after the last transaction and keying before the next, in one wait: both lie between two events.
function terminal:wait(after)
   local seconds = 0
   if self.settings.thinking and after then
      seconds = random.thinking_s(self.uniform, random.THINKING_S[after])
   end
   if self.settings.keying then
      seconds = seconds + random.KEYING_S[self:next().kind]
   end
   if seconds > 0 then
      host.think(seconds)
   end
end

--- The loop of a thread with keying or thinking times, in place of sysbench's.
function terminal:loop(thread)
   local events = host.events(thread)
   self:wait()
   while events.more() do
      events.start()
      local done = self:try()
      while not done and events.may_restart() do
         done = self:try()
      end
      if not done then
         events.give_up()
         return
      end
      events.stop()
      self:wait(done)
   end
end

return terminal
