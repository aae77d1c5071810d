-- The nine tables of TPC-C (clause 1.3): names, columns, indexes, foreign keys.
--
-- Widths are at least the standard's. Year-to-date sums have two digits more than its numeric(12,2): without thinking times a
-- warehouse of its size overflows within an hour.
local schema = {}

-- In an order in which foreign keys point backwards.
schema.ORDER = {"warehouse", "district", "item", "customer", "stock", "orders", "new_orders", "history", "order_line"}

local ADDRESS = [[
   %s_street_1 VARCHAR(20) NOT NULL,
   %s_street_2 VARCHAR(20) NOT NULL,
   %s_city VARCHAR(20) NOT NULL,
   %s_state CHAR(2) NOT NULL,
   %s_zip CHAR(9) NOT NULL,]]

local function address(prefix)
   return (ADDRESS:gsub("%%s", prefix))
end

local function dist_columns()
   local columns = {}
   for district = 1, 10 do
      columns[district] = string.format("s_dist_%02d CHAR(24) NOT NULL,", district)
   end
   return table.concat(columns, "\n   ")
end

local COLUMNS = {
   warehouse = [[
   w_id INT NOT NULL,
   w_name VARCHAR(10) NOT NULL,
]] .. address("w") .. [[
   w_tax DECIMAL(4,4) NOT NULL,
   w_ytd DECIMAL(14,2) NOT NULL,
   PRIMARY KEY (w_id)]],

   district = [[
   d_w_id INT NOT NULL,
   d_id TINYINT NOT NULL,
   d_name VARCHAR(10) NOT NULL,
]] .. address("d") .. [[
   d_tax DECIMAL(4,4) NOT NULL,
   d_ytd DECIMAL(14,2) NOT NULL,
   d_next_o_id INT NOT NULL,
   PRIMARY KEY (d_w_id, d_id)]],

   customer = [[
   c_w_id INT NOT NULL,
   c_d_id TINYINT NOT NULL,
   c_id INT NOT NULL,
   c_first VARCHAR(16) NOT NULL,
   c_middle CHAR(2) NOT NULL,
   c_last VARCHAR(16) NOT NULL,
]] .. address("c") .. [[
   c_phone CHAR(16) NOT NULL,
   c_since DATETIME NOT NULL,
   c_credit CHAR(2) NOT NULL,
   c_credit_lim DECIMAL(12,2) NOT NULL,
   c_discount DECIMAL(4,4) NOT NULL,
   c_balance DECIMAL(12,2) NOT NULL,
   c_ytd_payment DECIMAL(12,2) NOT NULL,
   c_payment_cnt INT NOT NULL,
   c_delivery_cnt INT NOT NULL,
   c_data VARCHAR(500) NOT NULL,
   PRIMARY KEY (c_w_id, c_d_id, c_id)]],

   history = [[
   h_c_id INT NOT NULL,
   h_c_d_id TINYINT NOT NULL,
   h_c_w_id INT NOT NULL,
   h_d_id TINYINT NOT NULL,
   h_w_id INT NOT NULL,
   h_date DATETIME NOT NULL,
   h_amount DECIMAL(6,2) NOT NULL,
   h_data VARCHAR(24) NOT NULL]],

   new_orders = [[
   no_w_id INT NOT NULL,
   no_d_id TINYINT NOT NULL,
   no_o_id INT NOT NULL,
   PRIMARY KEY (no_w_id, no_d_id, no_o_id)]],

   orders = [[
   o_w_id INT NOT NULL,
   o_d_id TINYINT NOT NULL,
   o_id INT NOT NULL,
   o_c_id INT NOT NULL,
   o_entry_d DATETIME NOT NULL,
   o_carrier_id TINYINT,
   o_ol_cnt TINYINT NOT NULL,
   o_all_local TINYINT NOT NULL,
   PRIMARY KEY (o_w_id, o_d_id, o_id)]],

   order_line = [[
   ol_w_id INT NOT NULL,
   ol_d_id TINYINT NOT NULL,
   ol_o_id INT NOT NULL,
   ol_number TINYINT NOT NULL,
   ol_i_id INT NOT NULL,
   ol_supply_w_id INT NOT NULL,
   ol_delivery_d DATETIME,
   ol_quantity TINYINT NOT NULL,
   ol_amount DECIMAL(6,2) NOT NULL,
   ol_dist_info CHAR(24) NOT NULL,
   PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)]],

   item = [[
   i_id INT NOT NULL,
   i_im_id INT NOT NULL,
   i_name VARCHAR(24) NOT NULL,
   i_price DECIMAL(5,2) NOT NULL,
   i_data VARCHAR(50) NOT NULL,
   PRIMARY KEY (i_id)]],

   stock = [[
   s_w_id INT NOT NULL,
   s_i_id INT NOT NULL,
   s_quantity SMALLINT NOT NULL,
   ]] .. dist_columns() .. [[

   s_ytd INT NOT NULL,
   s_order_cnt INT NOT NULL,
   s_remote_cnt INT NOT NULL,
   s_data VARCHAR(50) NOT NULL,
   PRIMARY KEY (s_w_id, s_i_id)]]
}

