//! Text statements, results and rows.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;

use super::bytes_of;
use super::connections::{NONE, SqlConnection, guarded};
use crate::host::{QueryClass, Reply};
use crate::session::current;

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
";

/// The one live result of a connection.
#[repr(C)]
pub(crate) struct SqlResult {
    counter: c_int,
    rows: u32,
    columns: u32,
    statement: *mut c_void,
    row: *mut SqlRow,
    connection: *mut SqlConnection,
}

impl Default for SqlResult {
    fn default() -> Self {
        Self {
            counter: 0,
            rows: 0,
            columns: 0,
            statement: ptr::null_mut(),
            row: ptr::null_mut(),
            connection: ptr::null_mut(),
        }
    }
}

#[repr(C)]
struct SqlValue {
    length: u32,
    start: *const u8,
}

/// A row as Lua sees it.
#[repr(C)]
pub(crate) struct SqlRow {
    unused: *const c_void,
    values: *const SqlValue,
}

/// The last row fetched, kept until the next.
#[derive(Default)]
pub(crate) struct RowBuffer {
    fields: Vec<Option<Vec<u8>>>,
    values: Vec<SqlValue>,
    row: Option<Box<SqlRow>>,
    name: CString,
}

/// What Lua gets for a reply: the connection's result when there are columns, null otherwise.
pub(super) fn publish(
    connection: &mut SqlConnection,
    reply: Option<Reply>,
    statement: *mut c_void,
) -> *mut SqlResult {
    let Some(reply) = reply.filter(|reply| reply.columns > 0) else {
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

/// Runs a text statement. Null: no result set, or an error (then `con.error` is not 0).
///
/// # Safety
/// `connection` is from this crate, `query` has `length` bytes.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn db_query(
    connection: *mut SqlConnection,
    query: *const c_char,
    length: usize,
) -> *mut SqlResult {
    // SAFETY: as the caller promises.
    let (connection, query) = unsafe { (&mut *connection, bytes_of(query, length)) };
    connection.drain();
    let reply = connection.run(query, |link| link.query(query).map(Some));
    publish(connection, reply, ptr::null_mut())
}

/// The next row, or null after the last (or on an error: then `con.error` is not 0).
///
/// # Safety
/// `result` is null or from this crate.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn db_fetch_row(result: *mut SqlResult) -> *mut SqlRow {
    // SAFETY: as the caller promises; a result's connection lives as long as its session.
    let Some(connection) = (unsafe {
        result
            .as_ref()
            .and_then(|result| result.connection.as_mut())
    }) else {
        return ptr::null_mut();
    };
    let buffer = &mut connection.row;
    let Some(link) = connection.link.as_deref_mut() else {
        return ptr::null_mut();
    };
    match guarded(|_| link.fetch_row(&mut buffer.fields)) {
        Ok(true) => {
            buffer.values.clear();
            buffer
                .values
                .extend(buffer.fields.iter().map(|field| match field {
                    Some(bytes) => SqlValue {
                        length: bytes.len() as u32,
                        start: bytes.as_ptr(),
                    },
                    None => SqlValue {
                        length: 0,
                        start: ptr::null(),
                    },
                }));
            let values = buffer.values.as_ptr();
            let row = buffer.row.insert(Box::new(SqlRow {
                unused: ptr::null(),
                values,
            }));
            connection.result.row = &raw mut **row;
            connection.result.row
        }
        Ok(false) => ptr::null_mut(),
        Err(error) => {
            connection.fail(current(), &error, b"");
            ptr::null_mut()
        }
    }
}

/// # Safety
/// `connection` is from this crate.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn db_more_results(connection: *mut SqlConnection) -> bool {
    // SAFETY: as the caller promises.
    unsafe { (*connection).more_results }
}

/// The next result of a multi-statement; null when there is none, it has no columns, or on an error.
///
/// # Safety
/// `connection` is from this crate.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn db_next_result(connection: *mut SqlConnection) -> *mut SqlResult {
    // SAFETY: as the caller promises.
    let connection = unsafe { &mut *connection };
    if !connection.more_results {
        connection.error = NONE;
        return ptr::null_mut();
    }
    let reply = connection.run(b"", |link| link.next_result());
    publish(connection, reply, ptr::null_mut())
}

/// Results live in their connection: there is nothing to free.
#[unsafe(no_mangle)]
pub(super) extern "C" fn db_free_results(_result: *mut SqlResult) -> c_int {
    0
}

/// Name of a column, valid until the next call; null when there is none.
///
/// # Safety
/// `result` is null or from this crate.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn bakeoff_column_name(
    result: *mut SqlResult,
    index: u32,
) -> *const c_char {
    // SAFETY: as the caller promises.
    let Some(connection) = (unsafe {
        result
            .as_ref()
            .and_then(|result| result.connection.as_mut())
    }) else {
        return ptr::null();
    };
    let name = connection
        .link
        .as_deref()
        .and_then(|link| link.column_name(index));
    match name.and_then(|name| CString::new(name).ok()) {
        Some(name) => {
            connection.row.name = name;
            connection.row.name.as_ptr()
        }
        None => ptr::null(),
    }
}
