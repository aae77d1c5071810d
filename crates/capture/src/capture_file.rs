//! The capture file: zstd-compressed JSON lines, one per event, with totals at the end (docs/reference/capture.md). A
//! skippable frame of 8 bytes at the end has the offset of the totals.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::event::Event;
use crate::input::Error;

/// Version of the file format. Any change that a reader could notice increases it.
pub const VERSION: u32 = 1;

const INDEX_HEAD: [u8; 8] = [0x5B, 0x2A, 0x4D, 0x18, 8, 0, 0, 0];
const BUFFER: usize = 256 << 10;
/// Compression level: as fast as the log is read. Higher levels save a tenth of the size.
const LEVEL: i32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub r#type: String,
    pub version: u32,
    pub redacted: bool,
}

/// The fields of an event's line that are read. [`Line`] writes more.
#[derive(Debug, Deserialize)]
pub struct EventLine<'a> {
    pub connection: Option<u64>,
    pub start_us: Option<i64>,
    #[serde(borrow, default)]
    pub schema: Cow<'a, str>,
    #[serde(borrow)]
    pub session: Option<&'a RawValue>,
    #[serde(borrow)]
    pub command: Cow<'a, str>,
    #[serde(borrow)]
    pub sql: Option<Cow<'a, str>>,
    pub sql_base64: Option<String>,
    #[serde(borrow)]
    pub digest: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub not_replayable: Option<Cow<'a, str>>,
}

impl EventLine<'_> {
    /// Whether the connection's session ends here. False without a connection number, because it may be anyone's.
    pub fn ends_session(&self) -> bool {
        self.connection.is_some() && matches!(&*self.command, "Quit" | "Connect" | "Reset Connection")
    }

    pub fn statement(&self) -> Vec<u8> {
        match (&self.sql, &self.sql_base64) {
            (Some(text), _) => text.as_bytes().to_vec(),
            (None, Some(coded)) => STANDARD.decode(coded).unwrap_or_default(),
            (None, None) => Vec::new(),
        }
    }
}

