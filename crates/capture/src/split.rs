//! Splits a text into statements, of which a client can send several at once.

use crate::lexer::{Kind, Lexer, Token, ending_texts, is_word};
use crate::session::SessionState;

const WITH_BODY: [&str; 5] = ["PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE"];
const WITHOUT_BODY: [&str; 6] = ["TABLE", "VIEW", "INDEX", "DATABASE", "SCHEMA", "USER"];
const BEGINNING: usize = 16;

/// Returns the statements of a text. One that may contain others extends to the end of the text. `session` is the state
/// before the text.
pub(crate) fn statements(sql: &[u8], mut session: SessionState) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let (mut from, mut beginning) = (0, Vec::new());
    let mut lexer = Lexer::in_dialect(sql, ending_texts(sql, session.dialect()));
    while let Some(token) = lexer.next() {
        if &sql[token.start..token.end] != b";" || lexer.is_within_comment() {
            if token.kind != Kind::Comment && beginning.len() < BEGINNING {
                beginning.push(token);
            }
            continue;
        }
        if holds_statements(sql, &beginning) {
            break;
        }
        if let Some(first) = beginning.first() {
            let statement = sql[from..token.start].trim_ascii();
            if is_word(sql, *first, "SET") {
                session.set(statement);
                lexer.set_dialect(ending_texts(&sql[token.end..], session.dialect()));
            }
            found.push(statement);
        }
        from = token.end;
        beginning.clear();
    }
    if !beginning.is_empty() {
        found.push(sql[from..].trim_ascii());
    }
    found
}

fn holds_statements(sql: &[u8], beginning: &[Token]) -> bool {
    let is = |at: usize, words: &[&str]| {
        beginning.get(at).is_some_and(|token| words.iter().any(|word| is_word(sql, *token, word)))
    };
    if is(0, &["CREATE", "ALTER"]) {
        let object = (1..beginning.len()).find(|at| is(*at, &WITH_BODY) || is(*at, &WITHOUT_BODY));
        return object.is_some_and(|at| is(at, &WITH_BODY));
    }
    let is_transaction = beginning.len() == 1 || is(1, &["WORK"]);
    is(0, &["BEGIN"]) && !is_transaction
        || is(0, &["DECLARE", "IF", "CASE", "LOOP", "REPEAT", "WHILE", "FOR"])
        || is(1, &[":"])
}

#[cfg(test)]
#[path = "../tests/unit/split.rs"]
mod tests;
