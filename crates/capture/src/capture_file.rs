//! The capture file: zstd-compressed JSON lines, one an event, and totals at its end (docs/capture.md).
//!
//! Three parts: a zstd frame with the header and the events; one with the totals; a skippable frame of 8 bytes, which zstd
//! passes over, with the place of the totals, so that they are read without the events.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::Error;
use crate::event::Event;

/// Of the file's form; a change that a reader could notice raises it.
pub const VERSION: u32 = 1;

/// A skippable frame's magic number, and its length.
const INDEX_HEAD: [u8; 8] = [0x5B, 0x2A, 0x4D, 0x18, 8, 0, 0, 0];
const INDEX_BYTES: usize = 16;
/// As fast as the log is read; higher levels gain a tenth in size.
const LEVEL: i32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Always `bakeoff-capture`.
    pub r#type: String,
    /// [`VERSION`].
    pub version: u32,
    /// Literals were replaced.
    pub redacted: bool,
}

/// A line of the file for an event. Fields that a log does not tell are left out.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct EventLine<'a> {
    /// Always `event`.
    #[serde(borrow)]
    pub r#type: Cow<'a, str>,
    /// The server's number of the connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<u64>,
    /// Moments [µs since 1970].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_us: Option<i64>,
    /// See `start_us`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_us: Option<i64>,
    /// Times [µs].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_us: Option<u64>,
    /// See `query_us`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock_us: Option<u64>,
    /// The default schema.
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub schema: Cow<'a, str>,
    /// `user@host`; left out of a redacted capture.
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub user: Cow<'a, str>,
    /// What the connection has set: an object.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub session: Option<&'a RawValue>,
    /// `Query`, `Execute`, `Prepare`, `Connect`, `Reset Connection`, `Quit`, `Init DB`, `Other`.
    #[serde(borrow)]
    pub command: Cow<'a, str>,
    /// The statement, when it is UTF-8.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub sql: Option<Cow<'a, str>>,
    /// The statement otherwise: its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sql_base64: Option<String>,
    /// The digest's name; only of statements.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Cow<'a, str>>,
    /// Rows, by what happened to them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_sent: Option<u64>,
    /// See `rows_sent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_examined: Option<u64>,
    /// See `rows_sent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_affected: Option<u64>,
    /// The server's error number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<u32>,
    /// As the log set them before the statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insert_id: Option<u64>,
    /// See `insert_id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_insert_id: Option<u64>,
    /// Statements that it stands for; left out when 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u64>,
    /// Why it cannot be replayed.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub not_replayable: Option<Cow<'a, str>>,
}

impl<'a> EventLine<'a> {
    /// The line of an event with this statement; digest, session and reason are the caller's.
    pub fn of(event: &'a Event, sql: &'a [u8]) -> Self {
        let text = std::str::from_utf8(sql).ok();
        Self {
            r#type: Cow::Borrowed("event"),
            connection: event.connection,
            start_us: event.start_us,
            end_us: event.end_us,
            query_us: event.query_us,
            lock_us: event.lock_us,
            schema: String::from_utf8_lossy(&event.schema),
            user: String::from_utf8_lossy(&event.user),
            command: Cow::Borrowed(event.command.name()),
            sql_base64: text.is_none().then(|| STANDARD.encode(sql)),
            sql: text.map(Cow::Borrowed),
            rows_sent: event.rows_sent,
            rows_examined: event.rows_examined,
            rows_affected: event.rows_affected,
            errno: event.errno,
            insert_id: event.insert_id,
            last_insert_id: event.last_insert_id,
            weight: (event.weight != 1).then_some(event.weight),
            ..Self::default()
        }
    }

    /// The statement's bytes.
    pub fn statement(&self) -> Vec<u8> {
        match (&self.sql, &self.sql_base64) {
            (Some(text), _) => text.as_bytes().to_vec(),
            (None, Some(coded)) => STANDARD.decode(coded).unwrap_or_default(),
            (None, None) => Vec::new(),
        }
    }
}

