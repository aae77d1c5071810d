-- What the oltp_* workloads share: options, tables, loading, statements. For your own scripts: require("oltp_common"), then
-- define prepare_statements() and event() from the functions below.
--
-- Data (sbtest1 .. sbtestN): id, a secondary key k drawn with --rand-type, c (119 digits and dashes), pad (59). They follow from
-- the seed and the options alone, not from the number of threads: rows are made in pieces, each with its own random stream.
-- --content, --compressibility, --column_… and --text_length change what c and pad hold and how c is declared.

if sysbench.cmdline.command == nil then
  error("Command is required. Supported commands: prepare, prewarm, run, cleanup, help", 0)
end

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
  content = { "What texts are made of: digits, ascii, text, latin, cyrillic, japanese, chinese, emoji, prefix, uuid, hash", "digits" },
  compressibility = { "Share of each text that zlib saves, 0 to 1 (digits then become ascii); -1: as the content is", -1 },
  column_type = { "Type of column c: char or varchar", "char" },
  column_length = { "Length of column c in characters", 120 },
  text_length = { "Characters in each text of column c", 119 },
  column_charset = { "Character set of the columns c and pad; empty: the table's", "" },
  column_collation = { "Collation of the columns c and pad; empty: the table's", "" },
  reconnect = { "Connect anew after this many transactions; 0 never", 0 },
  pgsql_variant = { "Accepted for sysbench's sake; of no effect on MySQL", "" },
}

-- A piece is about a megabyte of rows. Statements have the size that was best on the measured servers; a transaction of
-- a few pieces has several (docs/reference/loading.md).
local ROWS_PER_PIECE = 5000
local PIECES_PER_TRANSACTION = 4
local LARGEST_STATEMENT_BYTES = 256 * 1024

local CHAR, INT = sysbench.sql.type.CHAR, sysbench.sql.type.INT

-- Functions of this file that a script may replace; loading in parallel bypasses them.
local own_create_table, own_get_c_value, own_get_pad_value

-- Texts --------------------------------------------------------------------------------------------------------------

local C_TEMPLATE = string.rep("###########", 10, "-")
local PAD_TEMPLATE = string.rep("###########", 5, "-")
local texts

local function is_default_text()
  local opt = sysbench.opt
  return opt.content == "digits" and opt.compressibility < 0 and opt.text_length == #C_TEMPLATE
end

-- The source of texts, or false for sysbench's templates.
local function texts_for(con)
  if texts == nil then
    local opt = sysbench.opt
    if opt.text_length < 1 or opt.text_length > opt.column_length then
      error(string.format("text_length must be 1 to column_length (%d), not %d", opt.column_length, opt.text_length), 0)
    end
    texts = not is_default_text() and bakeoff.text(con, opt.content, opt.compressibility >= 0 and opt.compressibility or nil)
  end
  return texts
end

-- Longest value of a column in bytes.
local function column_bytes(name)
  local length = name == "c" and sysbench.opt.column_length or #PAD_TEMPLATE + 1
  return is_default_text() and length or 4 * length
end

-- Tables -------------------------------------------------------------------------------------------------------------

local function column_words()
  local opt = sysbench.opt
  if opt.column_type:lower() ~= "char" and opt.column_type:lower() ~= "varchar" then
    error(string.format("column_type must be char or varchar, not %s", opt.column_type), 0)
  end
  local charset = opt.column_charset ~= "" and " CHARACTER SET " .. opt.column_charset or ""
  charset = charset .. (opt.column_collation ~= "" and " COLLATE " .. opt.column_collation or "")
  return string.format("%s(%d)%s", opt.column_type:upper(), opt.column_length, charset), charset
end

local function declare_table(con, table_num)
  local opt = sysbench.opt
  local c_type, pad_charset = column_words()
  print(string.format("Creating table 'sbtest%d'...", table_num))
  con:query(string.format([[
CREATE TABLE sbtest%d(
  id INTEGER NOT NULL%s,
  k INTEGER DEFAULT '0' NOT NULL,
  c %s DEFAULT '' NOT NULL,
  pad CHAR(60)%s DEFAULT '' NOT NULL,
  %s (id)
) /*! ENGINE = %s */ %s]],
    table_num, opt.auto_inc and " AUTO_INCREMENT" or "", c_type, pad_charset, opt.secondary and "KEY xid" or "PRIMARY KEY",
    opt.mysql_storage_engine, opt.create_table_options))
