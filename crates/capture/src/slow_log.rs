//! Slow query logs of MySQL 5.5 to 9.x, Percona Server and MariaDB.
//!
//! An event is a head of `# ` lines, `use DB;` where the schema changed, `SET timestamp=N;`, and the statement with `;`. A head
//! begins with `# Time:`, `# User@Host:` or, where the log is short, `# Query_time:`; each is recognised by its form alone, so
//! that a log can begin and end anywhere. A statement that itself has such lines is divided there.
//!
//! What bakeoff reads from a running server comes in the same form. It has two fields more in the head: `Statement_bytes: N`, by
//! which no statement is divided, and `Digest_text: Yes`; a time that is not known is `SET timestamp=DEFAULT;`.

use crate::event::{
    Command, Event, LogReader, Sink, handles_prepared, is_file_header, is_file_header_rest, number, without_line_end,
};
use crate::event::{SECOND_US, iso, old, seconds_us};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// Before the first head, or after the head of the file.
    #[default]
    Outside,
    /// In the `# ` lines.
    Head,
    /// After `SET timestamp`, or in the statement.
    Sql,
}

/// Reads a slow log line by line.
#[derive(Debug, Default)]
pub struct SlowLog {
    event: Event,
    place: Place,
    /// `# User@Host:` and `# Query_time:` of this head were seen: another one begins another event.
    has_user: bool,
    has_times: bool,
    /// `SET timestamp=` [s].
    timestamp_s: Option<i64>,
    /// The last `use`: it holds for the whole file, whatever the connection.
    schema: Vec<u8>,
    /// The head names the schema itself.
    has_schema: bool,
    /// Bytes of the statement still to come, as the head says; 0: it does not say.
    to_come: usize,
}

impl LogReader for SlowLog {
    fn piece(&mut self, piece: &[u8], begins: bool, sink: &mut dyn Sink) {
        if self.place == Place::Sql && self.to_come > 0 {
            self.to_come = self.to_come.saturating_sub(piece.len());
            return self.event.add_sql(piece);
        }
        if !begins {
            return self.continue_line(piece, sink);
        }
        if is_file_header(piece) {
            // A server that ended within a statement leaves its beginning on this line.
            if self.place == Place::Sql {
                let path = memchr::memchr(b'/', piece).unwrap_or(0);
                self.event.add_sql(&piece[..path]);
                self.end_event(false, sink);
            }
            self.place = Place::Outside;
            self.schema.clear();
        } else if self.begins_event(piece) {
            if self.place != Place::Outside {
                self.end_event(true, sink);
            }
            self.begin_event();
            self.head_line(piece);
        } else {
            match self.place {
                Place::Outside if is_file_header_rest(piece) || piece.trim_ascii().is_empty() => {}
                Place::Outside => sink.skipped(piece.len() as u64),
                Place::Head => self.after_head_began(piece),
                Place::Sql => self.event.add_sql(piece),
            }
        }
    }

    fn finish(&mut self, sink: &mut dyn Sink) {
        if self.place == Place::Sql {
            self.drop_begun_head();
            self.end_event(false, sink);
        }
        self.place = Place::Outside;
    }
}

impl SlowLog {
    /// Removes a last line without an end after a `;`: the beginning of the next head.
    fn drop_begun_head(&mut self) {
        let sql = &self.event.sql;
        let begin = memchr::memrchr(b'\n', sql).map_or(0, |end| end + 1);
        if matches!(sql.get(begin), Some(b'#' | b'/')) && sql[..begin].trim_ascii_end().ends_with(b";") {
            self.event.sql.truncate(begin);
        }
    }

    fn continue_line(&mut self, piece: &[u8], sink: &mut dyn Sink) {
        match self.place {
            Place::Outside => sink.skipped(piece.len() as u64),
            Place::Head => {}
            Place::Sql => self.event.add_sql(piece),
        }
    }

