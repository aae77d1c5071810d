//! Reads slow query logs of MySQL 5.5 to 9.x, Percona Server and MariaDB. An event is a head of `# ` lines, `use DB;`
//! if the schema changed, `SET timestamp=N;`, and the statement with its `;`. Each line of a head is recognised by its
//! form alone, so a log can begin and end anywhere. MariaDB may write warnings at the end of the head, whose texts may
//! look like whole events. They end at the first `SET timestamp=N;` with the second in which the event was written.
//! bakeoff writes digests of running servers in this format, with `Statement_bytes: N`, `Digest_text: Yes` and `SET
//! timestamp=DEFAULT;`.

use crate::event::{
    Event, LogCommand, LogReader, Sink, handles_prepared, is_file_header, is_file_header_rest, number, without_line_end,
};
use crate::event::{SECOND_US, moment, seconds_us};

#[rustfmt::skip]
const KEYS: [&str; 24] = [
    "Query_time", "Lock_time", "Rows_sent", "Rows_examined", "Rows_affected", "Rows_read", "Id", "Thread_id", "Schema",
    "Last_errno", "Errno", "Killed", "QC_hit", "Bytes_sent", "Bytes_received", "Start", "End", "Stored_routine",
    "Log_slow_rate_type", "Log_slow_rate_limit", "Tmp_tables", "Full_scan", "Statement_bytes", "Digest_text",
];

/// Longest schema name [bytes]. Servers allow 64 characters.
const SCHEMA_MAX: usize = 512;

/// Longest warning [bytes] (MariaDB writes at most 512), and longest list of warnings [bytes].
const WARNING_MAX: usize = 4096;
const WARNINGS_MAX: usize = 1 << 20;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Outside,
    Head,
    Sql,
}

/// The lines after `# Warnings`, kept until the warnings end.
#[derive(Debug, Default)]
struct Warnings {
    text: Vec<u8>,
    since: usize,
    has_head: bool,
}

#[derive(Debug, Default)]
pub struct SlowLog {
    event: Event,
    place: Place,
    /// This head had `# User@Host:` and `# Query_time:`. A second one begins the next event.
    has_user: bool,
    has_times: bool,
    timestamp_us: Option<i64>,
    /// `SET timestamp=` of the previous event [µs]. MariaDB omits `# Time:` within the same second.
    last_us: Option<i64>,
    /// `# Time:` of this head, if it has no time zone [µs].
    local_us: Option<i64>,
    schema: Vec<u8>,
    has_schema: bool,
    /// The schema's name reached the end of its line, so it may contain a newline.
    schema_is_open: bool,
    warnings: Option<Warnings>,
    is_plain: bool,
    /// Bytes of the statement still to come, or 0 if the head does not tell.
    to_come: usize,
}

impl LogReader for SlowLog {
    fn piece(&mut self, piece: &[u8], begins: bool, sink: &mut dyn Sink) {
        if self.place == Place::Sql && self.to_come > 0 {
            self.to_come = self.to_come.saturating_sub(piece.len());
            return self.event.add_sql(piece);
        }
        if let Some(warnings) = self.warnings.take() {
            return self.piece_of_warnings(warnings, piece, begins, sink);
        }
        if !begins {
            return self.continue_line(piece, sink);
        }
        if is_file_header(piece) {
            // A server that stopped while writing a statement leaves its beginning on this line.
            if self.place == Place::Sql {
                let path = memchr::memchr(b'/', piece).unwrap_or(0);
                self.event.add_sql(&piece[..path]);
                self.end_event(false, sink);
            }
            self.place = Place::Outside;
            self.schema.clear();
            self.last_us = None;
        } else if self.begins_event(piece) {
            if self.place != Place::Outside {
                self.drop_time_line(sink);
                self.end_event(true, sink);
            }
            self.begin_event();
            self.head_line(piece);
        } else {
            match self.place {
                Place::Outside if is_file_header_rest(piece) || piece.trim_ascii().is_empty() => {}
                Place::Outside => sink.skipped(piece.len() as u64),
                Place::Head => self.after_head_began(piece, sink),
                Place::Sql => self.event.add_sql(piece),
            }
        }
    }

