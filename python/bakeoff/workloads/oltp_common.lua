-- What the oltp_* workloads share: options, tables, loading, statements. For scripts of one's own: require("oltp_common"), then
-- define prepare_statements() and event() from the functions below.
--
-- Data (sbtest1 .. sbtestN): id, a secondary key k drawn with --rand-type, c (119 digits and dashes), pad (59). They follow from
-- the seed and the options alone, not from the number of threads: rows are made in pieces, each with a random stream of its own.

sysbench.cmdline.options = {
  table_size = { "Number of rows in each table", 10000 },
  tables = { "Number of tables", 1 },
  range_size = { "Number of rows that a range query reads", 100 },
  point_selects = { "Number of point SELECTs in a transaction", 10 },
  simple_ranges = { "Number of simple range SELECTs in a transaction", 1 },
  sum_ranges = { "Number of SELECT SUM() ranges in a transaction", 1 },
  order_ranges = { "Number of SELECT ORDER BY ranges in a transaction", 1 },
  distinct_ranges = { "Number of SELECT DISTINCT ranges in a transaction", 1 },
  range_selects = { "Run the four kinds of range SELECT; off runs none of them", true },
  index_updates = { "Number of UPDATEs of the indexed column in a transaction", 1 },
  non_index_updates = { "Number of UPDATEs of a column without index in a transaction", 1 },
  delete_inserts = { "Number of DELETE and INSERT pairs in a transaction", 1 },
  auto_inc = { "Let AUTO_INCREMENT give the ids; off has the client give them", true },
  skip_trx = { "Run the statements without BEGIN and COMMIT", false },
  secondary = { "Make the index on id a secondary one, without a primary key", false },
  create_secondary = { "Build an index on k besides the primary key", true },
  mysql_storage_engine = { "Storage engine of the tables", "innodb" },
  create_table_options = { "Options appended to CREATE TABLE", "" },
  reconnect = { "Connect anew after this many transactions; 0 never", 0 },
  pgsql_variant = { "Accepted for sysbench's sake; of no effect on MySQL", "" },
}

-- Rows of one piece: about a megabyte, one statement where the server takes it.
local ROWS_PER_PIECE = 5000
local LARGEST_STATEMENT_BYTES = 4 * 1024 * 1024

local CHAR, INT = sysbench.sql.type.CHAR, sysbench.sql.type.INT

-- Tables -------------------------------------------------------------------------------------------------------------

local function declare_table(con, table_num)
  local opt = sysbench.opt
  print(string.format("Creating table 'sbtest%d'...", table_num))
  con:query(string.format([[
CREATE TABLE sbtest%d(
  id INTEGER NOT NULL%s,
  k INTEGER DEFAULT '0' NOT NULL,
  c CHAR(120) DEFAULT '' NOT NULL,
  pad CHAR(60) DEFAULT '' NOT NULL,
  %s (id)
) /*! ENGINE = %s */ %s]],
    table_num, opt.auto_inc and " AUTO_INCREMENT" or "", opt.secondary and "KEY xid" or "PRIMARY KEY",
    opt.mysql_storage_engine, opt.create_table_options))
end

local function create_index(con, table_num)
  print(string.format("Creating a secondary index on 'sbtest%d'...", table_num))
  con:query(string.format("CREATE INDEX k_%d ON sbtest%d(k)", table_num, table_num))
end

-- Longest statement that the server takes, and no longer than is good for it.
local function statement_bytes(con)
  local packet = tonumber((con:query_row("SELECT @@max_allowed_packet"))) or 1024 * 1024
  return math.min(packet - 1024, LARGEST_STATEMENT_BYTES)
end

-- Rows of one piece of a table; pieces are numbered from 0.
local function load_piece(con, table_num, piece)
  local size = sysbench.opt.table_size
  local first = piece * ROWS_PER_PIECE + 1
  local last = math.min(first + ROWS_PER_PIECE - 1, size)
  if piece == 0 then
    print(string.format("Inserting %d records into 'sbtest%d'", size, table_num))
  end
  con:bulk_insert_init(string.format("INSERT INTO sbtest%d(id, k, c, pad) VALUES", table_num))
  ffi.C.bakeoff_bulk_sbtest_rows(con, table_num, piece, first, last, size)
  con:check_error(nil, "INSERT INTO sbtest" .. table_num)
  con:bulk_insert_done()
  bakeoff.progress("rows", last - first + 1, sysbench.opt.tables * size)
end

-- Calls work(i) for this thread's share of 0 .. count-1, a run of neighbours in order.
local function share(count, work)
  local threads = math.max(sysbench.opt.threads, 1)
  local first = math.floor(count * sysbench.tid / threads)
  local last = math.floor(count * (sysbench.tid + 1) / threads) - 1
  for i = first, last do
    work(i)
  end
end

