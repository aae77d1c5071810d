-- The API of sysbench 0.5 and 1.0 scripts: global functions over one connection.

local rand, sql = sysbench.rand, sysbench.sql

thread_id = sysbench.tid
test = sysbench.cmdline.script_path
db_driver = "mysql"
mysql_table_engine = "innodb"
myisam_max_rows = "1000000"

DB_ERROR_NONE = 0
DB_ERROR_RESTART_TRANSACTION = 1
DB_ERROR_FAILED = 2

sb_rand = rand.default
sb_rand_str = rand.string
sb_rand_uniform = rand.uniform
sb_rand_gaussian = rand.gaussian
sb_rand_special = rand.special

-- Draws from a..b, without repeats until all have been drawn.
function sb_rand_uniq(a, b)
  return a + ffi.C.bakeoff_rand_unique_below(b - a + 1)
end

-- Draws from 0 .. 2^31 - 1.
function sb_rnd()
  return rand.uniform(0, 2147483647)
end

local connection

function db_connect()
  connection = sql.driver():connect()
end

local function connected()
  if not connection then
    db_connect()
  end
  return connection
end

function db_disconnect()
  if connection then
    connection:disconnect()
    connection = nil
  end
end

function db_query(query)
  connected():query(query)
end

function db_bulk_insert_init(query)
  return connected():bulk_insert_init(query)
end

function db_bulk_insert_next(values)
  return connected():bulk_insert_next(values)
end

function db_bulk_insert_done()
  return connected():bulk_insert_done()
end

function db_prepare(query)
  return connected():prepare(query)
end

-- The script's tables of values, by statement: read at each execution.
local bound = setmetatable({}, { __mode = "k" })
local LONGEST_TEXT = 4096

-- `values` holds one value for each `?`. Whether a parameter is a number or text is fixed here.
function db_bind_param(stmt, values)
  local params = {}
  for i, value in ipairs(values) do
    if type(value) == "number" then
      params[i] = stmt:bind_create(value % 1 == 0 and sql.type.BIGINT or sql.type.DOUBLE)
    else
      params[i] = stmt:bind_create(sql.type.VARCHAR, math.max(LONGEST_TEXT, #tostring(value)))
    end
  end
  bound[stmt] = { values = values, params = params }
  return stmt:bind_param(unpack(params))
end

-- Rows of prepared statements are fetched like those of others.
function db_bind_result()
  return DB_ERROR_NONE
end

function db_execute(stmt)
  local binding = bound[stmt]
  if binding then
    for i, param in ipairs(binding.params) do
      param:set(binding.values[i])
    end
  end
  return stmt:execute()
end

-- Results are received whole with the statement.
function db_store_results(rs)
  return rs
end

function db_free_results(rs)
  if rs then
    rs:free()
  end
end

function db_close(stmt)
  return stmt:close()
end

sysbench.db = {
  connect = db_connect,
  disconnect = db_disconnect,
  query = db_query,
  bulk_insert_init = db_bulk_insert_init,
  bulk_insert_next = db_bulk_insert_next,
  bulk_insert_done = db_bulk_insert_done,
  prepare = db_prepare,
  bind_param = db_bind_param,
  bind_result = db_bind_result,
  execute = db_execute,
  store_results = db_store_results,
  free_results = db_free_results,
  close = db_close,
  DB_ERROR_NONE = DB_ERROR_NONE,
  DB_ERROR_RESTART_TRANSACTION = DB_ERROR_RESTART_TRANSACTION,
  DB_ERROR_FAILED = DB_ERROR_FAILED,
}
