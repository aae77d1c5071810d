//! A latency histogram: an `HdrHistogram` with 3 significant digits from 1 ns to 1 h.

use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

/// Latencies outside this range are recorded as its nearest end.
const LOWEST_NS: u64 = 1;
const HIGHEST_NS: u64 = 3_600_000_000_000;
/// Quantiles are exact to 0.1 %.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Latencies of one operation from one writer. It takes 270 kB, most of it never touched. Recording neither allocates
/// nor locks. Sum, minimum and maximum are exact, and 0 if it is empty.
#[derive(Debug, Clone)]
pub struct LatencyHistogram {
    buckets: Histogram<u64>,
    sum_ns: u64,
    /// `u64::MAX` while empty.
    min_ns: u64,
    max_ns: u64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        let buckets = Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, SIGNIFICANT_DIGITS).expect("valid bounds");
        Self { buckets, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

impl LatencyHistogram {
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        self.sum_ns = self.sum_ns.saturating_add(latency_ns);
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
        // Within the bounds; the saturating form saves a branch on a Result.
        self.buckets.saturating_record(latency_ns.clamp(LOWEST_NS, HIGHEST_NS));
    }

    pub fn merge(&mut self, other: &Self) {
        self.buckets.add(&other.buckets).expect("histograms of equal bounds can be added");
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Removes all values. Costs nothing if there are none.
    pub fn clear(&mut self) {
        if self.count() > 0 {
            self.buckets.reset();
            (self.sum_ns, self.min_ns, self.max_ns) = (0, u64::MAX, 0);
        }
    }

    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    pub fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.count().max(1) as f64
    }

    pub fn min_ns(&self) -> u64 {
        if self.count() == 0 { 0 } else { self.min_ns }
    }

    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Returns a quantile [ns], exact to 0.1 % and within the minimum and maximum, or 0 if empty.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        if self.count() == 0 {
            return 0;
        }
        self.buckets.value_at_quantile(quantile).clamp(self.min_ns, self.max_ns)
    }

    /// Iterates over the buckets that are not empty: their middle [ns] and count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets.iter_recorded().map(|bucket| {
            let middle_ns = self.buckets.median_equivalent(bucket.value_iterated_to());
            (middle_ns.clamp(self.min_ns, self.max_ns), bucket.count_at_value())
        })
    }

    /// Encodes the buckets in `HdrHistogram`'s V2 deflate format and base64 (`HISTFAAAA…`).
    pub fn to_base64(&self) -> String {
        let mut bytes = Vec::new();
        let written = V2DeflateSerializer::new().serialize(&self.buckets, &mut bytes);
        written.expect("counts below 2^63 can be encoded");
        base64::engine::general_purpose::STANDARD.encode(bytes)
    }
}

#[cfg(test)]
#[path = "../tests/unit/histogram.rs"]
mod tests;
