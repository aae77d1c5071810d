//! Splits SQL text into tokens as MySQL's lexer does. It never fails: a quote or comment that does not end becomes
//! [`Kind::Cut`]. `"…"` is always a text, whatever the [`Dialect`].

use std::borrow::Cow;

use bakeoff_wire::dialect::{Dialect, MultiByte, Opaque, code_comment, opening};
use memchr::memchr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Word,
    Quoted,
    Number,
    Text,
    /// The name of a variable or a host after a single `@`.
    Host,
    Parameter,
    /// A comment. For code in a comment, one token is the `/*!50003` or `/*M!` and another is the `*/`.
    Comment,
    /// `/*+` after one of [`TAKING_HINTS`]. The hint's tokens follow.
    HintBegin,
    HintEnd,
    Symbol,
    Cut,
}

const TAKING_HINTS: [&str; 5] = ["select", "insert", "update", "delete", "replace"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
}

pub(crate) fn is_ident(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

fn is_space(byte: u8) -> bool {
    byte <= b' '
}

#[derive(Debug, Default)]
pub struct Lexer<'a> {
    sql: &'a [u8],
    at: usize,
    in_version: bool,
    pub(crate) in_hint: bool,
    takes_hint: bool,
    after_at: bool,
    after_dot: bool,
    pub(crate) dialect: Dialect,
}

impl<'a> Lexer<'a> {
    pub fn new(sql: &'a [u8]) -> Self {
        Self::in_dialect(sql, Dialect::default())
    }

    pub fn in_dialect(sql: &'a [u8], dialect: Dialect) -> Self {
        Self { sql, dialect, ..Self::default() }
    }

    pub fn code(self) -> impl Iterator<Item = Token> + 'a {
        self.filter(|token| token.kind != Kind::Comment)
    }

    pub(crate) fn is_within_comment(&self) -> bool {
        self.in_hint || self.in_version
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

    fn opaque(&mut self, kind: Kind, opaque: Opaque, from: usize) -> Token {
        match self.dialect.end_of(opaque, self.rest(), from) {
            Some(len) => self.token(kind, len),
            None if opaque == Opaque::LineComment => self.token(kind, self.rest().len()),
            None => self.token(Kind::Cut, self.rest().len()),
        }
    }

    fn comment(&mut self) -> Option<Token> {
        let rest = self.rest();
        if rest.starts_with(b"/*+") && self.takes_hint {
            self.in_hint = true;
            return Some(self.token(Kind::HintBegin, 3));
        }
        if let Some(len) = code_comment(rest).filter(|_| !self.in_version) {
            self.in_version = true;
            return Some(self.token(Kind::Comment, len));
        }
        match rest {
            // Code comments do not nest.
            [b'/', b'*', ..] => Some(self.opaque(Kind::Comment, Opaque::BlockComment, 2)),
            [b'#', ..] if self.in_hint => None,
            _ => opening(rest).map(|(opaque, from)| self.opaque(Kind::Comment, opaque, from)),
        }
    }

    fn length_to(&self, ends: impl Fn(u8) -> bool) -> usize {
        self.dialect.multi_byte.find(self.rest(), 0, ends).unwrap_or(self.rest().len())
    }

    fn word(&mut self) -> Token {
        let len = self.length_to(|byte| !is_ident(byte));
        self.token(Kind::Word, len)
    }

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
            (b'!' | b':', b'=', _)
            | (b'<', b'=' | b'>' | b'<', _)
            | (b'>', b'=' | b'>', _)
            | (b'&', b'&', _)
            | (b'|', b'|', _)
            | (b'-', b'>', _)
            | (b'@', b'@', _) => 2,
            _ => 1,
        };
        self.token(Kind::Symbol, len)
    }

    fn read(&mut self) -> Token {
        let byte = self.peek(0);
        let next = self.peek(1);
        if matches!(byte, b'/' | b'-' | b'#')
            && let Some(comment) = self.comment()
        {
            return comment;
        }
        match byte {
            b'\'' | b'"' => self.opaque(Kind::Text, Opaque::Quoted(byte), 1),
            b'`' => self.opaque(Kind::Quoted, Opaque::Quoted(byte), 1),
            b'n' | b'N' | b'x' | b'X' | b'b' | b'B' if next == b'\'' && !self.after_dot => {
                self.opaque(Kind::Text, Opaque::Quoted(next), 2)
            }
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

    /// Whether the byte before belongs to a name, so that a point here separates names: `t.1a`.
    fn follows_name(&self) -> bool {
        self.at > 0 && (is_ident(self.sql[self.at - 1]) || self.sql[self.at - 1] == b'`')
    }

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
            self.takes_hint = found.kind == Kind::Word && is_one_of(text, &TAKING_HINTS);
        }
        Some(found)
    }
}

pub fn code_tokens(sql: &[u8]) -> impl Iterator<Item = Token> + '_ {
    Lexer::new(sql).code()
}

/// Returns the dialect, or if that leaves a text open, the first other one in which every text ends. Valid UTF-8 is
/// never read as another character set.
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

pub(crate) fn is_one_of(word: &[u8], words: &[&str]) -> bool {
    words.iter().any(|each| word.eq_ignore_ascii_case(each.as_bytes()))
}

pub(crate) fn unquoted(text: &[u8], multi_byte: MultiByte) -> Cow<'_, [u8]> {
    let inner = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
    let (mut plain, mut rest) = (Vec::new(), inner);
    while let Some(at) = multi_byte.find_either(rest, 0, b'`', b'`') {
        plain.extend_from_slice(&rest[..=at]);
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    if plain.is_empty() {
        return Cow::Borrowed(inner);
    }
    plain.extend_from_slice(rest);
    Cow::Owned(plain)
}

pub fn is_word(sql: &[u8], token: Token, word: &str) -> bool {
    sql[token.start..token.end].eq_ignore_ascii_case(word.as_bytes())
}
