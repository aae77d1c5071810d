//! What one or more workers did in one slice, as plain numbers to be added up and sent.

use std::collections::BTreeMap;

/// Sums over the counted part of a slice; `latency_max_ns` is a maximum. The zero value is the empty slice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SliceTotals {
    /// Events that ended.
    pub events: u64,
    /// Statements that returned a result set.
    pub reads: u64,
    /// Statements that changed a row.
    pub writes: u64,
    /// Statements that did neither.
    pub other: u64,
    /// Errors that the script survived, by server error number; 0 stands for numbers beyond the first fifteen.
    pub errors: BTreeMap<u16, u64>,
    /// Events run again after such an error.
    pub retries: u64,
    /// Connections made anew.
    pub reconnects: u64,
    /// Bytes handed to the kernel.
    pub sent_bytes: u64,
    /// Bytes received from the kernel.
    pub received_bytes: u64,
    /// Sum of event latencies [ns].
    pub latency_sum_ns: u64,
    /// Greatest event latency [ns].
    pub latency_max_ns: u64,
    /// Open loop: events begun more than 1 ms after their intended start although a worker was free.
    pub late_starts: u64,
    /// Sum of the workers' windows [ns]: first event start after the guard to last event end.
    pub busy_ns: u64,
}

impl SliceTotals {
    /// Adds what another worker did in the same slice, or the same workers in another one.
    pub fn merge(&mut self, other: &Self) {
        self.events += other.events;
        self.reads += other.reads;
        self.writes += other.writes;
        self.other += other.other;
        for (&code, &count) in &other.errors {
            *self.errors.entry(code).or_default() += count;
        }
        self.retries += other.retries;
        self.reconnects += other.reconnects;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.latency_sum_ns += other.latency_sum_ns;
        self.latency_max_ns = self.latency_max_ns.max(other.latency_max_ns);
        self.late_starts += other.late_starts;
        self.busy_ns += other.busy_ns;
    }

    /// What came after `earlier`, a picture of the same counters. The maximum is that of the whole: it cannot be taken apart.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let errors = self.errors.iter().map(|(&code, &count)| {
            let before = earlier.errors.get(&code).copied().unwrap_or_default();
            (code, count - before)
        });
        Self {
            events: self.events - earlier.events,
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            other: self.other - earlier.other,
            errors: errors.filter(|(_, count)| *count > 0).collect(),
            retries: self.retries - earlier.retries,
            reconnects: self.reconnects - earlier.reconnects,
            sent_bytes: self.sent_bytes - earlier.sent_bytes,
            received_bytes: self.received_bytes - earlier.received_bytes,
            latency_sum_ns: self.latency_sum_ns - earlier.latency_sum_ns,
            latency_max_ns: self.latency_max_ns,
            late_starts: self.late_starts - earlier.late_starts,
            busy_ns: self.busy_ns - earlier.busy_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_after_a_picture_and_the_picture_make_the_whole() {
        let picture = |scale: u64| SliceTotals {
            events: 3 * scale,
            reads: 5 * scale,
            errors: BTreeMap::from([(1213, scale)]),
            busy_ns: 7 * scale,
            ..SliceTotals::default()
        };
        let (earlier, later) = (picture(2), picture(5));
        let mut sum = earlier.clone();
        sum.merge(&later.since(&earlier));
        assert_eq!(sum, later);
        assert!(later.since(&later).errors.is_empty());
    }
}
