//! Splits SQL text into tokens as MySQL's lexer does: words, literals, comments of all kinds, hints, symbols.
//!
//! It never fails: what is not ended ends with the text and is [`Kind::Cut`]. Where texts and names end depends on the session's
//! [`Dialect`]; `"…"` is always a text.

use bakeoff_wire::dialect::{Dialect, MultiByte};
use memchr::{memchr, memmem};

use crate::event::number;
use crate::session::SessionState;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An identifier or keyword without quotes.
    Word,
    /// An identifier in backticks.
    Quoted,
    /// A number: `1`, `1.5e3`, `0x1F`, `0b1`.
    Number,
    /// A literal in quotes: text, `N'…'`, `x'…'`, `b'…'`.
    Text,
    /// What follows a single `@`: the name of a variable, or a host.
    Host,
    /// The `?` of a prepared statement.
    Parameter,
    /// A comment, the frame of a `/*! … */` or `/*M! … */` whose content is code, or a `/*!99999 … */` whose content is not.
    Comment,
    /// `/*+` after `SELECT`, `INSERT`, `REPLACE`, `UPDATE` or `DELETE`; its content follows as tokens.
    HintBegin,
    /// `*/` of a hint.
    HintEnd,
    /// An operator or a mark of punctuation.
    Symbol,
    /// A quote or comment that the text ends within.
    Cut,
}

/// A token and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// First byte.
    pub start: usize,
    /// One beyond the last byte.
    pub end: usize,
}

/// Versions of comments that no server runs: `/*!99999 … */`, and the line `/*M!999999\- enable the sandbox mode */` of a dump.
const NEVER: [u64; 2] = [99_999, 999_999];

/// Bytes that names and keywords without quotes are made of.
const IDENT: [bool; 256] = {
    let mut of = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "below 256")]
        let is = matches!(byte as u8, b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | 0x80..);
        of[byte] = is;
        byte += 1;
    }
    of
};

pub(crate) fn is_ident(byte: u8) -> bool {
    IDENT[usize::from(byte)]
}

fn is_space(byte: u8) -> bool {
    byte <= b' '
}

/// Iterates over the tokens of a statement.
#[derive(Debug)]
pub struct Lexer<'a> {
    sql: &'a [u8],
    at: usize,
    /// Inside `/*! … */` or `/*M! … */`; its `*/` is the other half of the frame.
    in_version: bool,
    in_hint: bool,
    /// The last token may be followed by a hint.
    takes_hint: bool,
    /// The last token was a single `@`.
    after_at: bool,
    /// The last token was `.`: what follows is a name, also `1a`.
    after_dot: bool,
    dialect: Dialect,
}

impl<'a> Lexer<'a> {
    /// Reads `sql` in the default modes of a server.
    pub fn new(sql: &'a [u8]) -> Self {
        Self::in_dialect(sql, Dialect::default())
    }

    /// Reads `sql` as the server does for a session with this dialect.
    pub fn in_dialect(sql: &'a [u8], dialect: Dialect) -> Self {
        Self {
            sql,
            at: 0,
            in_version: false,
            in_hint: false,
            takes_hint: false,
            after_at: false,
            after_dot: false,
            dialect,
        }
    }

