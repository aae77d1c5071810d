//! Files of SQL as the `mysql` client reads them: `;`, `DELIMITER`, comments of three kinds, quotes of three kinds.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::Error;
use crate::class::used_schema;
use crate::event::{Event, LogReader, STATEMENT_MAX, Sink, without_line_end};
use crate::input::{self, Progress};
use crate::lexer::{Kind, Lexer};

/// What the reader stands in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Inside {
    #[default]
    Nothing,
    /// A text or name, by its quote.
    Quote(u8),
    /// `/* … */`
    Comment,
    /// `-- …` or `# …`, up to the line's end.
    LineComment,
}

/// Reads statements; they are one connection's.
#[derive(Debug)]
pub struct SqlFile {
    event: Event,
    inside: Inside,
    delimiter: Vec<u8>,
    schema: Vec<u8>,
    /// Bytes at the end of the last piece that only the next one decides upon: `\`, `*`, `-`, a part of the delimiter.
    held: Vec<u8>,
    /// Bytes of a statement that are kept.
    limit: usize,
}

impl Default for SqlFile {
    fn default() -> Self {
        let mut event = Event::default();
        event.clear();
        Self {
            event,
            inside: Inside::Nothing,
            delimiter: b";".to_vec(),
            schema: Vec::new(),
            held: Vec::new(),
            limit: STATEMENT_MAX,
        }
    }
}

impl LogReader for SqlFile {
    fn piece(&mut self, piece: &[u8], begins: bool, sink: &mut dyn Sink) {
        let between = begins && self.inside == Inside::Nothing && self.is_between_statements();
        let piece = if between { without_byte_order_mark(piece) } else { piece };
        if between && self.client_command(piece, sink) {
            return;
        }
        if self.held.is_empty() {
            self.scan(piece, false, sink);
        } else {
            let mut joined = std::mem::take(&mut self.held);
            joined.extend_from_slice(piece);
            self.scan(&joined, false, sink);
        }
    }

    fn finish(&mut self, sink: &mut dyn Sink) {
        let held = std::mem::take(&mut self.held);
        self.scan(&held, true, sink);
        self.event.cut |= !matches!(self.inside, Inside::Nothing | Inside::LineComment);
        self.inside = Inside::Nothing;
        self.end_statement(sink);
    }
}

impl SqlFile {
    fn is_between_statements(&self) -> bool {
        self.held.is_empty() && start_of_statement(&self.event.sql) == self.event.sql.len()
    }

    /// `DELIMITER //`, and `USE name` without an end; with one it is a statement like any other.
    fn client_command(&mut self, line: &[u8], sink: &mut dyn Sink) -> bool {
        let plain = without_line_end(line).trim_ascii();
        if plain.get(..10).is_some_and(|word| word.eq_ignore_ascii_case(b"delimiter ")) {
            let wanted = plain[10..].trim_ascii().split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
            // mysql has at most 15 bytes.
            if !wanted.is_empty() && wanted.len() <= 15 {
                self.delimiter = wanted.to_vec();
            }
            return true;
        }
        let ends = |at: usize| plain[at] == b';' || self.delimiter_at(&plain[at..]).is_some();
        let is_use = used_schema(plain).is_some() && line.ends_with(b"\n") && !(0..plain.len()).any(ends);
        if is_use {
            self.event.sql.clear();
            self.event.add_sql(plain);
            self.end_statement(sink);
        }
        is_use
    }

