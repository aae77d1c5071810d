//! What clients ask while they connect: `@@variables`, functions of the session, SHOW.

use std::sync::Arc;

use crate::packet::MAX_ALLOWED_PACKET_BYTES;
use crate::resultset::{Column, Kind, SqlError, Table, Value};
use crate::server::Server;

/// What one session knows about itself.
#[derive(Clone, Debug)]
pub(crate) struct SessionFacts {
    pub(crate) server: Arc<Server>,
    pub(crate) connection_id: u32,
    pub(crate) user: String,
    pub(crate) database: Option<String>,
    pub(crate) charset: String,
    pub(crate) collation: String,
    pub(crate) autocommit: bool,
}

/// The default collation of a character set, as MySQL 8.0 names it.
pub(crate) fn default_collation(charset: &str) -> &'static str {
    match charset {
        "latin1" => "latin1_swedish_ci",
        "utf8" | "utf8mb3" => "utf8_general_ci",
        "utf8mb4" => "utf8mb4_0900_ai_ci",
        "ucs2" => "ucs2_general_ci",
        "ascii" => "ascii_general_ci",
        _ => "binary",
    }
}

/// Character set and collation of a collation id of the handshake.
pub(crate) fn collation_by_id(id: u8) -> (&'static str, &'static str) {
    match id {
        8 => ("latin1", "latin1_swedish_ci"),
        11 => ("ascii", "ascii_general_ci"),
        33 => ("utf8", "utf8_general_ci"),
        45 => ("utf8mb4", "utf8mb4_general_ci"),
        46 => ("utf8mb4", "utf8mb4_bin"),
        47 => ("latin1", "latin1_bin"),
        63 => ("binary", "binary"),
        83 => ("utf8", "utf8_bin"),
        224 => ("utf8mb4", "utf8mb4_unicode_ci"),
        _ => ("utf8mb4", "utf8mb4_0900_ai_ci"),
    }
}

fn variables(facts: &SessionFacts) -> Vec<(&'static str, Value)> {
    let text = |text: &str| Value::text(text);
    vec![
        ("autocommit", Value::Integer(i64::from(facts.autocommit))),
        ("character_set_client", text(&facts.charset)),
        ("character_set_connection", text(&facts.charset)),
        ("character_set_database", text("utf8mb4")),
        ("character_set_results", text(&facts.charset)),
        ("character_set_server", text("utf8mb4")),
        ("collation_connection", text(&facts.collation)),
        ("collation_database", text("utf8mb4_0900_ai_ci")),
        ("collation_server", text("utf8mb4_0900_ai_ci")),
        ("default_storage_engine", text("InnoDB")),
        ("hostname", text("fake")),
        ("innodb_flush_log_at_trx_commit", Value::Integer(1)),
        ("lower_case_table_names", Value::Integer(0)),
        ("max_allowed_packet", Value::Integer(MAX_ALLOWED_PACKET_BYTES as i64)),
        ("performance_schema", Value::Integer(0)),
        ("port", Value::Integer(0)),
        ("read_only", Value::Integer(0)),
        ("sql_mode", text("STRICT_TRANS_TABLES")),
        ("time_zone", text("SYSTEM")),
        ("transaction_isolation", text("REPEATABLE-READ")),
        ("tx_isolation", text("REPEATABLE-READ")),
        ("version", text(&facts.server.config.version)),
        ("version_comment", text("bakeoff fake server")),
    ]
}

