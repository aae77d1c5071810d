-- Look-ups, ranges and joins on a secondary index over varchar(64), for comparing what its character set costs.
--
-- person1 .. personN: id, name varchar(64) with an index, note. Rows follow from id and table alone, so every arm holds the same
-- ones, whatever its character set. Names are plain ASCII unless --content says otherwise.

sysbench.cmdline.options = {
  tables = { "Number of tables", 1 },
  table_size = { "Number of rows in each table", 10000 },
  lookups = { "SELECTs by name in an event", 1 },
  ranges = { "SELECTs of the next 20 names in an event", 0 },
  joins = { "Joins of 10 rows with another table by name in an event", 0 },
  content = { "What names are made of, as of the oltp workloads; empty: given and family names with a number", "" },
  text_length = { "Characters in each name with --content", 40 },
  column_type = { "Type of the column: char or varchar", "varchar" },
  column_length = { "Length of the column in characters", 64 },
  column_charset = { "Character set of the names; empty: the table's", "" },
  column_collation = { "Collation of the names; empty: the table's", "" },
  mysql_storage_engine = { "Storage engine of the tables", "innodb" },
  create_table_options = { "Options appended to CREATE TABLE", "" },
}

local ROWS_PER_STATEMENT = 1000
local VARCHAR, INT = sysbench.sql.type.VARCHAR, sysbench.sql.type.INT

local GIVEN = { "Anna", "Bruno", "Clara", "David", "Elena", "Franz", "Greta", "Henri", "Irene", "Jonas" }
local FAMILY = { "Keller", "Lehmann", "Moreau", "Neumann", "Olsen", "Peters", "Quint", "Rossi", "Schmidt", "Thomas" }

local texts

local function use_content(con)
  if sysbench.opt.content ~= "" then
    texts = bakeoff.text(con, sysbench.opt.content)
  end
end

-- The name of row `id`: unlike its neighbours', at most 40 characters; ids are turned so that index order is not load order.
local function name_of(id)
  if texts then
    return texts:of(id, sysbench.opt.text_length)
  end
  local turned = (id * 7919) % sysbench.opt.table_size
  return string.format("%s %s %08d", FAMILY[id % 10 + 1], GIVEN[turned % 10 + 1], turned)
end

local function load_table(con, number)
  local opt = sysbench.opt
  local words = opt.column_charset ~= "" and " CHARACTER SET " .. opt.column_charset or ""
  words = words .. (opt.column_collation ~= "" and " COLLATE " .. opt.column_collation or "")
  print(string.format("Creating table 'person%d'...", number))
  con:query(string.format([[
CREATE TABLE person%d(
  id INTEGER NOT NULL,
  name %s(%d)%s NOT NULL,
  note CHAR(60) NOT NULL,
  PRIMARY KEY (id)
) /*! ENGINE = %s */ %s]], number, opt.column_type:upper(), opt.column_length, words, opt.mysql_storage_engine, opt.create_table_options))
  for first = 1, opt.table_size, ROWS_PER_STATEMENT do
    local last = math.min(first + ROWS_PER_STATEMENT - 1, opt.table_size)
    local rows = {}
    for id = first, last do
      rows[#rows + 1] = string.format("(%d,'%s','%060d')", id, name_of(id), id)
    end
    con:query(string.format("INSERT INTO person%d(id, name, note) VALUES %s", number, table.concat(rows, ",")))
  end
  con:query(string.format("CREATE INDEX name_%d ON person%d(name)", number, number))
  con:query(string.format("ANALYZE TABLE person%d", number))
end

function cmd_prepare()
  local con = sysbench.sql.driver():connect()
  use_content(con)
  for number = 1 + sysbench.tid, sysbench.opt.tables, math.max(sysbench.opt.threads, 1) do
    load_table(con, number)
  end
  con:disconnect()
end

function cmd_cleanup()
  local con = sysbench.sql.driver():connect()
  for number = 1, sysbench.opt.tables do
    con:query("DROP TABLE IF EXISTS person" .. number)
  end
  con:disconnect()
end

sysbench.cmdline.commands = {
  prepare = { cmd_prepare, sysbench.cmdline.PARALLEL_COMMAND },
  cleanup = { cmd_cleanup },
}

local con, lookups, ranges, joins

local function statement(sql, ...)
  local made = { handle = con:prepare(sql), params = {} }
  for i, kind in ipairs({ ... }) do
    made.params[i] = kind == VARCHAR and made.handle:bind_create(VARCHAR, 4 * sysbench.opt.column_length) or made.handle:bind_create(kind)
  end
  made.handle:bind_param(unpack(made.params))
  return made
end

function thread_init()
  con = sysbench.sql.driver():connect()
  use_content(con)
  lookups, ranges, joins = {}, {}, {}
  for number = 1, sysbench.opt.tables do
    local other = number % sysbench.opt.tables + 1
    lookups[number] = statement(string.format("SELECT id, note FROM person%d WHERE name = ?", number), VARCHAR)
    ranges[number] = statement(
      string.format("SELECT name FROM person%d WHERE name >= ? ORDER BY name LIMIT 20", number), VARCHAR)
    joins[number] = statement(string.format(
      "SELECT COUNT(*) FROM person%d a JOIN person%d b ON b.name = a.name WHERE a.id BETWEEN ? AND ?", number, other), INT, INT)
  end
end

function thread_done()
  for _, kind in ipairs({ lookups, ranges, joins }) do
    for _, each in ipairs(kind) do
      each.handle:close()
    end
  end
  con:disconnect()
end

local function random_table() return sysbench.rand.uniform(1, sysbench.opt.tables) end
local function random_id() return sysbench.rand.default(1, sysbench.opt.table_size) end

function event()
  local opt = sysbench.opt
  for _ = 1, opt.lookups do
    local each = lookups[random_table()]
    each.params[1]:set(name_of(random_id()))
    each.handle:execute()
  end
  for _ = 1, opt.ranges do
    local each = ranges[random_table()]
    each.params[1]:set(name_of(random_id()))
    each.handle:execute()
  end
  for _ = 1, opt.joins do
    local each = joins[random_table()]
    local id = random_id()
    each.params[1]:set(id)
    each.params[2]:set(id + 9)
    each.handle:execute()
  end
end
