//! Changes a dump's statements so that another server accepts them, leaves some out, and turns rows into INSERTs.

use std::io::{self, BufRead};

use bakeoff_capture::Dialect;
use bakeoff_capture::digest::{Digester, text_of};
use bakeoff_capture::lexer::{Kind, Lexer, Token, code_tokens, is_word};
use bakeoff_script::host::SqlError;

use crate::request::DumpRows;

/// Size of an INSERT made of rows. Longer ones cost the server the same (docs/reference/loading.md).
const INSERT_BYTES: usize = 256 << 10;
/// Unknown character set, unknown collation, invalid value for a variable.
const NO_CHARSET: u16 = 1115;
const NO_COLLATION: u16 = 1273;
const WRONG_VALUE: u16 = 1231;

#[derive(Debug, PartialEq, Eq)]
pub struct Renamed {
    pub from: String,
    pub to: String,
}

fn first_words(sql: &[u8]) -> [String; 2] {
    let mut words = code_tokens(sql).map(|token| String::from_utf8_lossy(&sql[token.start..token.end]).to_uppercase());
    [words.next().unwrap_or_default(), words.next().unwrap_or_default()]
}

const OBJECTS: [&str; 6] = ["TABLE", "VIEW", "PROCEDURE", "FUNCTION", "TRIGGER", "EVENT"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Data,
    Session,
    Transaction,
    Lock,
}

pub fn effect(sql: &[u8]) -> Effect {
    let [first, _] = first_words(sql);
    match first.as_str() {
        "SET" | "USE" | "SELECT" | "PREPARE" | "EXECUTE" | "DEALLOCATE" => Effect::Session,
        "BEGIN" | "START" | "COMMIT" | "ROLLBACK" | "SAVEPOINT" | "RELEASE" => Effect::Transaction,
        "LOCK" | "UNLOCK" => Effect::Lock,
        _ => Effect::Data,
    }
}

/// Returns why a statement of a dump is left out, or None if it is loaded.
pub fn left_out(sql: &[u8], schema: &[u8]) -> Option<&'static str> {
    const SYSTEM: [&[u8]; 4] = [b"mysql", b"sys", b"information_schema", b"performance_schema"];
    let is_system = |name: &[u8]| SYSTEM.iter().any(|each| name.eq_ignore_ascii_case(each));
    let [first, second] = first_words(sql);
    let named = || {
        let mut names = code_tokens(sql).skip(2).filter(|&token| !is_one_of(sql, token, &["IF", "NOT", "EXISTS"]));
        names.next().map_or(&[][..], |token| match token.kind {
            Kind::Quoted => &sql[token.start + 1..token.end - 1],
            _ => &sql[token.start..token.end],
        })
    };
    match (first.as_str(), second.as_str()) {
        ("GRANT" | "REVOKE", _) | ("CREATE" | "ALTER" | "DROP", "USER" | "ROLE") | ("SET", "PASSWORD") => {
            Some("accounts")
        }
        ("CHANGE", "MASTER" | "REPLICATION") | ("START" | "STOP", "SLAVE" | "REPLICA") => Some("replication"),
        ("SET", _) if sql.windows(11).take(300).any(|part| part.eq_ignore_ascii_case(b"GTID_PURGED")) => {
            Some("replication")
        }
        ("CREATE" | "DROP" | "ALTER", "DATABASE" | "SCHEMA") => is_system(named()).then_some("system schemas"),
        ("USE", _) => None,
        _ if is_system(schema) => Some("system schemas"),
        _ => None,
    }
}

pub fn without_definer(sql: &mut Vec<u8>, dialect: Dialect) {
    let Some((start, end)) = definer(sql, dialect) else { return };
    sql.drain(start..end);
}

fn is_one_of(sql: &[u8], token: Token, words: &[&str]) -> bool {
    token.kind == Kind::Word && words.iter().any(|word| is_word(sql, token, word))
}

fn definer(sql: &[u8], dialect: Dialect) -> Option<(usize, usize)> {
    let mut tokens = Lexer::in_dialect(sql, dialect).code();
    if !is_word(sql, tokens.next()?, "CREATE") {
        return None;
    }
    let found = tokens.find(|&token| is_one_of(sql, token, &OBJECTS) || is_one_of(sql, token, &["DEFINER"]))?;
    let equals = tokens.next()?;
    if !is_word(sql, found, "DEFINER") || !is_word(sql, equals, "=") {
        return None;
    }
    let user = tokens.next()?;
    if is_word(sql, user, "CURRENT_USER") {
        return None;
    }
    let end = match tokens.next() {
        Some(at) if is_word(sql, at, "@") => tokens.next()?.end,
        _ => user.end,
    };
    Some((found.start, end))
}

