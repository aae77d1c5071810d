//! Where quotes, names and comments begin and end in SQL text, as the server reads it.

use memchr::{memchr, memchr2, memmem};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dialect {
    /// SQL mode NO_BACKSLASH_ESCAPES: a backslash is an ordinary character.
    pub no_backslash_escapes: bool,
    /// SQL mode ANSI_QUOTES: `"` quotes names, in which a backslash is an ordinary character.
    pub ansi_quotes: bool,
    /// Character set of the statements, `character_set_client`.
    pub multi_byte: MultiByte,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opaque {
    Quoted(u8),
    BlockComment,
    LineComment,
}

/// Returns the quoted text or comment that `sql` begins with, and the length of its opening mark. None if it is code.
#[inline]
pub fn opening(sql: &[u8]) -> Option<(Opaque, usize)> {
    match *sql {
        [quote @ (b'\'' | b'"' | b'`'), ..] => Some((Opaque::Quoted(quote), 1)),
        [b'#', ..] => Some((Opaque::LineComment, 1)),
        // The server wants white space or a control character after the dashes.
        [b'-', b'-'] | [b'-', b'-', 0..=b' ' | 0x7f, ..] => Some((Opaque::LineComment, 2)),
        [b'/', b'*', ..] if code_comment(sql).is_none() => Some((Opaque::BlockComment, 2)),
        _ => None,
    }
}

/// Versions that no server has: `/*!99999 … */`, and the `/*M!999999\- enable the sandbox mode */` of a dump.
const NEVER: [&[u8]; 2] = [b"99999", b"999999"];

/// Returns the length of `/*!`, `/*!50003` or `/*M!100616` at the start of `sql`, after which some server runs code.
pub fn code_comment(sql: &[u8]) -> Option<usize> {
    let rest = sql.strip_prefix(b"/*")?;
    let rest = rest.strip_prefix(b"M").unwrap_or(rest).strip_prefix(b"!")?;
    let digits = rest.iter().take(6).take_while(|byte| byte.is_ascii_digit()).count();
    let version = if digits < 5 { b"" } else { &rest[..digits] };
    (!NEVER.contains(&version)).then_some(sql.len() - rest.len() + version.len())
}

impl Dialect {
    fn escapes_in(self, quote: u8) -> bool {
        !self.no_backslash_escapes && (quote == b'\'' || quote == b'"' && !self.ansi_quotes)
    }

    /// Returns the end of `opaque`, whose content begins at `from`, after its closing mark. None if it does not end.
    pub fn end_of(self, opaque: Opaque, sql: &[u8], from: usize) -> Option<usize> {
        let rest = sql.get(from..)?;
        let quote = match opaque {
            Opaque::BlockComment => return memmem::find(rest, b"*/").map(|at| from + at + 2),
            Opaque::LineComment => return memchr(b'\n', rest).map(|at| from + at),
            Opaque::Quoted(quote) => quote,
        };
        let escape = if self.escapes_in(quote) { b'\\' } else { quote };
        let mut at = from;
        loop {
            at = self.multi_byte.find_either(sql, at, quote, escape)?;
            if sql[at] == quote && sql.get(at + 1) != Some(&quote) {
                return Some(at + 1);
            }
            at += 2;
        }
    }
}

/// Character sets, grouped by the lead bytes whose second byte can look like ASCII.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MultiByte {
    /// The character set is not known. Read like [`MultiByte::Safe`].
    #[default]
    Unknown,
    Safe,
    Sjis,
    Gbk,
    Big5,
    Gb18030,
}

impl MultiByte {
    /// Sets in which quoted text can end in different places. gb18030 is missing because it divides text like gbk.
    pub const DIFFERENT: [Self; 3] = [Self::Sjis, Self::Gbk, Self::Big5];

    pub fn of(charset: &str) -> Self {
        match charset.to_ascii_lowercase().as_str() {
            "sjis" | "cp932" | "13" | "88" | "95" | "96" => Self::Sjis,
            "gbk" | "28" | "87" => Self::Gbk,
            "big5" | "1" | "84" => Self::Big5,
            "gb18030" | "248" | "249" | "250" => Self::Gb18030,
            _ => Self::Safe,
        }
    }

    fn is_single(self) -> bool {
        matches!(self, Self::Unknown | Self::Safe)
    }

    pub fn is_lead(self, byte: u8) -> bool {
        match self {
            Self::Unknown | Self::Safe => false,
            Self::Sjis => matches!(byte, 0x81..=0x9f | 0xe0..=0xfc),
            Self::Gbk | Self::Gb18030 => matches!(byte, 0x81..=0xfe),
            Self::Big5 => matches!(byte, 0xa1..=0xf9),
        }
    }

    pub fn character_bytes(self, bytes: &[u8]) -> Option<usize> {
        let (&lead, &trail) = (bytes.first()?, bytes.get(1)?);
        if !self.is_lead(lead) {
            return None;
        }
        let two = match self {
            Self::Unknown | Self::Safe => false,
            Self::Sjis => matches!(trail, 0x40..=0x7e | 0x80..=0xfc),
            Self::Gbk | Self::Gb18030 => matches!(trail, 0x40..=0x7e | 0x80..=0xfe),
            Self::Big5 => matches!(trail, 0x40..=0x7e | 0xa1..=0xfe),
        };
        if two {
            return Some(2);
        }
        match (self, trail, bytes.get(2), bytes.get(3)) {
            (Self::Gb18030, b'0'..=b'9', Some(0x81..=0xfe), Some(b'0'..=b'9')) => Some(4),
            _ => None,
        }
    }

    /// Finds the first single-byte character at or after `from` for which `stops` is true.
    pub fn find(self, bytes: &[u8], from: usize, stops: impl Fn(u8) -> bool) -> Option<usize> {
        let mut at = from;
        if self.is_single() {
            return bytes.get(at..)?.iter().position(|&byte| stops(byte)).map(|ahead| at + ahead);
        }
        while let Some(&byte) = bytes.get(at) {
            match self.character_bytes(&bytes[at..]) {
                Some(length) => at += length,
                None if stops(byte) => return Some(at),
                None => at += 1,
            }
        }
        None
    }

    /// Finds the first of two single-byte characters at or after `from`. Faster than [`MultiByte::find`].
    pub fn find_either(self, bytes: &[u8], from: usize, one: u8, other: u8) -> Option<usize> {
        if self.is_single() {
            return memchr2(one, other, bytes.get(from..)?).map(|ahead| from + ahead);
        }
        self.find(bytes, from, |byte| byte == one || byte == other)
    }
}
