//! Makes a capture from logs: adds session state and digest to each event, removes passwords, and writes and counts it.

use std::collections::{HashMap, HashSet};
use std::io::{self, Seek, Write};
use std::path::PathBuf;

use hdrhistogram::Histogram;
use sha2::{Digest as _, Sha256};

use crate::capture_file::{DigestTotals, Header, Line, Overall, PartialFile, Summary, VERSION, Writer};
use crate::digest::{Digester, name_of, text_of};
use crate::event::{Event, LogCommand, Sink};
use crate::facts::Facts;
use crate::input::{Error, ReadProgress};
use crate::keywords::NAMED;
use crate::logs::{Format, read_logs};
use crate::redact::{Redactor, strike_out, without_comments};
use crate::session::SessionState;

/// Maximum number of digests. Statements beyond it are counted together as `(other statements)`.
const DIGESTS_MAX: usize = 20_000;

/// Bytes of a digest's key that are compared directly. The rest is compared by its SHA-256.
const KEY_MAX: usize = 4096;
const TEXT_MAX: usize = 8192;
/// Longest latency that is recorded, one day [µs]. Longer ones are recorded as this.
const LONGEST_US: u64 = 86_400_000_000;

#[derive(Debug, Clone, Default)]
pub struct CaptureJob {
    pub logs: Vec<PathBuf>,
    pub output: PathBuf,
    pub redact: bool,
    pub format: Option<Format>,
}

pub fn capture(job: &CaptureJob, progress: &ReadProgress) -> Result<Summary, Error> {
    let cannot_write = Error::io(&job.output, "written");
    let header = Header { r#type: "bakeoff-capture".to_owned(), version: VERSION, redacted: job.redact };
    let redactor = if job.redact { Some(Redactor::new().map_err(&cannot_write)?) } else { None };
    let (partial, file) = PartialFile::create(&job.output).map_err(&cannot_write)?;
    let mut recorder = Recorder::new(file, &header, redactor).map_err(&cannot_write)?;
    let formats = read_logs(&job.logs, job.format, progress, &mut recorder);
    let ended = recorder.finish(formats.as_deref().unwrap_or_default());
    if formats?.is_empty() {
        return Err(Error::Empty);
    }
    let (file, digests, overall) = ended.map_err(&cannot_write)?;
    partial.keep(&file, &job.output).map_err(&cannot_write)?;
    Ok(Summary { header, overall, digests })
}

pub struct Recorder<W: Write + Seek> {
    writer: Writer<W>,
    totals: Totals,
    digester: Digester,
    sessions: HashMap<u64, SessionState>,
    redactor: Option<Redactor>,
    changed: Vec<u8>,
}

impl<W: Write + Seek> Recorder<W> {
    pub fn new(out: W, header: &Header, redactor: Option<Redactor>) -> io::Result<Self> {
        Ok(Self {
            writer: Writer::new(out, header)?,
            totals: Totals::default(),
            digester: Digester::default(),
            sessions: HashMap::new(),
            redactor,
            changed: Vec::new(),
        })
    }

    pub fn finish(self, formats: &[Format]) -> io::Result<(W, Vec<DigestTotals>, Overall)> {
        let (digests, mut overall) = self.totals.finish();
        overall.formats = formats.iter().map(Format::to_string).collect();
        let out = self.writer.finish(&digests, &overall)?;
        Ok((out, digests, overall))
    }

    fn command(&mut self, event: &mut Event) {
        self.totals.overall.commands += 1;
        if let Some(connection) = event.connection
            && matches!(event.command, LogCommand::Quit | LogCommand::Connect | LogCommand::Reset)
        {
            self.sessions.remove(&connection);
        }
        if self.redactor.is_some() && event.command != LogCommand::InitDb {
            event.sql.clear();
        }
        let not_replayable = (event.command == LogCommand::Other).then_some("command");
        self.writer.line(&Line { event, sql: &event.sql, session: None, digest: None, not_replayable });
    }

    fn prepare_text(&mut self, facts: &Facts, sql: &[u8]) -> bool {
        if facts.secret {
            strike_out(sql, facts.dialect, &mut self.changed);
        } else if let Some(redactor) = &self.redactor {
            redactor.redact(sql, facts, &mut self.changed);
        } else if facts.secret_comment {
            without_comments(sql, facts.dialect, &mut self.changed);
        } else {
            return false;
        }
        true
    }
}

fn reason(event: &Event, facts: &Facts) -> Option<&'static str> {
    let reasons = [
        (facts.secret, "password"),
        (event.cut || facts.cut, "cut"),
        (event.command == LogCommand::Prepare, "prepare"),
        (event.in_routine, "routine"),
        (facts.parameter || event.is_digest, "parameters"),
        (facts.local_file, "local file"),
        (facts.for_server, "server"),
        (facts.locks, "lock"),
        (facts.empty, "empty"),
    ];
    reasons.into_iter().find(|(holds, _)| *holds).map(|(_, reason)| reason)
}