    fn finish(&mut self, sink: &mut dyn Sink) {
        if let Some(warnings) = self.warnings.take() {
            self.read_again(&warnings.text, sink);
        }
        if self.place == Place::Sql {
            self.drop_begun_head();
            self.end_event(false, sink);
        } else if self.event.sql.trim_ascii_end().ends_with(b";") {
            self.end_event(true, sink); // it lacks `SET timestamp`
        } else {
            sink.skipped(self.event.sql.len() as u64);
        }
        self.event.sql.clear();
        self.place = Place::Outside;
    }
}

impl SlowLog {
    fn drop_begun_head(&mut self) {
        let sql = &self.event.sql;
        let begin = memchr::memrchr(b'\n', sql).map_or(0, |end| end + 1);
        if matches!(sql.get(begin), Some(b'#' | b'/')) && sql[..begin].trim_ascii_end().ends_with(b";") {
            self.event.sql.truncate(begin);
        }
    }

    /// Removes a `# Time:` line of unknown form from the end of a statement: it belongs to the next head.
    fn drop_time_line(&mut self, sink: &mut dyn Sink) {
        let sql = self.event.sql.strip_suffix(b"\n").unwrap_or(&self.event.sql);
        let begin = memchr::memrchr(b'\n', sql).map_or(0, |end| end + 1);
        if sql[begin..].starts_with(b"# Time:") && sql[..begin].trim_ascii_end().ends_with(b";") {
            sink.skipped((self.event.sql.len() - begin) as u64);
            self.event.sql.truncate(begin);
        }
    }

    fn continue_line(&mut self, piece: &[u8], sink: &mut dyn Sink) {
        match self.place {
            Place::Outside => sink.skipped(piece.len() as u64),
            Place::Head if self.event.sql.is_empty() => {}
            Place::Head | Place::Sql => self.event.add_sql(piece),
        }
    }

    fn begins_event(&self, line: &[u8]) -> bool {
        if !line.starts_with(b"# ") {
            return false;
        }
        let in_head = self.place == Place::Head && self.event.sql.is_empty();
        if is_time_line(line) || is_user_line(line) {
            !in_head || self.has_user || self.has_times
        } else if self.place == Place::Outside && begins_with_connection(line) {
            true // the file begins within a head
        } else {
            is_times_line(line) && (!in_head || self.has_times)
        }
    }

    fn begin_event(&mut self) {
        self.event.clear();
        self.place = Place::Head;
        self.has_user = false;
        self.has_times = false;
        self.has_schema = false;
        self.schema_is_open = false;
        self.timestamp_us = None;
        self.local_us = None;
        self.to_come = 0;
    }

    /// Reads a line of a head. Any other line is kept as the statement, in case no `SET timestamp` follows.
    fn after_head_began(&mut self, line: &[u8], sink: &mut dyn Sink) {
        let plain = without_line_end(line);
        let is_begun = !self.event.sql.is_empty();
        if plain.starts_with(b"#") && !is_begun && !plain.starts_with(b"# administrator command: ") {
            self.schema_is_open = false;
            if plain.trim_ascii_end() == b"# Warnings" && self.has_times && !self.is_plain {
                self.warnings = Some(Warnings::default());
                return;
            }
            self.head_line(line);
        } else if self.set_line(plain) {
            self.end_head(sink);
        } else if is_begun || !(self.use_line(plain) || self.schema_line(plain) || plain.is_empty()) {
            self.event.add_sql(line);
        }
    }

    fn schema_line(&mut self, text: &[u8]) -> bool {
        let goes_on = self.schema_is_open
            && self.event.schema.len() < SCHEMA_MAX
            && (!self.has_times || next_key(text, 0).is_some());
        if goes_on {
            self.event.schema.push(b'\n');
            self.schema(text);
        }
        goes_on
    }

