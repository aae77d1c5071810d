//! Removes the literals of statements with a password, and replaces those of all statements with `--redact`.

use std::ops::RangeInclusive;

use bakeoff_wire::dialect::{Dialect, MultiByte, code_comment};
use rand::RngExt as _;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use sha2::{Digest as _, Sha256};

use crate::facts::{Facts, is_definition, names_user};
use crate::keywords::NAMED;
use crate::lexer::{Kind, Lexer, Token, is_one_of};

const STRUCK_OUT: &[u8] = b"'***'";

pub(crate) fn strike_out(sql: &[u8], dialect: Dialect, out: &mut Vec<u8>) {
    copy(sql, dialect, out, |token, _, of_account, out| match token.kind {
        Kind::Text | Kind::Number | Kind::Cut | Kind::Host => out.extend_from_slice(STRUCK_OUT),
        Kind::Comment => keep_frame(sql, token, out),
        _ if of_account => out.extend_from_slice(STRUCK_OUT),
        _ => out.extend_from_slice(&sql[token.start..token.end]),
    });
}

pub(crate) fn without_comments(sql: &[u8], dialect: Dialect, out: &mut Vec<u8>) {
    copy(sql, dialect, out, |token, _, _, out| match token.kind {
        Kind::Comment => keep_frame(sql, token, out),
        _ => out.extend_from_slice(&sql[token.start..token.end]),
    });
}

/// Copies `/*!50003` and its `*/`. Without them every server would run the code between.
fn keep_frame(sql: &[u8], comment: Token, out: &mut Vec<u8>) {
    let text = &sql[comment.start..comment.end];
    if text == b"*/" || code_comment(text).is_some() {
        out.extend_from_slice(text);
    }
}

/// Copies a statement with the space between its tokens. `write` gets each token, the keyword before it, and whether it
/// names an account.
fn copy(sql: &[u8], dialect: Dialect, out: &mut Vec<u8>, mut write: impl FnMut(Token, &[u8], bool, &mut Vec<u8>)) {
    out.clear();
    let mut at = 0;
    let mut before: &[u8] = b"";
    let mut after_user = false;
    let mut lexer = Lexer::in_dialect(sql, dialect);
    while let Some(token) = lexer.next() {
        out.extend_from_slice(&sql[at..token.start]);
        let text = &sql[token.start..token.end];
        // In a hint `t@b` is a table and its query block.
        let is_user = !lexer.in_hint && names_user(sql, token);
        let is_sign = after_user && text == b"@";
        write(token, before, is_user || after_user && !is_sign, out);
        after_user = is_user || is_sign;
        match token.kind {
            Kind::Word => before = text,
            Kind::Symbol if text != b"," => before = b"", // LIMIT 1, 2
            _ => {}
        }
        at = token.end;
    }
    out.extend_from_slice(&sql[at.min(sql.len())..]);
}

/// Whether the statement has hints, all of which end. One that does not end reaches over the values of the statement.
fn has_closed_hints(sql: &[u8], dialect: Dialect) -> bool {
    memchr::memmem::find(sql, b"/*+").is_some() && {
        let mut lexer = Lexer::in_dialect(sql, dialect);
        while lexer.next().is_some() {}
        !lexer.in_hint
    }
}

/// Replaces each literal with one of the same type and length. Equal literals stay equal. The key is never stored.
pub struct Redactor {
    key: [u8; 32],
}

