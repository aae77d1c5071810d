-- TPC-C, to the standard's revision 5.11, clauses 1 to 4: `tpcc prepare | run | check | cleanup`. See docs/reference/tpcc.md.
local check = require("tpcc_check")
local host = require("tpcc_host")
local load = require("tpcc_load")
local options = require("tpcc_options")
local random = require("tpcc_random")
local report = require("tpcc_report")
local schema = require("tpcc_schema")
local terminal = require("tpcc_terminal")

local function connect()
   return sysbench.sql.driver():connect()
end

local function each_set(settings, action)
   for set = 1, settings.sets do
      action(schema.names(settings, set))
   end
end

local function create_tables(con, settings, c_load)
   each_set(settings, function(names)
      for _, table_name in ipairs(schema.ORDER) do
         con:query(schema.create_table(settings, names, table_name, c_load))
      end
   end)
end

-- Runs the statements of all sets, or with `thread` only that thread's share.
local function run_all(con, settings, statements_of, thread)
   local number = 0
   each_set(settings, function(names)
      for _, statement in ipairs(statements_of(settings, names)) do
         if not thread or number % settings.threads == thread then
            local result = con:query(statement)
            if result then
               result:free()
            end
         end
         number = number + 1
      end
   end)
end

-- MySQL before 5.6 copies a table to add a foreign key, so there the keys and their indexes come before the rows.
local function copies_for_keys(con)
   return con:query_row("SELECT VERSION()"):match("^5%.[0-5]%.") ~= nil
end

local function prepare()
   local settings, con, thread = options.read(), connect(), sysbench.tid % math.max(1, sysbench.opt.threads)
   local meet = host.barrier(con, settings.threads)
   local c_load = settings.c_load >= 0 and settings.c_load or random.load_constant(settings.seed)
   local first = thread == 0
   local index_first = settings.index_first or settings.use_fk and copies_for_keys(con)

   -- The rows are consistent by construction; checking them again would cost a lookup each.
   con:query("SET SESSION foreign_key_checks = 0, unique_checks = 0")
   meet()
   if first then
      print(string.format("tpcc: loading %d warehouse(s) with %d thread(s)", settings.warehouses * settings.sets, settings.threads))
      create_tables(con, settings, c_load)
      if index_first then
         run_all(con, settings, schema.index_statements)
         run_all(con, settings, schema.foreign_key_statements)
      end
   end
   meet()
   local started_s = host.now_s()
   load.run(con, settings, thread, c_load)
   meet()
   local loaded_s = host.now_s()
   if not index_first then
      run_all(con, settings, schema.index_statements, thread)
      meet()
      if first then
         run_all(con, settings, schema.foreign_key_statements)
      end
   end
   meet()
   run_all(con, settings, schema.analyze_statements, thread)
   if first then
      local seconds = loaded_s - started_s
      print(string.format("tpcc: %d rows in %.1f s (%.0f rows/s); indexes and keys %.1f s",
         load.row_count(settings), seconds, load.row_count(settings) / seconds, host.now_s() - loaded_s))
   end
end

-- The server's own limits would cut the answers.
local CHECK_SESSION = "SET SESSION sql_mode = '', sql_select_limit = 18446744073709551615, sql_big_selects = 1 " ..
   "/*!50708 , max_execution_time = 0 */ /*M!100101 , max_statement_time = 0 */"

local function run_check()
   local con = connect()
   con:query(CHECK_SESSION)
   check.run(con, options.read(), sysbench.tid % math.max(1, sysbench.opt.threads))
end

local function cleanup()
   local con, settings = connect(), options.read()
   con:query("SET SESSION foreign_key_checks = 0")
   each_set(settings, function(names)
      schema.drop(con, names)
   end)
end

sysbench.cmdline.options = options.declared

sysbench.cmdline.commands = {
   prepare = {prepare, sysbench.cmdline.PARALLEL_COMMAND},
   check = {run_check, sysbench.cmdline.PARALLEL_COMMAND},
   cleanup = {cleanup}
}

-- The terminals of this thread; each Lua state has its own.
local mine

function thread_init(tid)
   local settings = options.read()
   mine = terminal.new(connect(), settings, tid)
   if settings.ramp_up_s > 0 then
      mine:warm_up(settings.ramp_up_s)
   end
   if settings.keying or settings.thinking then
      function thread_run(thread)
         mine:loop(thread)
      end
   end
end

function event()
   mine:run()
end

function sysbench.hooks.before_restart_event(err)
   mine:abandon(err)
end

function sysbench.hooks.report_operations(stat)
   report.print(stat, options.read())
end

function thread_done()
   mine.con:disconnect()
end

function help()
   print("tpcc prepare | run | check | cleanup, with the options:")
   local names = {}
   for name in pairs(options.declared) do
      names[#names + 1] = name
   end
   table.sort(names)
   for _, name in ipairs(names) do
      local declared = options.declared[name]
      print(string.format("  --%s [%s]  %s", name, tostring(declared[2]), declared[1]))
   end
end
