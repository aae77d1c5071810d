//! How a server reads SQL text: what a backslash and `"` mean, and which bytes are one character.

use memchr::memchr2;

/// The settings of a session that decide where its texts and names end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dialect {
    /// SQL mode NO_BACKSLASH_ESCAPES: a backslash is an ordinary character.
    pub no_backslash_escapes: bool,
    /// SQL mode ANSI_QUOTES: `"` quotes names, in which a backslash is an ordinary character.
    pub ansi_quotes: bool,
    /// Character set of its statements, `character_set_client`.
    pub multi_byte: MultiByte,
}

impl Dialect {
    /// Whether a backslash escapes the byte after it within this quote.
    pub fn escapes_in(self, quote: u8) -> bool {
        !self.no_backslash_escapes && (quote == b'\'' || quote == b'"' && !self.ansi_quotes)
    }

    /// Where the text or name ends whose content begins at `from`, its quote included; None if it does not end.
    pub fn end_of_quoted(self, sql: &[u8], from: usize, quote: u8) -> Option<usize> {
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

/// Which bytes begin a character whose second byte may be taken for ASCII (a backslash, a backtick, a letter).
///
/// Source: the standards' own tables for lead and trail bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MultiByte {
    /// The character set is not known; bytes are read as for [`MultiByte::Safe`].
    #[default]
    Unknown,
    /// None: ASCII bytes are always ASCII characters (latin1, utf8, ujis, euckr, …).
    Safe,
    /// sjis and cp932.
    Sjis,
    /// gbk.
    Gbk,
    /// big5.
    Big5,
    /// gb18030.
    Gb18030,
}

impl MultiByte {
    /// Sets that differ in where a text or a name ends; gb18030 is read as gbk is.
    pub const DIFFERENT: [Self; 3] = [Self::Sjis, Self::Gbk, Self::Big5];

    /// By the character set's name, or by the number of one of its collations, which `SET character_set_client` takes, too.
    pub fn of(charset: &str) -> Self {
        match charset.to_ascii_lowercase().as_str() {
            "sjis" | "cp932" | "13" | "88" | "95" | "96" => Self::Sjis,
            "gbk" | "28" | "87" => Self::Gbk,
            "big5" | "1" | "84" => Self::Big5,
            "gb18030" | "248" | "249" | "250" => Self::Gb18030,
            _ => Self::Safe,
        }
    }

    /// Every byte is looked at by itself.
    pub fn is_single(self) -> bool {
        matches!(self, Self::Unknown | Self::Safe)
    }

    /// May `byte` begin a character of several bytes?
    pub fn is_lead(self, byte: u8) -> bool {
        match self {
            Self::Unknown | Self::Safe => false,
            Self::Sjis => matches!(byte, 0x81..=0x9f | 0xe0..=0xfc),
            Self::Gbk | Self::Gb18030 => matches!(byte, 0x81..=0xfe),
            Self::Big5 => matches!(byte, 0xa1..=0xf9),
        }
    }

    /// Length of the character of several bytes that `bytes` begins with, if it does.
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

    /// Offset of the first byte from `from` on that `stops`, those of characters of several bytes left out.
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

    /// As [`MultiByte::find`] for two bytes, and faster.
    pub fn find_either(self, bytes: &[u8], from: usize, one: u8, other: u8) -> Option<usize> {
        if self.is_single() {
            return memchr2(one, other, bytes.get(from..)?).map(|ahead| from + ahead);
        }
        self.find(bytes, from, |byte| byte == one || byte == other)
    }
}