end

local function create_index(con, table_num)
  print(string.format("Creating a secondary index on 'sbtest%d'...", table_num))
  con:query(string.format("CREATE INDEX k_%d ON sbtest%d(k)", table_num, table_num))
end

-- Length of statements: at most what the server accepts, and no more than is best.
local function statement_bytes(con)
  local packet = tonumber((con:query_row("SELECT @@max_allowed_packet"))) or 1024 * 1024
  return math.min(packet - 1024, LARGEST_STATEMENT_BYTES)
end

local function pieces_of_a_table()
  return math.ceil(sysbench.opt.table_size / ROWS_PER_PIECE)
end

-- Whether the script supplies its own texts for the rows.
local function has_own_texts()
  return get_c_value ~= own_get_c_value or get_pad_value ~= own_get_pad_value
end

-- Inserts a range of pieces of a table, in statements as long as allowed; pieces are numbered from 0.
local function load_pieces(con, table_num, first_piece, last_piece)
  local size = sysbench.opt.table_size
  if first_piece == 0 then
    print(string.format("Inserting %d records into 'sbtest%d'", size, table_num))
  end
  con:bulk_insert_init(string.format("INSERT INTO sbtest%d(id, k, c, pad) VALUES", table_num))
  ffi.C.bakeoff_bulk_texts(con, texts_for(con) or nil, sysbench.opt.text_length, #PAD_TEMPLATE)
  for piece = first_piece, last_piece do
    if (piece - first_piece) % PIECES_PER_TRANSACTION == 0 then
      con:bulk_insert_done()
      con:query("BEGIN") -- which also ends the previous transaction
    end
    local first = piece * ROWS_PER_PIECE + 1
    local last = math.min(first + ROWS_PER_PIECE - 1, size)
    if has_own_texts() then
      for id = first, last do
        local k = sysbench.rand.default(1, size)
        con:bulk_insert_next(string.format("(%d,%d,'%s','%s')", id, k, get_c_value(), get_pad_value()))
      end
    else
      ffi.C.bakeoff_bulk_sbtest_rows(con, table_num, piece, first, last, size)
      con:check_error(nil, "INSERT INTO sbtest" .. table_num)
    end
    bakeoff.progress("rows", last - first + 1, sysbench.opt.tables * size)
  end
  con:bulk_insert_done()
  con:query("COMMIT")
end

-- Digits are the same bytes in all but the wide character sets. Sent as binary, they are stored unchecked, which saves
-- a quarter of the server's work (docs/reference/loading.md). Only for a connection that does nothing but load.
local function send_rows_as_bytes(con)
  if not is_default_text() then
    return
  end
  local wide = con:query_row([[SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE()
    AND table_name = 'sbtest1' AND character_set_name IN ('ucs2', 'utf16', 'utf16le', 'utf32')]])
  if tonumber(wide) == 0 then
    con:query("SET NAMES binary")
  end
end

-- First and last of this thread's contiguous share of 0 .. count-1; empty if the last is before the first.
local function run_of_this_thread(count)
  local threads = math.max(sysbench.opt.threads, 1)
  return math.floor(count * sysbench.tid / threads), math.floor(count * (sysbench.tid + 1) / threads) - 1
end

-- Calls work(i) for each of this thread's share, in order.
local function share(count, work)
  local first, last = run_of_this_thread(count)
  for i = first, last do
    work(i)
  end
end

-- Loads this thread's share of all rows of all tables.
local function load_share(con)
  local pieces = pieces_of_a_table()
  local at, last = run_of_this_thread(sysbench.opt.tables * pieces)
  while at <= last do
    local table_index = math.floor(at / pieces)
    local until_piece = math.min(last, (table_index + 1) * pieces - 1)
    load_pieces(con, table_index + 1, at % pieces, until_piece % pieces)
    at = until_piece + 1
  end
end

-- The threads share tables and rows evenly, also within one table. Each loads its ranges in primary key order:
-- with pieces dealt in turn, neighbouring ranges split each other's pages, which made tables a seventh larger (8.0.15).
-- Indexes come last. If a script replaces create_table or the texts, each table is made by one call, as in sysbench.
function cmd_prepare()
  local opt = sysbench.opt
  local drv = sysbench.sql.driver()
  local con = drv:connect()
  if create_table ~= own_create_table or has_own_texts() then
    share(opt.tables, function(i) create_table(drv, con, i + 1) end)
    con:disconnect()
    return
  end
  share(opt.tables, function(i) declare_table(con, i + 1) end)
  bakeoff.barrier()

  send_rows_as_bytes(con)
  con:bulk_insert_init("", statement_bytes(con))
  load_share(con)
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

-- Makes one whole table in this thread alone.
function create_table(_, con, table_num)
  declare_table(con, table_num)
  con:bulk_insert_init("", statement_bytes(con))
  load_pieces(con, table_num, 0, pieces_of_a_table() - 1)
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

-- sysbench 1.0's name for it.
cmd_prewarm = cmd_warmup

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

function get_c_value()
  return texts_for(con) and texts:draw(sysbench.opt.text_length) or sysbench.rand.string(C_TEMPLATE)
end

function get_pad_value()
  return texts_for(con) and texts:draw(#PAD_TEMPLATE) or sysbench.rand.string(PAD_TEMPLATE)
end

own_create_table, own_get_c_value, own_get_pad_value = create_table, get_c_value, get_pad_value

local function set_text(param, template, characters)
  if texts_for(con) then
    texts:put(param, characters)
  else
    param:set_rand_str(template)
  end
end

local function get_table_num()
  return sysbench.rand.uniform(1, sysbench.opt.tables)
end

local function get_id()
  return sysbench.rand.default(1, sysbench.opt.table_size)
end

-- Statements ---------------------------------------------------------------------------------------------------------

-- SQL (%u is the table's number) and parameter types of the statements prepared for each table; for a text, its column.
local statement_defs = {
  point_selects = { "SELECT c FROM sbtest%u WHERE id=?", INT },
  simple_ranges = { "SELECT c FROM sbtest%u WHERE id BETWEEN ? AND ?", INT, INT },
  sum_ranges = { "SELECT SUM(k) FROM sbtest%u WHERE id BETWEEN ? AND ?", INT, INT },
  order_ranges = { "SELECT c FROM sbtest%u WHERE id BETWEEN ? AND ? ORDER BY c", INT, INT },
  distinct_ranges = { "SELECT DISTINCT c FROM sbtest%u WHERE id BETWEEN ? AND ? ORDER BY c", INT, INT },
  index_updates = { "UPDATE sbtest%u SET k=k+1 WHERE id=?", INT },
  non_index_updates = { "UPDATE sbtest%u SET c=? WHERE id=?", "c", INT },
  deletes = { "DELETE FROM sbtest%u WHERE id=?", INT },
  inserts = { "INSERT INTO sbtest%u (id, k, c, pad) VALUES (?, ?, ?, ?)", INT, INT, "c", "pad" },
}

function prepare_for_each_table(key)
  local def = statement_defs[key]
  for table_num = 1, sysbench.opt.tables do
    local statement = con:prepare(string.format(def[1], table_num))
    local params = {}
    for i = 2, #def do
      local kind = def[i]
      params[i - 1] = type(kind) == "string" and statement:bind_create(CHAR, column_bytes(kind)) or statement:bind_create(kind)
    end
    statement:bind_param(unpack(params))
    stmt[table_num][key] = statement
    param[table_num][key] = params
  end
end

-- BEGIN and COMMIT go as text: servers differ in whether they can be prepared at all.
-- Still called, so that a script that replaces begin() and commit() can prepare its own here.
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

-- Does nothing. A script's own init may call it.
function init() end

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

-- Reconnects when --reconnect says so; statements are prepared again on first use.
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
    set_text(c, C_TEMPLATE, sysbench.opt.text_length)
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
    set_text(c, C_TEMPLATE, sysbench.opt.text_length)
    set_text(pad, PAD_TEMPLATE, #PAD_TEMPLATE)
    insert:execute()
  end
end
