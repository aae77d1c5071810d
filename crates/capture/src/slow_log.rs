//! Reads slow query logs of MySQL 5.5 to 9.x, Percona Server and MariaDB. An event is a head of `# ` lines, `use DB;`
//! if the schema changed, `SET timestamp=N;`, and the statement with its `;`. Each line of a head is recognised by its
//! form alone, so a log can begin and end anywhere. MariaDB may write warnings at the end of a head, whose texts may
//! look like whole events. They end at the first `SET timestamp=N;` with the second in which the event was written.
//! bakeoff writes digests of running servers in this format, with `Statement_bytes: N`, `Digest_text: Yes` and `SET
//! timestamp=DEFAULT;`.

use bakeoff_wire::dialect::MultiByte;

use crate::event::{
    Event, LogCommand, LogReader, SECOND_US, Sink, before_file_header, handles_prepared, is_file_header,
    is_file_header_rest, moment, number, seconds_us, without_line_end,
};
use crate::lexer::unquoted;

#[rustfmt::skip]
const KEYS: [&str; 24] = [
    "Query_time", "Lock_time", "Rows_sent", "Rows_examined", "Rows_affected", "Rows_read", "Id", "Thread_id", "Schema",
    "Last_errno", "Errno", "Killed", "QC_hit", "Bytes_sent", "Bytes_received", "Start", "End", "Stored_routine",
    "Log_slow_rate_type", "Log_slow_rate_limit", "Tmp_tables", "Full_scan", "Statement_bytes", "Digest_text",
];

/// Longest schema name [bytes]. Servers allow 64 characters.
const SCHEMA_MAX: usize = 512;

/// Longest list of warnings [bytes]. MariaDB writes at most 1000 of 512 bytes.
const WARNINGS_MAX: usize = 1 << 20;

const ADMINISTRATOR: &[u8] = b"# administrator command: ";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Outside,
    Head,
    Warnings,
    Sql,
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
    /// The lines after `# Warnings`, and whether one has the form of a head.
    warnings: Vec<u8>,
    warnings_have_head: bool,
    /// True while lines that were taken for warnings are read again.
    is_plain: bool,
    /// Bytes of the statement still to come, or 0 if the head has no `Statement_bytes`.
    to_come: usize,
}

impl LogReader for SlowLog {
    fn line(&mut self, line: &[u8], sink: &mut dyn Sink) {
        if self.place == Place::Sql && self.to_come > 0 {
            self.to_come = self.to_come.saturating_sub(line.len());
            self.event.add_sql(line);
        } else if self.place == Place::Warnings {
            self.line_of_warnings(line, sink);
        } else if is_file_header(line) {
            if self.place == Place::Sql {
                self.event.add_sql(before_file_header(line));
            }
            self.finish(sink);
            self.schema.clear();
            self.last_us = None;
        } else if self.begins_event(line) {
            if self.place != Place::Outside {
                self.end_event(true, sink);
            }
            self.begin_event();
            self.head_line(line);
        } else {
            match self.place {
                Place::Outside if is_file_header_rest(line) || line.trim_ascii().is_empty() => {}
                Place::Outside => sink.skipped(line.len() as u64),
                Place::Head | Place::Warnings => self.after_head_began(line, sink),
                Place::Sql => self.event.add_sql(line),
            }
        }
    }

