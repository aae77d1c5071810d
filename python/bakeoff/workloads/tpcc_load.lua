-- Populates the database (clause 4.3.3.1). Work is cut into parts of one table and one warehouse or district, and dealt to the
-- threads by weight, so that a single warehouse is loaded by all of them. Each part has its own random stream.
local bound_rows = require("tpcc_bound_rows")
local host = require("tpcc_host")
local random = require("tpcc_random")
local rows = require("tpcc_rows")
local schema = require("tpcc_schema")
local statements = require("tpcc_statements")

local load = {}

local ITEMS = 100000
local PARTS = 10 -- of ITEM, and of the STOCK of a warehouse
local DISTRICTS = 10
local CUSTOMERS = 3000 -- a district; as many orders
local TRIES_MOST = 10 -- of a part that met a deadlock or waited too long for a lock
local FIRST_NEW_ORDER = 2101 -- orders from here on are not yet delivered

-- The standard takes the clock's time. A constant makes equal loads from equal seeds, which comparisons need.
local LOADED_AT = "2026-01-01 00:00:00"

-- Columns in the order in which their values are written; those with "=" are the same in every row.
local COLUMNS = {
   item = "i_id, i_im_id, i_name, i_price, i_data",
   warehouse = "w_id, w_name, w_street_1, w_street_2, w_city, w_state, w_zip, w_tax, w_ytd = 300000.00",
   district = "d_w_id, d_id, d_name, d_street_1, d_street_2, d_city, d_state, d_zip, d_tax, d_ytd = 30000.00, d_next_o_id",
   stock = "s_w_id, s_i_id, s_quantity, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, " ..
      "s_dist_08, s_dist_09, s_dist_10, s_ytd = 0, s_order_cnt = 0, s_remote_cnt = 0, s_data",
   customer = "c_w_id, c_d_id, c_id, c_first, c_middle = 'OE', c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, " ..
      "c_since = '" .. LOADED_AT .. "', c_credit, c_credit_lim = 50000.00, c_discount, c_balance = -10.00, " ..
      "c_ytd_payment = 10.00, c_payment_cnt = 1, c_delivery_cnt = 0, c_data",
   history = "h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date = '" .. LOADED_AT .. "', h_amount = 10.00, h_data",
   orders = "o_w_id, o_d_id, o_id, o_c_id, o_entry_d = '" .. LOADED_AT .. "', o_carrier_id, o_ol_cnt, o_all_local = 1",
   order_line = "ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity = 5, ol_amount, " ..
      "ol_dist_info",
   new_orders = "no_w_id, no_d_id, no_o_id"
}

local function load_item(out, names, _, part)
   local size = ITEMS / PARTS
   local original = random.chooser(out.uniform, size / 10, size)
   out:into(names.item, COLUMNS.item)
   for i = (part - 1) * size + 1, part * size do
      out:open()
      out:int(i)
      out:int(out.uniform(1, 10000))
      out:astring(14, 24)
      out:decimal(out.uniform(100, 10000), 2)
      out:data(original())
      out:close()
   end
end

local function load_warehouse(out, names, w)
   out:into(names.warehouse, COLUMNS.warehouse)
   out:open()
   out:int(w)
   out:astring(6, 10)
   out:address()
   out:decimal(out.uniform(0, 2000), 4)
   out:close()

   out:into(names.district, COLUMNS.district)
   for d = 1, DISTRICTS do
      out:open()
      out:int(w)
      out:int(d)
      out:astring(6, 10)
      out:address()
      out:decimal(out.uniform(0, 2000), 4)
      out:int(CUSTOMERS + 1)
      out:close()
   end
end

local function load_stock(out, names, w, part)
   local size = ITEMS / PARTS
   local original = random.chooser(out.uniform, size / 10, size)
   out:into(names.stock, COLUMNS.stock)
   for i = (part - 1) * size + 1, part * size do
      out:open()
      out:int(w)
      out:int(i)
      out:int(out.uniform(10, 100))
      for _ = 1, DISTRICTS do
         out:letters(24)
      end
      out:data(original())
      out:close()
   end
end

local function load_customer(out, names, w, d, c_load, _, has_key)
   local bad_credit = random.chooser(out.uniform, CUSTOMERS / 10, CUSTOMERS)
   out:into(names.customer, COLUMNS.customer)
   for c = 1, CUSTOMERS do
      out:open()
      out:int(w)
      out:int(d)
      out:int(c)
      out:astring(8, 16)
      out:text(random.last_name(c <= 1000 and c - 1 or random.nurand(out.uniform, 255, c_load, 0, 999)))
      out:address()
      out:nstring(16)
      out:text(bad_credit() and "BC" or "GC")
      out:decimal(out.uniform(0, 5000), 4)
      out:astring(300, 500)
      out:close()
   end

   -- Keys by AUTO_INCREMENT would depend on which thread came first.
   out:into(names.history, (has_key and "h_id, " or "") .. COLUMNS.history)
   for c = 1, CUSTOMERS do
      out:open()
      if has_key then
         out:int(((w - 1) * DISTRICTS + d - 1) * CUSTOMERS + c)
      end
      out:int(c)
      out:int(d)
      out:int(w)
      out:int(d)
      out:int(w)
      out:astring(12, 24)
      out:close()
   end
end