-- The threads share tables and rows evenly, also within one table. Each loads ranges of its own in the order of the primary key:
-- with pieces dealt in turn, neighbouring ranges split each other's pages, and the tables came out a seventh larger (8.0.15).
-- Indexes come after the rows.
function cmd_prepare()
  local opt = sysbench.opt
  local con = sysbench.sql.driver():connect()
  share(opt.tables, function(i) declare_table(con, i + 1) end)
  bakeoff.barrier()

  con:bulk_insert_init("", statement_bytes(con))
  local pieces = math.ceil(opt.table_size / ROWS_PER_PIECE)
  share(opt.tables * pieces, function(i) load_piece(con, math.floor(i / pieces) + 1, i % pieces) end)
  bakeoff.barrier()

  share(opt.tables, function(i)
    if opt.create_secondary then
      create_index(con, i + 1)
      bakeoff.progress("indexes", 1, opt.tables)
    end
    con:query(string.format("ANALYZE TABLE sbtest%d", i + 1))
  end)
  con:disconnect()
end

-- One whole table by this thread alone, for scripts with a `prepare` of their own.
function create_table(_, con, table_num)
  declare_table(con, table_num)
  con:bulk_insert_init("", statement_bytes(con))
  for piece = 0, math.ceil(sysbench.opt.table_size / ROWS_PER_PIECE) - 1 do
    load_piece(con, table_num, piece)
  end
  if sysbench.opt.create_secondary then
    create_index(con, table_num)
  end
end

-- Reads every table once along each index, so that its pages are in memory.
function cmd_warmup()
  local con = sysbench.sql.driver():connect()
  -- Room for the derived tables below.
  con:query("SET tmp_table_size=2*1024*1024*1024")
  con:query("SET max_heap_table_size=2*1024*1024*1024")
  share(sysbench.opt.tables, function(i)
    local name = "sbtest" .. (i + 1)
    local id_index = sysbench.opt.secondary and "xid" or "PRIMARY"
    print("Prewarming table " .. name)
    con:query("ANALYZE TABLE " .. name)
    con:query(string.format("SELECT AVG(id) FROM (SELECT * FROM %s FORCE KEY (%s) LIMIT %d) t",
      name, id_index, sysbench.opt.table_size))
    con:query(string.format("SELECT COUNT(*) FROM (SELECT * FROM %s WHERE k LIKE '%%0%%' LIMIT %d) t",
      name, sysbench.opt.table_size))
  end)
  con:disconnect()
end

function cleanup()
  local con = sysbench.sql.driver():connect()
  for table_num = 1, sysbench.opt.tables do
    print(string.format("Dropping table 'sbtest%d'...", table_num))
    con:query("DROP TABLE IF EXISTS sbtest" .. table_num)
  end
  con:disconnect()
end

sysbench.cmdline.commands = {
  prepare = { cmd_prepare, sysbench.cmdline.PARALLEL_COMMAND },
  warmup = { cmd_warmup, sysbench.cmdline.PARALLEL_COMMAND },
  prewarm = { cmd_warmup, sysbench.cmdline.PARALLEL_COMMAND },
}

-- Values -------------------------------------------------------------------------------------------------------------

local C_TEMPLATE = string.rep("###########", 10, "-")
local PAD_TEMPLATE = string.rep("###########", 5, "-")

function get_c_value()
  return sysbench.rand.string(C_TEMPLATE)
end

function get_pad_value()
  return sysbench.rand.string(PAD_TEMPLATE)
end

local function get_table_num()
  return sysbench.rand.uniform(1, sysbench.opt.tables)
end

local function get_id()
  return sysbench.rand.default(1, sysbench.opt.table_size)
end

-- Statements ---------------------------------------------------------------------------------------------------------