    /// Whether this line begins the head of another event.
    fn begins_event(&self, line: &[u8]) -> bool {
        if !line.starts_with(b"# ") {
            return false;
        }
        let in_head = self.place == Place::Head;
        if is_time_line(line) || is_user_line(line) {
            !in_head || self.has_user || self.has_times
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
        self.timestamp_s = None;
        self.to_come = 0;
    }

    fn after_head_began(&mut self, line: &[u8]) {
        let plain = without_line_end(line);
        if self.timestamp_s.is_none() && line.starts_with(b"#") && !line.starts_with(b"# administrator command: ") {
            return self.head_line(line);
        }
        if self.timestamp_s.is_none() {
            if plain.starts_with(b"SET ") && self.set_line(plain) {
                self.place = Place::Sql;
                return;
            }
            // Servers write the name as it is; what bakeoff makes of a server's tables has backticks around it.
            if let Some(name) = plain.strip_prefix(b"use ").and_then(|rest| rest.strip_suffix(b";")) {
                let bare = name.strip_prefix(b"`").and_then(|inner| inner.strip_suffix(b"`"));
                self.schema = bare.unwrap_or(name).to_vec();
                return;
            }
        }
        self.place = Place::Sql;
        self.event.add_sql(line);
    }

    /// `SET last_insert_id=5,insert_id=7,timestamp=1385600731;`
    fn set_line(&mut self, line: &[u8]) -> bool {
        let Some(list) = line.strip_prefix(b"SET ").and_then(|rest| rest.strip_suffix(b";")) else {
            return false;
        };
        let mut timestamp = None;
        let mut is_known = true;
        let mut ids = (None, None);
        for pair in list.split(|byte| *byte == b',') {
            let Some(at) = pair.iter().position(|byte| *byte == b'=') else {
                return false;
            };
            let value = &pair[at + 1..];
            match &pair[..at] {
                b"timestamp" if value == b"DEFAULT" => is_known = false,
                b"timestamp" => timestamp = number(value).and_then(|seconds| i64::try_from(seconds).ok()),
                b"insert_id" => ids.0 = number(value),
                b"last_insert_id" => ids.1 = number(value),
                _ => return false,
            }
        }
        // Seconds up to the year 9999, so that no arithmetic overflows.
        self.timestamp_s = timestamp.filter(|seconds| *seconds < 253_402_300_800);
        (self.event.insert_id, self.event.last_insert_id) = ids;
        self.timestamp_s.is_some() || !is_known
    }

    fn head_line(&mut self, line: &[u8]) {
        let line = without_line_end(line);
        if let Some(text) = line.strip_prefix(b"# Time: ") {
            self.event.end_us = iso(text).map(|(moment, _)| moment);
            if let Some(at) = memchr::memmem::find(text, b"# User@Host: ") {
                self.head_line(&text[at..]);
            }
        } else if line.starts_with(b"# User@Host: ") {
            self.has_user = true;
            self.user_line(&line[13..]);
        } else if !line.starts_with(b"# explain:") {
            self.has_times |= is_times_line(line);
            self.fields(&line[1..]);
        }
    }

    /// `root[root] @ localhost [127.0.0.1]  Id:     7`
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

    /// `Name: value` pairs divided by blanks; a name right after a name has no value.
    fn fields(&mut self, line: &[u8]) {
        let mut rest = line;
        while let Some(begin) = rest.iter().position(|byte| *byte != b' ') {
            let word = first_word(&rest[begin..]);
            rest = &rest[begin + word.len()..];
            let Some(name) = word.strip_suffix(b":") else { continue };
            let blanks = rest.iter().take_while(|byte| **byte == b' ').count();
            let end = if name == b"Schema" { schema_end(rest) } else { blanks + first_word(&rest[blanks..]).len() };
            let value = rest[..end].trim_ascii();
            if name == b"Schema" || !value.is_empty() && !value.ends_with(b":") {
                self.field(name, value);
                rest = &rest[end..];
            }
        }
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        let event = &mut self.event;
        match name {
            b"Query_time" => event.query_us = seconds_us(value),
            b"Lock_time" => event.lock_us = seconds_us(value),
            b"Rows_sent" => event.rows_sent = number(value),
            b"Rows_examined" => event.rows_examined = number(value),
            b"Rows_affected" => event.rows_affected = number(value),
            b"Id" | b"Thread_id" => event.connection = number(value),
            b"Last_errno" | b"Errno" => event.errno = number(value).and_then(|errno| u32::try_from(errno).ok()),
            b"Log_slow_rate_limit" => event.weight = number(value).unwrap_or(1).max(1),
            b"Stored_routine" => event.in_routine = true,
            b"Statement_bytes" => self.to_come = number(value).and_then(|bytes| bytes.try_into().ok()).unwrap_or(0),
            b"Digest_text" => event.is_digest = true,
            b"Start" => event.start_us = iso(value).map(|(moment, _)| moment),
            b"End" => event.end_us = iso(value).map(|(moment, _)| moment),
            b"Schema" => {
                self.has_schema = true;
                event.schema.extend_from_slice(value);
            }
            _ => {}
        }
    }

    /// `closed`: the head of another event follows, so that a missing `;` is no sign of a cut.
    fn end_event(&mut self, closed: bool, sink: &mut dyn Sink) {
        let event = &mut self.event;
        let text = event.sql.trim_ascii_end();
        let kept = text.strip_suffix(b";").unwrap_or(text);
        event.cut |= !closed && kept.len() == text.len();
        event.sql.truncate(kept.len());
        if let Some(name) = event.sql.strip_prefix(b"# administrator command: ") {
            let command = match Command::from_name(name) {
                found @ (Command::Quit | Command::Connect | Command::Reset) => found,
                _ => Command::Other,
            };
            event.command = command;
            event.sql.drain(..b"# administrator command: ".len());
        } else if event.sql.starts_with(b"throttle: ") {
            event.command = Command::Other;
        } else if handles_prepared(&event.sql) {
            event.command = Command::Prepare;
        }
        if !self.has_schema {
            event.schema.clear();
            event.schema.extend_from_slice(&self.schema);
        }
        let took = i64::try_from(event.query_us.unwrap_or(0)).unwrap_or(i64::MAX);
        event.end_us = event.end_us.or(self.timestamp_s.map(|seconds| seconds * SECOND_US));
        event.start_us = event.start_us.or(event.end_us.and_then(|end| end.checked_sub(took)));
        if !event.sql.is_empty() {
            sink.event(event);
        }
        self.place = Place::Outside;
    }
}

fn first_word(text: &[u8]) -> &[u8] {
    &text[..memchr::memchr(b' ', text).unwrap_or(text.len())]
}

/// Where the name of a schema ends, which may have blanks: before two of them and the next field, or with the line.
fn schema_end(text: &[u8]) -> usize {
    let ends = |at: &usize| text[*at..].starts_with(b"  ") && first_word(&text[at + 2..]).ends_with(b":");
    (0..text.len()).find(ends).unwrap_or(text.len())
}

/// `# Time: 150709 15:14:09` or `# Time: 2023-08-01T12:00:01.000123Z`.
pub(crate) fn is_time_line(line: &[u8]) -> bool {
    line.strip_prefix(b"# Time: ").is_some_and(|text| iso(text).is_some() || old(text).is_some())
}

/// `# User@Host: root[root] @ localhost []`
pub(crate) fn is_user_line(line: &[u8]) -> bool {
    line.starts_with(b"# User@Host: ") && memchr::memmem::find(line, b"] @ ").is_some()
}

/// `# Query_time: 0.000228  Lock_time: 0.000114`
pub(crate) fn is_times_line(line: &[u8]) -> bool {
    line.strip_prefix(b"# Query_time: ").is_some_and(|text| {
        text.first().is_some_and(u8::is_ascii_digit) && memchr::memmem::find(text, b"Lock_time: ").is_some()
    })
}

#[cfg(test)]
#[path = "../tests/unit/slow_log.rs"]
pub(crate) mod tests;
