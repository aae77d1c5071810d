//! Totals of a capture: for each digest its count, time, percentiles, rows, errors and a sample; and for all together.

use std::collections::{BTreeMap, HashMap, HashSet};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::digest;
use crate::event::Event;

/// Groups that are kept apart; statements of further ones are counted together, as `(other statements)`.
pub const DIGESTS_MAX: usize = 20_000;

/// Bytes of a digest's key that are compared; of longer ones the rest by its SHA-256.
const KEY_MAX: usize = 4096;
/// Bytes of a digest's text and of a sample that are kept.
const TEXT_MAX: usize = 8192;
/// Latencies beyond this are recorded as this [µs]: a day.
const LONGEST_US: u64 = 86_400_000_000;

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

struct Group {
    totals: DigestTotals,
    times: Histogram<u64>,
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
    /// Connections with a number.
    pub connections: u64,
    /// `COMMIT` and `ROLLBACK` statements.
    pub transactions: u64,
    /// Administrator commands, connects and quits.
    pub commands: u64,
    /// Groups of statements.
    pub digests: u64,
    /// Sum of all times [µs].
    pub total_us: u64,
    /// First and last moment [µs since 1970]; null when the log has none.
    pub first_us: Option<i64>,
    /// See `first_us`.
    pub last_us: Option<i64>,
    /// Statements that cannot be replayed, by reason.
    pub not_replayable: BTreeMap<String, u64>,
    /// Bytes of the logs, decompressed, that belong to no event.
    pub skipped_bytes: u64,
}

/// Sums as events come.
#[derive(Default)]
pub(crate) struct Totals {
    groups: Vec<Group>,
    index: HashMap<Vec<u8>, usize>,
    connections: HashSet<u64>,
    pub(crate) overall: Overall,
    key: Vec<u8>,
}

impl Totals {
    /// Counts an event of any kind.
    pub(crate) fn moment(&mut self, event: &Event) {
        self.connections.extend(event.connection);
        let overall = &mut self.overall;
        for moment in event.start_us.into_iter().chain(event.end_us) {
            overall.first_us = Some(overall.first_us.map_or(moment, |first| first.min(moment)));
            overall.last_us = Some(overall.last_us.map_or(moment, |last| last.max(moment)));
        }
    }

    /// Counts a statement; returns its group, for [`Totals::name`].
    pub(crate) fn statement(&mut self, key: &[u8], event: &Event, sql: &[u8], reason: Option<&'static str>) -> usize {
        let at = self.group_of(key);
        let group = &mut self.groups[at];
        let totals = &mut group.totals;
        let weight = event.weight;
        let overall = &mut self.overall;
        overall.events += 1;
        overall.count = overall.count.saturating_add(weight);
        let sum = |total: &mut u64, value: Option<u64>| {
            *total = total.saturating_add(value.unwrap_or(0).saturating_mul(weight))
        };
        let is_slowest = totals.events == 0 || event.query_us.is_some_and(|took| took > totals.max_us);
        totals.events += 1;
        totals.count = totals.count.saturating_add(weight);
        if let Some(took) = event.query_us {
            totals.timed = totals.timed.saturating_add(weight);
            totals.max_us = totals.max_us.max(took);
            // Resizes itself up to the longest; at most 25 kB a group.
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

    /// The digest's name.
    pub(crate) fn name(&self, group: usize) -> &str {
        &self.groups[group].totals.digest
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
        let full = self.groups.len() >= DIGESTS_MAX;
        let text = if full { "(other statements)".to_owned() } else { digest::text_of(key) };
        if full {
            self.key.clear();
            if let Some(&at) = self.index.get(self.key.as_slice()) {
                return at;
            }
        }
        let totals = DigestTotals { digest: digest::name_of(&text), text: shortened(&text), ..DigestTotals::default() };
        self.groups.push(Group { totals, times: times() });
        self.index.insert(self.key.clone(), self.groups.len() - 1);
        self.groups.len() - 1
    }

    /// The totals, those with the longest time (without times: the most frequent) first.
    pub(crate) fn finish(mut self) -> (Vec<DigestTotals>, Overall) {
        let mut digests: Vec<DigestTotals> = self.groups.into_iter().map(Group::finish).collect();
        digests.sort_by(|one, other| {
            (other.total_us, other.count).cmp(&(one.total_us, one.count)).then_with(|| one.text.cmp(&other.text))
        });
        self.overall.connections = self.connections.len() as u64;
        self.overall.digests = digests.len() as u64;
        (digests, self.overall)
    }
}

/// Two significant digits: 1 % of a time, which differs by more from run to run.
fn times() -> Histogram<u64> {
    Histogram::new(2).unwrap_or_else(|_| unreachable!("two digits are valid"))
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

/// At most [`TEXT_MAX`] bytes; what was longer ends with `…`.
fn shortened(text: &str) -> String {
    if text.len() <= TEXT_MAX {
        return text.to_owned();
    }
    let mut end = TEXT_MAX;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

#[cfg(test)]
#[path = "../tests/unit/totals.rs"]
mod tests;