-- O_OL_CNT of each order of a district. A separate stream makes the total number of rows known beforehand.
local function line_counts_of(seed, set, w, d)
   local uniform, counts, total = random.stream(seed, "lines", set, w, d), {}, 0
   for o = 1, CUSTOMERS do
      counts[o] = uniform(5, 15)
      total = total + counts[o]
   end
   return counts, total
end

local function load_order(out, names, w, d, _, line_counts)
   local customers = random.permutation(out.uniform, CUSTOMERS)
   out:into(names.orders, COLUMNS.orders)
   for o = 1, CUSTOMERS do
      out:open()
      out:int(w)
      out:int(d)
      out:int(o)
      out:int(customers[o])
      out:int(o < FIRST_NEW_ORDER and out.uniform(1, 10) or nil)
      out:int(line_counts[o])
      out:close()
   end

   out:into(names.order_line, COLUMNS.order_line)
   for o = 1, CUSTOMERS do
      for number = 1, line_counts[o] do
         out:open()
         out:int(w)
         out:int(d)
         out:int(o)
         out:int(number)
         out:int(out.uniform(1, ITEMS))
         out:int(w)
         out:text(o < FIRST_NEW_ORDER and LOADED_AT or nil)
         out:decimal(o < FIRST_NEW_ORDER and 0 or out.uniform(1, 999999), 2)
         out:letters(24)
         out:close()
      end
   end

   out:into(names.new_orders, COLUMNS.new_orders)
   for o = FIRST_NEW_ORDER, CUSTOMERS do
      out:open()
      out:int(w)
      out:int(d)
      out:int(o)
      out:close()
   end
end

-- {name, function, parts a warehouse, rows a part without order lines, weight: kilobytes a part}. ITEM belongs to no warehouse.
local KINDS = {
   {"item", load_item, 0, ITEMS / PARTS, 900},
   {"warehouse", load_warehouse, 1, 1 + DISTRICTS, 1},
   {"stock", load_stock, PARTS, ITEMS / PARTS, 3200},
   {"customer", load_customer, DISTRICTS, 2 * CUSTOMERS, 2200},
   {"order", load_order, DISTRICTS, 2 * CUSTOMERS - FIRST_NEW_ORDER + 1, 2800}
}

--- Every part of the load: {kind, set, warehouse, part}.
function load.parts(settings)
   local parts = {}
   for set = 1, settings.sets do
      for part = 1, PARTS do
         parts[#parts + 1] = {kind = KINDS[1], set = set, warehouse = 0, part = part}
      end
      for w = 1, settings.warehouses do
         for k = 2, #KINDS do
            for part = 1, KINDS[k][3] do
               parts[#parts + 1] = {kind = KINDS[k], set = set, warehouse = w, part = part}
            end
         end
      end
   end
   return parts
end

--- Rows of all parts together.
function load.row_count(settings)
   local total = 0
   for _, part in ipairs(load.parts(settings)) do
      total = total + part.kind[4]
      if part.kind[2] == load_order then
         local _, lines = line_counts_of(settings.seed, part.set, part.warehouse, part.part)
         total = total + lines
      end
   end
   return total
end

--- The parts of one thread. From the heaviest on, each goes to the thread with the least; all threads compute the same.
function load.parts_of(settings, thread)
   local parts = load.parts(settings)
   local heaviest = {}
   for i in ipairs(parts) do
      heaviest[i] = i
   end
   table.sort(heaviest, function(a, b)
      local weight_a, weight_b = parts[a].kind[5], parts[b].kind[5]
      return weight_a > weight_b or weight_a == weight_b and a < b
   end)
   local loads, owner = {}, {}
   for t = 0, settings.threads - 1 do
      loads[t] = 0
   end
   for _, i in ipairs(heaviest) do
      local least = 0
      for t = 1, settings.threads - 1 do
         if loads[t] < loads[least] then
            least = t
         end
      end
      loads[least] = loads[least] + parts[i].kind[5]
      owner[i] = least
   end
   local mine = {}
   for i, part in ipairs(parts) do
      if owner[i] == thread then
         mine[#mine + 1] = part
      end
   end
   return mine
end

-- A writer of rows by bound values where statements are prepared, else by text.
local function writer(con, settings, sent)
   if statements.are_prepared(settings) then
      return bound_rows.new(con, sent)
   end
   return rows.new(con, settings.batch_bytes, sent)
end

-- One part in one transaction, with its own random stream: a retry makes the same rows.
local function load_part(con, settings, out, part, c_load)
   local kind, names = part.kind, schema.names(settings, part.set)
   local line_counts = kind[2] == load_order and line_counts_of(settings.seed, part.set, part.warehouse, part.part)
   out:reseed(settings.seed, kind[1], part.set, part.warehouse, part.part)
   con:query("BEGIN")
   kind[2](out, names, part.warehouse, part.part, c_load, line_counts, settings.force_pk)
   out:flush()
   con:query("COMMIT")
end

--- Loads this thread's parts.
function load.run(con, settings, thread, c_load)
   local sent, total = 0, load.row_count(settings)
   local out = writer(con, settings, function(count)
      sent = sent + count
   end)
   for _, part in ipairs(load.parts_of(settings, thread)) do
      local tries = 0
      repeat
         sent, tries = 0, tries + 1
         local ok, err = pcall(load_part, con, settings, out, part, c_load)
         if not ok then
            if tries == TRIES_MOST or not host.is_restart(err) then
               error(err, 0)
            end
            con:query("ROLLBACK")
         end
      until ok
      host.progress("rows", sent, total)
   end
end

return load
