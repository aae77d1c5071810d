//! Reads files of SQL as the `mysql` client does, with `DELIMITER`, `USE` without a delimiter, and `\G`.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use bakeoff_wire::dialect::{Opaque, code_comment, opening};

use crate::class::used_schema;
use crate::event::{Event, LogReader, STATEMENT_MAX, Sink};
use crate::input::{self, Error, MARK, ReadProgress};
use crate::lexer::{Kind, Lexer, Token};
use crate::session::SessionState;

const DELIMITER: &[u8] = b"DELIMITER";

#[derive(Debug)]
pub struct SqlFile {
    event: Event,
    inside: Option<Opaque>,
    in_code_comment: bool,
    delimiter: Vec<u8>,
    schema: Vec<u8>,
    session: SessionState,
    line: u64,
    limit: usize,
}

impl Default for SqlFile {
    fn default() -> Self {
        let mut event = Event::default();
        event.clear();
        Self {
            event,
            inside: None,
            in_code_comment: false,
            delimiter: b";".to_vec(),
            schema: Vec::new(),
            session: SessionState::default(),
            line: 1,
            limit: STATEMENT_MAX,
        }
    }
}

impl LogReader for SqlFile {
    fn line(&mut self, line: &[u8], sink: &mut dyn Sink) {
        let mut rest = line;
        if self.inside.is_none() && self.is_between_statements() {
            self.event.clear(); // only comments, perhaps very many
            rest = rest.strip_prefix(MARK).unwrap_or(rest);
            if self.is_client_use(rest) {
                self.event.add_sql(rest.trim_ascii());
                self.end_statement(sink);
                rest = b"";
            }
        }
        while !rest.is_empty() {
            if self.inside.is_none()
                && self.event.sql.is_empty()
                && let Some(delimiter) = named_delimiter(rest)
            {
                self.delimiter = delimiter.to_vec();
                break;
            }
            let delimiter = self.delimiter_at(rest).filter(|_| self.inside.is_none() && !self.in_code_comment);
            if let Some(len) = delimiter {
                self.end_statement(sink);
                rest = &rest[len..];
            } else {
                let (text, after) = rest.split_at(self.step(rest).min(rest.len()));
                self.event.add_sql_up_to(self.limit, text);
                rest = after;
            }
        }
        self.line += u64::from(line.ends_with(b"\n"));
    }

    fn finish(&mut self, sink: &mut dyn Sink) {
        self.event.cut |= self.in_code_comment || !matches!(self.inside, None | Some(Opaque::LineComment));
        (self.inside, self.in_code_comment) = (None, false);
        self.end_statement(sink);
    }
}

impl SqlFile {
    fn is_between_statements(&self) -> bool {
        let sql = &self.event.sql;
        let is_code = |token: Token| code_comment(&sql[token.start..token.end]).is_some();
        Lexer::new(sql).all(|token| token.kind == Kind::Comment && !is_code(token))
    }

    /// Whether a line is `USE name` without a delimiter. With one it is an ordinary statement.
    fn is_client_use(&self, line: &[u8]) -> bool {
        let plain = line.trim_ascii();
        let ends = |at: usize| plain[at] == b';' || self.delimiter_at(&plain[at..]).is_some();
        used_schema(plain, self.session.dialect()).is_some() && !(0..plain.len()).any(ends)
    }

    fn delimiter_at(&self, rest: &[u8]) -> Option<usize> {
        if rest.starts_with(&self.delimiter) {
            return Some(self.delimiter.len());
        }
        (rest[0] == b'\\' && matches!(rest.get(1), Some(b'g' | b'G'))).then_some(2)
    }

    /// Returns the length of what begins here: a mark, the rest of a quoted text or comment, or code up to a mark.
    fn step(&mut self, rest: &[u8]) -> usize {
        if let Some(opaque) = self.inside {
            let end = self.session.dialect().end_of(opaque, rest, 0);
            self.inside = self.inside.filter(|_| end.is_none());
            return end.unwrap_or(rest.len());
        }
        if rest.starts_with(b"*/") && self.in_code_comment {
            self.in_code_comment = false;
            return 2;
        }
        // Code comments do not nest.
        let nested = (self.in_code_comment && rest.starts_with(b"/*")).then_some((Opaque::BlockComment, 2));
        if let Some((opaque, len)) = nested.or_else(|| opening(rest)) {
            self.inside = Some(opaque);
            return len;
        }
        if let Some(len) = code_comment(rest) {
            self.in_code_comment = true;
            return len;
        }
        let begins = |byte| b"'\"`/*#-\\".contains(&byte) || byte == self.delimiter[0];
        let multi_byte = self.session.dialect().multi_byte;
        multi_byte.find(rest, multi_byte.character_bytes(rest).unwrap_or(1), begins).unwrap_or(rest.len())
    }

