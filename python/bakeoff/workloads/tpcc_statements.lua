-- Statements with parameters on a connection: prepared if the runtime can read their results, else text with literals.
--
-- Each statement becomes a Lua function with an argument per `?`, compiled once per connection, so that a call makes
-- no table of arguments.
local host = require("tpcc_host")

local statements = {}
statements.__index = statements

-- Parameter types: i an integer, s a string or a decimal number in text.
local STRING_MAX = 500

--- Whether --prepared and this runtime have statements prepared.
function statements.are_prepared(settings)
   if settings.prepared == "on" and not host.reads_prepared then
      error("tpcc: --prepared=on: this sysbench cannot read the rows of a prepared statement. Use --prepared=off.", 0)
   end
   return settings.prepared ~= "off" and host.reads_prepared
end

--- A cache of the statements of `con`.
function statements.new(con, prepared)
   return setmetatable({con = con, prepared = prepared, known = {}}, statements)
end

local function argument_list(types)
   local names = {}
   for i = 1, #types do
      names[i] = "a" .. i
   end
   return table.concat(names, ", ")
end

local function literal(value)
   if value == nil then
      return "NULL"
   end
   return "'" .. value:gsub("[\\']", "\\%0") .. "'"
end

local function as_text(con, sql, types)
   local pieces, i = {}, 0
   for piece, mark in sql:gmatch("([^?]*)(%??)") do
      if piece ~= "" then
         pieces[#pieces + 1] = string.format("%q", piece)
      end
      if mark == "?" then
         i = i + 1
         pieces[#pieces + 1] = (types:sub(i, i) == "i" and "a%d" or "literal(a%d)"):format(i)
      end
   end
   assert(i == #types, sql)
   -- A chain of more than some 200 operands needs more registers than Lua has.
   local text = #pieces < 100 and table.concat(pieces, " .. ") or "concat({" .. table.concat(pieces, ", ") .. "})"
   local source = string.format("local con, literal, concat = ... return function(%s) return con:query(%s) end",
      argument_list(types), text)
   return assert(loadstring(source, "=tpcc statement"))(con, literal, table.concat)
end

local function as_prepared(con, sql, types)
   local statement = con:prepare(sql)
   local params, sets = {}, {}
   for i = 1, #types do
      if types:sub(i, i) == "i" then
         params[i] = statement:bind_create(sysbench.sql.type.INT)
      else
         params[i] = statement:bind_create(sysbench.sql.type.VARCHAR, STRING_MAX)
      end
      sets[i] = string.format("params[%d]:set(a%d)", i, i)
   end
   if #types > 0 then
      statement:bind_param(unpack(params))
   end
   local source = string.format("local statement, params = ... return function(%s) %s return statement:execute() end",
      argument_list(types), table.concat(sets, " "))
   return assert(loadstring(source, "=tpcc statement"))(statement, params)
end

--- The function that runs `sql` with one argument for each character of `types`; its result is sysbench's (nil without rows).
function statements:get(sql, types)
   local run = self.known[sql]
   if not run then
      run = (self.prepared and as_prepared or as_text)(self.con, sql, types)
      self.known[sql] = run
   end
   return run
end

--- The first row of a result, nil when it has none. The result is given back.
function statements.first(result)
   local row = result.nrows > 0 and result:fetch_row() or nil
   result:free()
   return row
end

--- All rows of a result, which is given back.
function statements.all(result)
   local rows = {}
   for i = 1, tonumber(result.nrows) do
      rows[i] = result:fetch_row()
   end
   result:free()
   return rows
end

return statements