pub fn sets_time_zone(sql: &[u8]) -> bool {
    let tokens: Vec<Token> = code_tokens(sql).take(100).collect();
    let is_set = tokens.first().is_some_and(|first| is_word(sql, *first, "SET"));
    let is_sign = |token: Token| matches!(&sql[token.start..token.end], b"=" | b":=");
    let assigns = |pair: &[Token]| is_one_of(sql, pair[0], &["TIME_ZONE"]) && is_sign(pair[1]);
    is_set && tokens.windows(2).any(assigns)
}

/// Makes a CREATE EVENT create its event disabled. Returns false for other statements.
pub fn disable_event(sql: &mut Vec<u8>, dialect: Dialect) -> bool {
    let Some(place) = event_state(sql, dialect) else { return false };
    if is_word(sql, place, "ENABLE") {
        sql.splice(place.start..place.end, *b"DISABLE");
    } else if !is_word(sql, place, "DISABLE") {
        sql.splice(place.start..place.start, *b"DISABLE ");
    }
    true
}

fn event_state(sql: &[u8], dialect: Dialect) -> Option<Token> {
    let mut tokens = Lexer::in_dialect(sql, dialect).code();
    tokens.next().filter(|&first| is_word(sql, first, "CREATE"))?;
    tokens.find(|&token| is_one_of(sql, token, &OBJECTS)).filter(|&object| is_word(sql, object, "EVENT"))?;
    tokens.find(|&token| is_one_of(sql, token, &["ENABLE", "DISABLE", "COMMENT", "DO"]))
}

/// Changes a statement that failed for lack of a collation, character set or SQL mode. None for other errors.
pub fn translate(sql: &mut Vec<u8>, dialect: Dialect, error: &SqlError) -> Option<Renamed> {
    let from = error.message.rsplit('\'').nth(1)?.to_owned();
    let to = match error.code {
        NO_COLLATION | NO_CHARSET => nearest(&from)?,
        WRONG_VALUE if error.message.contains("sql_mode") => String::new(),
        _ => return None,
    };
    let places: Vec<Token> = Lexer::in_dialect(sql, dialect)
        .code()
        .filter(|token| matches!(token.kind, Kind::Word | Kind::Text | Kind::Host))
        .filter(|token| holds(&sql[token.start..token.end], &from, to.is_empty()))
        .collect();
    for token in places.iter().rev() {
        let text = String::from_utf8_lossy(&sql[token.start..token.end]).into_owned();
        let changed = if to.is_empty() {
            without_mode(&text, &from)
        } else {
            text.to_lowercase().replace(&from.to_lowercase(), &to)
        };
        sql.splice(token.start..token.end, changed.into_bytes());
    }
    (!places.is_empty()).then_some(Renamed { from, to })
}