    fn end_head(&mut self, sink: &mut dyn Sink) {
        let kept = std::mem::take(&mut self.event.sql);
        if !kept.is_empty() && !self.use_line(&kept) && !self.schema_line(&kept) {
            sink.skipped(kept.len() as u64);
        }
        self.event.cut = false;
        self.last_us = self.timestamp_us;
        self.place = Place::Sql;
    }

    fn use_line(&mut self, line: &[u8]) -> bool {
        let Some(name) = line.strip_prefix(b"use ").and_then(|rest| rest.trim_ascii_end().strip_suffix(b";")) else {
            return false;
        };
        match name.strip_prefix(b"`").map(|rest| rest.strip_suffix(b"`")) {
            None => self.schema = name.to_vec(),
            Some(Some(quoted)) => self.schema = without_doubled_backticks(quoted),
            Some(None) => return false, // the name contains a newline
        }
        true
    }

    fn set_line(&mut self, line: &[u8]) -> bool {
        let is_set = line.get(..4).is_some_and(|word| word.eq_ignore_ascii_case(b"SET "));
        let Some(list) = line.trim_ascii_end().strip_suffix(b";").filter(|_| is_set) else {
            return false;
        };
        let mut timestamp = None;
        let mut is_known = true;
        let mut ids = (None, None);
        for pair in list[4..].split(|byte| *byte == b',') {
            let Some(at) = pair.iter().position(|byte| *byte == b'=') else {
                return false;
            };
            let value = pair[at + 1..].trim_ascii_start();
            match pair[..at].trim_ascii() {
                b"timestamp" if value == b"DEFAULT" => is_known = false,
                b"timestamp" => timestamp = timestamp_us(value),
                b"insert_id" => ids.0 = number(value),
                b"last_insert_id" => ids.1 = number(value),
                _ => return false,
            }
        }
        self.timestamp_us = timestamp;
        (self.event.insert_id, self.event.last_insert_id) = ids;
        timestamp.is_some() || !is_known
    }

    fn piece_of_warnings(&mut self, mut warnings: Warnings, piece: &[u8], begins: bool, sink: &mut dyn Sink) {
        if begins && self.set_line(without_line_end(piece)) && self.is_own_time(!warnings.has_head) {
            return self.end_head(sink);
        }
        warnings.text.extend_from_slice(piece);
        warnings.since = if begins && begins_warning(piece) { 0 } else { warnings.since + piece.len() };
        warnings.has_head |= is_time_line(piece) || is_user_line(piece) || is_times_line(piece);
        if warnings.since > WARNING_MAX || warnings.text.len() > WARNINGS_MAX || begins && is_file_header(piece) {
            self.read_again(&warnings.text, sink);
        } else {
            self.warnings = Some(warnings);
        }
    }

    /// Whether `SET timestamp` has the second in which the event was written. `default` if the log has not told any
    /// time yet.
    fn is_own_time(&self, default: bool) -> bool {
        const ZONE_STEP_US: i64 = 15 * 60 * SECOND_US;
        const ZONE_MAX_US: i64 = 14 * 3600 * SECOND_US;
        match (self.timestamp_us, self.local_us, self.last_us) {
            (None, ..) => false,
            (Some(own), Some(local), _) => {
                let zone = local - own;
                zone % ZONE_STEP_US == 0 && zone.abs() <= ZONE_MAX_US
            }
            (Some(own), None, Some(last)) => own == last,
            (Some(_), None, None) => default,
        }
    }

