//! Events of a query log, and the numbers and times that logs write.

use bakeoff_wire::dialect::Dialect;
use strum::{EnumString, IntoStaticStr};

use crate::lexer::{code_tokens, is_word};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(ascii_case_insensitive)]
pub enum LogCommand {
    #[default]
    Query,
    Execute,
    /// Prepares a statement, or is `PREPARE`, `EXECUTE` or `DEALLOCATE` as text. The execution is a separate event.
    Prepare,
    #[strum(to_string = "Connect", serialize = "Change user")]
    Connect,
    #[strum(serialize = "Reset Connection")]
    Reset,
    Quit,
    #[strum(serialize = "Init DB")]
    InitDb,
    Other,
}

impl LogCommand {
    /// Looks up a name, ignoring case (MariaDB writes `Reset connection`). Unknown names are `Other`.
    pub fn from_name(name: &[u8]) -> Self {
        std::str::from_utf8(name).ok().and_then(|name| name.parse().ok()).unwrap_or(Self::Other)
    }
}

/// An event of a log. Times are microseconds since 1970 in UTC. Fields missing in the log are None or empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    pub connection: Option<u64>,
    pub start_us: Option<i64>,
    pub end_us: Option<i64>,
    pub query_us: Option<u64>,
    pub lock_us: Option<u64>,
    pub schema: Vec<u8>,
    pub user: Vec<u8>,
    pub command: LogCommand,
    pub sql: Vec<u8>,
    pub rows_sent: Option<u64>,
    pub rows_examined: Option<u64>,
    pub rows_affected: Option<u64>,
    pub errno: Option<u32>,
    pub insert_id: Option<u64>,
    pub last_insert_id: Option<u64>,
    pub weight: u64,
    /// The log ends within the statement, or the statement is longer than [`STATEMENT_MAX`].
    pub cut: bool,
    pub in_routine: bool,
    /// The text is a digest, which has no values to run it with.
    pub is_digest: bool,
    pub line: Option<u64>,
    pub dialect: Dialect,
}

pub const STATEMENT_MAX: usize = 16 << 20;

impl Event {
    pub fn clear(&mut self) {
        let mut empty = Self {
            weight: 1,
            schema: std::mem::take(&mut self.schema),
            user: std::mem::take(&mut self.user),
            sql: std::mem::take(&mut self.sql),
            ..Self::default()
        };
        empty.schema.clear();
        empty.user.clear();
        empty.sql.clear();
        *self = empty;
    }

    pub fn add_sql(&mut self, bytes: &[u8]) {
        self.add_sql_up_to(STATEMENT_MAX, bytes);
    }

    pub(crate) fn add_sql_up_to(&mut self, limit: usize, bytes: &[u8]) {
        let room = limit.saturating_sub(self.sql.len());
        self.cut |= bytes.len() > room;
        self.sql.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

pub trait Sink {
    fn event(&mut self, event: &mut Event);
    fn skipped(&mut self, _bytes: u64) {}

    /// Whether to stop reading because what was read cannot be written.
    fn has_failed(&self) -> bool {
        false
    }
}

pub trait LogReader {
    /// Reads a line with its newline. The last line of a log may lack it.
    fn line(&mut self, line: &[u8], sink: &mut dyn Sink);
    fn finish(&mut self, sink: &mut dyn Sink);
}

pub(crate) fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Whether this is what a server writes when it opens a log: `…, Version: 8.0.33 (…). started with:`.
pub(crate) fn is_file_header(line: &[u8]) -> bool {
    line.trim_ascii_end().ends_with(b"started with:") && memchr::memmem::find(line, b", Version: ").is_some()
}

/// Returns the rest of an event in front of the header, from a server that stopped while writing it.
pub(crate) fn before_file_header(header: &[u8]) -> &[u8] {
    if header.starts_with(b"/") && !header.starts_with(b"/*") || header.get(1..3) == Some(b":\\") {
        return b""; // such a path may contain spaces
    }
    let path_end = memchr::memmem::rfind(header, b", Version: ").unwrap_or(0);
    let word = header[..path_end].iter().rposition(u8::is_ascii_whitespace).map_or(0, |blank| blank + 1);
    let path = memchr::memchr(b'/', &header[word..path_end]).unwrap_or(0);
    &header[..word + path]
}

pub(crate) fn is_file_header_rest(line: &[u8]) -> bool {
    let is_heading = line.starts_with(b"Time") && memchr::memmem::find(line, b"Id Command").is_some();
    is_heading || line.starts_with(b"Tcp port: ") || line.starts_with(b"TCP Port: ")
}

pub(crate) fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

pub(crate) const SECOND_US: i64 = 1_000_000;

fn days(year: i64, month: i64, day: i64) -> i64 {
    // Howard Hinnant's days_from_civil: years begin in March, so the leap day comes last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn fraction_us(text: &[u8]) -> (u32, usize) {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let digit = |place: usize| text[..count].get(place).map_or(0, |digit| u32::from(digit - b'0'));
    ((0..6).fold(0, |sum, place| sum * 10 + digit(place)), count)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Microseconds since 1970. Read as UTC if it has no zone.
    pub(crate) us: i64,
    pub(crate) len: usize,
    pub(crate) zoned: bool,
}

struct Clock<'a> {
    text: &'a [u8],
    at: usize,
}

impl Clock<'_> {
    fn digits(&mut self, most: usize) -> Option<i64> {
        let rest = self.text.get(self.at..)?;
        let count = rest.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        rest[..count].iter().try_fold(0, |sum, digit| Some(sum * 10 + i64::from(digit - b'0'))).filter(|_| count > 0)
    }