-- SQL (with %u for the table's number) and parameter types of every statement that is prepared for each table.
local statement_defs = {
  point_selects = { "SELECT c FROM sbtest%u WHERE id=?", INT },
  simple_ranges = { "SELECT c FROM sbtest%u WHERE id BETWEEN ? AND ?", INT, INT },
  sum_ranges = { "SELECT SUM(k) FROM sbtest%u WHERE id BETWEEN ? AND ?", INT, INT },
  order_ranges = { "SELECT c FROM sbtest%u WHERE id BETWEEN ? AND ? ORDER BY c", INT, INT },
  distinct_ranges = { "SELECT DISTINCT c FROM sbtest%u WHERE id BETWEEN ? AND ? ORDER BY c", INT, INT },
  index_updates = { "UPDATE sbtest%u SET k=k+1 WHERE id=?", INT },
  non_index_updates = { "UPDATE sbtest%u SET c=? WHERE id=?", { CHAR, 120 }, INT },
  deletes = { "DELETE FROM sbtest%u WHERE id=?", INT },
  inserts = { "INSERT INTO sbtest%u (id, k, c, pad) VALUES (?, ?, ?, ?)", INT, INT, { CHAR, 120 }, { CHAR, 60 } },
}

function prepare_for_each_table(key)
  local def = statement_defs[key]
  for table_num = 1, sysbench.opt.tables do
    local statement = con:prepare(string.format(def[1], table_num))
    local params = {}
    for i = 2, #def do
      local kind = def[i]
      params[i - 1] = type(kind) == "table" and statement:bind_create(kind[1], kind[2]) or statement:bind_create(kind)
    end
    statement:bind_param(unpack(params))
    stmt[table_num][key] = statement
    param[table_num][key] = params
  end
end

-- BEGIN and COMMIT go as text: servers differ in whether they can be prepared at all.
function prepare_begin() end

function prepare_commit() end

function prepare_point_selects()
  prepare_for_each_table("point_selects")
end

function prepare_simple_ranges()
  prepare_for_each_table("simple_ranges")
end

function prepare_sum_ranges()
  prepare_for_each_table("sum_ranges")
end

function prepare_order_ranges()
  prepare_for_each_table("order_ranges")
end

function prepare_distinct_ranges()
  prepare_for_each_table("distinct_ranges")
end

function prepare_index_updates()
  prepare_for_each_table("index_updates")
end

function prepare_non_index_updates()
  prepare_for_each_table("non_index_updates")
end

function prepare_delete_inserts()
  prepare_for_each_table("deletes")
  prepare_for_each_table("inserts")
end

-- Life cycle ---------------------------------------------------------------------------------------------------------

local transactions = 0

function thread_init()
  drv = sysbench.sql.driver()
  con = drv:connect()
  stmt, param = {}, {}
  for table_num = 1, sysbench.opt.tables do
    stmt[table_num], param[table_num] = {}, {}
  end
  prepare_statements()
end

function close_statements()
  for table_num = 1, sysbench.opt.tables do
    for _, statement in pairs(stmt[table_num]) do
      statement:close()
    end
    stmt[table_num], param[table_num] = {}, {}
  end
end

function thread_done()
  close_statements()
  con:disconnect()
end

-- Connects anew when --reconnect says so; its statements are prepared again on first use.
function check_reconnect()
  if sysbench.opt.reconnect > 0 then
    transactions = transactions + 1
    if transactions % sysbench.opt.reconnect == 0 then
      con:reconnect()
    end
  end
end

-- Execution ----------------------------------------------------------------------------------------------------------
-- Each group picks one table for all its statements, every table alike; ids come from --rand-type.

function begin()
  con:query("BEGIN")
end

function commit()
  con:query("COMMIT")
end

function execute_point_selects()
  local table_num = get_table_num()
  local statement, params = stmt[table_num].point_selects, param[table_num].point_selects
  local id = params[1]
  for _ = 1, sysbench.opt.point_selects do
    id:set(get_id())
    statement:execute()
  end
end

local function execute_ranges(key)
  local table_num = get_table_num()
  local statement, params = stmt[table_num][key], param[table_num][key]
  local from, to = params[1], params[2]
  for _ = 1, sysbench.opt[key] do
    local id = get_id()
    from:set(id)
    to:set(id + sysbench.opt.range_size - 1)
    statement:execute()
  end
end

function execute_simple_ranges()
  execute_ranges("simple_ranges")
end

function execute_sum_ranges()
  execute_ranges("sum_ranges")
end

function execute_order_ranges()
  execute_ranges("order_ranges")
end

function execute_distinct_ranges()
  execute_ranges("distinct_ranges")
end

function execute_index_updates()
  local table_num = get_table_num()
  local statement, params = stmt[table_num].index_updates, param[table_num].index_updates
  local id = params[1]
  for _ = 1, sysbench.opt.index_updates do
    id:set(get_id())
    statement:execute()
  end
end

function execute_non_index_updates()
  local table_num = get_table_num()
  local statement, params = stmt[table_num].non_index_updates, param[table_num].non_index_updates
  local c, id = params[1], params[2]
  for _ = 1, sysbench.opt.non_index_updates do
    c:set_rand_str(C_TEMPLATE)
    id:set(get_id())
    statement:execute()
  end
end

function execute_delete_inserts()
  local table_num = get_table_num()
  local delete, insert = stmt[table_num].deletes, stmt[table_num].inserts
  local old_id, new = param[table_num].deletes[1], param[table_num].inserts
  local new_id, k, c, pad = new[1], new[2], new[3], new[4]
  for _ = 1, sysbench.opt.delete_inserts do
    local id = get_id()
    old_id:set(id)
    delete:execute()
    new_id:set(id)
    k:set(get_id())
    c:set_rand_str(C_TEMPLATE)
    pad:set_rand_str(PAD_TEMPLATE)
    insert:execute()
  end
end
