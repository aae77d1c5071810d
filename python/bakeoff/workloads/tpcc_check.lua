-- The twelve consistency conditions (clause 3.3.2), each for every warehouse.
--
-- A condition has one or more sheets. A sheet is a list of queries that return key columns and an amount; for each key
-- the signed amounts must sum to zero. They are added here, not in SQL, because MySQL before 5.6 joins derived tables
-- without an index, in quadratic time. Sums are exact, in hundredths.
local money = require("tpcc_money")
local schema = require("tpcc_schema")
local statements = require("tpcc_statements")

local check = {}

local BALANCE_OF_LINES = "SELECT o_d_id, o_c_id, SUM(ol_amount) FROM {orders} JOIN {order_line} ON ol_w_id = o_w_id AND " ..
   "ol_d_id = o_d_id AND ol_o_id = o_id WHERE o_w_id = {w} AND ol_delivery_d IS NOT NULL GROUP BY o_d_id, o_c_id"

-- {w} stands for the warehouse.
check.CONDITIONS = {
   {"W_YTD = sum(D_YTD)", {
      {1, "SELECT w_id, w_ytd FROM {warehouse} WHERE w_id = {w}"},
      {-1, "SELECT d_w_id, SUM(d_ytd) FROM {district} WHERE d_w_id = {w} GROUP BY d_w_id"}
   }, {
      -- The warehouse and its ten districts are there. Without rows every sum of every condition would be right.
      {1, "SELECT {w}, 11"},
      {-1, "SELECT w_id, 1 FROM {warehouse} WHERE w_id = {w}"},
      {-1, "SELECT d_w_id, COUNT(*) FROM {district} WHERE d_w_id = {w} GROUP BY d_w_id"}
   }},
   {"D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)", {
      {1, "SELECT d_id, d_next_o_id - 1 FROM {district} WHERE d_w_id = {w}"},
      {-1, "SELECT o_d_id, MAX(o_id) FROM {orders} WHERE o_w_id = {w} GROUP BY o_d_id"}
   }, {
      -- A district whose orders are all delivered has no NO_O_ID.
      {1, "SELECT no_d_id, MAX(d_next_o_id) - 1 - MAX(no_o_id) FROM {new_orders} JOIN {district} ON d_w_id = no_w_id AND " ..
         "d_id = no_d_id WHERE no_w_id = {w} GROUP BY no_d_id"}
   }},
   {"max(NO_O_ID) - min(NO_O_ID) + 1 = rows of NEW-ORDER", {
      {1, "SELECT no_d_id, MAX(no_o_id) - MIN(no_o_id) + 1 - COUNT(*) FROM {new_orders} WHERE no_w_id = {w} GROUP BY no_d_id"}
   }},
   {"sum(O_OL_CNT) = rows of ORDER-LINE", {
      {1, "SELECT o_d_id, SUM(o_ol_cnt) FROM {orders} WHERE o_w_id = {w} GROUP BY o_d_id"},
      {-1, "SELECT ol_d_id, COUNT(*) FROM {order_line} WHERE ol_w_id = {w} GROUP BY ol_d_id"}
   }},
   {"O_CARRIER_ID is null just where NEW-ORDER has a row", {
      {1, "SELECT o_d_id, o_id, 1 FROM {orders} WHERE o_w_id = {w} AND o_carrier_id IS NULL"},
      {-1, "SELECT no_d_id, no_o_id, 1 FROM {new_orders} WHERE no_w_id = {w}"}
   }},
   {"O_OL_CNT = rows of ORDER-LINE of that order", {
      {1, "SELECT o_d_id, o_id, o_ol_cnt FROM {orders} WHERE o_w_id = {w}"},
      {-1, "SELECT ol_d_id, ol_o_id, COUNT(*) FROM {order_line} WHERE ol_w_id = {w} GROUP BY ol_d_id, ol_o_id"}
   }},
   {"OL_DELIVERY_D is null just where O_CARRIER_ID is", {
      {1, "SELECT o_d_id, o_id, COUNT(*) FROM {orders} JOIN {order_line} ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND " ..
         "ol_o_id = o_id WHERE o_w_id = {w} AND (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL) GROUP BY o_d_id, o_id"}
   }},
   {"W_YTD = sum(H_AMOUNT)", {
      {1, "SELECT w_id, w_ytd FROM {warehouse} WHERE w_id = {w}"},
      {-1, "SELECT h_w_id, SUM(h_amount) FROM {history} WHERE h_w_id = {w} GROUP BY h_w_id"}
   }},
   {"D_YTD = sum(H_AMOUNT)", {
      {1, "SELECT d_id, d_ytd FROM {district} WHERE d_w_id = {w}"},
      {-1, "SELECT h_d_id, SUM(h_amount) FROM {history} WHERE h_w_id = {w} GROUP BY h_d_id"}
   }},
   {"C_BALANCE = sum(OL_AMOUNT delivered) - sum(H_AMOUNT)", {
      {1, "SELECT c_d_id, c_id, c_balance FROM {customer} WHERE c_w_id = {w}"},
      {1, "SELECT h_c_d_id, h_c_id, SUM(h_amount) FROM {history} WHERE h_c_w_id = {w} GROUP BY h_c_d_id, h_c_id"},
      {-1, BALANCE_OF_LINES}
   }},
   -- The standard's form, without C_DELIVERY_CNT, holds for a freshly loaded database only.
   {"rows of ORDER - rows of NEW-ORDER - sum(C_DELIVERY_CNT) = 2100", {
      {1, "SELECT o_d_id, COUNT(*) FROM {orders} WHERE o_w_id = {w} GROUP BY o_d_id"},
      {-1, "SELECT no_d_id, COUNT(*) FROM {new_orders} WHERE no_w_id = {w} GROUP BY no_d_id"},
      {-1, "SELECT c_d_id, SUM(c_delivery_cnt) FROM {customer} WHERE c_w_id = {w} GROUP BY c_d_id"},
      {-1, "SELECT d_id, 2100 FROM {district} WHERE d_w_id = {w}"}
   }},
   {"C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT delivered)", {
      {1, "SELECT c_d_id, c_id, c_balance + c_ytd_payment FROM {customer} WHERE c_w_id = {w}"},
      {-1, BALANCE_OF_LINES}
   }}
}

