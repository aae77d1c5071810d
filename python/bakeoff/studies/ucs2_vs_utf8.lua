-- Inserts, look-ups and CHAR_LENGTH scans of Japanese text, for comparing how the storage character set costs.
--
-- Each row holds `repeats` times ほげ, two characters of three bytes each in utf8 and of two in ucs2. The client always
-- talks utf8, so with other columns the server converts. Inserts are committed a thousand at a time.

sysbench.cmdline.options = {
  tables = { "One; more are refused", 1 },
  table_size = { "Number of rows that are read", 10000 },
  repeats = { "How many times the two characters stand in a row", 100 },
  column = { "Type of the column: varchar(1024), varchar(255) or char(255)", "varchar(1024)" },
  operation = { "insert, select or char_length", "select" },
  commit_every = { "Inserts in a transaction", 1000 },
  mysql_storage_engine = { "Storage engine of the tables", "innodb" },
  create_table_options = { "Options appended to CREATE TABLE", "" },
}

local REPEATS = { 10, 100, 500 }
local COLUMNS = { "varchar(1024)", "varchar(255)", "char(255)" }
local LONGEST_BYTES = 4096
local BYTES_PER_STATEMENT = 400 * 1024
local VARCHAR, INT = sysbench.sql.type.VARCHAR, sysbench.sql.type.INT

local function text(repeats) return string.rep("ほげ", repeats) end

-- A table for each kind of column and length that fits into it, so that all workloads share one load.
local function table_name(kind, column, repeats)
  local plain = column:gsub("[()]", "")
  return string.format("%s_%s_%d", kind, plain, repeats)
end

local function fits(column, repeats) return 2 * repeats <= tonumber(column:match("%d+")) end

local function load_table(con, name, column, repeats, rows)
  local opt = sysbench.opt
  print(string.format("Creating table '%s'...", name))
  con:query(string.format([[
CREATE TABLE %s(
  id INTEGER UNSIGNED NOT NULL AUTO_INCREMENT,
  name %s NOT NULL,
  created DATETIME NOT NULL,
  PRIMARY KEY (id)
) /*! ENGINE = %s */ %s]], name, column, opt.mysql_storage_engine, opt.create_table_options))
  local row = string.format("(NULL,'%s',NOW())", text(repeats))
  local at_once = math.max(1, math.floor(BYTES_PER_STATEMENT / #row))
  local left = rows
  while left > 0 do
    local count = math.min(left, at_once)
    con:query(string.format("INSERT INTO %s VALUES %s", name, string.rep(row, count, ",")))
    left = left - count
  end
  con:query("ANALYZE TABLE " .. name)
end

function cmd_prepare()
  local con = sysbench.sql.driver():connect()
  for _, column in ipairs(COLUMNS) do
    for _, repeats in ipairs(REPEATS) do
      if fits(column, repeats) then
        load_table(con, table_name("rows", column, repeats), column, repeats, sysbench.opt.table_size)
        load_table(con, table_name("new", column, repeats), column, repeats, 0)
      end
    end
  end
  con:disconnect()
end

function cmd_cleanup()
  local con = sysbench.sql.driver():connect()
  for _, column in ipairs(COLUMNS) do
    for _, repeats in ipairs(REPEATS) do
      con:query("DROP TABLE IF EXISTS " .. table_name("rows", column, repeats))
      con:query("DROP TABLE IF EXISTS " .. table_name("new", column, repeats))
    end
  end
  con:disconnect()
end

sysbench.cmdline.commands = { prepare = { cmd_prepare }, cleanup = { cmd_cleanup } }

local con, statement, parameter, inserted
local operations = {}

function thread_init()
  local opt = sysbench.opt
  if opt.tables ~= 1 then
    error("tables must be 1, not " .. opt.tables)
  end
  if not operations[opt.operation] then
    error("operation must be insert, select or char_length, not " .. tostring(opt.operation))
  end
  con = sysbench.sql.driver():connect()
  inserted = 0
  local rows = table_name("rows", opt.column, opt.repeats)
  if opt.operation == "insert" then
    statement = con:prepare(string.format(
      "INSERT INTO %s VALUES (NULL, ?, NOW())", table_name("new", opt.column, opt.repeats)))
    parameter = statement:bind_create(VARCHAR, LONGEST_BYTES)
    statement:bind_param(parameter)
    parameter:set(text(opt.repeats))
  elseif opt.operation == "select" then
    statement = con:prepare(string.format("SELECT * FROM %s WHERE id = ?", rows))
    parameter = statement:bind_create(INT)
    statement:bind_param(parameter)
  else
    statement = con:prepare(string.format("SELECT MAX(CHAR_LENGTH(name)) FROM %s", rows))
  end
end

function thread_done()
  if inserted > 0 then
    con:query("COMMIT")
  end
  statement:close()
  con:disconnect()
end

function operations.insert()
  if inserted == 0 then
    con:query("BEGIN")
  end
  statement:execute()
  inserted = inserted + 1
  if inserted == sysbench.opt.commit_every then
    con:query("COMMIT")
    inserted = 0
  end
end

function operations.select()
  parameter:set(sysbench.rand.uniform(1, sysbench.opt.table_size))
  statement:execute()
end

function operations.char_length()
  statement:execute()
end

function event()
  operations[sysbench.opt.operation]()
end
