//! Text and prepared statements, their parameters, results and rows.

use std::ffi::{CString, c_char, c_int, c_ulong, c_void};
use std::mem;
use std::ptr;

use super::bytes_of;
use super::connections::guarded;
use crate::host::{Reply, SqlCall, SqlError, StatementId, Value};
use crate::session::{NONE, SqlConnection, SqlResult, SqlRow, SqlValue};

pub(super) fn publish(connection: &mut SqlConnection, reply: Option<Reply>, statement: *mut c_void) -> *mut SqlResult {
    let Some(reply) = reply else { return ptr::null_mut() };
    let owner: *mut SqlConnection = connection;
    let result = &mut connection.result;
    result.counter = reply.class as c_int;
    result.rows = u32::try_from(reply.rows).unwrap_or(u32::MAX);
    result.columns = reply.columns;
    result.statement = statement;
    result.row = ptr::null_mut();
    result.connection = owner;
    result
}

/// A bound parameter, as in MySQL's C API. `buffer` holds a number of its type or `data_len` bytes. Lua owns it.
#[repr(C)]
#[derive(Clone, Copy)]
struct SqlBind {
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
struct SqlStatement {
    connection: *mut SqlConnection,
    /// The connection's generation when the statement was prepared. A later one cannot run it.
    generation: u64,
    id: Option<StatementId>,
    query: Vec<u8>,
    binds: Vec<SqlBind>,
    values: Vec<Value<'static>>,
}

/// Returns the connection of a result, or None if the result is null. The pointers overlap, so neither may be a
/// reference while the other is used.
unsafe fn connection_of<'a>(result: *mut SqlResult) -> Option<&'a mut SqlConnection> {
    unsafe { result.as_ref().and_then(|result| result.connection.as_mut()) }
}

symbols! {
    fn db_query(connection: &mut SqlConnection, query: *const c_char, length: usize) -> *mut SqlResult {
        let query = unsafe { bytes_of(query, length) };
        if !connection.drain() {
            return ptr::null_mut();
        }
        let reply = connection.run(query, SqlCall::Query, |link| link.query(query).map(Some));
        publish(connection, reply, ptr::null_mut())
    }

    fn db_fetch_row(result: *mut SqlResult) -> *mut SqlRow {
        let Some(connection) = (unsafe { connection_of(result) }) else { return ptr::null_mut() };
        let Some(link) = connection.link.as_deref_mut().filter(|_| connection.result.columns > 0) else { return ptr::null_mut() };
        let buffer = &mut connection.row;
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

    fn db_more_results(connection: &SqlConnection) -> bool {
        connection.more_results
    }

    fn db_next_result(connection: &mut SqlConnection) -> *mut SqlResult {
        if !connection.more_results {
            connection.error = NONE;
            return ptr::null_mut();
        }
        let reply = connection.run(b"", SqlCall::Query, |link| link.next_result());
        publish(connection, reply, ptr::null_mut())
    }

    fn db_free_results(_result: *mut SqlResult) -> c_int {
        0
    }

    fn bakeoff_column_name(result: *mut SqlResult, index: u32) -> *const c_char {
        let Some(connection) = (unsafe { connection_of(result) }) else { return ptr::null() };
        let name = connection.link.as_deref().and_then(|link| link.column_name(index));
        let Some(name) = name.and_then(|name| CString::new(name).ok()) else { return ptr::null() };
        connection.row.name = name;
        connection.row.name.as_ptr()
    }

    fn db_prepare(connection: *mut SqlConnection, query: *const c_char, length: usize) -> Option<Box<SqlStatement>> {
        let (owner, query) = unsafe { (&mut *connection, bytes_of(query, length)) };
        if !owner.drain() {
            return None;
        }
        let mut id = None;
        owner.run(query, SqlCall::Prepare, |link| {
            id = Some(link.prepare(query)?);
            Ok(None)
        });
        id?;
        let (generation, query) = (owner.generation, query.to_vec());
        Some(Box::new(SqlStatement { connection, generation, id, query, binds: Vec::new(), values: Vec::new() }))
    }

    /// Binds parameters to Lua's memory, which is read at each execution.
    fn db_bind_param(statement: &mut SqlStatement, binds: *const SqlBind, length: usize) -> c_int {
        statement.binds.clear();
        if length > 0 {
            statement.binds.extend_from_slice(unsafe { std::slice::from_raw_parts(binds, length) });
        }
        statement.values.reserve(length);
        0
    }

    /// Does nothing. Rows are fetched with `fetch_row`, also for prepared statements.
    fn db_bind_result(_statement: *mut SqlStatement, _results: *const SqlBind, _length: usize) -> c_int {
        0
    }

    fn db_execute(statement: *mut SqlStatement) -> *mut SqlResult {
        let (owner, connection) = unsafe { (&mut *statement, &mut *(*statement).connection) };
        let Some(id) = owner.id.filter(|_| connection.generation == owner.generation) else {
            let error = SqlError::client(2030, "the statement or its connection is closed");
            connection.fail(&error, &owner.query, SqlCall::Query);
            return ptr::null_mut();
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

    fn db_stmt_next_result(statement: &SqlStatement) -> *mut SqlResult {
        unsafe { db_next_result(&mut *statement.connection) }
    }

    /// Closes the statement on its server. Its memory stays until Lua collects it.
    fn db_close(statement: Option<&mut SqlStatement>) -> c_int {
        let Some(owner) = statement else { return 1 };
        // SAFETY: connections live as long as their session.
        let connection = unsafe { &mut *owner.connection };
        if let (Some(id), Some(link)) = (owner.id.take(), connection.link.as_deref_mut())
            && connection.generation == owner.generation
        {
            link.close_statement(id);
        }
        0
    }

    fn bakeoff_statement_free(statement: Option<Box<SqlStatement>>) {
        let mut statement = statement;
        unsafe { db_close(statement.as_deref_mut()) };
    }
}