    fn finish(&mut self, sink: &mut dyn Sink) {
        if self.place == Place::Warnings {
            self.read_again(sink);
        }
        if self.place == Place::Sql {
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
    /// Removes the next head's start from the end of a statement: a `# Time:` in an unknown form, or an unfinished line
    /// at the end of the log.
    fn drop_next_head(&mut self, closed: bool, sink: &mut dyn Sink) {
        let sql = self.event.sql.as_slice();
        let (sql, head) = if closed { (without_line_end(sql), "# Time:") } else { (sql, "#") };
        let begin = memchr::memrchr(b'\n', sql).map_or(0, |end| end + 1);
        if sql[begin..].starts_with(head.as_bytes()) && sql[..begin].trim_ascii_end().ends_with(b";") {
            sink.skipped((self.event.sql.len() - begin) as u64);
            self.event.sql.truncate(begin);
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
        self.warnings_have_head = false;
        self.timestamp_us = None;
        self.local_us = None;
        self.to_come = 0;
    }

    /// Reads a line of a head. Any other line is kept as the statement, in case no `SET timestamp` follows.
    fn after_head_began(&mut self, line: &[u8], sink: &mut dyn Sink) {
        let plain = without_line_end(line);
        let is_begun = !self.event.sql.is_empty();
        if self.set_line(plain) {
            self.end_head(sink);
        } else if plain.starts_with(b"#") && !is_begun && !plain.starts_with(ADMINISTRATOR) {
            if plain.trim_ascii_end() == b"# Warnings" && self.has_times && !self.is_plain {
                self.place = Place::Warnings;
            } else {
                self.head_line(line);
            }
        } else if is_begun || !(self.use_line(plain) || self.schema_line(plain) || plain.is_empty()) {
            self.event.add_sql(line);
        }
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

    fn line_of_warnings(&mut self, line: &[u8], sink: &mut dyn Sink) {
        if self.set_line(without_line_end(line)) && self.is_own_time() {
            self.warnings.clear();
            return self.end_head(sink);
        }
        self.warnings.extend_from_slice(line);
        self.warnings_have_head |= is_head_line(line);
        if self.warnings.len() > WARNINGS_MAX || is_file_header(line) {
            self.read_again(sink);
        }
    }

    /// Whether `SET timestamp` has the second in which the event was written.
    fn is_own_time(&self) -> bool {
        const ZONE_STEP_US: i64 = 15 * 60 * SECOND_US;
        const ZONE_MAX_US: i64 = 14 * 3600 * SECOND_US;
        match (self.timestamp_us, self.local_us, self.last_us) {
            (None, ..) => false,
            (Some(own), Some(local), _) => {
                let zone = local - own;
                zone % ZONE_STEP_US == 0 && zone.abs() <= ZONE_MAX_US
            }
            (Some(own), None, Some(last)) => own == last,
            (Some(_), None, None) => !self.warnings_have_head,
        }
    }

    /// Reads the lines after an unfinished `# Warnings` again as a log, because the log was cut within it.
    fn read_again(&mut self, sink: &mut dyn Sink) {
        self.place = Place::Head;
        self.timestamp_us = None;
        self.is_plain = true;
        for line in std::mem::take(&mut self.warnings).split_inclusive(|byte| *byte == b'\n') {
            self.line(line, sink);
        }
        self.is_plain = false;
    }

    fn use_line(&mut self, line: &[u8]) -> bool {
        let Some(name) = line.strip_prefix(b"use ").and_then(|rest| rest.trim_ascii_end().strip_suffix(b";")) else {
            return false;
        };
        let is_quoted = name.starts_with(b"`");
        if is_quoted && !name.ends_with(b"`") {
            return false; // the name contains a newline
        }
        self.schema = if is_quoted { unquoted(name, MultiByte::Safe).into_owned() } else { name.to_vec() };
        true
    }

    /// Reads the next line of a schema name that contains a newline.
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

    fn set_line(&mut self, line: &[u8]) -> bool {
        let is_set = line.get(..4).is_some_and(|word| word.eq_ignore_ascii_case(b"SET "));
        let Some(list) = line.trim_ascii_end().strip_suffix(b";").filter(|_| is_set) else { return false };
        let mut timestamp = None;
        let mut is_known = true;
        let mut ids = (None, None);
        for pair in list[4..].split(|byte| *byte == b',') {
            let Some(at) = pair.iter().position(|byte| *byte == b'=') else { return false };
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

    fn head_line(&mut self, line: &[u8]) {
        let line = without_line_end(line);
        self.schema_is_open = false;
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
        let Some(at) = memchr::memmem::find(text, b"] @ ") else { return };
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
        self.drop_next_head(closed, sink);
        let event = &mut self.event;
        let text = event.sql.trim_ascii_end();
        let kept = text.strip_suffix(b";").unwrap_or(text);
        event.cut |= !closed && kept.len() == text.len();
        event.sql.truncate(kept.len());
        if let Some(name) = event.sql.strip_prefix(ADMINISTRATOR) {
            event.command = match LogCommand::from_name(name) {
                found @ (LogCommand::Quit | LogCommand::Connect | LogCommand::Reset) => found,
                _ => LogCommand::Other,
            };
            event.sql.drain(..ADMINISTRATOR.len());
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
        self.event.sql.clear();
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

/// Parses a timestamp in seconds, with or without a fraction, or in milliseconds (dble). Returns microseconds.
fn timestamp_us(text: &[u8]) -> Option<i64> {
    const MILLISECONDS_FROM: u64 = 100_000_000_000; // seconds of the year 5138
    match number(text)? {
        seconds if seconds < MILLISECONDS_FROM => i64::try_from(seconds_us(text)?).ok(),
        milliseconds if milliseconds < MILLISECONDS_FROM * 1000 => i64::try_from(milliseconds * 1000).ok(),
        _ => None,
    }
}

pub(crate) fn is_head_line(line: &[u8]) -> bool {
    is_time_line(line) || is_user_line(line) || is_times_line(line)
}

/// `# Time: 150709 15:14:09` or `# Time: 2023-08-01T12:00:01.000123Z`.
fn is_time_line(line: &[u8]) -> bool {
    line.strip_prefix(b"# Time:").is_some_and(|text| moment(text.trim_ascii_start()).is_some())
}

fn is_user_line(line: &[u8]) -> bool {
    line.starts_with(b"# User@Host:") && memchr::memmem::find(line, b"] @ ").is_some()
}

/// `# Query_time: 0.000228  Lock_time: 0.000114`, in any order, with other fields or not.
fn is_times_line(line: &[u8]) -> bool {
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
