//! Latencies as an `HdrHistogram`: 3 significant digits from 1 ns to 1 h.

use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

/// Shortest latency that has a bucket of its own; shorter ones are recorded as this, and counted as clipped.
const LOWEST_NS: u64 = 1;
/// Longest latency that has a bucket of its own (1 h); longer ones are recorded as this, and counted as clipped.
const HIGHEST_NS: u64 = 3_600_000_000_000;
/// Relative error of a bucket is at most 10^-3: a quantile is exact to 0.1 %.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Latencies of one operation as one writer saw them; 270 kB, most of it untouched.
///
/// Recording neither allocates nor locks. The sum is kept exactly beside the buckets, so the mean has no bucket error.
///
/// ```
/// let mut first = bakeoff_metrics::LatencyHistogram::new();
/// first.record(1_000);
/// let mut second = bakeoff_metrics::LatencyHistogram::new();
/// second.record(3_000);
/// first.merge(&second);
/// assert_eq!((first.count(), first.mean_ns()), (2, 2_000.0));
/// ```
#[derive(Debug, Clone)]
pub struct LatencyHistogram {
    buckets: Histogram<u64>,
    /// Exact sum of the latencies as given [ns]; saturates after 584 years.
    sum_ns: u64,
    /// Exact extremes of the latencies as given [ns]; `min_ns` is `u64::MAX` while empty.
    min_ns: u64,
    max_ns: u64,
    /// Values outside `LOWEST_NS..=HIGHEST_NS`; they are also in the buckets, at the limit.
    clipped: u64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyHistogram {
    /// An empty histogram.
    ///
    /// # Panics
    /// Never: the bounds are constants that `HdrHistogram` accepts.
    pub fn new() -> Self {
        let buckets = Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, SIGNIFICANT_DIGITS)
            .expect("1 ns to 1 h with 3 digits are valid bounds");
        Self { buckets, sum_ns: 0, min_ns: u64::MAX, max_ns: 0, clipped: 0 }
    }

    /// Records one latency [ns]. Values out of range are counted in [`LatencyHistogram::clipped`], never dropped.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        let in_range_ns = latency_ns.clamp(LOWEST_NS, HIGHEST_NS);
        if in_range_ns != latency_ns {
            self.clipped += 1;
        }
        self.sum_ns = self.sum_ns.saturating_add(latency_ns);
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
        // Within the bounds this cannot fail; `saturating` is the form without a Result to branch on.
        self.buckets.saturating_record(in_range_ns);
    }

    /// Adds every value of `other`: the same as having recorded them all here.
    ///
    /// # Panics
    /// Never: all histograms have the same bounds.
    pub fn merge(&mut self, other: &Self) {
        self.buckets.add(&other.buckets).expect("histograms of equal bounds can be added");
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.clipped += other.clipped;
    }

    /// Forgets all values; takes no time if there are none.
    pub fn clear(&mut self) {
        if self.count() > 0 {
            self.buckets.reset();
            (self.sum_ns, self.min_ns, self.max_ns, self.clipped) = (0, u64::MAX, 0, 0);
        }
    }

    /// Number of values recorded.
    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// Number of values that lay outside `LOWEST_NS..=HIGHEST_NS`.
    pub fn clipped(&self) -> u64 {
        self.clipped
    }

    /// Sum of all values [ns], exact.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Mean [ns], exact; 0 when empty.
    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days of summed latency before a digit is lost")]
    pub fn mean_ns(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum_ns as f64 / self.count() as f64 }
    }

    /// Least value [ns], exact; 0 when empty.
    pub fn min_ns(&self) -> u64 {
        if self.count() == 0 { 0 } else { self.min_ns }
    }

    /// Greatest value [ns], exact; 0 when empty.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The least recorded value such that at least `quantile` of all values are not greater; exact to 0.1 %, 0 when empty.
    ///
    /// `quantile` is taken as within `[0, 1]`. Never outside the exact extremes, unlike the bucket edge it comes from.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        if self.count() == 0 {
            return 0;
        }
        self.buckets.value_at_quantile(quantile).clamp(self.min_ns, self.max_ns)
    }

    /// Buckets that hold anything, in order: their middle [ns] and how many latencies they hold.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets.iter_recorded().map(|bucket| {
            (
                self.buckets.median_equivalent(bucket.value_iterated_to()).clamp(self.min_ns, self.max_ns),
                bucket.count_at_value(),
            )
        })
    }

    /// The buckets in `HdrHistogram`'s V2 deflate form, in base64 (`HISTFAAAA…`).
    ///
    /// # Panics
    /// Never: counts are below 2^63, and a `Vec` takes whatever is written.
    pub fn to_base64(&self) -> String {
        let mut bytes = Vec::new();
        let written = V2DeflateSerializer::new().serialize(&self.buckets, &mut bytes);
        written.expect("counts below 2^63 have a form");
        base64::engine::general_purpose::STANDARD.encode(bytes)
    }
}

#[cfg(test)]
#[path = "../tests/unit/histogram.rs"]
mod tests;