    fn scan(&mut self, bytes: &[u8], last: bool, sink: &mut dyn Sink) {
        let mut at = 0;
        let mut kept = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            // Enough for the longest thing to be decided upon; a piece that ends a line always has it.
            if !last && rest.len() < self.delimiter.len().max(3) && !rest.contains(&b'\n') {
                break;
            }
            let step = match self.inside {
                Inside::Quote(quote) => self.step_in_quote(rest, quote),
                Inside::Comment => self.step_in_comment(rest),
                Inside::LineComment => self.step_in_line_comment(rest),
                Inside::Nothing => {
                    if let Some(len) = self.delimiter_at(rest) {
                        self.event.add_sql_up_to(self.limit, &bytes[kept..at]);
                        self.end_statement(sink);
                        kept = at + len;
                        len
                    } else {
                        self.step_outside(rest)
                    }
                }
            };
            at += step;
        }
        let at = at.min(bytes.len());
        self.event.add_sql_up_to(self.limit, &bytes[kept.min(at)..at]);
        self.held.extend_from_slice(&bytes[at..]);
    }

    /// The delimiter, or the client's `\g` and `\G`.
    fn delimiter_at(&self, rest: &[u8]) -> Option<usize> {
        if rest.starts_with(&self.delimiter) {
            return Some(self.delimiter.len());
        }
        (rest[0] == b'\\' && matches!(rest.get(1), Some(b'g' | b'G'))).then_some(2)
    }

    fn step_outside(&mut self, rest: &[u8]) -> usize {
        match rest {
            [quote @ (b'\'' | b'"' | b'`'), ..] => {
                self.inside = Inside::Quote(*quote);
                1
            }
            [b'/', b'*', ..] => {
                self.inside = Inside::Comment;
                2
            }
            [b'#', ..] | [b'-', b'-', b' ' | b'\t' | b'\n' | b'\r', ..] => {
                self.inside = Inside::LineComment;
                1
            }
            _ => {
                let first = self.delimiter[0];
                let stop =
                    |byte: &u8| matches!(byte, b'\'' | b'"' | b'`' | b'/' | b'#' | b'-' | b'\\') || *byte == first;
                rest[1..].iter().position(stop).map_or(rest.len(), |ahead| ahead + 1)
            }
        }
    }

    fn step_in_quote(&mut self, rest: &[u8], quote: u8) -> usize {
        match rest[0] {
            b'\\' if quote != b'`' => 2,
            // A doubled quote ends one text and begins another, which comes to the same.
            byte if byte == quote => {
                self.inside = Inside::Nothing;
                1
            }
            _ => memchr::memchr2(quote, b'\\', &rest[1..]).map_or(rest.len(), |ahead| ahead + 1),
        }
    }

    fn step_in_comment(&mut self, rest: &[u8]) -> usize {
        if rest.starts_with(b"*/") {
            self.inside = Inside::Nothing;
            return 2;
        }
        memchr::memchr(b'*', &rest[1..]).map_or(rest.len(), |ahead| ahead + 1)
    }

    fn step_in_line_comment(&mut self, rest: &[u8]) -> usize {
        let Some(end) = memchr::memchr(b'\n', rest) else {
            return rest.len();
        };
        self.inside = Inside::Nothing;
        end + 1
    }

    fn end_statement(&mut self, sink: &mut dyn Sink) {
        let start = start_of_statement(&self.event.sql);
        self.event.sql.drain(..start);
        let kept = self.event.sql.trim_ascii_end().len();
        self.event.sql.truncate(kept);
        if !self.event.sql.is_empty() {
            if let Some(name) = used_schema(&self.event.sql) {
                self.schema = name.into_owned();
            }
            self.event.connection = Some(1);
            self.event.schema.clone_from(&self.schema);
            sink.event(&mut self.event);
        }
        self.event.clear();
    }
}

/// A statement of a file.
#[derive(Debug)]
pub struct Statement<'a> {
    /// Its text, which may be changed.
    pub sql: &'a mut Vec<u8>,
    /// The schema that the file's last `USE` names; empty: none.
    pub schema: &'a [u8],
    /// The line on which it begins, from 1.
    pub line: u64,
    /// The file ends within it, or it is longer than the server's longest.
    pub cut: bool,
}

/// The longest statement that any server takes (`max_allowed_packet`).
const SERVER_MAX: usize = 1 << 30;
/// Bytes of a line that are read at once.
const PIECE: u64 = 1 << 20;

