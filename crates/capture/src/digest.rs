//! Digests: groups statements that differ only in literals, layout and comments, like the server's
//! `STATEMENT_DIGEST()`. A literal becomes `?`, a list of them `?, ...`, a row `(...)`, several rows `(...) /* , ...
//! */`. Differences from the server: docs/reference/capture.md.

use bakeoff_wire::dialect::{Dialect, MultiByte};
use sha2::{Digest as _, Sha256};

use crate::facts::{Facts, Watch};
use crate::keywords::{self, Id, NAMED, SYMBOLS, SYMBOLS_FROM, symbol};
use crate::lexer::{Kind, Lexer, Token, ending_texts, unquoted};

/// The digest's own tokens from [`VALUE`] on.
#[rustfmt::skip]
const OWN: [&str; 10] = [
    "?", "?, ...", "(?)", "(?) /* , ... */", "(...)", "(...) /* , ... */", "IN (...)", "(_charset)", "/*+", "*/",
];
const VALUE: Id = 300;
const VALUES: Id = 301;
const ROW_OF_ONE: Id = 302;
const ROWS_OF_ONE: Id = 303;
const ROW: Id = 304;
const ROWS: Id = 305;
const IN_LIST: Id = 306;
const CHARSET: Id = 307;
const HINT_BEGIN: Id = 308;
const HINT_END: Id = 309;
const IDENT: Id = 310;
const HINT_NAME: Id = 311;
const NONE: Id = 0;

const CHARSETS: &str = include_str!("charsets.txt");

#[derive(Debug, Default)]
pub struct Digester {
    /// Two bytes per token. After [`IDENT`] and [`HINT_NAME`] follow four bytes of length and the name.
    key: Vec<u8>,
    /// The end of the last identifier. Nothing before it is reduced any more.
    floor: usize,
}

impl Digester {
    pub fn read(&mut self, sql: &[u8], dialect: Dialect) -> Facts {
        self.key.clear();
        self.floor = 0;
        let mut watch = Watch::default();
        let dialect = ending_texts(sql, dialect);
        watch.facts.dialect = dialect;
        let mut lexer = Lexer::in_dialect(sql, dialect);
        let mut after_symbol: Id = NONE;
        loop {
            let in_hint = lexer.in_hint;
            let Some(token) = lexer.next() else { break };
            if token.kind == Kind::Comment {
                watch.comment(&sql[token.start..token.end]);
                continue;
            }
            let id = self.add(sql, token, after_symbol, in_hint, dialect.multi_byte);
            watch.token(id, token, sql);
            after_symbol = id;
        }
        let mut facts = watch.facts;
        facts.empty = self.key.is_empty();
        while self.last(0) == Id::from(b';') {
            self.pop(1);
        }
        facts
    }

    pub fn key(&self) -> &[u8] {
        &self.key
    }

    fn add(&mut self, sql: &[u8], token: Token, before: Id, in_hint: bool, multi_byte: MultiByte) -> Id {
        let text = &sql[token.start..token.end];
        match token.kind {
            Kind::Word if in_hint => self.add_hint_word(text, sql.get(token.end..).unwrap_or_default()),
            Kind::Word => return self.add_word(sql, token, before),
            Kind::Quoted => self.push_name(IDENT, &unquoted(text, multi_byte)),
            Kind::Number => self.push_number(),
            Kind::Text | Kind::Host | Kind::Parameter | Kind::Cut => self.push_value(),
            Kind::HintBegin => self.push(HINT_BEGIN),
            Kind::HintEnd if self.last(0) == HINT_BEGIN => self.pop(1),
            Kind::HintEnd => self.push(HINT_END),
            Kind::Comment => {}
            Kind::Symbol => {
                let id = symbol(text);
                if id == Id::from(b')') {
                    self.push_closing();
                } else {
                    self.push(id);
                }
                return id;
            }
        }
        if token.kind == Kind::Quoted { IDENT } else { VALUE }
    }

    fn add_word(&mut self, sql: &[u8], token: Token, before: Id) -> Id {
        let text = &sql[token.start..token.end];
        let next = sql.get(token.end).copied().unwrap_or(0);
        let before_name = next == b'.' && sql.get(token.end + 1).is_some_and(|&byte| crate::lexer::is_ident(byte));
        // In `@@session.x` the word before the point is a keyword, in `status.x` it is a name.
        let id = if before == Id::from(b'.') || before_name && before != symbol(b"@@") {
            None
        } else {
            keywords::keyword(text, next == b'(')
        };
        match id {
            Some(id) if id == NAMED.NULL && is_value_after(before) => {
                self.push_value();
                id
            }
            Some(id) => {
                self.push(id);
                id
            }
            None if is_charset(text) => {
                self.push(CHARSET);
                CHARSET
            }
            None => {
                self.push_name(IDENT, text);
                IDENT
            }
        }
    }

