//! Text and prepared statements, their parameters, results and rows.

use std::ffi::{CString, c_char, c_int, c_ulong, c_void};
use std::mem;
use std::ptr;

use super::bytes_of;
use super::connections::guarded;
use crate::host::{QueryClass, Reply, SqlCall, SqlError, StatementId, Value};
use crate::session::{NONE, SqlConnection, SqlResult, SqlRow, SqlValue};

pub(super) const CDEF: &str = r"
typedef struct { uint32_t len; const char *ptr; } sql_value;
typedef struct { void *ptr; sql_value *values; } sql_row;
typedef struct sql_statement sql_statement;
typedef struct sql_result {
  sb_counter_type counter; uint32_t nrows; uint32_t nfields;
  sql_statement *statement; sql_row *row; sql_connection *connection;
} sql_result;
sql_result *db_query(sql_connection *con, const char *query, size_t len);
sql_row *db_fetch_row(sql_result *rs);
bool db_more_results(sql_connection *con);
sql_result *db_next_result(sql_connection *con);
int db_free_results(sql_result *rs);
const char *bakeoff_column_name(sql_result *rs, uint32_t index);
typedef enum {
  SQL_TYPE_NONE, SQL_TYPE_TINYINT, SQL_TYPE_SMALLINT, SQL_TYPE_INT, SQL_TYPE_BIGINT, SQL_TYPE_FLOAT, SQL_TYPE_DOUBLE,
  SQL_TYPE_TIME, SQL_TYPE_DATE, SQL_TYPE_DATETIME, SQL_TYPE_TIMESTAMP, SQL_TYPE_CHAR, SQL_TYPE_VARCHAR
} sql_bind_type_t;
struct sql_statement { sql_connection *connection; };
typedef struct {
  sql_bind_type_t type; void *buffer; unsigned long *data_len; unsigned long max_len; char *is_null;
} sql_bind;
sql_statement *db_prepare(sql_connection *con, const char *query, size_t len);
int db_bind_param(sql_statement *stmt, sql_bind *params, size_t len);
int db_bind_result(sql_statement *stmt, sql_bind *results, size_t len);
sql_result *db_execute(sql_statement *stmt);
sql_result *db_stmt_next_result(sql_statement *stmt);
int db_close(sql_statement *stmt);
void bakeoff_statement_free(sql_statement *stmt);
";

