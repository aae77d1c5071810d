//! Session state from `SET` statements: character set, sql_mode, autocommit, time zone, key checks, limits.

use std::collections::BTreeMap;

use bakeoff_wire::dialect::{Dialect, MultiByte};
use serde_json::value::RawValue;

use crate::lexer::{Kind, Lexer, code_tokens, is_word};

#[rustfmt::skip]
const VARIABLES: [&str; 14] = [
    "sql_mode", "autocommit", "time_zone", "foreign_key_checks", "unique_checks", "sql_select_limit",
    "sql_safe_updates", "group_concat_max_len", "character_set_client", "character_set_connection",
    "character_set_results", "collation_connection", "names", "character_set",
];

/// SQL modes that include ANSI_QUOTES in MariaDB or any version of MySQL.
const WITH_ANSI_QUOTES: [&str; 7] = ["ANSI_QUOTES", "ANSI", "DB2", "MAXDB", "MSSQL", "ORACLE", "POSTGRESQL"];

#[derive(Debug, Clone, Default)]
pub struct SessionState {
    values: BTreeMap<&'static str, String>,
    json: Option<Box<RawValue>>,
    dialect: Dialect,
}

impl SessionState {
    pub fn json(&self) -> Option<&RawValue> {
        self.json.as_deref()
    }

    pub fn from_json(json: Option<&RawValue>) -> Self {
        let read: BTreeMap<String, String> =
            json.and_then(|json| serde_json::from_str(json.get()).ok()).unwrap_or_default();
        let values = read.into_iter().filter_map(|(name, value)| Some((known(&name)?, value))).collect();
        Self { dialect: dialect(&values), values, json: json.map(ToOwned::to_owned) }
    }

    pub fn values(&self) -> &BTreeMap<&'static str, String> {
        &self.values
    }

    pub fn autocommit(&self) -> bool {
        let is_off = |value: &String| ["0", "off", "false"].iter().any(|off| value.eq_ignore_ascii_case(off));
        !self.values.get("autocommit").is_some_and(is_off)
    }

    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Applies a `SET` statement and ignores any other. A value that is not a literal makes the variable unknown.
    pub fn set(&mut self, sql: &[u8]) {
        if !code_tokens(sql).next().is_some_and(|first| is_word(sql, first, "SET")) {
            return;
        }
        let tokens = Lexer::in_dialect(sql, self.dialect).code();
        let tokens: Vec<(Kind, &[u8])> = tokens.map(|token| (token.kind, &sql[token.start..token.end])).collect();
        // MariaDB's SET STATEMENT lasts only for that statement.
        if tokens.get(1).is_some_and(|(_, text)| text.eq_ignore_ascii_case(b"statement")) {
            return;
        }
        let (mut depth, mut is_global) = (0_i32, false);
        for part in tokens[1..].split(|(_, text)| {
            depth += i32::from(*text == b"(") - i32::from(*text == b")");
            depth == 0 && *text == b","
        }) {
            self.assign(part, &mut is_global);
        }
        self.dialect = dialect(&self.values);
        self.json = serde_json::value::to_raw_value(&self.values).ok().filter(|_| !self.values.is_empty());
    }

    fn assign(&mut self, part: &[(Kind, &[u8])], is_global: &mut bool) {
        let is =
            |at: usize, word: &str| part.get(at).is_some_and(|(_, text)| text.eq_ignore_ascii_case(word.as_bytes()));
        if is(0, "names") {
            // Keep a COLLATE with it.
            let words: Vec<String> = part[1..].iter().map(|(_, text)| plain(text)).collect();
            self.forget_charset();
            return self.put("names", (!words.is_empty()).then(|| words.join(" ")));
        }
        if is(0, "charset") || (is(0, "character") || is(0, "char")) && is(1, "set") {
            let value = part.last().map(|(_, text)| plain(text));
            self.forget_charset();
            return self.put("character_set", value);
        }
        let Some(equals) = part.iter().position(|(_, text)| *text == b"=" || *text == b":=") else { return };
        let name = &part[..equals];
        let of_all =
            |text: &[u8]| text.eq_ignore_ascii_case(b"global") || text.to_ascii_lowercase().starts_with(b"persist");
        if let [(Kind::Word, scope), _, ..] = name {
            *is_global = of_all(scope);
        }
        if (*is_global && name.len() == 1) || name.iter().any(|(_, text)| *text == b"@" || of_all(text)) {
            return;
        }
        let Some((_, name)) = name.last() else { return };
        let value = match &part[equals + 1..] {
            [(Kind::Text | Kind::Number | Kind::Word, text)] => Some(plain(text)),
            [(Kind::Symbol, sign), (Kind::Number, text)] => Some(plain(sign) + &plain(text)),
            _ => None,
        };
        self.put(&plain(name).to_lowercase(), value);
    }

    fn forget_charset(&mut self) {
        self.values.retain(|name, _| {
            *name != "names" && !name.starts_with("character_set") && *name != "collation_connection"
        });
    }

    fn put(&mut self, name: &str, value: Option<String>) {
        let Some(key) = known(name) else { return };
        match value {
            Some(value) => self.values.insert(key, value),
            None => self.values.remove(key),
        };
    }
}

fn known(name: &str) -> Option<&'static str> {
    VARIABLES.into_iter().find(|known| *known == name)
}

/// Returns the dialect of these settings. Without `character_set_client`, NAMES decides, to which dumps return.
fn dialect(values: &BTreeMap<&'static str, String>) -> Dialect {
    let value = |name: &str| values.get(name).map(String::as_str);
    let charset = value("character_set_client").or(value("names")).or(value("character_set"));
    let charset = charset.and_then(|charset| charset.split_whitespace().next());
    let modes = value("sql_mode").unwrap_or_default();
    let bits: u64 = modes.parse().unwrap_or(0); // mysqlbinlog writes a number
    let is_one_of = |mode: &str, names: &[&str]| names.iter().any(|name| mode.trim().eq_ignore_ascii_case(name));
    let has = |bit: u64, names: &[&str]| bits & bit != 0 || modes.split(',').any(|mode| is_one_of(mode, names));
    Dialect {
        no_backslash_escapes: has(1 << 20, &["NO_BACKSLASH_ESCAPES"]),
        ansi_quotes: has(1 << 2, &WITH_ANSI_QUOTES),
        multi_byte: charset.map_or(MultiByte::Unknown, MultiByte::of),
    }
}

fn plain(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let inner = text.strip_prefix(['\'', '"', '`']).and_then(|rest| rest.strip_suffix(['\'', '"', '`']));
    inner.unwrap_or(&text).to_owned()
}
