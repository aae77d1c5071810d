//! Classifies statements: a plain read, a change to its own session, or a write. In doubt a statement is a write. A
//! name before `(` must be a built-in function that changes nothing. Code in comments, and texts that end elsewhere in
//! another `sql_mode` or character set, must be reads on every server.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

use bakeoff_wire::dialect::{Dialect, MultiByte};

use crate::keywords;
use crate::lexer::{Kind, Lexer, code_tokens, is_ident, is_one_of, is_word, unquoted};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Read,
    /// Affects only its own session: `SET` of session variables, `USE`, transaction control, an empty statement.
    Session,
    Write(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Commits the open transaction, unlocks tables and begins a transaction.
    Begin,
    Lock,
    Unlock,
    End,
    Chain,
    /// Commits the open transaction and begins none: `CREATE`, `FLUSH`.
    Commits,
    Inside,
}

/// A statement, classified once however often it is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statement {
    pub class: Class,
    pub effect: Effect,
    /// Calls a function for the current time. Views and routines that do so are not detected.
    pub uses_clock: bool,
}

impl Statement {
    pub fn classify(sql: &[u8]) -> Self {
        Self { class: class(sql), effect: effect(sql), uses_clock: uses_clock(sql) }
    }
}

#[rustfmt::skip]
const COMMITTING: [&str; 14] = [
    "ALTER", "CREATE", "DROP", "RENAME", "TRUNCATE", "GRANT", "REVOKE", "ANALYZE", "OPTIMIZE", "REPAIR", "FLUSH",
    "RESET", "INSTALL", "UNINSTALL",
];

const EFFECTS: [(&str, Effect); 10] = [
    ("BEGIN", Effect::Begin),
    ("START TRANSACTION", Effect::Begin),
    ("XA START", Effect::Begin),
    ("XA BEGIN", Effect::Begin),
    ("LOCK", Effect::Lock),
    ("UNLOCK", Effect::Unlock),
    ("COMMIT", Effect::End),
    ("ROLLBACK", Effect::End),
    ("XA COMMIT", Effect::End),
    ("XA ROLLBACK", Effect::End),
];

pub fn effect(sql: &[u8]) -> Effect {
    let first: Vec<Part> = code_tokens(sql)
        .take(5)
        .map(|token| Part { kind: token.kind, text: &sql[token.start..token.end], end: token.end, version: None })
        .collect();
    let begins_with = |words: &str| words.split(' ').enumerate().all(|(at, word)| is(&first, at, word));
    let says = |word: &str| (1..first.len()).any(|at| is(&first, at, word));
    match EFFECTS.iter().find(|(words, _)| begins_with(words)) {
        Some((_, Effect::End)) if says("TO") => Effect::Inside,
        Some((_, Effect::End)) if (1..4).any(|at| is(&first, at, "AND") && is(&first, at + 1, "CHAIN")) => {
            Effect::Chain
        }
        // A compound statement of MariaDB (`BEGIN NOT ATOMIC`, or a block of Oracle's mode).
        Some((_, Effect::Begin)) if is(&first, 0, "BEGIN") && first.len() > 1 && !is_any(&first, 1, &["WORK", ";"]) => {
            Effect::Inside
        }
        Some((_, effect)) => *effect,
        None if is_any(&first, 0, &COMMITTING) && !is(&first, 1, "TEMPORARY") => Effect::Commits,
        None => Effect::Inside,
    }
}

pub fn used_schema(sql: &[u8], dialect: Dialect) -> Option<Cow<'_, [u8]>> {
    let mut tokens = Lexer::in_dialect(sql, dialect).code();
    if !is_word(sql, tokens.next()?, "USE") {
        return None;
    }
    let name = tokens.next()?;
    let text = &sql[name.start..name.end];
    match name.kind {
        Kind::Quoted | Kind::Text => Some(unquoted(text, dialect.multi_byte)),
        Kind::Word | Kind::Number => Some(Cow::Borrowed(text)),
        _ => None,
    }
}

/// Words before `(` that change nothing: built-in functions, aggregates, types and words of the syntax.
static HARMLESS: LazyLock<HashSet<&str>> = LazyLock::new(|| include_str!("harmless.txt").split_whitespace().collect());