impl Redactor {
    pub fn new() -> std::io::Result<Self> {
        let mut key = [0; 32];
        std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut key)?;
        Ok(Self { key })
    }

    /// Copies `sql` without comments and with its literals and accounts (`bob@db1`) replaced. It keeps numbers after
    /// `LIMIT` and `OFFSET`, those in definitions up to a `SELECT`, hints, and the values of system variables.
    pub fn redact(&self, sql: &[u8], facts: &Facts, out: &mut Vec<u8>) {
        let named = &*NAMED;
        let mut defines = is_definition(facts.first);
        let mut sets_variables = facts.first == named.SET && sets_variables(sql, facts.dialect);
        let multi_byte = facts.dialect.multi_byte;
        let (keeps_hints, mut in_hint) = (has_closed_hints(sql, facts.dialect), false);
        copy(sql, facts.dialect, out, |token, before, of_account, out| {
            let (kind, text) = (token.kind, &sql[token.start..token.end]);
            // The rest of CREATE TABLE … SELECT and CREATE VIEW … AS SELECT is a query.
            defines &= kind != Kind::Word || !is_one_of(text, &["select"]);
            sets_variables &= text != b";"; // another statement
            in_hint = keeps_hints && (in_hint || kind == Kind::HintBegin) && kind != Kind::HintEnd;
            match kind {
                Kind::Comment => keep_frame(sql, token, out),
                _ if in_hint => out.extend_from_slice(text),
                Kind::Text | Kind::Cut if !sets_variables => {
                    self.replace_text(text, kind == Kind::Text, multi_byte, out);
                }
                Kind::Number if !sets_variables && !defines && !is_one_of(before, &["limit", "offset"]) => {
                    self.replace(text, multi_byte, out);
                }
                Kind::Word | Kind::Host if of_account => self.replace(text, multi_byte, out),
                Kind::Quoted if of_account => self.replace_text(text, true, multi_byte, out),
                _ => out.extend_from_slice(text),
            }
        });
    }

    fn replace_text(&self, text: &[u8], closed: bool, multi_byte: MultiByte, out: &mut Vec<u8>) {
        let open = text.iter().position(|byte| matches!(byte, b'\'' | b'"' | b'`' | b'*')).map_or(0, |at| at + 1);
        let inner = &text[open..];
        let inner = &inner[..inner.len().saturating_sub(usize::from(closed))];
        out.extend_from_slice(&text[..open]);
        match &text[..open] {
            [b'x' | b'X' | b'b' | b'B', ..] => self.replace_digits(inner, text[0].eq_ignore_ascii_case(&b'b'), out),
            _ => self.replace(inner, multi_byte, out),
        }
        out.extend_from_slice(&text[open + inner.len()..]);
    }

    fn random(&self, content: &[u8]) -> ChaCha8Rng {
        ChaCha8Rng::from_seed(Sha256::new().chain_update(self.key).chain_update(content).finalize().into())
    }

    fn replace_digits(&self, digits: &[u8], binary: bool, out: &mut Vec<u8>) {
        let mut random = self.random(digits);
        let allowed: &[u8] = if binary { b"01" } else { b"0123456789abcdef" };
        out.extend(digits.iter().map(|_| allowed[random.random_range(0..allowed.len())]));
    }

    /// Replaces letters by letters, digits by digits and other characters by ones of the same length. Dates stay dates.
    fn replace(&self, content: &[u8], multi_byte: MultiByte, out: &mut Vec<u8>) {
        if let Some(digits) = content.strip_prefix(b"0x").or(content.strip_prefix(b"0b")) {
            out.extend_from_slice(&content[..2]);
            return self.replace_digits(digits, content[1] == b'b', out);
        }
        if content.starts_with(b"0000-00-00") && content.iter().all(|byte| b"0123456789-:. ".contains(byte)) {
            return out.extend_from_slice(content);
        }
        let mut random = self.random(content);
        let is_date = content.get(..10).is_some_and(is_date);
        let mut at = 0;
        while at < content.len() {
            let byte = content[at];
            let piece = piece_at(&content[at..], multi_byte);
            match byte {
                b'0'..=b'9' if is_date => out.push(date_digit(at, content, &mut random)),
                b'0' if at == 0 => out.push(b'0'),
                b'0'..=b'9' => out.push(random.random_range(if at == 0 { b'1' } else { b'0' }..=b'9')),
                b'e' | b'E' if is_exponent(content, at) => out.push(byte),
                b'a'..=b'z' => out.push(random.random_range(b'a'..=b'z')),
                b'A'..=b'Z' => out.push(random.random_range(b'A'..=b'Z')),
                0x80.. => replace_character(piece, multi_byte, &mut random, out),
                _ => out.extend_from_slice(piece),
            }
            at += piece.len();
        }
    }
}