/// Gives every statement of a file of SQL, plain or compressed, to `see`, until that returns false.
///
/// `delimiter` ends statements until the file names another one; mydumper's files have `;` before a line's end.
///
/// # Errors
/// [`Error::Open`], [`Error::Read`] with the file's name.
pub fn read_statements(
    path: &Path,
    delimiter: &str,
    progress: &Progress,
    see: &mut dyn FnMut(Statement<'_>) -> bool,
) -> Result<(), Error> {
    let open_error = |error: io::Error| Error::Open { path: path.to_owned(), reason: error.to_string() };
    let read_error = |error: io::Error| Error::Read { path: path.to_owned(), reason: error.to_string() };
    let mut input = BufReader::new(input::open(path, progress).map_err(open_error)?);
    let mut reader = SqlFile { limit: SERVER_MAX, delimiter: delimiter.as_bytes().to_vec(), ..SqlFile::default() };
    let mut sink = Numbered { line: 1, see, ended: false };
    let (mut piece, mut begins) = (Vec::new(), true);
    while !sink.ended {
        piece.clear();
        if input.by_ref().take(PIECE).read_until(b'\n', &mut piece).map_err(read_error)? == 0 {
            reader.finish(&mut sink);
            break;
        }
        reader.piece(&piece, begins, &mut sink);
        begins = piece.ends_with(b"\n");
        sink.line += u64::from(begins);
    }
    Ok(())
}

/// Counts lines on behalf of a reader that does not.
struct Numbered<'a> {
    /// The line that is being read.
    line: u64,
    see: &'a mut dyn FnMut(Statement<'_>) -> bool,
    ended: bool,
}

impl Sink for Numbered<'_> {
    fn event(&mut self, event: &mut Event) {
        if self.ended {
            return;
        }
        let within = memchr::memchr_iter(b'\n', &event.sql).count() as u64;
        self.ended = !(self.see)(Statement {
            line: self.line.saturating_sub(within).max(1),
            sql: &mut event.sql,
            schema: &event.schema,
            cut: event.cut,
        });
    }

    fn skipped(&mut self, _bytes: u64) {}
}

/// Without the byte order mark (U+FEFF) that editors on Windows begin a file with.
fn without_byte_order_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text)
}

/// Where the first token begins that is no comment of a line; the length when there is none.
fn start_of_statement(sql: &[u8]) -> usize {
    let is_comment = |text: &[u8]| text.starts_with(b"#") || text.starts_with(b"--");
    let found = Lexer::new(sql).find(|token| !is_comment(&sql[token.start..token.end]));
    found.map_or(sql.len(), |token| token.start)
}

/// Whether a file begins with a statement: the first word that is no comment is one that begins statements.
pub(crate) fn looks_like_sql(head: &[u8]) -> bool {
    const FIRST: &str = "ALTER ANALYZE BEGIN CALL CHANGE CHECK CHECKSUM COMMIT CREATE DELETE DELIMITER DESC DESCRIBE DO DROP \
        EXECUTE EXPLAIN FLUSH GRANT HANDLER INSERT KILL LOAD LOCK OPTIMIZE PREPARE PURGE RENAME REPAIR REPLACE RESET REVOKE \
        ROLLBACK SAVEPOINT SELECT SET SHOW START STOP TABLE TRUNCATE UNLOCK UPDATE USE VALUES WITH XA";
    let head = without_byte_order_mark(head);
    let word = Lexer::new(head).find(|token| token.kind != Kind::Comment && &head[token.start..token.end] != b"(");
    word.is_some_and(|token| {
        let word = &head[token.start..token.end];
        FIRST.split_whitespace().any(|each| each.as_bytes().eq_ignore_ascii_case(word))
    })
}

#[cfg(test)]
#[path = "../tests/unit/sql_file.rs"]
mod tests;