/// Functions that wait, take a lock or change something outside of tables.
#[rustfmt::skip]
const HARMFUL: [&str; 13] = [
    "SLEEP", "BENCHMARK", "GET_LOCK", "RELEASE_LOCK", "RELEASE_ALL_LOCKS", "MASTER_POS_WAIT", "SOURCE_POS_WAIT",
    "MASTER_GTID_WAIT", "WAIT_FOR_EXECUTED_GTID_SET", "WAIT_UNTIL_SQL_THREAD_AFTER_GTIDS", "SETVAL", "LOAD_FILE",
    "SYS_EXEC",
];

#[derive(Debug, Clone, Copy)]
struct Part<'a> {
    kind: Kind,
    text: &'a [u8],
    end: usize,
    /// The opening of the comment around it, such as `/*!50003`.
    version: Option<&'a [u8]>,
}

pub fn class(sql: &[u8]) -> Class {
    let mut class = None;
    for dialect in dialects(sql) {
        match class_in(sql, Lexer::in_dialect(sql, dialect)) {
            Some(write @ Class::Write(_)) => return write,
            other => class = class.or(other),
        }
    }
    class.unwrap_or(Class::Write("cut"))
}

/// Lists the dialects in which the quoted texts of a statement can end in different places, the default one first.
fn dialects(sql: &[u8]) -> Vec<Dialect> {
    let is_special = |byte: u8| (b'@'..0x7f).contains(&byte) && !is_ident(byte);
    let (mut sets, mut modes) = (vec![MultiByte::Safe], vec![(false, false)]);
    if sql.windows(2).any(|pair| pair[0] >= 0x80 && is_special(pair[1])) {
        sets.extend(MultiByte::DIFFERENT);
    }
    if memchr::memchr(b'\\', sql).is_some() {
        modes.extend([(true, false), (false, true)]);
    }
    let in_set = |multi_byte| {
        let dialect =
            move |&(no_backslash_escapes, ansi_quotes)| Dialect { no_backslash_escapes, ansi_quotes, multi_byte };
        modes.iter().map(dialect)
    };
    sets.into_iter().flat_map(in_set).collect()
}

/// Returns None if a text or comment does not end: the server refuses such a statement.
fn class_in<'a>(sql: &'a [u8], lexer: Lexer<'a>) -> Option<Class> {
    let mut parts: Vec<Part> = Vec::new();
    let mut version = None;
    let mut doubt = None;
    let mut cut = false;
    let mut in_hint = false;
    for token in lexer {
        let text = &sql[token.start..token.end];
        match token.kind {
            Kind::HintBegin => in_hint = true,
            Kind::HintEnd => in_hint = false,
            _ if in_hint && token.kind != Kind::Cut => {}
            Kind::Comment if text == b"*/" => version = None,
            // MySQL and MariaDB disagree on what is code, and versions on where nested comments end.
            Kind::Comment if version.is_some() => doubt = Some("comment"),
            Kind::Comment if is_of_one_flavour(text) => doubt = Some("comment"),
            Kind::Comment if has_code(text) => version = Some(text),
            Kind::Comment => {}
            Kind::Cut => cut = true,
            _ => {
                if version.is_some() && memchr::memmem::find(text, b"*/").is_some() {
                    doubt = Some("comment");
                }
                parts.push(Part { kind: token.kind, text, end: token.end, version });
            }
        }
    }
    cut |= in_hint;
    while parts.last().is_some_and(|part| part.text == b";") {
        parts.pop();
    }
    if parts.iter().any(|part| part.text == b";") {
        cut = false;
        doubt = Some("several statements");
    }
    (!cut).then(|| doubt.map_or_else(|| class_of_versions(&parts), Class::Write))
}

fn has_code(comment: &[u8]) -> bool {
    comment.starts_with(b"/*!") || comment[..comment.len().min(4)].eq_ignore_ascii_case(b"/*M!")
}

/// Whether MySQL and MariaDB disagree that a comment holds code: its version has six digits, or no server has it.
fn is_of_one_flavour(comment: &[u8]) -> bool {
    has_code(comment) && (comment.ends_with(b"*/") || comment.starts_with(b"/*!") && comment.len() > b"/*!50003".len())
}

