//! Prepared statements of one connection, in either mode.

use bakeoff_script::host::{StatementId, Value};
use bakeoff_wire::command::{BoundTypes, Parameter};
use bakeoff_wire::template::Template;

/// A statement as the script holds it.
pub(super) enum Statement {
    /// Prepared by the server.
    Server(ServerStatement),
    /// Text, into which literals are put.
    Text(Template),
}

/// What COM_STMT_EXECUTE needs.
pub(super) struct ServerStatement {
    pub(super) sql: Box<[u8]>,
    /// The server's number, of the session `generation`.
    pub(super) id: u32,
    pub(super) parameters: usize,
    pub(super) types: BoundTypes,
    /// Counts the client's sessions: a number of an earlier one means nothing to the server.
    pub(super) generation: u32,
}

/// Lower bits of an id, its place: 4 million statements may be open at a time.
const PLACE_BITS: u32 = 22;
const PLACES: u32 = (1 << PLACE_BITS) - 1;

/// The open statements. An id is a place and, in its upper bits, how often the place was taken before: a closed id stays closed, until
/// its place has been taken a thousand times more.
#[derive(Default)]
pub(super) struct Statements {
    places: Vec<Place>,
    /// Places whose statement was closed.
    free: Vec<usize>,
}

struct Place {
    /// Of the statement that is here, or was here last.
    id: u32,
    statement: Option<Statement>,
}

impl Statements {
    pub(super) fn add(&mut self, statement: Statement) -> StatementId {
        let statement = Some(statement);
        if let Some(place) = self.free.pop() {
            let id = self.places[place].id.wrapping_add(1 << PLACE_BITS);
            self.places[place] = Place { id, statement };
            StatementId(id)
        } else {
            let id = self.places.len() as u32;
            self.places.push(Place { id, statement });
            StatementId(id)
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: StatementId) -> Option<&mut Statement> {
        let place = self.places.get_mut((id.0 & PLACES) as usize)?;
        place.statement.as_mut().filter(|_| place.id == id.0)
    }

    pub(super) fn remove(&mut self, id: StatementId) -> Option<Statement> {
        self.get_mut(id)?;
        let place = (id.0 & PLACES) as usize;
        self.free.push(place);
        self.places[place].statement.take()
    }
}

#[inline]
pub(super) fn parameter<'a>(value: &Value<'a>) -> Parameter<'a> {
    match *value {
        Value::Null => Parameter::Null,
        Value::Int(integer) => Parameter::Int(integer),
        Value::Double(float) => Parameter::Double(float),
        Value::Bytes(bytes) => Parameter::Bytes(bytes),
    }
}

/// BEGIN, COMMIT, ROLLBACK and START TRANSACTION are not prepared: some servers cannot, and the others gain nothing by it.
pub(super) fn controls_transaction(sql: &[u8]) -> bool {
    let mut words = sql
        .split(|byte| byte.is_ascii_whitespace() || *byte == b';')
        .filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default();
    let is = |word: &[u8]| first.eq_ignore_ascii_case(word);
    is(b"BEGIN")
        || is(b"COMMIT")
        || is(b"ROLLBACK")
        || is(b"START")
            && words
                .next()
                .is_some_and(|word| word.eq_ignore_ascii_case(b"TRANSACTION"))
}

#[cfg(test)]
#[path = "../../tests/unit/net_statement.rs"]
mod tests;