    /// Its tokens without comments.
    pub fn code(self) -> impl Iterator<Item = Token> + 'a {
        self.filter(|token| token.kind != Kind::Comment)
    }

    /// Whether the next token belongs to a hint.
    pub fn in_hint(&self) -> bool {
        self.in_hint
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.sql.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn token(&mut self, kind: Kind, len: usize) -> Token {
        let start = self.at;
        self.at = (self.at + len).min(self.sql.len());
        Token { kind, start, end: self.at }
    }

    fn rest(&self) -> &'a [u8] {
        &self.sql[self.at..]
    }

    /// A text or a name in quotes whose content begins `from` bytes ahead.
    fn quoted(&mut self, kind: Kind, from: usize, quote: u8) -> Token {
        match self.dialect.end_of_quoted(self.rest(), from, quote) {
            Some(len) => self.token(kind, len),
            None => self.token(Kind::Cut, self.rest().len()),
        }
    }

    fn line_comment(&mut self) -> Token {
        let len = memchr(b'\n', self.rest()).unwrap_or(self.rest().len());
        self.token(Kind::Comment, len)
    }

    /// What begins with `/*`.
    fn block_comment(&mut self) -> Token {
        if self.peek(2) == b'+' && self.takes_hint {
            self.in_hint = true;
            return self.token(Kind::HintBegin, 3);
        }
        if !self.in_version
            && let Some(len) = code_comment(self.rest())
        {
            self.in_version = true;
            return self.token(Kind::Comment, len);
        }
        match memmem::find(&self.rest()[2..], b"*/") {
            Some(end) => self.token(Kind::Comment, end + 4),
            None => self.token(Kind::Cut, self.rest().len()),
        }
    }

    /// Bytes up to the next one that `ends`; bytes within a character of several are passed over.
    fn length_to(&self, ends: impl Fn(u8) -> bool) -> usize {
        self.dialect.multi_byte.find(self.rest(), 0, ends).unwrap_or(self.rest().len())
    }

    fn word(&mut self) -> Token {
        let len = self.length_to(|byte| !is_ident(byte));
        self.token(Kind::Word, len)
    }

    /// What begins with a digit, or with a point before one.
    fn number(&mut self) -> Token {
        let rest = self.rest();
        let digits =
            |from: usize| rest.get(from..).unwrap_or_default().iter().take_while(|b| b.is_ascii_digit()).count();
        let radix = |allowed: fn(u8) -> bool| rest[2..].iter().take_while(|&&byte| allowed(byte)).count();
        if rest[0] == b'0' && matches!(self.peek(1), b'x' | b'b') {
            let len =
                2 + if rest[1] == b'x' { radix(|b| b.is_ascii_hexdigit()) } else { radix(|b| b == b'0' || b == b'1') };
            if len > 2 && !rest.get(len).is_some_and(|&byte| is_ident(byte)) {
                return self.token(Kind::Number, len);
            }
            return self.word();
        }
        let whole = digits(0);
        let exponent = |at: usize| {
            let sign = usize::from(matches!(rest.get(at + 1), Some(b'+' | b'-')));
            let power = digits(at + 1 + sign);
            if matches!(rest.get(at), Some(b'e' | b'E')) && power > 0 { 1 + sign + power } else { 0 }
        };
        if rest.get(whole) == Some(&b'.') {
            let at = whole + 1 + digits(whole + 1);
            return self.token(Kind::Number, at + exponent(at));
        }
        let power = exponent(whole);
        if power == 0 && self.in_hint && matches!(rest.get(whole), Some(b'K' | b'M' | b'G' | b'k' | b'm' | b'g')) {
            return self.token(Kind::Number, whole + 1);
        }
        if power == 0 && rest.get(whole).is_some_and(|&byte| is_ident(byte)) {
            return self.word();
        }
        self.token(Kind::Number, whole + power)
    }

    fn symbol(&mut self) -> Token {
        let len = match (self.peek(0), self.peek(1), self.peek(2)) {
            (b'<', b'=', b'>') | (b'-', b'>', b'>') => 3,
            (b'<' | b'>' | b'!' | b':', b'=', _)
            | (b'<', b'>' | b'<', _)
            | (b'>', b'>', _)
            | (b'&', b'&', _)
            | (b'|', b'|', _)
            | (b'-', b'>', _)
            | (b'@', b'@', _) => 2,
            _ => 1,
        };
        self.token(Kind::Symbol, len)
    }

    /// The token that begins at a byte that is no space.
    fn read(&mut self) -> Token {
        let byte = self.peek(0);
        let next = self.peek(1);
        match byte {
            b'\'' | b'"' => self.quoted(Kind::Text, 1, byte),
            b'`' => self.quoted(Kind::Quoted, 1, byte),
            b'n' | b'N' | b'x' | b'X' | b'b' | b'B' if next == b'\'' && !self.after_dot => {
                self.quoted(Kind::Text, 2, next)
            }
            b'#' if !self.in_hint => self.line_comment(),
            b'-' if next == b'-' && (self.at + 2 >= self.sql.len() || is_space(self.peek(2))) => self.line_comment(),
            b'/' if next == b'*' => self.block_comment(),
            b'*' if next == b'/' && self.in_hint => {
                self.in_hint = false;
                self.token(Kind::HintEnd, 2)
            }
            b'*' if next == b'/' && self.in_version => {
                self.in_version = false;
                self.token(Kind::Comment, 2)
            }
            b'?' => self.token(Kind::Parameter, 1),
            b'.' if next.is_ascii_digit() && !self.follows_name() => self.number(),
            b'0'..=b'9' if !self.after_dot => self.number(),
            _ if is_ident(byte) => self.word(),
            _ => self.symbol(),
        }
    }

    /// Whether the byte before belongs to a name, so that a point divides names: `t.1a`.
    fn follows_name(&self) -> bool {
        self.at > 0 && (is_ident(self.sql[self.at - 1]) || self.sql[self.at - 1] == b'`')
    }

    /// What follows a single `@`, up to a byte that names of variables and hosts do not have.
    fn host(&mut self) -> Option<Token> {
        let len = self.length_to(|byte| !is_ident(byte) && byte != b'.');
        (len > 0).then(|| self.token(Kind::Host, len))
    }
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        let after_at = std::mem::take(&mut self.after_at);
        if after_at
            && !self.in_hint
            && let Some(found) = self.host()
        {
            self.after_dot = false;
            return Some(found);
        }
        self.at += self.rest().iter().position(|&byte| !is_space(byte)).unwrap_or(self.rest().len());
        if self.at == self.sql.len() {
            return None;
        }
        let found = self.read();
        let text = &self.sql[found.start..found.end];
        self.after_dot = text == b".";
        self.after_at = found.kind == Kind::Symbol && text == b"@";
        if found.kind != Kind::Comment {
            self.takes_hint = found.kind == Kind::Word && takes_hint(text);
        }
        Some(found)
    }
}