/// A server runs the code in some of the comments, so the statement must be a read whichever these are.
fn class_of_versions(parts: &[Part]) -> Class {
    let mut marks: Vec<&[u8]> = parts.iter().filter_map(|part| part.version).collect();
    marks.sort_unstable();
    marks.dedup();
    if marks.len() > 3 {
        return Class::Write("comment");
    }
    let classes = (0..1_usize << marks.len()).map(|chosen| {
        let runs = |mark: &[u8]| marks.binary_search(&mark).is_ok_and(|at| chosen >> at & 1 == 1);
        let code: Vec<Part> = parts.iter().filter(|part| part.version.is_none_or(runs)).copied().collect();
        class_of(&code)
    });
    let of_both = |one, other| match (one, other) {
        (write @ Class::Write(_), _) | (_, write @ Class::Write(_)) => write,
        (Class::Session, Class::Session) => Class::Session,
        _ => Class::Read,
    };
    classes.reduce(of_both).unwrap_or(Class::Session)
}

fn is(parts: &[Part], at: usize, word: &str) -> bool {
    parts.get(at).is_some_and(|part| part.kind != Kind::Text && part.text.eq_ignore_ascii_case(word.as_bytes()))
}

fn is_any(parts: &[Part], at: usize, words: &[&str]) -> bool {
    words.iter().any(|word| is(parts, at, word))
}

/// Functions that return the session's clock, which `SET timestamp` sets. (`SYSDATE` returns the server's.)
#[rustfmt::skip]
const CLOCK: [&str; 12] = [
    "NOW", "CURDATE", "CURTIME", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP",
    "UNIX_TIMESTAMP", "UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP",
];

fn uses_clock(sql: &[u8]) -> bool {
    Lexer::new(sql).any(|token| token.kind == Kind::Word && is_one_of(&sql[token.start..token.end], &CLOCK))
}

fn class_of(parts: &[Part]) -> Class {
    let from = parts.iter().position(|part| part.text != b"(").unwrap_or(parts.len());
    let parts = &parts[from..];
    let Some(first) = parts.first() else { return Class::Session };
    let shows = is(parts, 0, "SHOW");
    if shows || is_any(parts, 0, &["SELECT", "WITH", "VALUES", "TABLE", "EXPLAIN", "DESC", "DESCRIBE"]) {
        return scan(parts, !shows).map_or(Class::Read, Class::Write);
    }
    if is(parts, 0, "SET") {
        return class_of_set(parts);
    }
    if is_of_session(parts) {
        return Class::Session;
    }
    Class::Write(keywords::keyword(first.text, false).map_or("other", keywords::text))
}

fn is_of_session(parts: &[Part]) -> bool {
    // BEGIN NOT ATOMIC is a compound statement of MariaDB.
    is(parts, 0, "BEGIN") && (parts.len() == 1 || parts.len() == 2 && is(parts, 1, "WORK"))
        || is(parts, 0, "USE") && parts.len() == 2
        || is(parts, 0, "START") && is(parts, 1, "TRANSACTION")
        || is(parts, 0, "RELEASE") && is(parts, 1, "SAVEPOINT")
        || is_any(parts, 0, &["COMMIT", "ROLLBACK", "SAVEPOINT"])
}

/// Classifies a `SET`: user and session variables, names and transactions are the session's, global variables are not.
fn class_of_set(parts: &[Part]) -> Class {
    for at in 1..parts.len() {
        // `SET GLOBAL x` and `SET @@global.x`, also after a comma. `SET x = @@global.x` only reads.
        let target = at - usize::from(parts[at - 1].text == b"@@");
        if is_any(parts, at, &["GLOBAL", "PERSIST", "PERSIST_ONLY"])
            && (target == 1 || target > 1 && parts[target - 1].text == b",")
        {
            return Class::Write("SET GLOBAL");
        }
    }
    // MariaDB's SET STATEMENT … FOR runs any statement. Roles, passwords and resource groups belong to the server.
    if is_any(parts, 1, &["STATEMENT", "PASSWORD", "DEFAULT", "RESOURCE", "ROLE"]) {
        return Class::Write("SET");
    }
    let scanned = scan(parts, true).filter(|why| *why != ":=");
    scanned.map_or(Class::Session, Class::Write)
}

