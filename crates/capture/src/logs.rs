//! Reads several logs as one, and detects their format.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::PathBuf;

use strum::{Display, EnumString, VariantNames};

use crate::event::{LogReader, STATEMENT_MAX, Sink, is_file_header};
use crate::general_log::{self, GeneralLog};
use crate::input::{Error, ReadProgress, as_utf8, has_windows_lines, open};
use crate::slow_log::{self, SlowLog};
use crate::sql_file::{self, SqlFile};

const BUFFER: usize = 256 << 10;
/// Longest line [bytes]. A longer one is read in pieces.
const LINE_MAX: u64 = STATEMENT_MAX as u64;
const HEAD: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Format {
    Slow,
    General,
    Sql,
    /// The digests of a running server, written as a slow log. Never detected by content.
    Digests,
}

impl Format {
    pub fn reader(self) -> Box<dyn LogReader> {
        match self {
            Self::Slow | Self::Digests => Box::<SlowLog>::default(),
            Self::General => Box::<GeneralLog>::default(),
            Self::Sql => Box::<SqlFile>::default(),
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
    let mut reader = Format::Slow.reader();
    // The end of a line may be in the next file.
    let mut line = Vec::new();
    for path in paths {
        let read_error = Error::io(path, "read");
        let mut input = as_utf8(open(path, progress).map_err(Error::io(path, "opened"))?).map_err(&read_error)?;
        let mut head = Vec::new();
        input.by_ref().take(HEAD).read_to_end(&mut head).map_err(&read_error)?;
        if head.is_empty() {
            continue;
        }
        let found = format.or_else(|| match (detect(&head), formats.last()) {
            // The middle of a statement looks like SQL or like nothing at all.
            (None | Some(Format::Sql), Some(last)) => Some(*last),
            (found, _) => found,
        });
        let found = found.ok_or_else(|| Error::Unknown { path: path.clone() })?;
        let changes = formats.last() != Some(&found);
        if changes || begins_log(&head) {
            pass_on(&mut line, &mut *reader, sink);
        }
        if changes {
            reader.finish(sink);
            reader = found.reader();
            formats.push(found);
        }
        let is_windows = has_windows_lines(&head) && found != Format::Sql;
        let mut input = BufReader::with_capacity(BUFFER, io::Cursor::new(head).chain(input));
        while !sink.has_failed() && input.by_ref().take(LINE_MAX).read_until(b'\n', &mut line).map_err(&read_error)? > 0
        {
            if is_windows && line.ends_with(b"\r\n") {
                line.truncate(line.len() - 2);
                line.push(b'\n');
            }
            if line.ends_with(b"\n") || line.len() as u64 >= LINE_MAX {
                pass_on(&mut line, &mut *reader, sink);
            }
        }
    }
    pass_on(&mut line, &mut *reader, sink);
    reader.finish(sink);
    Ok(formats)
}

fn pass_on(line: &mut Vec<u8>, reader: &mut dyn LogReader, sink: &mut dyn Sink) {
    if !line.is_empty() {
        reader.line(line, sink);
        line.clear();
    }
}

fn begins_log(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    is_file_header(line)
        || slow_log::is_head_line(line)
        || (!line.starts_with(b"\t") && general_log::prefix(line).is_some())
}

pub fn detect(head: &[u8]) -> Option<Format> {
    let mut header = false;
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        if slow_log::is_head_line(line) {
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
