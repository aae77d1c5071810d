//! What a statement asks for, guessed from its words: enough for benchmark scripts and for what clients ask while connecting.

use crate::resultset::{Column, Kind, SqlError, Table, Value};
use crate::scanner::{contains, find_word, list_items, scan, strip};
use crate::settings::{self, SessionFacts};

/// Rows of a SELECT with BETWEEN and without an aggregate, as sysbench's scripts ask for; others have one.
const RANGE_ROWS: usize = 100;
/// Length of text values, that of sysbench's `c`.
const TEXT_BYTES: usize = 119;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Rows(Table),
    Done { affected: u64 },
    Begin,
    End,
    Autocommit(bool),
    Names { charset: String, collation: String },
    Use(String),
    Fail(SqlError),
}

/// An action, and whether it has a latency; setting up a session has none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Statement {
    pub(crate) action: Action,
    pub(crate) timed: bool,
}

fn timed(action: Action) -> Statement {
    Statement { action, timed: true }
}

fn free(action: Action) -> Statement {
    Statement { action, timed: false }
}

pub(crate) fn read(text: &str, facts: &SessionFacts) -> Statement {
    let text = strip(text);
    let word = text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or("").to_ascii_uppercase();
    let rest = text[word.len()..].trim_start();
    match word.as_str() {
        "SELECT" => select(rest, facts),
        "INSERT" | "REPLACE" => timed(Action::Done { affected: inserted_rows(rest) }),
        "UPDATE" | "DELETE" => timed(Action::Done { affected: 1 }),
        "BEGIN" | "START" => timed(Action::Begin),
        "COMMIT" | "ROLLBACK" => timed(Action::End),
        "SET" => free(set(rest)),
        "SHOW" => free(Action::Rows(settings::show(rest, facts))),
        "USE" => free(Action::Use(rest.trim_matches('`').to_owned())),
        "ANALYZE" | "OPTIMIZE" | "CHECK" => free(Action::Rows(settings::table_check(rest))),
        "CREATE" | "DROP" | "ALTER" | "TRUNCATE" | "RENAME" | "GRANT" | "FLUSH" | "LOCK" | "UNLOCK" | "KILL" | "DO"
        | "SAVEPOINT" | "RELEASE" | "RESET" => free(Action::Done { affected: 0 }),
        _ => free(Action::Fail(SqlError::new(
            1064,
            "42000",
            format!("You have an error in your SQL syntax near '{}'", text.chars().take(40).collect::<String>()),
        ))),
    }
}

fn select(rest: &str, facts: &SessionFacts) -> Statement {
    let from = find_word(rest, "FROM");
    let end = from.or_else(|| find_word(rest, "LIMIT")).unwrap_or(rest.len());
    let list = rest[..end].trim();
    let list = list.strip_prefix("DISTINCT ").unwrap_or(list);
    let aggregate = ["COUNT(", "SUM(", "MIN(", "MAX(", "AVG("].iter().any(|function| contains(list, function));
    let about_itself = contains(rest, "information_schema") || contains(rest, "performance_schema");
    if from.is_none() || (about_itself && !aggregate) {
        let answer = settings::select_values(&list_items(list), facts);
        return free(answer.map_or_else(Action::Fail, Action::Rows));
    }
    let columns: Vec<Column> = list_items(list).into_iter().map(column).collect();
    if about_itself {
        return free(Action::Rows(repeated_row(columns, 1)));
    }
    let rows = match (aggregate, contains(rest, " BETWEEN ")) {
        (false, true) => RANGE_ROWS,
        _ => 1,
    };
    let limit = find_word(rest, "LIMIT").and_then(|position| rest[position + 5..].trim().parse().ok());
    let rows = rows.min(limit.unwrap_or(usize::MAX));
    timed(Action::Rows(repeated_row(columns, rows)))
}

fn repeated_row(columns: Vec<Column>, rows: usize) -> Table {
    let row = columns
        .iter()
        .map(|column| match column.kind {
            Kind::Integer => Value::Integer(5000),
            Kind::Decimal => Value::text("500000"),
            Kind::Text => Value::Text((0..TEXT_BYTES).map(|index| b'0' + (index % 10) as u8).collect()),
        })
        .collect();
    Table { columns, rows: vec![row], repeat: rows }
}

fn column(item: &str) -> Column {
    let upper = item.to_ascii_uppercase();
    let upper = upper.strip_prefix("COALESCE(").unwrap_or(&upper);
    let kind = if upper.starts_with("SUM(") || upper.starts_with("AVG(") {
        Kind::Decimal
    } else if upper == "ID"
        || upper == "K"
        || upper.starts_with("COUNT(")
        || upper.starts_with('M') && upper.contains('(')
    {
        Kind::Integer
    } else {
        Kind::Text
    };
    Column { name: item.to_owned(), kind }
}

/// Counts the groups at depth 0 after VALUES.
fn inserted_rows(rest: &str) -> u64 {
    let Some(values) = find_word(rest, "VALUES") else { return 1 };
    let (mut depth, mut groups) = (0i32, 0);
    scan(&rest[values..], |_, byte| match byte {
        b'(' => {
            groups += u64::from(depth == 0);
            depth += 1;
        }
        b')' => depth -= 1,
        _ => {}
    });
    groups.max(1)
}

fn set(rest: &str) -> Action {
    let words: Vec<&str> = rest.split([' ', '\t', '=', ':', '\'', '"', ',']).filter(|word| !word.is_empty()).collect();
    let is = |index: usize, name: &str| words.get(index).is_some_and(|word| word.eq_ignore_ascii_case(name));
    let first = words.first().map_or("", |word| word.trim_start_matches("@@").trim_start_matches("session."));
    if first.eq_ignore_ascii_case("names") && words.len() > 1 {
        let charset = words[1].to_ascii_lowercase();
        let collation = if is(2, "collate") { words.get(3).map(|word| word.to_ascii_lowercase()) } else { None };
        let collation = collation.unwrap_or_else(|| settings::default_collation(&charset).to_owned());
        return Action::Names { charset, collation };
    }
    if first.eq_ignore_ascii_case("autocommit") {
        return Action::Autocommit(is(1, "1") || is(1, "on") || is(1, "true"));
    }
    Action::Done { affected: 0 }
}

#[cfg(test)]
#[path = "../tests/unit/sql.rs"]
mod tests;
