//! `db_bulk_insert_…`: multi-row INSERTs, in a buffer per connection that is sent when it is full.

use std::ffi::{c_char, c_int};

use super::bytes_of;
use crate::host::SqlCall;
use crate::random::{Generator, SbtestRow, StreamKind, Texts, push_row};
use crate::session::{Bulk, NONE, Random, SqlConnection, with_current, with_random};

pub(super) const CDEF: &str = r"
int db_bulk_insert_init(sql_connection *con, const char *query, size_t len);
int db_bulk_insert_next(sql_connection *con, const char *values, size_t len);
int db_bulk_insert_done(sql_connection *con);
void bakeoff_bulk_limit(sql_connection *con, double bytes);
int bakeoff_bulk_sbtest_rows(sql_connection *con, uint32_t table, double piece, double first, double last, uint32_t key_range);
";

impl Bulk {
    fn begin(&mut self, head: &[u8]) {
        self.statement.clear();
        self.statement.extend_from_slice(head);
        self.head_length = self.statement.len();
    }

    fn is_empty(&self) -> bool {
        self.statement.len() == self.head_length
    }

    fn is_full_for(&self, row_bytes: usize) -> bool {
        !self.is_empty() && self.statement.len() + 1 + row_bytes > self.limit
    }

    fn sbtest_row_bytes(&self) -> usize {
        self.texts
            .as_ref()
            .map_or(SbtestRow::MAX_TUPLE_BYTES, |(_, [c, pad])| SbtestRow::MAX_TUPLE_BYTES + Texts::max_bytes(c + pad))
    }

    fn separate(&mut self) {
        if !self.is_empty() {
            self.statement.push(b',');
        }
    }
}

fn flush(connection: &mut SqlConnection, call: SqlCall) -> c_int {
    if connection.bulk.is_empty() {
        return NONE;
    }
    let statement = std::mem::take(&mut connection.bulk.statement);
    if connection.drain() {
        connection.run(&statement, call, |link| link.query(&statement).map(Some));
    }
    connection.bulk.statement = statement;
    let head_length = connection.bulk.head_length;
    connection.bulk.statement.truncate(head_length);
    connection.error
}

/// Starts a bulk insert: `query` is everything before the first row.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn db_bulk_insert_init(
    connection: *mut SqlConnection,
    query: *const c_char,
    length: usize,
) -> c_int {
    let (connection, query) = unsafe { (&mut *connection, bytes_of(query, length)) };
    connection.bulk.begin(query);
    connection.error = NONE;
    NONE
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn db_bulk_insert_next(
    connection: *mut SqlConnection,
    values: *const c_char,
    length: usize,
) -> c_int {
    let (connection, values) = unsafe { (&mut *connection, bytes_of(values, length)) };
    connection.error = NONE;
    if connection.bulk.is_full_for(length) && flush(connection, SqlCall::BulkNext) != NONE {
        return connection.error;
    }
    connection.bulk.separate();
    connection.bulk.statement.extend_from_slice(values);
    NONE
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn db_bulk_insert_done(connection: *mut SqlConnection) -> c_int {
    let connection = unsafe { &mut *connection };
    connection.error = NONE;
    flush(connection, SqlCall::BulkDone)
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn bakeoff_bulk_limit(connection: *mut SqlConnection, bytes: f64) {
    unsafe { (*connection).bulk.limit = bytes.max(1024.0) as usize };
}

/// Adds rows `first..=last` of table `table` straight into the statement. The rows depend only on (seed, table, piece)
/// and the distribution, not on the thread.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn bakeoff_bulk_sbtest_rows(
    connection: *mut SqlConnection,
    table: u32,
    piece: f64,
    first: f64,
    last: f64,
    key_range: u32,
) -> c_int {
    let connection = unsafe { &mut *connection };
    let seed = with_current(|session| session.seed);
    let mut generator = Generator::for_stream(seed, StreamKind::Rows, u64::from(table), piece as u64);
    connection.error = NONE;
    let row_bytes = connection.bulk.sbtest_row_bytes();
    for id in first as u64..=last as u64 {
        if connection.bulk.is_full_for(row_bytes) && flush(connection, SqlCall::BulkNext) != NONE {
            return connection.error;
        }
        connection.bulk.separate();
        let Bulk { statement, texts, .. } = &mut connection.bulk;
        with_random(|Random { distributions, .. }| match texts {
            None => SbtestRow::draw(&mut generator, distributions, key_range).push_tuple(id, statement),
            Some((texts, lengths)) => {
                let k = distributions.default(&mut generator, 1, key_range);
                push_row(id, k, *lengths, statement, |characters, out| texts.draw(&mut generator, characters, out));
            }
        });
    }
    NONE
}