/// Whether a `SET` sets only system variables: no user variables, and not MariaDB's `SET STATEMENT … FOR`.
fn sets_variables(sql: &[u8], dialect: Dialect) -> bool {
    let mut tokens = Lexer::in_dialect(sql, dialect).code();
    let text = |token: Token| &sql[token.start..token.end];
    let second = tokens.nth(1);
    !second.is_some_and(|token| is_one_of(text(token), &["statement", "@"])) && tokens.all(|token| text(token) != b"@")
}

fn is_exponent(content: &[u8], at: usize) -> bool {
    let is_of_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'+' | b'-');
    at > 0 && content[..at].iter().all(is_of_number) && content[at + 1..].iter().all(is_of_number)
}

fn is_date(ten: &[u8]) -> bool {
    &ten[5..7] != b"00"
        && ten.iter().enumerate().all(
            |(at, byte)| {
                if matches!(at, 4 | 7) { *byte == b'-' } else { byte.is_ascii_digit() }
            },
        )
}

/// Draws a digit for `YYYY-MM-DD hh:mm:ss.ffffff` that leaves the date valid: months below 10, days and hours below 20.
fn date_digit(at: usize, content: &[u8], random: &mut ChaCha8Rng) -> u8 {
    match at {
        0 => content[0],
        1 | 2 if content[0] == b'0' => content[at],
        1 => content[1],
        5 => b'0',
        8 | 11 => random.random_range(b'0'..=b'1'),
        14 | 17 => random.random_range(b'0'..=b'5'),
        _ => random.random_range(b'1'..=b'9'),
    }
}

/// Replaces a character by a random one of the same length in the same character set, any other byte by a random one.
fn replace_character(piece: &[u8], multi_byte: MultiByte, random: &mut ChaCha8Rng, out: &mut Vec<u8>) {
    let mut push =
        |ranges: &[RangeInclusive<u8>]| out.extend(ranges.iter().map(|range| random.random_range(range.clone())));
    match (multi_byte, piece.len()) {
        (MultiByte::Sjis, 2) => push(&[0x89..=0x97, 0x9f..=0xfc]),
        (MultiByte::Gbk | MultiByte::Gb18030, 2) => push(&[0xb0..=0xd6, 0xa1..=0xfe]),
        (MultiByte::Big5, 2) => push(&[0xa4..=0xc5, 0xa1..=0xfe]),
        (MultiByte::Gb18030, 4) => push(&[0x82..=0x82, b'0'..=b'4', 0x81..=0xfe, b'0'..=b'9']),
        // Single-byte katakana; elsewhere a byte that begins no character.
        (MultiByte::Sjis, _) => push(&[0xb1..=0xdd]),
        (MultiByte::Gbk | MultiByte::Gb18030 | MultiByte::Big5, _) => push(&[0x80..=0x80]),
        (_, bytes) => {
            let (from, to) = match bytes {
                2 => ('\u{e0}', '\u{f6}'),
                3 => ('\u{4e00}', '\u{9fa5}'),
                4 => ('\u{1f600}', '\u{1f64f}'),
                _ => return push(&[0x80..=0xBF]),
            };
            let character = random.random_range(from..=to);
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
}

fn piece_at(content: &[u8], multi_byte: MultiByte) -> &[u8] {
    let len = match (multi_byte, content[0]) {
        (_, b'\\') => return &content[..content.len().min(2)],
        (MultiByte::Sjis | MultiByte::Gbk | MultiByte::Gb18030 | MultiByte::Big5, _) => {
            return &content[..multi_byte.character_bytes(content).unwrap_or(1)];
        }
        (_, 0xC2..=0xDF) => 2,
        (_, 0xE0..=0xEF) => 3,
        (_, 0xF0..=0xF4) => 4,
        _ => 1,
    };
    content.get(..len).filter(|piece| std::str::from_utf8(piece).is_ok()).unwrap_or(&content[..1])
}