pub(crate) fn select_values(items: &[&str], facts: &SessionFacts) -> Result<Table, SqlError> {
    let known = variables(facts);
    let mut columns = Vec::with_capacity(items.len());
    let mut row = Vec::with_capacity(items.len());
    for item in items {
        let (expression, name) = alias(item);
        let lower = expression.to_ascii_lowercase();
        let value = if let Some(variable) = lower.strip_prefix("@@") {
            let plain = variable.trim_start_matches("global.").trim_start_matches("session.").trim_matches('`');
            match known.iter().find(|(name, _)| *name == plain) {
                Some((_, value)) => value.clone(),
                None => {
                    return Err(SqlError::new(1193, "HY000", format!("Unknown system variable '{plain}'")));
                }
            }
        } else {
            value_of(expression, &lower, facts)
        };
        let kind = if matches!(value, Value::Integer(_)) { Kind::Integer } else { Kind::Text };
        columns.push(Column { name: name.to_owned(), kind });
        row.push(value);
    }
    Ok(Table::new(columns, vec![row]))
}

fn alias(item: &str) -> (&str, &str) {
    let lower = item.to_ascii_lowercase();
    match lower.rfind(" as ") {
        Some(position) => (item[..position].trim(), item[position + 4..].trim().trim_matches(['`', '\'', '"'])),
        None => (item, item),
    }
}

fn value_of(expression: &str, lower: &str, facts: &SessionFacts) -> Value {
    let host = format!("{}@localhost", facts.user);
    match lower {
        "version()" => Value::text(&facts.server.config.version),
        "connection_id()" => Value::Integer(i64::from(facts.connection_id)),
        "database()" | "schema()" => facts.database.as_deref().map_or(Value::Null, Value::text),
        "user()" | "current_user()" | "current_user" => Value::text(&host),
        "null" | "?" => Value::Null,
        _ => match expression.parse() {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::text(expression.trim_matches(['\'', '"'])),
        },
    }
}

/// Answers SHOW: variables and status with LIKE; anything else is an empty result set.
pub(crate) fn show(rest: &str, facts: &SessionFacts) -> Table {
    let lower = rest.to_ascii_lowercase();
    let pattern = lower.split_once(" like ").map(|(_, after)| after.trim().trim_matches(['\'', '"']).to_owned());
    let entries: Vec<(String, Value)> = if lower.contains("variables") {
        variables(facts).into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    } else if lower.contains("status") && !lower.contains("table") {
        facts
            .server
            .counters
            .snapshot()
            .into_iter()
            .map(|(name, count)| (name.to_owned(), Value::Integer(count as i64)))
            .collect()
    } else {
        Vec::new()
    };
    let rows = entries
        .into_iter()
        .filter(|(name, _)| pattern.as_deref().is_none_or(|pattern| like(pattern, &name.to_ascii_lowercase())))
        .map(|(name, value)| vec![Value::text(&name), as_text(value)])
        .collect();
    Table::new(["Variable_name", "Value"].map(Column::text).to_vec(), rows)
}

/// Answers ANALYZE, OPTIMIZE and CHECK with OK.
pub(crate) fn table_check(rest: &str) -> Table {
    let table = rest.split_whitespace().last().unwrap_or("");
    let columns = ["Table", "Op", "Msg_type", "Msg_text"].map(Column::text);
    let row = [table, "check", "status", "OK"].map(Value::text);
    Table::new(columns.to_vec(), vec![row.to_vec()])
}

fn as_text(value: Value) -> Value {
    match value {
        Value::Integer(number) => Value::text(&number.to_string()),
        other => other,
    }
}

/// SQL's LIKE with `%` and `_`; both lower case.
fn like(pattern: &str, text: &str) -> bool {
    match pattern.as_bytes().split_first() {
        None => text.is_empty(),
        Some((b'%', _)) => {
            let rest = &pattern[1..];
            (0..=text.len()).any(|start| text.is_char_boundary(start) && like(rest, &text[start..]))
        }
        Some((b'\\', rest)) if !rest.is_empty() => {
            text.as_bytes().first() == rest.first() && like(&pattern[2..], &text[1..])
        }
        Some((b'_', _)) => !text.is_empty() && like(&pattern[1..], &text[1..]),
        Some((byte, _)) => text.as_bytes().first() == Some(byte) && like(&pattern[1..], &text[1..]),
    }
}

#[cfg(test)]
#[path = "../tests/unit/settings.rs"]
mod tests;
