-- The five transactions (clauses 2.4 to 2.8), one statement a row as their profiles tell.
--
-- Each has `input`, which draws what a terminal's user would key in, and `run`, which executes it. A deadlock ends `run` in the
-- middle; the terminal then runs it again with the same input. Money is computed by the server as DECIMAL: a parameter that is a
-- string would otherwise turn the sum into a double.
local money = require("tpcc_money")
local multi = require("tpcc_multi")
local random = require("tpcc_random")
local schema = require("tpcc_schema")
local statements = require("tpcc_statements")

local all, first = statements.all, statements.first

local transactions = {}

local DISTRICTS, CUSTOMERS, ITEMS = 10, 3000, 100000
local UNUSED_ITEM = ITEMS + 1

-- A warehouse other than `home`, if there is one.
local function other_warehouse(uniform, home, warehouses)
   if warehouses == 1 then
      return home
   end
   local other = uniform(1, warehouses - 1)
   return other < home and other or other + 1
end

local function customer_id(uniform, constants)
   return random.nurand(uniform, 1023, constants.customer, 1, CUSTOMERS)
end

local function customer_name(uniform, constants)
   return random.last_name(random.nurand(uniform, 255, constants.last_name, 0, 999))
end

-- By last name in 60 cases of 100, else by number.
local function choose_customer(input, uniform, constants)
   if uniform(1, 100) <= 60 then
      input.c_last = customer_name(uniform, constants)
   else
      input.c_id = customer_id(uniform, constants)
   end
end

--- Functions that run the statements of one set of tables on one connection, by name.
function transactions.prepare(cache, names)
   local function get(types, text)
      return cache:get(schema.sql(names, text), types)
   end
   local s = {
      warehouse_tax = get("i", "SELECT w_tax FROM {warehouse} WHERE w_id = ?"),
      district_lock = get("ii", "SELECT d_tax, d_next_o_id FROM {district} WHERE d_w_id = ? AND d_id = ? FOR UPDATE"),
      district_next = get("iii", "UPDATE {district} SET d_next_o_id = ? WHERE d_w_id = ? AND d_id = ?"),
      customer_discount = get("iii",
         "SELECT c_discount, c_last, c_credit FROM {customer} WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?"),
      add_order = get("iiiiii", "INSERT INTO {orders} (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) " ..
         "VALUES (?, ?, ?, ?, NOW(), ?, ?)"),
      add_new_order = get("iii", "INSERT INTO {new_orders} (no_o_id, no_d_id, no_w_id) VALUES (?, ?, ?)"),
      item = get("i", "SELECT i_price, i_name, i_data FROM {item} WHERE i_id = ?"),
      change_stock = get("iiiii", "UPDATE {stock} SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1, " ..
         "s_remote_cnt = s_remote_cnt + ? WHERE s_w_id = ? AND s_i_id = ?"),
      add_line = get("iiiiiiiss", "INSERT INTO {order_line} (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, " ..
         "ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"),

      pay_warehouse = get("si", "UPDATE {warehouse} SET w_ytd = w_ytd + CAST(? AS DECIMAL(6,2)) WHERE w_id = ?"),
      warehouse_address = get("i",
         "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM {warehouse} WHERE w_id = ?"),
      pay_district = get("sii",
         "UPDATE {district} SET d_ytd = d_ytd + CAST(? AS DECIMAL(6,2)) WHERE d_w_id = ? AND d_id = ?"),
      district_address = get("ii",
         "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM {district} WHERE d_w_id = ? AND d_id = ?"),
      customers_of_name = get("iis",
         "SELECT c_id FROM {customer} WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first"),
      customer_lock = get("iii", "SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, " ..
         "c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance FROM {customer} " ..
         "WHERE c_w_id = ? AND c_d_id = ? AND c_id = ? FOR UPDATE"),
      pay_customer = get("ssiii", "UPDATE {customer} SET c_balance = c_balance - CAST(? AS DECIMAL(6,2)), " ..
         "c_ytd_payment = c_ytd_payment + CAST(? AS DECIMAL(6,2)), c_payment_cnt = c_payment_cnt + 1 " ..
         "WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?"),
      customer_data = get("iii", "SELECT c_data FROM {customer} WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?"),
      change_customer_data = get("siii", "UPDATE {customer} SET c_data = ? WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?"),
      add_history = get("iiiiiss", "INSERT INTO {history} (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, " ..
         "h_amount, h_data) VALUES (?, ?, ?, ?, ?, NOW(), ?, ?)"),

      customer_balance = get("iii",
         "SELECT c_balance, c_first, c_middle, c_last FROM {customer} WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?"),
      last_order = get("iii", "SELECT o_id, o_carrier_id, o_entry_d FROM {orders} " ..
         "WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ? ORDER BY o_id DESC LIMIT 1"),
      order_lines = get("iii", "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM {order_line} " ..
         "WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?"),

      oldest_new_order = get("ii", "SELECT no_o_id FROM {new_orders} WHERE no_w_id = ? AND no_d_id = ? " ..
         "ORDER BY no_o_id LIMIT 1 FOR UPDATE"),
      delete_new_order = get("iii", "DELETE FROM {new_orders} WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?"),
      order_customer = get("iii", "SELECT o_c_id FROM {orders} WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?"),
      set_carrier = get("iiii", "UPDATE {orders} SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?"),
      deliver_lines = get("iii",
         "UPDATE {order_line} SET ol_delivery_d = NOW() WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?"),
      order_amount = get("iii",
         "SELECT SUM(ol_amount) FROM {order_line} WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?"),
      bill_customer = get("siii", "UPDATE {customer} SET c_balance = c_balance + CAST(? AS DECIMAL(12,2)), " ..
         "c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?"),

      next_order = get("ii", "SELECT d_next_o_id FROM {district} WHERE d_w_id = ? AND d_id = ?"),
      low_stock = get("iiiiii", "SELECT COUNT(DISTINCT s_i_id) FROM {order_line}, {stock} WHERE ol_w_id = ? AND ol_d_id = ? " ..
         "AND ol_o_id < ? AND ol_o_id >= ? AND s_w_id = ? AND s_i_id = ol_i_id AND s_quantity < ?")
   }
   s.stock_lock = {}
   for d = 1, DISTRICTS do
      s.stock_lock[d] = get("ii", string.format(
         "SELECT s_quantity, s_dist_%02d, s_data FROM {stock} WHERE s_w_id = ? AND s_i_id = ? FOR UPDATE", d))
   end
   s.get = get
   return s