impl<W: Write + Seek> Sink for Recorder<W> {
    fn event(&mut self, event: &mut Event) {
        if self.redactor.is_some() {
            event.user.clear();
        }
        if !matches!(event.command, LogCommand::Query | LogCommand::Execute | LogCommand::Prepare) {
            return self.command(event);
        }
        let connection = event.connection.unwrap_or(0);
        let dialect = self.sessions.get(&connection).map(SessionState::dialect).unwrap_or_default();
        let facts = self.digester.read(&event.sql, dialect);
        if facts.empty && event.start_us.is_none() {
            return; // the comments at the end of a file
        }
        let changed = self.prepare_text(&facts, &event.sql);
        if facts.account && self.redactor.is_some() {
            self.digester.read(&self.changed, facts.dialect); // the digest must not have the user's name
        }
        let sql = if changed { &self.changed } else { &event.sql };
        let reason = reason(event, &facts);
        let mut digest = None;
        if event.command == LogCommand::Prepare {
            self.totals.overall.commands += 1;
        } else {
            self.totals.moment(event);
            let group = self.totals.statement(self.digester.key(), event, sql, reason);
            self.totals.overall.transactions += u64::from(facts.ends_transaction) * event.weight;
            digest = Some(self.totals.groups[group].totals.digest.as_str());
        }
        let session = self.sessions.get(&connection).and_then(SessionState::json);
        self.writer.line(&Line { event, sql, session, digest, not_replayable: reason });
        let is_refused = event.errno.is_some_and(|errno| errno != 0);
        if facts.first == NAMED.SET && !facts.secret && !is_refused && event.connection.is_some() {
            self.sessions.entry(connection).or_default().set(&event.sql);
        }
    }

    fn skipped(&mut self, bytes: u64) {
        self.totals.overall.skipped_bytes += bytes;
    }

    fn has_failed(&self) -> bool {
        self.writer.has_failed()
    }
}

struct Group {
    totals: DigestTotals,
    times: Histogram<u64>,
}

#[derive(Default)]
struct Totals {
    groups: Vec<Group>,
    index: HashMap<Vec<u8>, usize>,
    connections: HashSet<u64>,
    overall: Overall,
    key: Vec<u8>,
}

impl Totals {
    /// Counts the connection and the time of a statement, but not of commands: a Binlog Dump lasts for hours.
    fn moment(&mut self, event: &Event) {
        self.connections.extend(event.connection);
        let overall = &mut self.overall;
        for moment in event.start_us.into_iter().chain(event.end_us) {
            overall.first_us = Some(overall.first_us.map_or(moment, |first| first.min(moment)));
            overall.last_us = Some(overall.last_us.map_or(moment, |last| last.max(moment)));
        }
    }