fn holds(token: &[u8], name: &str, in_list: bool) -> bool {
    let inner = token.trim_ascii();
    let inner = match inner {
        [b'\'' | b'"', inner @ .., _] => inner,
        _ => inner,
    };
    if in_list {
        inner.split(|byte| *byte == b',').any(|mode| mode.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
    } else {
        inner.eq_ignore_ascii_case(name.as_bytes())
    }
}

fn without_mode(quoted: &str, mode: &str) -> String {
    let modes = quoted.trim_matches(['\'', '"']).split(',');
    let kept: Vec<&str> = modes.filter(|each| !each.trim().eq_ignore_ascii_case(mode)).collect();
    format!("'{}'", kept.join(","))
}

/// Returns the replacement for a collation or character set that a server lacks (the table in docs/reference/data.md).
fn nearest(name: &str) -> Option<String> {
    let name = name.to_lowercase();
    let known = match name.as_str() {
        "utf8mb3" => "utf8",
        "utf8" => "utf8mb3",
        // MariaDB's closest to MySQL's default, then that of MySQL 5.6 and MariaDB 10, then 5.5.
        "utf8mb4_0900_ai_ci" => "utf8mb4_uca1400_nopad_ai_ci",
        "utf8mb4_uca1400_ai_ci" | "utf8mb4_uca1400_nopad_ai_ci" | "uca1400_ai_ci" => "utf8mb4_unicode_520_ci",
        "utf8mb4_unicode_520_ci" => "utf8mb4_unicode_ci",
        "utf8mb3_uca1400_ai_ci" => "utf8mb3_unicode_520_ci",
        "utf8_unicode_520_ci" => "utf8_unicode_ci",
        "utf8mb4_0900_bin" => "utf8mb4_nopad_bin",
        "utf8mb4_nopad_bin" => "utf8mb4_bin",
        other => {
            return match other.strip_prefix("utf8mb3_") {
                Some(rest) => Some(format!("utf8_{rest}")),
                None => other.strip_prefix("utf8_").map(|rest| format!("utf8mb3_{rest}")),
            };
        }
    };
    Some(known.to_owned())
}

pub fn beginning(sql: &[u8], dialect: Dialect) -> String {
    let mut digester = Digester::default();
    digester.read(&sql[..sql.len().min(400)], dialect);
    let text = text_of(digester.key());
    let end = text.char_indices().nth(100).map_or(text.len(), |(at, _)| at);
    let more = if end < text.len() || sql.len() > 400 { " …" } else { "" };
    format!("{}{more}", &text[..end])
}

/// Reads rows as MySQL Shell writes them and passes them to `see` as INSERTs, each with the line of its first row.
/// Escapes mean the same in SQL literals.
pub fn read_rows(
    input: &mut dyn BufRead,
    form: &DumpRows,
    see: &mut dyn FnMut(&mut Vec<u8>, u64) -> bool,
) -> io::Result<()> {
    let (mut row, mut sql) = (Vec::new(), Vec::new());
    let (mut line, mut first) = (0, 1);
    while read_row(input, &mut row)? {
        line += 1;
        if sql.is_empty() {
            sql.extend_from_slice(form.insert.as_bytes());
            first = line;
        } else {
            sql.push(b',');
        }
        if !add_row(&mut sql, &row, &form.functions) {
            let message = format!("row {line} does not have {} values", form.functions.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        if sql.len() >= INSERT_BYTES {
            if !see(&mut sql, first) {
                return Ok(());
            }
            sql.clear();
        }
    }
    if !sql.is_empty() {
        see(&mut sql, first);
    }
    Ok(())
}

fn read_row(input: &mut dyn BufRead, row: &mut Vec<u8>) -> io::Result<bool> {
    row.clear();
    loop {
        let read = input.read_until(b'\n', row)?;
        if read == 0 || row.last() != Some(&b'\n') {
            return match (read, row.is_empty()) {
                (0, true) => Ok(false),
                _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ends within a row")),
            };
        }
        let escapes = row[..row.len() - 1].iter().rev().take_while(|byte| **byte == b'\\').count();
        if escapes % 2 == 0 {
            row.pop();
            return Ok(true);
        }
    }
}

fn add_row(sql: &mut Vec<u8>, row: &[u8], functions: &[String]) -> bool {
    let mut escaped = false;
    let values = row.split(|&byte| {
        let is_end = byte == b'\t' && !escaped;
        escaped = byte == b'\\' && !escaped;
        is_end
    });
    let mut functions = functions.iter();
    for (index, value) in values.enumerate() {
        let Some(function) = functions.next() else { return false };
        sql.push(if index == 0 { b'(' } else { b',' });
        add_value(sql, value, function);
    }
    sql.push(b')');
    functions.next().is_none()
}

fn add_value(sql: &mut Vec<u8>, value: &[u8], function: &str) {
    if value == b"\\N" {
        sql.extend_from_slice(b"NULL");
        return;
    }
    let (before, after): (_, &[u8]) = if function.is_empty() { ("", b"'") } else { ("(", b"')") };
    sql.extend([function, before, "'"].concat().bytes());
    for (index, part) in value.split(|byte| *byte == b'\'').enumerate() {
        sql.extend_from_slice(if index > 0 { b"''" } else { b"" });
        sql.extend_from_slice(part);
    }
    sql.extend_from_slice(after);
}

#[cfg(test)]
#[path = "../tests/unit/dump_sql.rs"]
mod tests;