/// One digest of a capture. Counts and sums are weighted: an event of a log with a rate limit stands for several.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DigestTotals {
    /// Its name: the first 16 digits of the SHA-256 of its text.
    pub digest: String,
    /// Its text, as the server writes it.
    pub text: String,
    /// Events in the log.
    pub events: u64,
    /// Statements that they stand for.
    pub count: u64,
    /// Statements with a known time.
    pub timed: u64,
    /// Sum of their times [µs].
    pub total_us: u64,
    /// Median of their times [µs], to 1 %.
    pub p50_us: u64,
    /// 95th percentile [µs].
    pub p95_us: u64,
    /// 99th percentile [µs].
    pub p99_us: u64,
    /// The longest time [µs], exact.
    pub max_us: u64,
    /// Sum of waits for locks [µs].
    pub lock_us: u64,
    /// Sum of rows sent.
    pub rows_sent: u64,
    /// Sum of rows read.
    pub rows_examined: u64,
    /// Sum of rows changed.
    pub rows_affected: u64,
    /// Statements that failed.
    pub errors: u64,
    /// Events that cannot be replayed, by reason.
    pub not_replayable: BTreeMap<String, u64>,
    /// The default schema of the sample.
    pub schema: String,
    /// The statement that took longest (the first one when no times are known), at most 8 kB of it.
    pub sample: String,
}

/// The whole of a capture.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Overall {
    /// Formats of the logs, in their order: `slow`, `general`, `sql`, `digests`.
    pub formats: Vec<String>,
    /// Statements in the log.
    pub events: u64,
    /// Statements that they stand for.
    pub count: u64,
    /// Connections with a number that executed a statement.
    pub connections: u64,
    /// `COMMIT` and `ROLLBACK` statements.
    pub transactions: u64,
    /// Administrator commands, connects and quits.
    pub commands: u64,
    /// Groups of statements.
    pub digests: u64,
    /// Sum of all times [µs].
    pub total_us: u64,
    /// First and last moment of a statement [µs since 1970]; null when the log has none.
    pub first_us: Option<i64>,
    /// See `first_us`.
    pub last_us: Option<i64>,
    /// Statements that cannot be replayed, by reason.
    pub not_replayable: BTreeMap<String, u64>,
    /// Bytes of the logs, decompressed, that belong to no event.
    pub skipped_bytes: u64,
}

/// The lines of the totals.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum TotalsLine {
    Digest(DigestTotals),
    Overall(Overall),
}

/// What is at the end of a capture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The first line.
    pub header: Header,
    /// Everything together.
    pub overall: Overall,
    /// Each digest, the one with the longest time first.
    pub digests: Vec<DigestTotals>,
}

/// Counts what goes to the file.
struct Counting<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Writes a capture.
pub struct Writer<W: Write> {
    frame: zstd::Encoder<'static, Counting<W>>,
}

impl<W: Write> Writer<W> {
    /// Begins with the header.
    ///
    /// # Errors
    /// Of writing.
    pub fn new(out: W, header: &Header) -> io::Result<Self> {
        let mut frame = zstd::Encoder::new(Counting { inner: out, bytes: 0 }, LEVEL)?;
        write_line(&mut frame, header)?;
        Ok(Self { frame })
    }

    /// Adds lines that [`add_line`] made.
    ///
    /// # Errors
    /// Of writing.
    pub fn lines(&mut self, lines: &[u8]) -> io::Result<()> {
        self.frame.write_all(lines)
    }

    /// Adds the totals and ends the file.
    ///
    /// # Errors
    /// Of writing.
    pub fn finish(self, digests: &[DigestTotals], overall: &Overall) -> io::Result<W> {
        let out = self.frame.finish()?;
        let place = out.bytes;
        let mut frame = zstd::Encoder::new(out, LEVEL)?;
        for totals in digests {
            write_line(&mut frame, &TotalsLine::Digest(totals.clone()))?;
        }
        write_line(&mut frame, &TotalsLine::Overall(overall.clone()))?;
        let mut out = frame.finish()?;
        out.write_all(&INDEX_HEAD)?;
        out.write_all(&place.to_le_bytes())?;
        out.flush()?;
        Ok(out.inner)
    }
}

