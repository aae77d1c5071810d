-- Options of the TPC-C workload: their declaration, and their values checked and named as the other files use them.
local host = require("tpcc_host")
local random = require("tpcc_random")

local options = {}

options.declared = {
   scale = {"Number of warehouses", 10},
   warehouses = {"The same by another name; 0 takes --scale", 0},
   tables = {"Number of table sets", 1},
   table_suffix = {"Number the tables of a set: auto (when there are several sets) or always", "auto"},
   new_order_table = {"Name of the table NEW-ORDER: new_orders or new_order", "new_orders"},
   mysql_storage_engine = {"Storage engine", "innodb"},
   create_table_options = {"Options put at the end of every CREATE TABLE", ""},
   use_fk = {"Create foreign keys; only InnoDB has them", true},
   force_pk = {"Give HISTORY an AUTO_INCREMENT primary key, which the standard does not have", false},
   load_index = {"Create secondary indexes and foreign keys after or before the rows are loaded", "after"},
   load_batch_kb = {"Size of the INSERT statements of prepare, in KB; below the server's max_allowed_packet", 480},
   trx_level = {"Isolation level: RC, RR or SER", "RR"},
   statements = {"single: one statement a row, as the standard tells; multi: order lines by multi-row statements", "single"},
   prepared = {"Prepared statements: auto (where their results can be read), on or off", "auto"},
   mix = {"Cards, or weights, of New-Order, Payment, Order-Status, Delivery, Stock-Level", "10,10,1,1,1"},
   deck = {"Deal transactions from shuffled decks of the cards of --mix; off: draw each independently", true},
   home_warehouse = {"fixed: a thread keeps its share of the warehouses; random: any of them, each time", "fixed"},
   keying_time = {"Wait the standard's keying times", false},
   think_time = {"Wait the standard's thinking times", false},
   ramp_up = {"Seconds of load by each thread before the run begins, not counted; part of setting up", 0},
   c_load = {"C-Load of the last names in the loaded data; -1 reads it from the tables' comment", -1}
}

local ISOLATION = {RC = "READ COMMITTED", RR = "REPEATABLE READ", SER = "SERIALIZABLE"}
local TYPES = {"new_order", "payment", "order_status", "delivery", "stock_level"}

local function refuse(name, value, expected)
   error(string.format("tpcc: --%s=%s: it takes %s.", name, tostring(value), expected), 0)
end

local function one_of(name, ...)
   local value = sysbench.opt[name]
   for _, allowed in ipairs({...}) do
      if value == allowed then
         return value
      end
   end
   refuse(name, value, table.concat({...}, " or "))
end

local function whole(name, least, most)
   local value = sysbench.opt[name]
   if value < least or value > most or value ~= math.floor(value) then
      refuse(name, value, string.format("a whole number from %d to %d", least, most))
   end
   return value
end

local function warehouses()
   local count = sysbench.opt.warehouses
   if count == 0 then
      return whole("scale", 1, 100000)
   end
   if sysbench.opt.scale ~= 10 and sysbench.opt.scale ~= count then
      refuse("warehouses", count, "the same number as --scale; give only one of them")
   end
   return whole("warehouses", 1, 100000)
end

local function mix()
   local counts, total = {}, 0
   for number in (sysbench.opt.mix .. ","):gmatch("%s*([^,]-)%s*,") do
      local cards = tonumber(number)
      if not cards or cards < 0 or cards ~= math.floor(cards) then
         refuse("mix", sysbench.opt.mix, "five whole numbers, like 10,10,1,1,1")
      end
      counts[#counts + 1] = {TYPES[#counts + 1], cards}
      total = total + cards
   end
   if #counts ~= #TYPES or total == 0 then
      refuse("mix", sysbench.opt.mix, "five whole numbers, not all zero, like 10,10,1,1,1")
   end
   return counts
end

local read

--- The options of this run. The same table each time: options do not change while a state lives.
function options.read()
   if not read then
      local opt = sysbench.opt
      if not ISOLATION[opt.trx_level] then
         refuse("trx_level", opt.trx_level, "RC, RR or SER")
      end
      read = {
         warehouses = warehouses(),
         sets = whole("tables", 1, 1000),
         numbered = one_of("table_suffix", "auto", "always") == "always" or opt.tables > 1,
         new_order_table = one_of("new_order_table", "new_orders", "new_order"),
         engine = opt.mysql_storage_engine,
         table_options = opt.create_table_options,
         use_fk = opt.use_fk and opt.mysql_storage_engine:lower() == "innodb",
         force_pk = opt.force_pk,
         index_first = one_of("load_index", "after", "before") == "before",
         batch_bytes = whole("load_batch_kb", 16, 65536) * 1024,
         isolation = ISOLATION[opt.trx_level],
         multi = one_of("statements", "single", "multi") == "multi",
         prepared = one_of("prepared", "auto", "on", "off"),
         mix = mix(),
         deck = opt.deck,
         fixed_home = one_of("home_warehouse", "fixed", "random") == "fixed",
         keying = opt.keying_time,
         thinking = opt.think_time,
         ramp_up_s = opt.ramp_up,
         c_load = whole("c_load", -1, 255),
         threads = math.max(1, opt.threads),
         seed = (opt.rand_seed or 0) ~= 0 and opt.rand_seed or host.seed
      }
   end
   return read
end

--- A dealer of transaction types as --mix and --deck say.
function options.dealer(settings, uniform)
   return (settings.deck and random.deck or random.weighted)(uniform, settings.mix)
end

return options
