//! A histogram of latencies: 128 buckets for each power of two, so a bucket is at most 0.8 % wide.

const SUB_BITS: u32 = 7;
const BUCKETS: usize = 64 << SUB_BITS;

/// Counts in nanoseconds; one for each thread, merged at the end.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    counts: Vec<u64>,
    total: u64,
    max_ns: u64,
}

impl Latencies {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0, max_ns: 0 }
    }

    pub(crate) fn record(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.total += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Middle of the bucket that holds the quantile; 0 without samples.
    pub(crate) fn quantile_ns(&self, quantile: f64) -> u64 {
        let wanted = ((self.total as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return middle_ns(index).min(self.max_ns);
            }
        }
        0
    }

    pub(crate) fn max_ns(&self) -> u64 {
        self.max_ns
    }
}

/// Values below 2^SUB_BITS have a bucket each; above, the highest SUB_BITS+1 bits choose.
fn bucket(ns: u64) -> usize {
    let shift = (64 - ns.leading_zeros()).saturating_sub(SUB_BITS + 1);
    ((shift as usize) << SUB_BITS) + (ns >> shift) as usize
}

fn middle_ns(index: usize) -> u64 {
    if index < 2 << SUB_BITS {
        return index as u64;
    }
    let shift = (index >> SUB_BITS) - 1;
    let top = (index - (shift << SUB_BITS)) as u64;
    (top << shift) + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_their_middle_and_are_narrow() {
        for ns in [0, 1, 127, 128, 255, 256, 257, 1000, 46_123, 1_000_000, 3_600_000_000_000, u64::MAX / 4] {
            let middle = middle_ns(bucket(ns));
            assert_eq!(bucket(middle), bucket(ns), "{ns}");
            assert!(middle.abs_diff(ns) as f64 <= ns as f64 * 0.008, "{ns} in the bucket around {middle}");
        }
    }

    #[test]
    fn quantiles_follow_the_counts() {
        let mut latencies = Latencies::new();
        assert_eq!(latencies.quantile_ns(0.5), 0);
        (1..=100).for_each(|ns| latencies.record(ns));
        let mut other = Latencies::new();
        other.record(100_000);
        latencies.merge(&other);
        assert_eq!((latencies.quantile_ns(0.5), latencies.quantile_ns(0.99)), (51, 100));
        assert_eq!((latencies.quantile_ns(1.0), latencies.max_ns()), (100_000, 100_000));
    }
}