    fn read_again(&mut self, text: &[u8], sink: &mut dyn Sink) {
        self.timestamp_us = None;
        self.is_plain = true;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            self.piece(line, true, sink);
        }
        self.is_plain = false;
    }

    fn head_line(&mut self, line: &[u8]) {
        let line = without_line_end(line);
        if let Some(text) = line.strip_prefix(b"# Time:") {
            let time = moment(text.trim_ascii_start());
            self.event.end_us = time.filter(|time| time.zoned).map(|time| time.us);
            self.local_us = time.filter(|time| !time.zoned).map(|time| time.us);
            if let Some(at) = memchr::memmem::find(text, b"# User@Host: ") {
                self.head_line(&text[at..]);
            }
        } else if let Some(text) = line.strip_prefix(b"# User@Host:") {
            self.has_user = true;
            self.user_line(text);
        } else if !line.starts_with(b"# explain:") {
            self.has_times |= is_times_line(line);
            self.fields(&line[1..]);
        }
    }

    fn user_line(&mut self, text: &[u8]) {
        let Some(at) = memchr::memmem::find(text, b"] @ ") else {
            return;
        };
        let user = text[..at].rsplit(|byte| *byte == b'[').next().unwrap_or_default();
        let rest = &text[at + 4..];
        let host_end = rest.iter().position(|byte| *byte == b'[').unwrap_or(rest.len());
        let address_end = rest.iter().position(|byte| *byte == b']').unwrap_or(rest.len());
        let address = rest.get(host_end + 1..address_end).unwrap_or_default();
        let host = rest[..host_end].trim_ascii();
        self.event.user.extend_from_slice(user);
        self.event.user.push(b'@');
        self.event.user.extend_from_slice(if host.is_empty() { address } else { host });
        self.fields(rest.get(address_end + 1..).unwrap_or_default());
    }

    fn fields(&mut self, line: &[u8]) {
        let mut at = 0;
        while let Some(key) = next_key(line, at) {
            let rest = &line[key.value..];
            if key.name == "Schema" {
                self.has_schema = true;
                return self.schema(rest);
            }
            at = key.value + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let value = first_word(&line[at..]);
            if key_of(value).is_none() {
                self.field(key.name, value);
                at += value.len();
            }
        }
    }

    fn schema(&mut self, text: &[u8]) {
        let end = next_key(text, 0).map_or(text.len(), |key| key.begin);
        self.schema_is_open = end == text.len();
        self.event.schema.extend_from_slice(text[..end].trim_ascii());
        self.fields(&text[end..]);
    }

    fn field(&mut self, name: &str, value: &[u8]) {
        let event = &mut self.event;
        match name {
            "Query_time" => event.query_us = seconds_us(value),
            "Lock_time" => event.lock_us = seconds_us(value),
            "Rows_sent" => event.rows_sent = number(value),
            "Rows_examined" => event.rows_examined = number(value),
            "Rows_affected" => event.rows_affected = number(value),
            "Id" | "Thread_id" => event.connection = number(value),
            "Last_errno" | "Errno" => event.errno = number(value).and_then(|errno| u32::try_from(errno).ok()),
            "Log_slow_rate_limit" => event.weight = number(value).unwrap_or(1).max(1),
            "Stored_routine" => event.in_routine = true,
            "Statement_bytes" => self.to_come = number(value).and_then(|bytes| bytes.try_into().ok()).unwrap_or(0),
            "Digest_text" => event.is_digest = true,
            "Start" => event.start_us = moment(value).map(|time| time.us),
            "End" => event.end_us = moment(value).map(|time| time.us),
            _ => {}
        }
    }

    /// `closed`: another head follows, so a missing `;` does not mean that the log is cut.
    fn end_event(&mut self, closed: bool, sink: &mut dyn Sink) {
        let event = &mut self.event;
        let text = event.sql.trim_ascii_end();
        let kept = text.strip_suffix(b";").unwrap_or(text);
        event.cut |= !closed && kept.len() == text.len();
        event.sql.truncate(kept.len());
        if let Some(name) = event.sql.strip_prefix(b"# administrator command: ") {
            let command = match LogCommand::from_name(name) {
                found @ (LogCommand::Quit | LogCommand::Connect | LogCommand::Reset) => found,
                _ => LogCommand::Other,
            };
            event.command = command;
            event.sql.drain(..b"# administrator command: ".len());
        } else if event.sql.starts_with(b"throttle: ") {
            event.command = LogCommand::Other;
        } else if handles_prepared(&event.sql) {
            event.command = LogCommand::Prepare;
        }
        if !self.has_schema {
            event.schema.clear();
            event.schema.extend_from_slice(&self.schema);
        }
        let took = i64::try_from(event.query_us.unwrap_or(0)).unwrap_or(i64::MAX);
        event.end_us = event.end_us.or(self.timestamp_us).or(self.local_us);
        event.start_us = event.start_us.or(event.end_us.and_then(|end| end.checked_sub(took)));
        if !event.sql.is_empty() {
            sink.event(event);
        }
        self.place = Place::Outside;
    }
}