    fn statement(&mut self, key: &[u8], event: &Event, sql: &[u8], reason: Option<&'static str>) -> usize {
        let at = self.group_of(key);
        let group = &mut self.groups[at];
        let totals = &mut group.totals;
        let weight = event.weight;
        let overall = &mut self.overall;
        overall.events += 1;
        overall.count = overall.count.saturating_add(weight);
        let sum = |total: &mut u64, value: Option<u64>| {
            *total = total.saturating_add(value.unwrap_or(0).saturating_mul(weight));
        };
        let is_slowest = totals.events == 0 || event.query_us.is_some_and(|took| took > totals.max_us);
        totals.events += 1;
        totals.count = totals.count.saturating_add(weight);
        if let Some(took) = event.query_us {
            totals.timed = totals.timed.saturating_add(weight);
            totals.max_us = totals.max_us.max(took);
            // The histogram grows to at most 25 kB.
            let _ = group.times.record_n(took.clamp(1, LONGEST_US), weight);
        }
        sum(&mut totals.total_us, event.query_us);
        sum(&mut overall.total_us, event.query_us);
        sum(&mut totals.lock_us, event.lock_us);
        sum(&mut totals.rows_sent, event.rows_sent);
        sum(&mut totals.rows_examined, event.rows_examined);
        sum(&mut totals.rows_affected, event.rows_affected);
        sum(&mut totals.errors, Some(u64::from(event.errno.is_some_and(|errno| errno != 0))));
        if let Some(reason) = reason {
            *totals.not_replayable.entry(reason.to_owned()).or_default() += 1;
            *overall.not_replayable.entry(reason.to_owned()).or_default() += 1;
        }
        if is_slowest {
            totals.schema = String::from_utf8_lossy(&event.schema).into_owned();
            totals.sample = shortened(&String::from_utf8_lossy(&sql[..sql.len().min(TEXT_MAX + 4)]));
        }
        at
    }

    fn group_of(&mut self, key: &[u8]) -> usize {
        self.key.clear();
        self.key.extend_from_slice(&key[..key.len().min(KEY_MAX)]);
        if key.len() > KEY_MAX {
            self.key.extend_from_slice(&Sha256::digest(&key[KEY_MAX..]));
        }
        if let Some(&at) = self.index.get(self.key.as_slice()) {
            return at;
        }
        let text = if self.groups.len() < DIGESTS_MAX { text_of(key) } else { "(other statements)".to_owned() };
        if self.groups.len() > DIGESTS_MAX {
            return DIGESTS_MAX;
        }
        let totals = DigestTotals { digest: name_of(&text), text: shortened(&text), ..DigestTotals::default() };
        let times = Histogram::new(2).unwrap_or_else(|_| unreachable!("two digits are valid"));
        self.groups.push(Group { totals, times });
        self.index.insert(self.key.clone(), self.groups.len() - 1);
        self.groups.len() - 1
    }

    fn finish(mut self) -> (Vec<DigestTotals>, Overall) {
        let mut digests: Vec<DigestTotals> = self.groups.into_iter().map(Group::finish).collect();
        digests.sort_by(|one, other| {
            (other.total_us, other.count).cmp(&(one.total_us, one.count)).then_with(|| one.text.cmp(&other.text))
        });
        self.overall.connections = self.connections.len() as u64;
        self.overall.digests = digests.len() as u64;
        (digests, self.overall)
    }
}

impl Group {
    fn finish(mut self) -> DigestTotals {
        let max = self.totals.max_us;
        let quantile = |share: f64| {
            if self.times.is_empty() { 0 } else { self.times.value_at_quantile(share).min(max) }
        };
        (self.totals.p50_us, self.totals.p95_us, self.totals.p99_us) = (quantile(0.5), quantile(0.95), quantile(0.99));
        self.totals
    }
}

fn shortened(text: &str) -> String {
    let end = (0..=TEXT_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    if text.len() <= TEXT_MAX { text.to_owned() } else { format!("{}…", &text[..end]) }
}

#[cfg(test)]
#[path = "../tests/unit/recorder.rs"]
mod tests;
