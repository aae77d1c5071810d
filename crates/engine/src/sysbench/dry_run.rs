//! `--mysql-dry-run`: a connection to nowhere, where every statement succeeds at once and returns nothing.

use bakeoff_script::host::{Connection, QueryClass, Reply, SqlError, StatementId, Value};

use super::session::ServerFacts;

/// Counts its statements, so that each has a number.
#[derive(Debug, Default)]
pub(super) struct DryRun {
    statements: u32,
}

const DONE: Reply = Reply {
    class: QueryClass::Other,
    columns: 0,
    rows: 0,
    affected_rows: 0,
    last_insert_id: 0,
    more_results: false,
};

impl DryRun {
    pub(super) fn facts() -> ServerFacts {
        ServerFacts {
            version: "none (dry run)".to_owned(),
            charset: String::new(),
            collation: String::new(),
            tls_cipher: None,
        }
    }
}

impl Connection for DryRun {
    fn query(&mut self, _sql: &[u8]) -> Result<Reply, SqlError> {
        Ok(DONE)
    }

    fn prepare(&mut self, _sql: &[u8]) -> Result<StatementId, SqlError> {
        self.statements += 1;
        Ok(StatementId(self.statements))
    }

    fn execute(
        &mut self,
        _statement: StatementId,
        _values: &[Value<'_>],
    ) -> Result<Reply, SqlError> {
        Ok(DONE)
    }

    fn close_statement(&mut self, _statement: StatementId) {}

    fn next_result(&mut self) -> Result<Option<Reply>, SqlError> {
        Ok(None)
    }

    fn fetch_row(&mut self, _row: &mut Vec<Option<Vec<u8>>>) -> Result<bool, SqlError> {
        Ok(false)
    }

    fn column_name(&self, _index: u32) -> Option<&str> {
        None
    }

    fn reconnect(&mut self) -> Result<(), SqlError> {
        Ok(())
    }

    fn charset(&self) -> (&str, &str) {
        ("", "")
    }
}