fn write_line(out: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

/// Adds an event's line to `lines`.
pub fn add_line(lines: &mut Vec<u8>, line: &EventLine) {
    // Writing to memory does not fail, and no field refuses to be written.
    let _ = serde_json::to_writer(&mut *lines, line);
    lines.push(b'\n');
}

fn damaged(path: &Path, reason: impl ToString) -> Error {
    Error::Capture { path: path.to_owned(), reason: reason.to_string() }
}

/// Opens a capture at its first event; its header.
///
/// # Errors
/// [`Error::Open`], [`Error::Capture`]: not a capture, or of a version that this program does not know.
pub fn open(path: &Path) -> Result<(Header, impl BufRead + Send + use<>), Error> {
    let file = File::open(path).map_err(|error| Error::Open { path: path.to_owned(), reason: error.to_string() })?;
    // The totals are a frame of their own.
    let decoder = zstd::Decoder::new(file).map_err(|error| damaged(path, error))?.single_frame();
    let mut lines = BufReader::with_capacity(1 << 20, decoder);
    let mut first = Vec::new();
    lines.by_ref().take(1 << 16).read_until(b'\n', &mut first).map_err(|_| damaged(path, "it is no capture"))?;
    let header: Header = serde_json::from_slice(&first).map_err(|_| damaged(path, "it is no capture"))?;
    if header.r#type != "bakeoff-capture" {
        return Err(damaged(path, "it is no capture"));
    }
    if header.version != VERSION {
        return Err(damaged(
            path,
            format!("it has version {} of the form, this program reads {VERSION}", header.version),
        ));
    }
    Ok((header, lines))
}

/// Reads the totals at a capture's end.
///
/// # Errors
/// As [`open`]; a capture that was not finished.
pub fn read_summary(path: &Path) -> Result<Summary, Error> {
    let (header, _) = open(path)?;
    let unfinished = |_| damaged(path, "it has no end: the capture was broken off");
    let mut file = File::open(path).map_err(unfinished)?;
    let mut index = [0; INDEX_BYTES];
    let size = file.seek(SeekFrom::End(-16)).map_err(unfinished)?;
    file.read_exact(&mut index).map_err(unfinished)?;
    let place = u64::from_le_bytes(index[8..].try_into().unwrap_or_default());
    if index[..8] != INDEX_HEAD || place > size {
        return Err(damaged(path, "it has no end: the capture was broken off"));
    }
    file.seek(SeekFrom::Start(place)).map_err(unfinished)?;
    let totals = BufReader::new(zstd::Decoder::new(file).map_err(|error| damaged(path, error))?);
    let mut digests = Vec::new();
    for line in totals.split(b'\n') {
        let line = line.map_err(|error| damaged(path, error))?;
        match serde_json::from_slice(&line).map_err(|error| damaged(path, error))? {
            TotalsLine::Digest(found) => digests.push(found),
            TotalsLine::Overall(overall) => {
                return Ok(Summary { header, overall, digests });
            }
        }
    }
    Err(damaged(path, "it has no end: the capture was broken off"))
}

/// A file that appears under its name only when it is whole.
pub(crate) struct WholeFile {
    file: BufWriter<File>,
    partial: std::path::PathBuf,
}

impl WholeFile {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let partial = path.with_file_name(name);
        Ok(Self { file: BufWriter::new(File::create(&partial)?), partial })
    }

    /// Syncs the file before it gets its name, so that a power cut leaves the whole file or none.
    pub(crate) fn keep(mut self, path: &Path) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        std::fs::rename(&self.partial, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        // Gone already when it was kept.
        let _ = std::fs::remove_file(&self.partial);
    }
}

#[cfg(test)]
#[path = "../tests/unit/capture_file.rs"]
mod tests;