-- {table, name, columns, only with foreign keys}
local INDEXES = {
   {"customer", "idx_customer", "c_w_id, c_d_id, c_last, c_first"},
   {"orders", "idx_orders", "o_w_id, o_d_id, o_c_id, o_id"},
   {"order_line", "fkey_order_line_2", "ol_supply_w_id, ol_i_id", true},
   {"stock", "fkey_stock_2", "s_i_id", true},
   {"history", "fkey_history_1", "h_c_w_id, h_c_d_id, h_c_id", true},
   {"history", "fkey_history_2", "h_w_id, h_d_id", true}
}

-- {table, name, columns, referenced table, referenced columns}
local FOREIGN_KEYS = {
   {"district", "fkey_district_1", "d_w_id", "warehouse", "w_id"},
   {"customer", "fkey_customer_1", "c_w_id, c_d_id", "district", "d_w_id, d_id"},
   {"stock", "fkey_stock_1", "s_w_id", "warehouse", "w_id"},
   {"stock", "fkey_stock_2", "s_i_id", "item", "i_id"},
   {"orders", "fkey_orders_1", "o_w_id, o_d_id, o_c_id", "customer", "c_w_id, c_d_id, c_id"},
   {"new_orders", "fkey_new_orders_1", "no_w_id, no_d_id, no_o_id", "orders", "o_w_id, o_d_id, o_id"},
   {"history", "fkey_history_1", "h_c_w_id, h_c_d_id, h_c_id", "customer", "c_w_id, c_d_id, c_id"},
   {"history", "fkey_history_2", "h_w_id, h_d_id", "district", "d_w_id, d_id"},
   {"order_line", "fkey_order_line_1", "ol_w_id, ol_d_id, ol_o_id", "orders", "o_w_id, o_d_id, o_id"},
   {"order_line", "fkey_order_line_2", "ol_supply_w_id, ol_i_id", "stock", "s_w_id, s_i_id"}
}

--- Names of the tables of set `set`, by the names of ORDER: {warehouse = "warehouse1", …}.
function schema.names(settings, set)
   local suffix = settings.numbered and tostring(set) or ""
   local names = {}
   for _, table_name in ipairs(schema.ORDER) do
      names[table_name] = table_name .. suffix
   end
   names.new_orders = settings.new_order_table .. suffix
   return names
end

--- A statement with {warehouse} and the like replaced by this set's names.
function schema.sql(names, text)
   return (text:gsub("{([%w_]+)}", names))
end

--- The comment that tells a later run how the data were made (clause 2.1.6.1 needs C-Load).
function schema.comment(c_load)
   return string.format("bakeoff tpcc data 1, c_load=%d", c_load)
end

--- C-Load of loaded data from its comment; nil when another program loaded them.
function schema.loaded_constant(con, names)
   local comment = con:query_row(string.format(
      "SELECT table_comment FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '%s'",
      names.warehouse))
   return comment and tonumber(comment:match("c_load=(%d+)"))
end

function schema.create_table(settings, names, table_name, c_load)
   local columns = COLUMNS[table_name]
   if table_name == "history" and settings.force_pk then
      columns = "   h_id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,\n" .. columns
   end
   local comment = table_name == "warehouse" and string.format(" COMMENT='%s'", schema.comment(c_load)) or ""
   return string.format("CREATE TABLE %s (\n%s\n) ENGINE=%s%s %s",
      names[table_name], columns, settings.engine, comment, settings.table_options)
end

local function wanted(index, settings)
   return settings.use_fk or not index[4]
end

--- One ALTER TABLE for each table that has secondary indexes, the longest work first.
function schema.index_statements(settings, names)
   local clauses, statements = {}, {}
   for _, index in ipairs(INDEXES) do
      if wanted(index, settings) then
         local list = clauses[index[1]] or {}
         clauses[index[1]] = list
         list[#list + 1] = string.format("ADD INDEX %s (%s)", index[2], index[3])
      end
   end
   for _, table_name in ipairs({"order_line", "customer", "stock", "orders", "history"}) do
      if clauses[table_name] then
         statements[#statements + 1] =
            string.format("ALTER TABLE %s %s", names[table_name], table.concat(clauses[table_name], ", "))
      end
   end
   return statements
end

--- One ALTER TABLE for each table with foreign keys. A constraint's name is unique in its database, so it carries the table's.
function schema.foreign_key_statements(settings, names)
   local clauses, statements = {}, {}
   if not settings.use_fk then
      return statements
   end
   for _, key in ipairs(FOREIGN_KEYS) do
      local list = clauses[key[1]] or {}
      clauses[key[1]] = list
      list[#list + 1] = string.format("ADD CONSTRAINT %s_%s FOREIGN KEY (%s) REFERENCES %s (%s)",
         names[key[1]], key[2], key[3], names[key[4]], key[5])
   end
   for _, table_name in ipairs(schema.ORDER) do
      if clauses[table_name] then
         statements[#statements + 1] =
            string.format("ALTER TABLE %s %s", names[table_name], table.concat(clauses[table_name], ", "))
      end
   end
   return statements
end

--- An ANALYZE TABLE for each table: with an empty table's statistics the server would scan the full one.
function schema.analyze_statements(_, names)
   local statements = {}
   for i, table_name in ipairs(schema.ORDER) do
      statements[i] = "ANALYZE TABLE " .. names[table_name]
   end
   return statements
end

--- Drops a set's tables, those that refer to others first.
function schema.drop(con, names)
   for i = #schema.ORDER, 1, -1 do
      con:query("DROP TABLE IF EXISTS " .. names[schema.ORDER[i]])
   end
end

return schema