fn scan(parts: &[Part], verbs: bool) -> Option<&'static str> {
    (0..parts.len()).find_map(|at| {
        let part = &parts[at];
        let qualified = at > 0 && parts[at - 1].text == b".";
        let call = parts.get(at + 1).is_some_and(|next| next.text == b"(");
        match part.kind {
            Kind::Symbol if part.text == b":=" => Some(":="),
            Kind::Word | Kind::Quoted => call_of(parts, at, qualified, call).or_else(|| {
                let plain = part.kind == Kind::Word && !qualified;
                plain.then(|| word_of(parts, at, call, verbs)).flatten()
            }),
            // A name under ANSI_QUOTES.
            Kind::Text if part.text[0] == b'"' && call => call_of(parts, at, qualified, call),
            _ => None,
        }
    })
}

fn call_of(parts: &[Part], at: usize, qualified: bool, call: bool) -> Option<&'static str> {
    let text = parts[at].text;
    let bare = match text {
        [b'`' | b'"', inner @ .., b'`' | b'"'] => inner,
        _ => text,
    };
    let upper = String::from_utf8_lossy(bare).to_ascii_uppercase();
    if upper == "NEXTVAL" {
        return Some("NEXTVAL");
    }
    if !call {
        return None;
    }
    if let Some(harmful) = HARMFUL.iter().find(|word| **word == upper) {
        return Some(harmful);
    }
    // With a schema in front it is a stored function: `FROM db.t (…)` does not exist.
    if qualified {
        return Some("stored function");
    }
    // `AS d (a, b)`, `(…) d (a, b)` and `WITH c (a, b)` name columns.
    let names_columns = at > 0 && (parts[at - 1].text == b")" || is_any(parts, at - 1, &["AS", "WITH", "RECURSIVE"]));
    // Unlike `sum(x)`, `sum (x)` and `` `sum`(x) `` can be stored functions.
    let loose = parts[at].kind != Kind::Word
        || parts[at].end != parts[at + 1].end - 1
            && keywords::keyword(text, false).is_none()
            && keywords::keyword(text, true).is_some();
    let harmless = HARMLESS.contains(upper.as_str()) && !loose;
    (!names_columns && !harmless).then_some("function")
}

fn word_of(parts: &[Part], at: usize, call: bool, verbs: bool) -> Option<&'static str> {
    const PAIRS: [(&str, &str, &str); 4] = [
        ("FOR", "UPDATE", "FOR UPDATE"),
        ("FOR", "SHARE", "FOR SHARE"),
        ("LOCK", "IN", "LOCK IN SHARE MODE"),
        ("NEXT", "VALUE", "NEXTVAL"),
    ];
    let pair = PAIRS.iter().find(|(word, next, _)| is(parts, at, word) && is(parts, at + 1, next));
    if let Some((_, _, why)) = pair {
        return Some(why);
    }
    if !verbs {
        return None;
    }
    if is(parts, at, "INTO") {
        return Some(if is_any(parts, at + 1, &["OUTFILE", "DUMPFILE"]) { "INTO OUTFILE" } else { "INTO" });
    }
    // Reserved on all servers, so as names they are quoted or follow a point. INSERT() and REPLACE() are functions.
    ["INSERT", "REPLACE", "UPDATE", "DELETE", "CALL", "LOAD", "PROCEDURE"]
        .into_iter()
        .find(|word| is(parts, at, word) && !call)
}

/// Follows the transactions of a captured connection, for the replay and for the front end's plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransactionState {
    open: bool,
    explicit: bool,
    locked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub ends_before: bool,
    pub stays: bool,
}

impl TransactionState {
    pub fn is_open(self) -> bool {
        self.open
    }

    pub fn step(&mut self, statement: Statement, autocommit: bool) -> Step {
        let Statement { class, effect, .. } = statement;
        let implicit = self.open && !self.explicit;
        let locked = self.locked && effect != Effect::Begin;
        let ends_before = matches!(effect, Effect::Begin | Effect::Lock) || implicit && autocommit && !locked;
        self.open &= !ends_before;
        let stays = match effect {
            Effect::Begin | Effect::Chain | Effect::Lock => true,
            Effect::Unlock => self.open && !locked,
            Effect::End | Effect::Commits => locked,
            Effect::Inside => self.open || !autocommit && class != Class::Session,
        };
        self.locked = stays && (locked || effect == Effect::Lock);
        if stays {
            self.explicit |= matches!(effect, Effect::Begin | Effect::Chain | Effect::Lock);
            self.explicit &= self.open || effect != Effect::Inside;
        }
        self.open = stays;
        Step { ends_before, stays }
    }
}
