//! Character sets, as far as the bytes of SQL text depend on them.
//!
//! Names and collations are the server's business (SET NAMES); here is only what must be known before it can be asked: the
//! collation number of the login, and which character sets may hide a backslash in the second byte of a character.
//!
//! Source: MySQL reference manual, "Character Sets and Collations"; the standards' own tables for lead and trail bytes.

/// Collation number of the login packet for a character set: its oldest default, below 256 and known to every server that knows
/// the set. 45 (utf8mb4_general_ci) for sets not listed; SET NAMES follows in any case.
pub fn login_collation_id(charset: &str) -> u8 {
    match charset {
        "latin1" => 8,
        "latin2" => 9,
        "ascii" => 11,
        "ujis" => 12,
        "sjis" => 13,
        "euckr" => 19,
        "gb2312" => 24,
        "gbk" => 28,
        "big5" => 1,
        "utf8" | "utf8mb3" => 33,
        "binary" => 63,
        "cp932" => 95,
        _ => 45,
    }
}

/// Which bytes begin a character whose second byte may be taken for ASCII (a backslash, a quote's escape, a letter).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MultiByte {
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
    /// By the character set's name.
    pub fn of(charset: &str) -> Self {
        match charset {
            "sjis" | "cp932" => Self::Sjis,
            "gbk" => Self::Gbk,
            "big5" => Self::Big5,
            "gb18030" => Self::Gb18030,
            _ => Self::Safe,
        }
    }

    /// May `byte` begin a character of several bytes?
    pub(crate) fn is_lead(self, byte: u8) -> bool {
        match self {
            Self::Safe => false,
            Self::Sjis => matches!(byte, 0x81..=0x9f | 0xe0..=0xfc),
            Self::Gbk | Self::Gb18030 => matches!(byte, 0x81..=0xfe),
            Self::Big5 => matches!(byte, 0xa1..=0xf9),
        }
    }

    /// Length of the character of several bytes that `bytes` begins with, if it does.
    pub(crate) fn character_bytes(self, bytes: &[u8]) -> Option<usize> {
        let (&lead, &trail) = (bytes.first()?, bytes.get(1)?);
        if !self.is_lead(lead) {
            return None;
        }
        let two = match self {
            Self::Safe => false,
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
}
