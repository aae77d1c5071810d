-- sysbench.sql: drivers, connections, statements, parameters, results.

local runtime = ...
local C = ffi.C

local sql = {
  type = {
    NONE = 0, TINYINT = 1, SMALLINT = 2, INT = 3, BIGINT = 4, FLOAT = 5, DOUBLE = 6,
    TIME = 7, DATE = 8, DATETIME = 9, TIMESTAMP = 10, CHAR = 11, VARCHAR = 12,
  },
  error = { NONE = 0, IGNORABLE = 1, FATAL = 2 },
}
sysbench.sql = sql

local NONE, IGNORABLE = sql.error.NONE, sql.error.IGNORABLE

-- Objects that must live as long as their key.
local anchors = setmetatable({}, { __mode = "k" })

local function text(pointer)
  return pointer == nil and "" or ffi.string(pointer)
end

-- Raises the message of a failed statement as error() would. Rust recognises the error by this very value.
-- `level` is the stack level of the script's own line.
local function raise_message(message, level)
  local at = debug.getinfo(level + 1, "Sl")
  if at and at.currentline >= 0 then
    message = string.format("%s:%d: %s", at.short_src, at.currentline, message)
  end
  runtime.statement_error = message
  error(message, 0)
end

-- Raises the error of the connection's last statement: a table to run the event again, or a message to end it.
-- `message` replaces the server's.
local function raise(con, query, level, message)
  local err = {
    connection = con,
    query = query,
    sql_errno = con.sql_errno,
    sql_state = text(con.sql_state),
    sql_errmsg = text(con.sql_errmsg),
  }
  err.message = string.format("SQL error, errno = %d, state = '%s': %s", err.sql_errno, err.sql_state, err.sql_errmsg)
  local ignorable = con.error == IGNORABLE
  if not ignorable and sysbench.hooks.sql_error_ignorable then
    ignorable = sysbench.hooks.sql_error_ignorable(err)
  end
  if ignorable then
    err.errcode = sysbench.error.RESTART_EVENT
    error(err)
  end
  raise_message(message or err.message, level + 1)
end

-- Drivers ------------------------------------------------------------------------------------------------------------

local driver_methods = {}

local target_fields = { host = "host", socket = "socket", user = "user", password = "password", database = "database", db = "database" }

-- Connects to the thread's own server, or to the one in a table (host, port, socket, user, password, db). Missing
-- fields are the thread's own.
function driver_methods:connect(target)
  local con
  if target == nil then
    con = C.db_connection_create(self)
  else
    -- Other values become strings, which must live as long as the call.
    local where, texts = ffi.new("bakeoff_target"), {}
    for key, value in pairs(target) do
      if target_fields[key] then
        texts[key] = tostring(value)
        where[target_fields[key]] = texts[key]
      elseif key == "port" then
        where.port = value
      else
        error(string.format("connect: unknown field '%s'; it takes host, port, socket, user, password, db", tostring(key)), 2)
      end
    end
    con = C.bakeoff_connect(self, where)
  end
  if con == nil then
    raise_message("connection creation failed", 2)
  end
  return ffi.gc(con, C.bakeoff_connection_collect)
end

function driver_methods:name()
  return ffi.string(self.sname)
end

ffi.metatype("sql_driver", {
  __index = driver_methods,
  __tostring = function() return "<sql_driver>" end,
})

function sql.driver(name)
  name = name or sysbench.opt.db_driver or "mysql"
  local driver = C.db_create(name)
  if driver == nil then
    error("failed to initialize the DB driver", 2)
  end
  return driver
end

-- Connections --------------------------------------------------------------------------------------------------------

local connection_methods = {}