struct Key {
    name: &'static str,
    begin: usize,
    value: usize,
}

fn next_key(line: &[u8], from: usize) -> Option<Key> {
    let mut begin = from;
    loop {
        begin += line.get(begin..)?.iter().position(|byte| !byte.is_ascii_whitespace())?;
        let word = first_word(&line[begin..]);
        if let Some(name) = key_of(word) {
            return Some(Key { name, begin, value: begin + name.len() + 1 });
        }
        begin += word.len();
    }
}

fn key_of(word: &[u8]) -> Option<&'static str> {
    let name = &word[..memchr::memchr(b':', word)?];
    KEYS.into_iter().find(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

fn first_word(text: &[u8]) -> &[u8] {
    &text[..text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len())]
}

fn value_of<'a>(line: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut at = 0;
    while let Some(key) = next_key(line, at) {
        at = key.value;
        if key.name == name {
            return Some(first_word(line[at..].trim_ascii_start()));
        }
    }
    None
}

/// Parses a timestamp in seconds, with or without a fraction, or in milliseconds as dble writes it. Returns microseconds.
fn timestamp_us(text: &[u8]) -> Option<i64> {
    const MILLISECONDS_FROM: u64 = 100_000_000_000; // seconds of the year 5138
    match number(text)? {
        seconds if seconds < MILLISECONDS_FROM => i64::try_from(seconds_us(text)?).ok(),
        milliseconds if milliseconds < MILLISECONDS_FROM * 1000 => i64::try_from(milliseconds * 1000).ok(),
        _ => None,
    }
}

fn without_doubled_backticks(name: &[u8]) -> Vec<u8> {
    let mut parts = name.split(|byte| *byte == b'`');
    let mut plain = parts.next().unwrap_or_default().to_vec();
    while let Some(part) = parts.next() {
        plain.push(b'`');
        plain.extend_from_slice(if part.is_empty() { parts.next().unwrap_or_default() } else { part });
    }
    plain
}

/// `# Time: 150709 15:14:09` or `# Time: 2023-08-01T12:00:01.000123Z`.
pub(crate) fn is_time_line(line: &[u8]) -> bool {
    line.strip_prefix(b"# Time:").is_some_and(|text| moment(text.trim_ascii_start()).is_some())
}

pub(crate) fn is_user_line(line: &[u8]) -> bool {
    line.starts_with(b"# User@Host:") && memchr::memmem::find(line, b"] @ ").is_some()
}

/// `# Query_time: 0.000228  Lock_time: 0.000114`, in any order, with other fields or not.
pub(crate) fn is_times_line(line: &[u8]) -> bool {
    line.strip_prefix(b"# ").is_some_and(|fields| {
        next_key(fields, 0).is_some_and(|key| key.begin == 0 && key.name != "Schema")
            && value_of(fields, "Query_time").is_some_and(|value| value.first().is_some_and(u8::is_ascii_digit))
            && value_of(fields, "Lock_time").is_some()
    })
}

/// `# Thread_id: 5  Schema: shop  QC_hit: No`, or `# Schema:` of Percona Server.
fn begins_with_connection(line: &[u8]) -> bool {
    line.strip_prefix(b"# ").is_some_and(|fields| {
        next_key(fields, 0).is_some_and(|key| key.begin == 0 && matches!(key.name, "Thread_id" | "Schema"))
    })
}

fn begins_warning(line: &[u8]) -> bool {
    [&b"# Warning "[..], b"# Note ", b"# Error "]
        .into_iter()
        .any(|level| line.strip_prefix(level).is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit)))
}

#[cfg(test)]
#[path = "../tests/unit/slow_log.rs"]
pub(crate) mod tests;
