//! Reads several logs as one, and detects their format.

use std::io::{self, Read};
use std::path::PathBuf;

use crate::encoding::{MARK, as_utf8, has_windows_lines};
use crate::error::Error;
use crate::event::{LogReader, Sink, is_file_header};
use crate::general_log::{self, GeneralLog};
use crate::input::{ReadProgress, open};
use crate::slow_log::{self, SlowLog};
use crate::sql_file::{self, SqlFile};

/// Bytes read at once: few enough for the processor's cache. A longer line is read in pieces.
const BUFFER: usize = 256 << 10;
const HEAD: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Slow,
    General,
    Sql,
    /// The digests of a running server, written as a slow log. Never detected by content.
    Digests,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::General => "general",
            Self::Sql => "sql",
            Self::Digests => "digests",
        }
    }

    pub fn reader(self) -> Box<dyn LogReader> {
        match self {
            Self::Slow | Self::Digests => Box::<SlowLog>::default(),
            Self::General => Box::<GeneralLog>::default(),
            Self::Sql => Box::<SqlFile>::default(),
        }
    }
}

struct Feed<'a> {
    sink: &'a mut dyn Sink,
    reader: Option<Box<dyn LogReader>>,
    /// A line whose end has not been read yet, perhaps because it is in the next file. At most [`BUFFER`] bytes.
    buffer: Vec<u8>,
    begins: bool,
    is_windows: bool,
}

impl Feed<'_> {
    fn fill(&mut self, input: &mut dyn Read) -> io::Result<usize> {
        input.take((BUFFER - self.buffer.len()) as u64).read_to_end(&mut self.buffer)
    }

    fn pass_on(&mut self) {
        let Some(reader) = &mut self.reader else { return };
        let mut at = 0;
        while let Some(length) = memchr::memchr(b'\n', &self.buffer[at..]) {
            let end = at + length;
            let is_return = self.is_windows && length > 0 && self.buffer[end - 1] == b'\r';
            if is_return {
                self.buffer[end - 1] = b'\n';
            }
            let line = &self.buffer[at..=end - usize::from(is_return)];
            reader.piece(if self.begins { without_mark(line) } else { line }, self.begins, self.sink);
            self.begins = true;
            at = end + 1;
        }
        if at == 0 && self.buffer.len() == BUFFER {
            at = BUFFER - usize::from(self.is_windows && self.buffer[BUFFER - 1] == b'\r');
            reader.piece(&self.buffer[..at], self.begins, self.sink);
            self.begins = false;
        }
        self.buffer.drain(..at);
    }

    fn end_line(&mut self) {
        if let Some(reader) = self.reader.as_mut().filter(|_| !self.buffer.is_empty()) {
            reader.piece(&self.buffer, self.begins, self.sink);
        }
        self.buffer.clear();
        self.begins = true;
    }

    fn finish(&mut self) {
        self.end_line();
        if let Some(mut reader) = self.reader.take() {
            reader.finish(self.sink);
        }
    }
}

/// Reads the logs as if they were one file. Returns the formats in order. A log may be split into files anywhere.
pub fn read_logs(
    paths: &[PathBuf],
    format: Option<Format>,
    progress: &ReadProgress,
    sink: &mut dyn Sink,
) -> Result<Vec<Format>, Error> {
    let mut formats: Vec<Format> = Vec::new();
    let mut feed = Feed { sink, reader: None, buffer: Vec::with_capacity(BUFFER), begins: true, is_windows: false };
    for path in paths {
        let read_error = Error::read(path);
        let mut input = as_utf8(open(path, progress).map_err(Error::open(path))?).map_err(&read_error)?;
        let mut head = Vec::new();
        input.by_ref().take(HEAD).read_to_end(&mut head).map_err(&read_error)?;
        match (format.or_else(|| detect(&head)), formats.last()) {
            _ if head.is_empty() => continue,
            (None, None) => return Err(Error::Unknown { path: path.clone() }),
            // The middle of a statement looks like SQL or like nothing at all.
            (None | Some(Format::Sql), Some(_)) if format.is_none() => {}
            (Some(new), last) if Some(&new) != last => {
                feed.finish();
                formats.push(new);
                feed.reader = Some(new.reader());
            }
            _ => {}
        }
        if begins_log(&head) {
            feed.end_line();
        }
        feed.is_windows = has_windows_lines(&head) && formats.last() != Some(&Format::Sql);
        let mut input = io::Cursor::new(head).chain(input);
        while feed.fill(&mut input).map_err(&read_error)? > 0 {
            feed.pass_on();
        }
    }
    feed.finish();
    Ok(formats)
}

fn first_line(head: &[u8]) -> &[u8] {
    &head[..memchr::memchr(b'\n', head).unwrap_or(head.len())]
}

fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(MARK).filter(|rest| begins_log(rest)).unwrap_or(line)
}

fn begins_log(head: &[u8]) -> bool {
    let line = first_line(head);
    is_file_header(line)
        || slow_log::is_time_line(line)
        || slow_log::is_user_line(line)
        || slow_log::is_times_line(line)
        || (!line.starts_with(b"\t") && general_log::prefix(line).is_some())
}

pub fn detect(head: &[u8]) -> Option<Format> {
    let mut header = false;
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        if slow_log::is_user_line(line) || slow_log::is_times_line(line) || slow_log::is_time_line(line) {
            return Some(Format::Slow);
        }
        if general_log::prefix(line).is_some() {
            return Some(Format::General);
        }
        header |= is_file_header(line);
    }
    // Both kinds of empty log look like this.
    let empty = header.then_some(Format::Slow);
    empty.or_else(|| sql_file::looks_like_sql(head, head.len() as u64 >= HEAD).then_some(Format::Sql))
}

#[cfg(test)]
#[path = "../tests/unit/logs.rs"]
mod tests;
