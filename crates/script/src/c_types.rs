//! The C structures that Lua holds pointers to, and the memory they live in. Their functions are in [`crate::symbols`].
//!
//! Fields that scripts read come first, in the order of the C declarations; the rest is Rust's.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;

use crate::host::Connection;
use crate::random::Texts;

/// No error; ignorable; ends the script.
pub(crate) const NONE: c_int = 0;
pub(crate) const IGNORABLE: c_int = 1;
pub(crate) const FATAL: c_int = 2;

/// Lua's `sql_driver`; there is one.
#[repr(C)]
pub(crate) struct SqlDriver {
    short_name: *const c_char,
    long_name: *const c_char,
}

impl SqlDriver {
    pub(crate) fn mysql() -> Self {
        Self {
            short_name: c"mysql".as_ptr(),
            long_name: c"MySQL driver".as_ptr(),
        }
    }
}

/// A connection: the fields of Lua's `sql_connection`, then ours.
#[repr(C)]
pub(crate) struct SqlConnection {
    pub(crate) error: c_int,
    pub(crate) code: c_int,
    pub(crate) state: *const c_char,
    pub(crate) message: *const c_char,
    pub(crate) driver: *const SqlDriver,
    pub(crate) texts: [CString; 2],
    pub(crate) link: Option<Box<dyn Connection>>,
    pub(crate) more_results: bool,
    pub(crate) result: SqlResult,
    pub(crate) row: RowBuffer,
    pub(crate) bulk: Bulk,
    /// Counts the connections that have lived in this memory.
    pub(crate) generation: u64,
}

impl SqlConnection {
    fn new() -> Self {
        let texts = [CString::default(), CString::default()];
        Self {
            error: NONE,
            code: 0,
            state: texts[0].as_ptr(),
            message: texts[1].as_ptr(),
            driver: ptr::null(),
            texts,
            link: None,
            more_results: false,
            result: SqlResult::default(),
            row: RowBuffer::default(),
            bulk: Bulk::default(),
            generation: 0,
        }
    }
}

/// `text` as a C string; a zero byte becomes a blank.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// Lua's `sql_result`: the one live result of a connection.
#[repr(C)]
pub(crate) struct SqlResult {
    pub(crate) counter: c_int,
    pub(crate) rows: u32,
    pub(crate) columns: u32,
    pub(crate) statement: *mut c_void,
    pub(crate) row: *mut SqlRow,
    pub(crate) connection: *mut SqlConnection,
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

/// Lua's `sql_value`; a null pointer is NULL.
#[repr(C)]
pub(crate) struct SqlValue {
    pub(crate) length: u32,
    pub(crate) start: *const u8,
}

/// Lua's `sql_row`.
#[repr(C)]
pub(crate) struct SqlRow {
    pub(crate) unused: *const c_void,
    pub(crate) values: *const SqlValue,
}

/// The last row fetched, kept until the next.
#[derive(Default)]
pub(crate) struct RowBuffer {
    pub(crate) fields: Vec<Option<Vec<u8>>>,
    pub(crate) values: Vec<SqlValue>,
    pub(crate) row: Option<Box<SqlRow>>,
    pub(crate) name: CString,
}

/// Size of a statement when the script sets none: sysbench's.
const DEFAULT_LIMIT_BYTES: usize = 512 * 1024;

/// The statement under way: `head` alone, or `head` and rows.
pub(crate) struct Bulk {
    pub(crate) statement: Vec<u8>,
    pub(crate) head_length: usize,
    pub(crate) limit: usize,
    /// What `sbtest` rows hold instead of digits, and the characters of `c` and `pad`.
    pub(crate) texts: Option<(Texts, [usize; 2])>,
}

impl Default for Bulk {
    fn default() -> Self {
        Self {
            statement: Vec::new(),
            head_length: 0,
            limit: DEFAULT_LIMIT_BYTES,
            texts: None,
        }
    }
}

/// All connections of a session, open ones and memory to use again.
#[derive(Default)]
pub(crate) struct ConnectionPool {
    all: RefCell<Vec<*mut SqlConnection>>,
    pub(crate) free: RefCell<Vec<*mut SqlConnection>>,
}

impl ConnectionPool {
    pub(crate) fn take(&self) -> *mut SqlConnection {
        if let Some(connection) = self.free.borrow_mut().pop() {
            return connection;
        }
        let connection = Box::into_raw(Box::new(SqlConnection::new()));
        self.all.borrow_mut().push(connection);
        connection
    }
}

impl Drop for ConnectionPool {
    fn drop(&mut self) {
        for connection in self.all.get_mut().drain(..) {
            // SAFETY: boxed in `take`, listed once; the Lua state that held pointers to it is closed by now.
            drop(unsafe { Box::from_raw(connection) });
        }
    }
}