    fn add_hint_word(&mut self, text: &[u8], rest: &[u8]) {
        let id = keywords::keyword(text, false).filter(|&id| keywords::is_only_in_hints(id));
        if rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'(') {
            self.push_name(HINT_NAME, &text.to_ascii_uppercase());
        } else if let Some(id) = id {
            self.push(id);
        } else {
            self.push_name(IDENT, text);
        }
    }

    fn push(&mut self, id: Id) {
        self.key.extend_from_slice(&id.to_le_bytes());
    }

    fn push_name(&mut self, id: Id, name: &[u8]) {
        self.push(id);
        self.key.extend_from_slice(&u32::try_from(name.len()).unwrap_or(u32::MAX).to_le_bytes());
        self.key.extend_from_slice(name);
        self.floor = self.key.len();
    }

    fn last(&self, back: usize) -> Id {
        let Some(at) = self.key.len().checked_sub(2 * (back + 1)).filter(|&at| at >= self.floor) else { return NONE };
        Id::from_le_bytes([self.key[at], self.key[at + 1]])
    }

    fn pop(&mut self, count: usize) {
        self.key.truncate(self.key.len() - 2 * count);
    }

    fn push_number(&mut self) {
        while matches!(self.last(0), PLUS | MINUS) && begins_expression(self.last(1)) {
            self.pop(1);
        }
        self.push_value();
    }

    fn push_value(&mut self) {
        let folds = self.last(0) == COMMA && matches!(self.last(1), VALUE | VALUES);
        if folds {
            self.pop(2);
        }
        self.push(if folds { VALUES } else { VALUE });
    }

    fn push_closing(&mut self) {
        let (row, rows) = match (self.last(1), self.last(0)) {
            (OPEN, VALUE) => (ROW_OF_ONE, ROWS_OF_ONE),
            (OPEN, VALUES) => (ROW, ROWS),
            _ => return self.push(CLOSE),
        };
        self.pop(2);
        if self.last(0) == NAMED.IN {
            self.pop(1);
            self.push(IN_LIST);
        } else if self.last(0) == COMMA && (self.last(1) == row || self.last(1) == rows) {
            self.pop(2);
            self.push(rows);
        } else {
            self.push(row);
        }
    }
}

const COMMA: Id = b',' as Id;
const OPEN: Id = b'(' as Id;
const CLOSE: Id = b')' as Id;
const PLUS: Id = b'+' as Id;
const MINUS: Id = b'-' as Id;

fn is_charset(word: &[u8]) -> bool {
    word.first() == Some(&b'_')
        && CHARSETS.split_whitespace().any(|name| word[1..].eq_ignore_ascii_case(name.as_bytes()))
}

/// Whether an expression follows this token, so that `+` and `-` are signs.
fn begins_expression(id: Id) -> bool {
    let named = &*NAMED;
    match u8::try_from(id) {
        Ok(byte) => b"(,=<>+-*/%^&|".contains(&byte),
        Err(_) if id < VALUE => !matches!(SYMBOLS[usize::from(id - SYMBOLS_FROM)], ":=" | "->" | "->>" | "@@"),
        #[rustfmt::skip]
        Err(_) => [
            named.SELECT, named.BETWEEN, named.AND, named.LIKE, named.NOT, named.CASE, named.WHEN,
            named.THEN, named.ELSE, named.XOR, named.OR, named.DIV, named.MOD, named.RLIKE,
            named.INTERVAL, named.DEFAULT,
        ]
        .contains(&id),
    }
}

fn is_value_after(id: Id) -> bool {
    let named = &*NAMED;
    let also = [named.WHERE, named.HAVING, named.BY, named.DISTINCT, named.ALL, named.ON, named.BINARY];
    (begins_expression(id) && id != named.NOT) || also.contains(&id) || id == symbol(b":=")
}

pub fn text_of(key: &[u8]) -> String {
    let mut text = String::with_capacity(key.len() * 2);
    let mut at = 0;
    while let Some(pair) = key.get(at..at + 2) {
        let id = Id::from_le_bytes([pair[0], pair[1]]);
        at += 2;
        match id {
            IDENT | HINT_NAME => {
                let size = key.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes);
                let name = key.get(at + 4..at + 4 + size as usize).unwrap_or_default();
                at += 4 + size as usize;
                let quote = if id == IDENT { "`" } else { "" };
                text.push_str(quote);
                for chunk in name.utf8_chunks() {
                    text.push_str(chunk.valid());
                    text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
                }
                text.push_str(quote);
            }
            _ if id >= keywords::FIRST => text.push_str(keywords::text(id)),
            VALUE..IDENT => text.push_str(OWN[usize::from(id - VALUE)]),
            _ if id >= SYMBOLS_FROM => text.push_str(SYMBOLS[usize::from(id - SYMBOLS_FROM) % SYMBOLS.len()]),
            _ => text.push(char::from(u8::try_from(id).unwrap_or(b'?'))),
        }
        if !text.ends_with('@') {
            text.push(' ');
        }
    }
    text.truncate(text.trim_end().len());
    text
}

pub fn name_of(text: &str) -> String {
    Sha256::digest(text.as_bytes())[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}
