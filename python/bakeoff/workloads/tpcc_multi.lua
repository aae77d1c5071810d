-- The lines of a New-Order by multi-row statements (--statements=multi): one reads the items, one the stock, one adds
-- the lines; stock is changed row by row. Fewer round trips than the standard's profile, so it is not the default.
local money = require("tpcc_money")
local statements = require("tpcc_statements")

local multi = {}

-- Columns of one line in the INSERT, and their types.
local LINE = {"(?, ?, ?, ?, ?, ?, ?, ?, ?)", "iiiiiiiss"}

local function repeated(text, count, separator)
   return string.rep(text .. separator, count - 1) .. text
end

local function prepare(s, count)
   return {
      items = s.get(string.rep("i", count),
         "SELECT i_id, i_price, i_data FROM {item} FORCE INDEX (PRIMARY) WHERE i_id IN (" ..
         repeated("?", count, ", ") .. ")"),
      -- Pairs of columns by OR: MySQL before 5.7 scans the whole table for (a, b) IN ((?, ?), …).
      stock = s.get("i" .. string.rep("ii", count), "SELECT s_w_id, s_i_id, s_quantity, s_data, ELT(?, s_dist_01, s_dist_02, " ..
         "s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10) " ..
         -- MariaDB would take the index of the foreign key to ITEM, and lock gaps in it.
         "FROM {stock} FORCE INDEX (PRIMARY) WHERE " .. repeated("(s_w_id = ? AND s_i_id = ?)", count, " OR ") .. " FOR UPDATE"),
      insert = s.get(string.rep(LINE[2], count), "INSERT INTO {order_line} (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, " ..
         "ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info) VALUES " .. repeated(LINE[1], count, ", "))
   }
end

-- Rows of a result by their first `keys` columns.
local function collect(result, keys)
   local found = {}
   for _, row in ipairs(statements.all(result)) do
      found[table.concat(row, "/", 1, keys)] = row
   end
   return found
end

local function item_ids(lines)
   local ids = {}
   for i, line in ipairs(lines) do
      ids[i] = line.item
   end
   return ids
end

local function stock_keys(lines)
   local keys = {}
   for i, line in ipairs(lines) do
      keys[2 * i - 1], keys[2 * i] = line.supply, line.item
   end
   return keys
end

--- Total of the amounts in cents; nil when an item does not exist. Several lines of one order may name the same item.
function multi.order_lines(s, input, o_id)
   local lines = input.lines
   s.by_size = s.by_size or {}
   local statement = s.by_size[#lines] or prepare(s, #lines)
   s.by_size[#lines] = statement

   local items = collect(statement.items(unpack(item_ids(lines))), 1)
   for _, line in ipairs(lines) do
      if not items[tostring(line.item)] then
         return nil
      end
   end
   local stocks = collect(statement.stock(input.d_id, unpack(stock_keys(lines))), 2)
   local total, values = 0, {}
   for number, line in ipairs(lines) do
      local item, stock = items[tostring(line.item)], stocks[line.supply .. "/" .. line.item]
      local amount = money.cents(item[2]) * line.quantity
      total = total + amount
      stock[3] = money.stock_after(tonumber(stock[3]), line.quantity)
      s.change_stock(stock[3], line.quantity, line.supply ~= input.w_id and 1 or 0, line.supply, line.item)
      line.generic = money.brand(item[3], stock[4])
      for _, value in ipairs({o_id, input.d_id, input.w_id, number, line.item, line.supply, line.quantity,
         money.text(amount), stock[5]}) do
         values[#values + 1] = value
      end
   end
   statement.insert(unpack(values))
   return total
end

return multi
