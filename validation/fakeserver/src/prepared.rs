//! Prepared statements, with their replies ready encoded.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::packet::PacketWriter;
use crate::resultset::{Column, Form, put_table};
use crate::scanner;
use crate::settings::SessionFacts;
use crate::sql::{self, Action, Statement};

/// Prepared statements by their text, with their replies ready encoded: shared by all sessions of one thread, so that
/// ten thousand connections with the same statements cost no more than one.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    by_text: HashMap<String, Rc<Prepared>>,
}

#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) statement: Statement,
    pub(crate) parameters: u16,
    replies: RefCell<Vec<(Form, Vec<u8>)>>,
}

impl Catalogue {
    /// Texts kept; more of them (with literals) are not shared.
    const LIMIT: usize = 4096;

    pub(crate) fn prepare(&mut self, text: &str, facts: &SessionFacts) -> Rc<Prepared> {
        if let Some(known) = self.by_text.get(text) {
            return Rc::clone(known);
        }
        let statement = sql::read(text, facts);
        let prepared =
            Rc::new(Prepared { parameters: scanner::parameters(text), replies: RefCell::default(), statement });
        // What is not timed depends on the session that asks.
        if prepared.statement.timed && self.by_text.len() < Self::LIMIT {
            self.by_text.insert(text.to_owned(), Rc::clone(&prepared));
        }
        prepared
    }
}

impl Prepared {
    /// Columns of its result set; empty if it answers OK.
    pub(crate) fn columns(&self) -> &[Column] {
        match &self.statement.action {
            Action::Rows(table) => &table.columns,
            _ => &[],
        }
    }

    /// Appends the result set in this form, encoded once; false if there is none.
    pub(crate) fn put_rows(&self, form: Form, out: &mut Vec<u8>) -> bool {
        let Action::Rows(table) = &self.statement.action else { return false };
        let mut replies = self.replies.borrow_mut();
        let known = replies.iter().position(|(of, _)| *of == form).unwrap_or_else(|| {
            let mut encoded = Vec::new();
            put_table(&mut PacketWriter::new(&mut encoded, 1), table, form);
            replies.push((form, encoded));
            replies.len() - 1
        });
        out.extend_from_slice(&replies[known].1);
        true
    }
}