/// The tokens of a statement without its comments, in the default modes of a server.
pub fn code_tokens(sql: &[u8]) -> impl Iterator<Item = Token> + '_ {
    Lexer::new(sql).code()
}

/// Length of the beginning of a comment whose content is code for some server: `/*!`, `/*!50003`, `/*M!100616`.
///
/// MySQL skips those with an `M`, MariaDB those of versions 50700 to 99999; each runs what it does not skip.
pub(crate) fn code_comment(text: &[u8]) -> Option<usize> {
    let marker = if text.starts_with(b"/*M!") { 4 } else { 3 };
    let digits = text.get(marker..)?.iter().take(6).take_while(|byte| byte.is_ascii_digit()).count();
    let digits = if digits < 5 { 0 } else { digits };
    let version = number(&text[marker..marker + digits]).unwrap_or(0);
    (text[marker - 1] == b'!' && !NEVER.contains(&version)).then_some(marker + digits)
}

/// Returns the dialect, or if it leaves a text open, the first other one in which every text ends. The session may have set
/// NO_BACKSLASH_ESCAPES or a character set before the log began. Valid UTF-8 is never read as another character set.
pub(crate) fn ending_texts(sql: &[u8], dialect: Dialect) -> Dialect {
    let ends = |dialect: &Dialect| !Lexer::in_dialect(sql, *dialect).any(|token| token.kind == Kind::Cut);
    if memchr(b'\\', sql).is_none() || ends(&dialect) {
        return dialect;
    }
    let is_other = |error: std::str::Utf8Error| error.error_len().is_some();
    let guesses = dialect.multi_byte == MultiByte::Unknown && std::str::from_utf8(sql).is_err_and(is_other);
    let sets = MultiByte::DIFFERENT.into_iter().filter(|_| guesses).map(|multi_byte| Dialect { multi_byte, ..dialect });
    let plain = Dialect { no_backslash_escapes: true, ..dialect };
    sets.chain([plain]).find(ends).unwrap_or(dialect)
}

/// Whether the token is this word, in capitals or not.
pub fn is_word(sql: &[u8], token: Token, word: &str) -> bool {
    sql[token.start..token.end].eq_ignore_ascii_case(word.as_bytes())
}

/// Objects of `CREATE` and `ALTER` whose definition may hold statements.
const WITH_BODY: [&str; 5] = ["PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE"];
/// Objects whose definition holds none, but may have one of those words as a name.
const WITHOUT_BODY: [&str; 6] = ["TABLE", "VIEW", "INDEX", "DATABASE", "SCHEMA", "USER"];
/// Tokens of a statement by which it is known whether it may hold others: `CREATE DEFINER = CURRENT_USER() EVENT`.
const BEGINNING: usize = 16;

/// The statements of a text, which a client can send in one. One that may hold others goes on to the text's end.
///
/// `session`: its state before the text.
pub(crate) fn statements(sql: &[u8], mut session: SessionState) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let (mut from, mut beginning) = (0, Vec::new());
    let mut lexer = Lexer::in_dialect(sql, ending_texts(sql, session.dialect()));
    while let Some(token) = lexer.next() {
        if &sql[token.start..token.end] != b";" || lexer.in_version || lexer.in_hint {
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
                lexer.dialect = ending_texts(&sql[token.end..], session.dialect());
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

/// Whether a statement that begins so may hold others: it makes a routine, trigger or event, or is MariaDB's program.
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

fn takes_hint(word: &[u8]) -> bool {
    match word.len() {
        6 => [b"select", b"insert", b"update", b"delete"].iter().any(|each| word.eq_ignore_ascii_case(*each)),
        7 => word.eq_ignore_ascii_case(b"replace"),
        _ => false,
    }
}

#[cfg(test)]
#[path = "../tests/unit/lexer.rs"]
mod tests;
