//! `db_bulk_insert_…`: multi-row INSERTs, in a buffer per connection that is sent when it is full.

use std::ffi::{c_char, c_int};

use super::bytes_of;
use crate::host::SqlCall;
use crate::random::{Generator, StreamKind, Texts, push_digit_groups, push_row};
use crate::session::{Bulk, NONE, Random, SqlConnection, with_current, with_random};

impl Bulk {
    fn is_empty(&self) -> bool {
        self.statement.len() == self.head_length
    }
}

/// Characters of `c` and `pad` in sysbench's rows.
const SBTEST_CHARACTERS: [usize; 2] = [119, 59];
/// Longest such row: both texts, two numbers and the punctuation.
const SBTEST_ROW_BYTES: usize = 119 + 59 + 20 + 10 + 9;

impl SqlConnection {
    /// Makes room for another row: sends the statement if it would become too long, and writes the comma.
    fn begin_row(&mut self, row_bytes: usize) -> Result<(), c_int> {
        self.error = NONE;
        let bulk = &self.bulk;
        let is_full = !bulk.is_empty() && bulk.statement.len() + 1 + row_bytes > bulk.limit;
        if is_full && self.send_rows(SqlCall::BulkNext) != NONE {
            return Err(self.error);
        }
        if !self.bulk.is_empty() {
            self.bulk.statement.push(b',');
        }
        Ok(())
    }

    fn send_rows(&mut self, call: SqlCall) -> c_int {
        if self.bulk.is_empty() {
            return NONE;
        }
        let mut statement = std::mem::take(&mut self.bulk.statement);
        if self.drain() {
            self.run(&statement, call, |link| link.query(&statement).map(Some));
        }
        statement.truncate(self.bulk.head_length);
        self.bulk.statement = statement;
        self.error
    }

    fn add_sbtest_rows(&mut self, generator: &mut Generator, ids: [f64; 2], key_range: u32) -> Result<(), c_int> {
        let text_bytes = self.bulk.texts.as_ref().map_or(0, |(_, [c, pad])| Texts::max_bytes(c + pad));
        for id in ids[0] as u64..=ids[1] as u64 {
            self.begin_row(SBTEST_ROW_BYTES + text_bytes)?;
            let Bulk { statement, texts, .. } = &mut self.bulk;
            let k = with_random(|Random { distributions, .. }| distributions.default(generator, 1, key_range));
            match texts {
                None => push_row(id, k, SBTEST_CHARACTERS, statement, |characters, out| {
                    push_digit_groups(generator, characters, out);
                }),
                Some((texts, lengths)) => {
                    push_row(id, k, *lengths, statement, |characters, out| texts.draw(generator, characters, out));
                }
            }
        }
        Ok(())
    }
}

symbols! {
    fn db_bulk_insert_init(connection: &mut SqlConnection, query: *const c_char, length: usize) -> c_int {
        let Bulk { statement, head_length, .. } = &mut connection.bulk;
        statement.clear();
        statement.extend_from_slice(unsafe { bytes_of(query, length) });
        *head_length = statement.len();
        connection.error = NONE;
        NONE
    }

    fn db_bulk_insert_next(connection: &mut SqlConnection, values: *const c_char, length: usize) -> c_int {
        if let Err(error) = connection.begin_row(length) {
            return error;
        }
        connection.bulk.statement.extend_from_slice(unsafe { bytes_of(values, length) });
        NONE
    }

    fn db_bulk_insert_done(connection: &mut SqlConnection) -> c_int {
        connection.error = NONE;
        connection.send_rows(SqlCall::BulkDone)
    }

    fn bakeoff_bulk_limit(connection: &mut SqlConnection, bytes: f64) {
        connection.bulk.limit = bytes.max(1024.0) as usize;
    }

    /// Adds rows `first..=last`. They depend on seed, table, piece and the distribution, not on the thread.
    fn bakeoff_bulk_sbtest_rows(
        connection: &mut SqlConnection, table: u32, piece: f64, first: f64, last: f64, key_range: u32,
    ) -> c_int {
        let seed = with_current(|session| session.seed);
        let mut generator = Generator::for_stream(seed, StreamKind::Rows, u64::from(table), piece as u64);
        connection.error = NONE;
        connection.add_sbtest_rows(&mut generator, [first, last], key_range).err().unwrap_or(NONE)
    }
}