/// An event and what the recorder adds to it. Writes only what is known.
pub(crate) struct Line<'a> {
    pub(crate) event: &'a Event,
    pub(crate) sql: &'a [u8],
    pub(crate) session: Option<&'a RawValue>,
    pub(crate) digest: Option<&'a str>,
    pub(crate) not_replayable: Option<&'static str>,
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { event, sql, session, digest, not_replayable } = *self;
        let name = |bytes| Some(String::from_utf8_lossy(bytes)).filter(|name| !name.is_empty());
        let text = std::str::from_utf8(sql).ok();
        let mut map = serializer.serialize_map(None)?;
        macro_rules! put {
            ($($key:literal: $value:expr),* $(,)?) => {
                $(if let Some(value) = $value { map.serialize_entry($key, &value)?; })*
            };
        }
        put! {
            "type": Some("event"),
            "connection": event.connection,
            "start_us": event.start_us,
            "end_us": event.end_us,
            "query_us": event.query_us,
            "lock_us": event.lock_us,
            "schema": name(&event.schema),
            "user": name(&event.user),
            "session": session,
            "command": Some(<&str>::from(event.command)),
            "sql": text,
            "sql_base64": text.is_none().then(|| STANDARD.encode(sql)),
            "digest": digest,
            "rows_sent": event.rows_sent,
            "rows_examined": event.rows_examined,
            "rows_affected": event.rows_affected,
            "errno": event.errno,
            "insert_id": event.insert_id,
            "last_insert_id": event.last_insert_id,
            "weight": (event.weight != 1).then_some(event.weight),
            "not_replayable": not_replayable,
        }
        map.end()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DigestTotals {
    pub digest: String,
    pub text: String,
    pub events: u64,
    pub count: u64,
    pub timed: u64,
    pub total_us: u64,
    pub p50_us: u64,
    pub p95_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
    pub lock_us: u64,
    pub rows_sent: u64,
    pub rows_examined: u64,
    pub rows_affected: u64,
    pub errors: u64,
    pub not_replayable: BTreeMap<String, u64>,
    pub schema: String,
    /// At most 8 kB of the slowest statement, or of the first one if no durations are known.
    pub sample: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Overall {
    pub formats: Vec<String>,
    pub events: u64,
    pub count: u64,
    pub connections: u64,
    pub transactions: u64,
    pub commands: u64,
    pub digests: u64,
    pub total_us: u64,
    /// When the first statement began [µs since 1970]. None if the log has no times.
    pub first_us: Option<i64>,
    /// When the last statement ended [µs since 1970].
    pub last_us: Option<i64>,
    pub not_replayable: BTreeMap<String, u64>,
    pub skipped_bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum TotalsLine {
    Digest(DigestTotals),
    Overall(Overall),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub header: Header,
    pub overall: Overall,
    pub digests: Vec<DigestTotals>,
}

pub struct Writer<W: Write> {
    frame: BufWriter<zstd::Encoder<'static, W>>,
    written: io::Result<()>,
}

impl<W: Write + Seek> Writer<W> {
    pub fn new(out: W, header: &Header) -> io::Result<Self> {
        let mut frame = BufWriter::with_capacity(BUFFER, zstd::Encoder::new(out, LEVEL)?);
        write_line(&mut frame, header)?;
        Ok(Self { frame, written: Ok(()) })
    }

    /// Writes a line. `finish` returns the first error.
    pub fn line(&mut self, line: &impl Serialize) {
        if self.written.is_ok() {
            self.written = write_line(&mut self.frame, line);
        }
    }

    pub fn has_failed(&self) -> bool {
        self.written.is_err()
    }

    pub fn finish(self, digests: &[DigestTotals], overall: &Overall) -> io::Result<W> {
        self.written?;
        let mut out = self.frame.into_inner()?.finish()?;
        let place = out.stream_position()?;
        let mut frame = BufWriter::new(zstd::Encoder::new(out, LEVEL)?);
        for totals in digests {
            write_line(&mut frame, &TotalsLine::Digest(totals.clone()))?;
        }
        write_line(&mut frame, &TotalsLine::Overall(overall.clone()))?;
        let mut out = frame.into_inner()?.finish()?;
        out.write_all(&INDEX_HEAD)?;
        out.write_all(&place.to_le_bytes())?;
        Ok(out)
    }
}

fn write_line(out: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

const INCOMPLETE: &str = "incomplete: making the capture was interrupted";

fn damaged(path: &Path, reason: impl ToString) -> Error {
    Error::Capture { path: path.to_owned(), reason: reason.to_string() }
}

fn not_a_capture(path: &Path) -> Error {
    Error::NotACapture { path: path.to_owned() }
}

pub fn open(path: &Path) -> Result<(Header, impl BufRead + Send + use<>), Error> {
    let file = File::open(path).map_err(Error::io(path, "opened"))?;
    // The totals are in the next frame.
    let decoder = zstd::Decoder::new(file).map_err(|error| damaged(path, error))?.single_frame();
    let mut lines = BufReader::with_capacity(1 << 20, decoder);
    let mut first = Vec::new();
    lines.by_ref().take(1 << 16).read_until(b'\n', &mut first).map_err(|_| not_a_capture(path))?;
    let header: Header = serde_json::from_slice(&first).map_err(|_| not_a_capture(path))?;
    if header.r#type != "bakeoff-capture" {
        return Err(not_a_capture(path));
    }
    if header.version != VERSION {
        let found = header.version;
        return Err(damaged(path, format!("capture format {found} is not supported, only {VERSION}")));
    }
    Ok((header, lines))
}

pub fn read_summary(path: &Path) -> Result<Summary, Error> {
    let (header, _) = open(path)?;
    let unfinished = |_| damaged(path, INCOMPLETE);
    let mut file = File::open(path).map_err(unfinished)?;
    let mut index = [0; 16];
    let size = file.seek(SeekFrom::End(-16)).map_err(unfinished)?;
    file.read_exact(&mut index).map_err(unfinished)?;
    let place = u64::from_le_bytes(index[8..].try_into().unwrap_or_default());
    if index[..8] != INDEX_HEAD || place > size {
        return Err(damaged(path, INCOMPLETE));
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
    Err(damaged(path, INCOMPLETE))
}

/// A file under a temporary name until it is complete. Dropped before that, it removes the file.
pub(crate) struct PartialFile(PathBuf);

impl PartialFile {
    pub(crate) fn create(path: &Path) -> io::Result<(Self, File)> {
        let mut name = path.as_os_str().to_owned();
        name.push(".partial");
        let partial = Self(name.into());
        let file = File::create(&partial.0)?;
        Ok((partial, file))
    }

    /// Syncs the file before renaming it, so that a power failure leaves the complete file or none.
    pub(crate) fn keep(self, file: &File, path: &Path) -> io::Result<()> {
        file.sync_all()?;
        std::fs::rename(&self.0, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