pub(super) fn publish(connection: &mut SqlConnection, reply: Option<Reply>, statement: *mut c_void) -> *mut SqlResult {
    let Some(reply) = reply else {
        return ptr::null_mut();
    };
    let owner: *mut SqlConnection = connection;
    let result = &mut connection.result;
    result.counter = match reply.class {
        QueryClass::Other => 0,
        QueryClass::Read => 1,
        QueryClass::Write => 2,
    };
    result.rows = u32::try_from(reply.rows).unwrap_or(u32::MAX);
    result.columns = reply.columns;
    result.statement = statement;
    result.row = ptr::null_mut();
    result.connection = owner;
    result
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn db_query(
    connection: *mut SqlConnection,
    query: *const c_char,
    length: usize,
) -> *mut SqlResult {
    let (connection, query) = unsafe { (&mut *connection, bytes_of(query, length)) };
    if !connection.drain() {
        return ptr::null_mut();
    }
    let reply = connection.run(query, SqlCall::Query, |link| link.query(query).map(Some));
    publish(connection, reply, ptr::null_mut())
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn db_fetch_row(result: *mut SqlResult) -> *mut SqlRow {
    let Some(connection) = (unsafe { result.as_ref().and_then(|result| result.connection.as_mut()) }) else {
        return ptr::null_mut();
    };
    let buffer = &mut connection.row;
    let Some(link) = connection.link.as_deref_mut().filter(|_| connection.result.columns > 0) else {
        return ptr::null_mut();
    };
    match guarded(|_| link.fetch_row(&mut buffer.fields)) {
        Ok(true) => {
            buffer.values.clear();
            buffer.values.extend(buffer.fields.iter().map(|field| match field {
                Some(bytes) => SqlValue { length: bytes.len() as u32, start: bytes.as_ptr() },
                None => SqlValue { length: 0, start: ptr::null() },
            }));
            buffer.row.values = buffer.values.as_ptr();
            connection.result.row = &raw mut buffer.row;
            connection.result.row
        }
        Ok(false) => ptr::null_mut(),
        Err(error) => {
            connection.fail(&error, b"", SqlCall::Query);
            ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn db_more_results(connection: *mut SqlConnection) -> bool {
    unsafe { (*connection).more_results }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn db_next_result(connection: *mut SqlConnection) -> *mut SqlResult {
    let connection = unsafe { &mut *connection };
    if !connection.more_results {
        connection.error = NONE;
        return ptr::null_mut();
    }
    let reply = connection.run(b"", SqlCall::Query, |link| link.next_result());
    publish(connection, reply, ptr::null_mut())
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn db_free_results(_result: *mut SqlResult) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn bakeoff_column_name(result: *mut SqlResult, index: u32) -> *const c_char {
    let Some(connection) = (unsafe { result.as_ref().and_then(|result| result.connection.as_mut()) }) else {
        return ptr::null();
    };
    let name = connection.link.as_deref().and_then(|link| link.column_name(index));
    match name.and_then(|name| CString::new(name).ok()) {
        Some(name) => {
            connection.row.name = name;
            connection.row.name.as_ptr()
        }
        None => ptr::null(),
    }
}

/// A bound parameter, as in MySQL's C API. `buffer` has a number as wide as its type, or `data_len` bytes. Lua owns the memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct SqlBind {
    kind: c_int,
    buffer: *const c_void,
    data_len: *const c_ulong,
    max_len: c_ulong,
    is_null: *const c_char,
}

impl SqlBind {
    unsafe fn value<'a>(&self) -> Value<'a> {
        unsafe {
            if self.buffer.is_null() || (!self.is_null.is_null() && *self.is_null != 0) {
                return Value::Null;
            }
            match self.kind {
                1 => Value::Int(self.number::<i8>().into()),
                2 => Value::Int(self.number::<i16>().into()),
                3 => Value::Int(self.number::<i32>().into()),
                4 => Value::Int(self.number()),
                5 => Value::Double(self.number::<f32>().into()),
                6 => Value::Double(self.number()),
                7..=12 => Value::Bytes(bytes_of(self.buffer.cast(), self.length())),
                _ => Value::Null,
            }
        }
    }

    unsafe fn number<T>(&self) -> T {
        unsafe { self.buffer.cast::<T>().read_unaligned() }
    }

    /// Returns the size of a text: `data_len`, but no more than `max_len`, or either alone if the other is not set.
    unsafe fn length(&self) -> usize {
        let length = match unsafe { self.data_len.as_ref() } {
            Some(&length) if self.max_len == 0 => length,
            Some(&length) => length.min(self.max_len),
            None => self.max_len,
        };
        length as usize
    }
}

#[repr(C)]
pub(crate) struct SqlStatement {
    connection: *mut SqlConnection,
    /// The connection's generation when the statement was prepared. A later one cannot run it.
    generation: u64,
    id: Option<StatementId>,
    query: Vec<u8>,
    binds: Vec<SqlBind>,
    values: Vec<Value<'static>>,
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn db_prepare(
    connection: *mut SqlConnection,
    query: *const c_char,
    length: usize,
) -> *mut SqlStatement {
    let (owner, query) = unsafe { (&mut *connection, bytes_of(query, length)) };
    if !owner.drain() {
        return ptr::null_mut();
    }
    let mut id = None;
    owner.run(query, SqlCall::Prepare, |link| {
        id = Some(link.prepare(query)?);
        Ok(None)
    });
    if id.is_none() {
        return ptr::null_mut();
    }
    Box::into_raw(Box::new(SqlStatement {
        connection,
        generation: owner.generation,
        id,
        query: query.to_vec(),
        binds: Vec::new(),
        values: Vec::new(),
    }))
}

/// Binds parameters to Lua's memory, which is read at each execution.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn db_bind_param(
    statement: *mut SqlStatement,
    binds: *const SqlBind,
    length: usize,
) -> c_int {
    let statement = unsafe { &mut *statement };
    statement.binds.clear();
    if length > 0 {
        statement.binds.extend_from_slice(unsafe { std::slice::from_raw_parts(binds, length) });
    }
    statement.values.reserve(length);
    0
}

/// Does nothing. Rows are fetched with `fetch_row`, also for prepared statements.
#[unsafe(no_mangle)]
pub(super) extern "C" fn db_bind_result(
    _statement: *mut SqlStatement,
    _results: *const SqlBind,
    _length: usize,
) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn db_execute(statement: *mut SqlStatement) -> *mut SqlResult {
    let (owner, connection) = unsafe { (&mut *statement, &mut *(*statement).connection) };
    let id = match owner.id {
        Some(id) if connection.generation == owner.generation => id,
        _ => {
            connection.fail(
                &SqlError::client(2030, "the statement or its connection is closed"),
                &owner.query,
                SqlCall::Query,
            );
            return ptr::null_mut();
        }
    };
    if !connection.drain() {
        return ptr::null_mut();
    }
    let mut values: Vec<Value<'static>> = mem::take(&mut owner.values);
    // SAFETY: the values are used before this function returns, and Lua does not run until then.
    values.extend(owner.binds.iter().map(|bind| unsafe { bind.value() }));
    let reply = connection.run(&owner.query, SqlCall::Execute, |link| link.execute(id, &values).map(Some));
    values.clear();
    owner.values = values;
    publish(connection, reply, statement.cast())
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn db_stmt_next_result(statement: *mut SqlStatement) -> *mut SqlResult {
    unsafe { db_next_result((*statement).connection) }
}

/// Closes the statement on its server. Its memory stays until Lua collects it.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn db_close(statement: *mut SqlStatement) -> c_int {
    let Some(owner) = (unsafe { statement.as_mut() }) else {
        return 1;
    };
    // SAFETY: connections live as long as their session.
    let connection = unsafe { &mut *owner.connection };
    if let (Some(id), Some(link)) = (owner.id.take(), connection.link.as_deref_mut())
        && connection.generation == owner.generation
    {
        link.close_statement(id);
    }
    0
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn bakeoff_statement_free(statement: *mut SqlStatement) {
    if !statement.is_null() {
        unsafe {
            db_close(statement);
            drop(Box::from_raw(statement));
        }
    }
}