function connection_methods:query(query)
  local rs = C.db_query(self, query, #query)
  if rs ~= nil then
    return rs
  end
  if self.error ~= NONE then
    raise(self, query, 2)
  end
  return nil
end

-- Returns the first row's columns as separate values, or nil without a row.
function connection_methods:query_row(query)
  local rs = C.db_query(self, query, #query)
  if rs == nil then
    if self.error ~= NONE then
      raise(self, query, 2)
    end
    return nil
  end
  local row = rs:fetch_row()
  if row == nil then
    return nil
  end
  return unpack(row, 1, rs.nfields)
end

function connection_methods:prepare(query)
  local stmt = C.db_prepare(self, query, #query)
  if stmt == nil then
    raise_message("SQL API error", 2)
  end
  stmt = ffi.gc(stmt, C.bakeoff_statement_free)
  anchors[stmt] = { connection = self, query = query }
  return stmt
end

-- `query` is everything before the first row: "INSERT INTO t (a, b) VALUES".
-- max_bytes (ours): longest statement, 512 KiB by default. It stays set for the connection.
function connection_methods:bulk_insert_init(query, max_bytes)
  if max_bytes then
    C.bakeoff_bulk_limit(self, max_bytes)
  end
  C.db_bulk_insert_init(self, query, #query)
  return true
end

function connection_methods:bulk_insert_next(values)
  if C.db_bulk_insert_next(self, values, #values) ~= NONE then
    raise(self, "bulk insert", 2, "db_bulk_insert_next() failed")
  end
  return true
end

function connection_methods:bulk_insert_done()
  if C.db_bulk_insert_done(self) ~= NONE then
    raise(self, "bulk insert", 2, "db_bulk_insert_done() failed")
  end
  return true
end

function connection_methods:more_results()
  return C.db_more_results(self)
end

function connection_methods:next_result()
  local rs = C.db_next_result(self)
  if rs ~= nil then
    return rs
  end
  if self.error ~= NONE then
    raise(self, nil, 2)
  end
  return nil
end

function connection_methods:reconnect()
  if C.db_connection_reconnect(self) ~= NONE then
    raise(self, nil, 2)
  end
  return 0
end

function connection_methods:disconnect()
  return C.db_connection_close(self) == 0
end

-- Returns `rs`, or raises the last statement's error.
function connection_methods:check_error(rs, query)
  if self.error ~= NONE then
    raise(self, query, 2)
  end
  if rs == nil then
    return nil
  end
  return rs
end

ffi.metatype("sql_connection", {
  __index = connection_methods,
  __tostring = function() return "<sql_connection>" end,
})

-- Parameters ---------------------------------------------------------------------------------------------------------

local param_tostring = function() return "<sql_param>" end

local number_methods = {}

function number_methods:set(value)
  if value == nil then
    self.is_null[0] = 1
  else
    self.buffer[0] = value
    self.is_null[0] = 0
  end
end

function number_methods:set_rand_str()
  error("set_rand_str is for parameters of type CHAR and VARCHAR", 2)
end

local text_methods = {}

-- Keeps all digits of a whole number below 2^63 and drops the suffix of a 64-bit integer.
local function number_text(value)
  if type(value) == "number" then
    local whole = value % 1 == 0 and math.abs(value) < 2^63
    return whole and string.format("%.0f", value) or tostring(value)
  end
  if ffi.istype("int64_t", value) or ffi.istype("uint64_t", value) then
    return (tostring(value):gsub("U?LL$", ""))
  end
  error(string.format("set: a text parameter takes a string or a number, not a %s", type(value)), 3)
end

-- Longer texts are cut to max_len; a number is set as its text.
function text_methods:set(value)
  if value == nil then
    self.is_null[0] = 1
    return
  end
  if type(value) ~= "string" then
    value = number_text(value)
  end
  local length = #value
  if length > self.max_len then
    length = self.max_len
  end
  ffi.copy(self.buffer, value, length)
  self.data_len[0] = length
  self.is_null[0] = 0
end

function text_methods:set_rand_str(format)
  local length = #format
  if length > self.max_len then
    length = self.max_len
  end
  C.bakeoff_rand_str(format, self.buffer, length)
  self.data_len[0] = length
  self.is_null[0] = 0
end

local number_param = { __index = number_methods, __tostring = param_tostring }
local text_param = { __index = text_methods, __tostring = param_tostring }

-- Buffers and bound types are those of the widest type, as in sysbench.
local function number_type(c_type, kind)
  return function()
    local param = {
      type = kind, buffer = ffi.new(c_type), data_len = ffi.new("unsigned long[1]", 8), max_len = 8,
      is_null = ffi.new("char[1]", 1),
    }
    return setmetatable(param, number_param)
  end
end

local function text_type(default_len)
  return function(max_len)
    max_len = max_len or default_len
    if type(max_len) ~= "number" or max_len < 0 then
      error("bind_create: a text parameter takes its largest length", 3)
    end
    -- One byte more: an empty buffer has no address.
    local param = {
      type = sql.type.VARCHAR, buffer = ffi.new("char[?]", max_len + 1), data_len = ffi.new("unsigned long[1]"), max_len = max_len,
      is_null = ffi.new("char[1]", 1),
    }
    return setmetatable(param, text_param)
  end
end

local whole, real = number_type("int64_t[1]", sql.type.BIGINT), number_type("double[1]", sql.type.DOUBLE)
local varchar, date = text_type(nil), text_type(26)
local makers = {
  [sql.type.TINYINT] = whole, [sql.type.SMALLINT] = whole, [sql.type.INT] = whole, [sql.type.BIGINT] = whole,
  [sql.type.FLOAT] = real, [sql.type.DOUBLE] = real,
  -- Dates and times go as text.
  [sql.type.TIME] = date, [sql.type.DATE] = date, [sql.type.DATETIME] = date, [sql.type.TIMESTAMP] = date,
  [sql.type.CHAR] = varchar, [sql.type.VARCHAR] = varchar,
}

-- Statements ---------------------------------------------------------------------------------------------------------

local statement_methods = {}

-- Creates a parameter of that type, NULL until it is set. CHAR and VARCHAR need max_len.
function statement_methods:bind_create(kind, max_len)
  local make = makers[kind]
  if not make then
    error("Unsupported argument type: " .. tostring(kind), 2)
  end
  -- Not a tail call: errors count the frames up to the script's line.
  local param = make(max_len)
  return param
end

-- One parameter for each `?`, in order. Their values are read at each execution.
function statement_methods:bind_param(...)
  local count = select("#", ...)
  if count == 0 then
    return nil
  end
  local params = { ... }
  local binds = ffi.new("sql_bind[?]", count)
  for i = 1, count do
    local param = params[i]
    if type(param) ~= "table" or not param.buffer then
      error(string.format("bind_param: argument %d is not a parameter (from bind_create)", i), 2)
    end
    local bind = binds[i - 1]
    bind.type = param.type
    bind.buffer = param.buffer
    bind.data_len = param.data_len
    bind.max_len = param.max_len
    bind.is_null = param.is_null
  end
  if anchors[self] then
    anchors[self].params = params
  end
  return C.db_bind_param(self, binds, count)
end

function statement_methods:execute()
  local rs = C.db_execute(self)
  if rs ~= nil then
    return rs
  end
  local con = self.connection
  if con.error ~= NONE then
    raise(con, anchors[self] and anchors[self].query, 2)
  end
  return nil
end

function statement_methods:next_result()
  local rs = C.db_stmt_next_result(self)
  if rs ~= nil then
    return rs
  end
  local con = self.connection
  if con.error ~= NONE then
    raise(con, anchors[self] and anchors[self].query, 2)
  end
  return nil
end

function statement_methods:close()
  return C.db_close(self)
end

ffi.metatype("sql_statement", {
  __index = statement_methods,
  __tostring = function() return "<sql_statement>" end,
})

ffi.metatype("sql_bind", {
  __tostring = function() return "<sql_bind>" end,
})

-- Results ------------------------------------------------------------------------------------------------------------

local result_methods = {}

-- The next row as an array of texts (nil for NULL); nil after the last.
function result_methods:fetch_row()
  local row = C.db_fetch_row(self)
  if row == nil then
    local con = self.connection
    if con.error ~= NONE then
      raise(con, nil, 2)
    end
    return nil
  end
  local out = {}
  for i = 0, self.nfields - 1 do
    local value = row.values[i]
    if value.ptr ~= nil then
      out[i + 1] = ffi.string(value.ptr, value.len)
    end
  end
  return out
end

-- Name of a column, from 1 (ours).
function result_methods:column_name(index)
  local name = C.bakeoff_column_name(self, index - 1)
  return name ~= nil and ffi.string(name) or nil
end

function result_methods:free()
  return C.db_free_results(self) == 0
end

ffi.metatype("sql_result", {
  __index = result_methods,
  __tostring = function() return "<sql_result>" end,
})