local function add(totals, con, sign, sql)
   for _, row in ipairs(statements.all(con:query(sql))) do
      local last = #row
      local key = table.concat(row, ", ", 1, last - 1)
      totals[key] = (totals[key] or 0) + sign * money.cents(row[last])
   end
end

-- How many keys of a sheet do not add up, and a note on one of them.
local function unbalanced(con, names, sheet, warehouse)
   local totals, count, note = {}, 0, nil
   for _, term in ipairs(sheet) do
      add(totals, con, term[1], (schema.sql(names, term[2]):gsub("{w}", warehouse)))
   end
   for key, total in pairs(totals) do
      if total ~= 0 then
         count = count + 1
         note = note or string.format("%s of warehouse %d, key (%s): off by %.2f", names.warehouse, warehouse, key, total / 100)
      end
   end
   return count, note
end

local function examine(con, settings, condition)
   local count, first_note = 0, nil
   for set = 1, settings.sets do
      local names = schema.names(settings, set)
      for warehouse = 1, settings.warehouses do
         for sheet = 2, #condition do
            local more, note = unbalanced(con, names, condition[sheet], warehouse)
            count, first_note = count + more, first_note or note
         end
      end
   end
   return count, first_note
end

--- Examines and prints this thread's conditions, and raises an error that names those that do not hold.
function check.run(con, settings, thread)
   local failed = {}
   for number, condition in ipairs(check.CONDITIONS) do
      if (number - 1) % settings.threads == thread then
         local count, note = examine(con, settings, condition)
         local outcome = "holds"
         if count > 0 then
            failed[#failed + 1] = number
            outcome = string.format("FAILED for %d key(s); %s", count, note)
         end
         print(string.format("3.3.2.%-2d %s: %s", number, condition[1], outcome))
      end
   end
   if #failed > 0 then
      error(string.format("tpcc: consistency condition(s) 3.3.2.%s do not hold.", table.concat(failed, ", 3.3.2.")), 0)
   end
end

return check