    fn end_statement(&mut self, sink: &mut dyn Sink) {
        let start = start_of_statement(&self.event.sql);
        self.event.sql.drain(..start);
        let within = memchr::memchr_iter(b'\n', &self.event.sql).count() as u64;
        self.event.line = Some(self.line.saturating_sub(within).max(1));
        let kept = self.event.sql.trim_ascii_end().len();
        self.event.sql.truncate(kept);
        if !self.event.sql.is_empty() {
            if let Some(name) = used_schema(&self.event.sql, self.session.dialect()) {
                self.schema = name.into_owned();
            }
            self.event.connection = Some(1);
            self.event.schema.clone_from(&self.schema);
            self.event.dialect = self.session.dialect();
            self.session.set(&self.event.sql);
            sink.event(&mut self.event);
        }
        self.event.clear();
    }
}

/// Returns the `//` of `DELIMITER //`.
fn named_delimiter(line: &[u8]) -> Option<&[u8]> {
    let (word, rest) = line.trim_ascii_start().split_at_checked(DELIMITER.len())?;
    let is_command = word.eq_ignore_ascii_case(DELIMITER) && rest.first().is_some_and(u8::is_ascii_whitespace);
    rest.split(u8::is_ascii_whitespace).find(|name| !name.is_empty()).filter(|_| is_command)
}

/// The longest statement that any server accepts (`max_allowed_packet`).
const SERVER_MAX: usize = 1 << 30;

/// Calls `see` with every statement of a file of SQL until it returns false. A statement is cut if the file ends within
/// it. `delimiter` ends statements until the file sets another one. In mydumper's files it is `;` and a newline.
pub fn read_statements(
    path: &Path,
    delimiter: &str,
    progress: &ReadProgress,
    see: &mut dyn FnMut(&mut Event) -> bool,
) -> Result<(), Error> {
    let read_error = Error::io(path, "read");
    let mut input = BufReader::new(input::open(path, progress).map_err(Error::io(path, "opened"))?);
    let mut reader = SqlFile { limit: SERVER_MAX, delimiter: delimiter.as_bytes().to_vec(), ..SqlFile::default() };
    let mut sink = Statements { see, ended: false };
    let mut line = Vec::new();
    while !sink.ended {
        line.clear();
        if input.read_until(b'\n', &mut line).map_err(&read_error)? == 0 {
            reader.finish(&mut sink);
            break;
        }
        reader.line(&line, &mut sink);
    }
    Ok(())
}

struct Statements<'a> {
    see: &'a mut dyn FnMut(&mut Event) -> bool,
    ended: bool,
}

impl Sink for Statements<'_> {
    fn event(&mut self, event: &mut Event) {
        self.ended = self.ended || !(self.see)(event);
    }
}

fn start_of_statement(sql: &[u8]) -> usize {
    let is_comment = |text: &[u8]| text.starts_with(b"#") || text.starts_with(b"--");
    let found = Lexer::new(sql).find(|token| !is_comment(&sql[token.start..token.end]));
    found.map_or(sql.len(), |token| token.start)
}

pub(crate) fn looks_like_sql(head: &[u8], goes_on: bool) -> bool {
    const FIRST: &str = "ALTER ANALYZE BEGIN CALL CHANGE CHECK CHECKSUM COMMIT CREATE DELETE DELIMITER DESC DESCRIBE DO DROP \
        EXECUTE EXPLAIN FLUSH GRANT HANDLER INSERT KILL LOAD LOCK OPTIMIZE PREPARE PURGE RENAME REPAIR REPLACE RESET REVOKE \
        ROLLBACK SAVEPOINT SELECT SET SHOW START STOP TABLE TRUNCATE UNLOCK UPDATE USE VALUES WITH XA";
    let head = head.strip_prefix(MARK).unwrap_or(head);
    let is_word = |token: &Token| {
        let text = &head[token.start..token.end];
        // A comment that continues behind the head is `Kind::Cut`.
        token.kind != Kind::Comment && text != b"(" && !text.starts_with(b"/*")
    };
    let word = Lexer::new(head).find(is_word);
    word.map_or(goes_on, |token| {
        let word = &head[token.start..token.end];
        FIRST.split_whitespace().any(|each| each.as_bytes().eq_ignore_ascii_case(word))
    })
}

#[cfg(test)]
#[path = "../tests/unit/sql_file.rs"]
mod tests;