    fn any(&mut self, of: &[u8]) -> Option<u8> {
        let found = self.text.get(self.at).copied().filter(|byte| of.contains(byte))?;
        self.at += 1;
        Some(found)
    }

    fn date(&mut self) -> Option<i64> {
        let count = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let year = self.digits(if count == 6 { 2 } else { 4 })?;
        let (year, month, day) = match count {
            4 => (year, self.any(b"-/").and(self.digits(2))?, self.any(b"-/").and(self.digits(2))?),
            6 => ((year + 30) % 100 + 1970, self.digits(2)?, self.digits(2)?),
            8 => (year, self.digits(2)?, self.digits(2)?),
            _ => return None,
        };
        ((1..=12).contains(&month) && (1..=31).contains(&day)).then(|| days(year, month, day))
    }

    fn time_of_day(&mut self) -> Option<i64> {
        let hour = self.digits(2)?;
        let minute = self.any(b":").and(self.digits(2))?;
        let second = self.any(b":").and(self.digits(2))?;
        let mut micros = 0;
        if let Some([b'.' | b',', rest @ ..]) = self.text.get(self.at..) {
            let (fraction, digits) = fraction_us(rest);
            micros = i64::from(fraction);
            self.at += 1 + digits;
        }
        let valid = hour < 24 && minute < 60 && second < 62;
        valid.then(|| (hour * 3600 + minute * 60 + second) * SECOND_US + micros)
    }

    /// Reads `Z`, `UTC`, `+02:00` or ` +0200`. Returns seconds east of UTC, or None without a zone.
    fn zone(&mut self) -> Option<i64> {
        let begin = self.at;
        while self.any(b" ").is_some() {}
        let rest = self.text.get(self.at..).unwrap_or_default();
        if let Some(name) = [&b"Z"[..], b"UTC", b"GMT"].into_iter().find(|name| rest.starts_with(name)) {
            self.at += name.len();
            return Some(0);
        }
        let sign = self.any(b"+-");
        let hours = sign.and_then(|_| self.digits(2));
        self.any(b":");
        let Some(((sign, hours), minutes)) = sign.zip(hours).zip(self.digits(2)) else {
            self.at = begin;
            return None;
        };
        let offset = hours * 3600 + minutes * 60;
        Some(if sign == b'-' { -offset } else { offset })
    }
}

/// Parses `2024-11-06T09:57:35.187996Z`, or `051007  9:55:24` in the server's time zone.
pub(crate) fn moment(text: &[u8]) -> Option<Moment> {
    let mut clock = Clock { text, at: 0 };
    let days = clock.date()?;
    clock.any(b"T-").or_else(|| clock.any(b" \t"))?;
    while clock.any(b" \t").is_some() {}
    let us = days * 86_400 * SECOND_US + clock.time_of_day()?;
    let zone = clock.zone();
    Some(Moment { us: us - zone.unwrap_or(0) * SECOND_US, len: clock.at, zoned: zone.is_some() })
}

pub(crate) fn seconds_us(text: &[u8]) -> Option<u64> {
    let whole = number(text)?;
    let at = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (micros, _) = text[at..].strip_prefix(b".").map_or((0, 0), fraction_us);
    whole.checked_mul(1_000_000)?.checked_add(micros.into())
}

/// Whether this is `PREPARE`, `EXECUTE` or `DEALLOCATE` as text. Logs have what it runs as a separate event.
pub(crate) fn handles_prepared(sql: &[u8]) -> bool {
    let mut tokens = code_tokens(sql);
    let Some(first) = tokens.next() else { return false };
    let is = |token, word| is_word(sql, token, word);
    ["PREPARE", "EXECUTE", "DEALLOCATE"].iter().any(|word| is(first, word))
        || is(first, "DROP") && tokens.next().is_some_and(|second| is(second, "PREPARE"))
}