end

-- The customer whom the input names. Of several with one last name, the one in the middle by first name, rounded up (2.5.2.2).
local function find_customer(s, input)
   if input.c_id then
      return input.c_id
   end
   local found = all(s.customers_of_name(input.c_w_id, input.c_d_id, input.c_last))
   if #found == 0 then
      error("tpcc: no customer is called " .. input.c_last .. "; the loaded data are incomplete.", 0)
   end
   return tonumber(found[math.ceil(#found / 2)][1])
end

local new_order = {}

function new_order.input(uniform, constants, home)
   local input = {
      w_id = home.warehouse, d_id = uniform(1, DISTRICTS), c_id = customer_id(uniform, constants),
      lines = {}, all_local = 1
   }
   local count = uniform(5, 15)
   for number = 1, count do
      local supply = input.w_id
      if uniform(1, 100) == 1 then
         supply = other_warehouse(uniform, input.w_id, home.warehouses)
      end
      if supply ~= input.w_id then
         input.all_local = 0
      end
      input.lines[number] = {
         item = random.nurand(uniform, 8191, constants.item, 1, ITEMS), supply = supply, quantity = uniform(1, 10)
      }
   end
   if uniform(1, 100) == 1 then
      input.lines[count].item = UNUSED_ITEM
   end
   return input
end

-- Item and stock of one line are read, the stock is changed, the line inserted. Nil when there is no such item.
local function order_line(s, input, o_id, number)
   local line = input.lines[number]
   local item = first(s.item(line.item))
   if not item then
      return nil
   end
   local stock = first(s.stock_lock[input.d_id](line.supply, line.item))
   local amount = money.cents(item[1]) * line.quantity
   s.change_stock(money.stock_after(tonumber(stock[1]), line.quantity), line.quantity,
      line.supply ~= input.w_id and 1 or 0, line.supply, line.item)
   s.add_line(o_id, input.d_id, input.w_id, number, line.item, line.supply, line.quantity, money.text(amount), stock[2])
   line.generic = money.brand(item[3], stock[3])
   return amount
end

local function single_lines(s, input, o_id)
   local total = 0
   for number = 1, #input.lines do
      local amount = order_line(s, input, o_id, number)
      if not amount then
         return nil
      end
      total = total + amount
   end
   return total
end

function new_order.run(con, s, input)
   local w_id, d_id, c_id = input.w_id, input.d_id, input.c_id
   con:query("BEGIN")
   local w_tax = first(s.warehouse_tax(w_id))[1]
   local district = first(s.district_lock(w_id, d_id))
   local o_id = tonumber(district[2])
   s.district_next(o_id + 1, w_id, d_id)
   local customer = first(s.customer_discount(w_id, d_id, c_id))
   s.add_order(o_id, d_id, w_id, c_id, #input.lines, input.all_local)
   s.add_new_order(o_id, d_id, w_id)
   local total = (input.multi and multi.order_lines or single_lines)(s, input, o_id)
   if not total then
      con:query("ROLLBACK")
      return "rollback"
   end
   con:query("COMMIT")
   input.total_cents = total * (1 - tonumber(customer[1])) * (1 + tonumber(w_tax) + tonumber(district[1]))
end

local payment = {}

function payment.input(uniform, constants, home)
   local input = {w_id = home.warehouse, d_id = uniform(1, DISTRICTS)}
   if uniform(1, 100) <= 85 then
      input.c_w_id, input.c_d_id = input.w_id, input.d_id
   else
      input.c_w_id, input.c_d_id = other_warehouse(uniform, input.w_id, home.warehouses), uniform(1, DISTRICTS)
   end
   choose_customer(input, uniform, constants)
   input.amount = money.text(uniform(100, 500000))
   return input
end

function payment.run(con, s, input)
   local w_id, d_id, c_w_id, c_d_id, amount = input.w_id, input.d_id, input.c_w_id, input.c_d_id, input.amount
   con:query("BEGIN")
   s.pay_warehouse(amount, w_id)
   local warehouse = first(s.warehouse_address(w_id))
   s.pay_district(amount, w_id, d_id)
   local district = first(s.district_address(w_id, d_id))
   local c_id = find_customer(s, input)
   local customer = first(s.customer_lock(c_w_id, c_d_id, c_id))
   s.pay_customer(amount, amount, c_w_id, c_d_id, c_id)
   if customer[11] == "BC" then
      local note = string.format("%d %d %d %d %d %s|", c_id, c_d_id, c_w_id, d_id, w_id, amount)
      local data = first(s.customer_data(c_w_id, c_d_id, c_id))[1]
      s.change_customer_data((note .. data):sub(1, 500), c_w_id, c_d_id, c_id)
   end
   s.add_history(c_d_id, c_w_id, c_id, d_id, w_id, amount, warehouse[1] .. "    " .. district[1])
   con:query("COMMIT")
end

local order_status = {}

function order_status.input(uniform, constants, home)
   local input = {c_w_id = home.warehouse, c_d_id = uniform(1, DISTRICTS)}
   choose_customer(input, uniform, constants)
   return input
end

function order_status.run(con, s, input)
   local w_id, d_id = input.c_w_id, input.c_d_id
   con:query("BEGIN")
   local c_id = find_customer(s, input)
   first(s.customer_balance(w_id, d_id, c_id))
   local order = first(s.last_order(w_id, d_id, c_id))
   all(s.order_lines(w_id, d_id, tonumber(order[1])))
   con:query("COMMIT")
end

local delivery = {}

function delivery.input(uniform, _, home)
   return {w_id = home.warehouse, carrier = uniform(1, 10)}
end

-- All ten districts in one database transaction. A district without an undelivered order is skipped (2.7.4.2).
function delivery.run(con, s, input)
   local w_id, skipped = input.w_id, nil
   con:query("BEGIN")
   for d_id = 1, DISTRICTS do
      local oldest = first(s.oldest_new_order(w_id, d_id))
      if oldest then
         local o_id = tonumber(oldest[1])
         s.delete_new_order(w_id, d_id, o_id)
         -- Before the order is read: it may be younger than the transaction's snapshot, which shows it once changed.
         s.set_carrier(input.carrier, w_id, d_id, o_id)
         local c_id = tonumber(first(s.order_customer(w_id, d_id, o_id))[1])
         s.deliver_lines(w_id, d_id, o_id)
         s.bill_customer(first(s.order_amount(w_id, d_id, o_id))[1], w_id, d_id, c_id)
      else
         skipped = "skipped"
      end
   end
   con:query("COMMIT")
   return skipped
end

local stock_level = {}

function stock_level.input(uniform, _, home)
   return {w_id = home.warehouse, d_id = home.district, threshold = uniform(10, 20)}
end

function stock_level.run(con, s, input)
   local w_id, d_id = input.w_id, input.d_id
   con:query("BEGIN")
   local next_o_id = tonumber(first(s.next_order(w_id, d_id))[1])
   first(s.low_stock(w_id, d_id, next_o_id, next_o_id - 20, w_id, input.threshold))
   con:query("COMMIT")
end

transactions.types = {
   new_order = new_order, payment = payment, order_status = order_status, delivery = delivery, stock_level = stock_level
}

return transactions
