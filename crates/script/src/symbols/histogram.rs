//! `sysbench.histogram`: a log-spaced histogram that a script fills and prints itself.

use crate::host::LogLevel;
use crate::session::shielded;

pub(super) const CDEF: &str = r"
typedef struct sb_histogram sb_histogram_t;
sb_histogram_t *sb_histogram_new(size_t size, double range_min, double range_max);
void sb_histogram_delete(sb_histogram_t *h);
void sb_histogram_update(sb_histogram_t *h, double value);
void sb_histogram_print(sb_histogram_t *h);
";

/// Buckets of equal width on a logarithmic axis from `minimum` to `maximum`; values outside count at the ends.
pub(crate) struct Histogram {
    counts: Vec<u64>,
    minimum: f64,
    per_log: f64,
}

impl Histogram {
    const BAR: usize = 40;

    fn new(size: usize, minimum: f64, maximum: f64) -> Option<Self> {
        let usable = (2..=1 << 24).contains(&size)
            && minimum > 0.0
            && maximum > minimum
            && maximum.is_finite();
        let per_log = (size.max(2) - 1) as f64 / (maximum / minimum).ln();
        usable.then(|| Self {
            counts: vec![0; size],
            minimum,
            per_log,
        })
    }

    fn update(&mut self, value: f64) {
        let place = ((value.max(self.minimum) / self.minimum).ln() * self.per_log + 0.5) as usize;
        let last = self.counts.len() - 1;
        self.counts[place.min(last)] += 1;
    }

    /// A heading, then value, bar and count of each bucket that is not empty.
    fn lines(&self) -> Vec<String> {
        let most = self.counts.iter().copied().max().unwrap_or(0).max(1);
        let row = |(place, count): (usize, &u64)| {
            let value = self.minimum * (place as f64 / self.per_log).exp();
            let bar = "*".repeat((*count as f64 / most as f64 * Self::BAR as f64 + 0.5) as usize);
            format!("{value:12.3} |{bar:<40} {count}")
        };
        let heading = "       value  ------------- distribution ------------- count".to_owned();
        std::iter::once(heading)
            .chain(
                self.counts
                    .iter()
                    .enumerate()
                    .filter(|(_, count)| **count > 0)
                    .map(row),
            )
            .collect()
    }
}

/// A new histogram, or null when the range or size makes no sense.
#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_histogram_new(
    size: usize,
    minimum: f64,
    maximum: f64,
) -> *mut Histogram {
    Histogram::new(size, minimum, maximum).map_or(std::ptr::null_mut(), |histogram| {
        Box::into_raw(Box::new(histogram))
    })
}

/// # Safety
/// `histogram` is null or from `sb_histogram_new`, and not used afterwards.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sb_histogram_delete(histogram: *mut Histogram) {
    if !histogram.is_null() {
        // SAFETY: as the caller promises.
        drop(unsafe { Box::from_raw(histogram) });
    }
}

/// # Safety
/// `histogram` is null or from `sb_histogram_new`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sb_histogram_update(histogram: *mut Histogram, value: f64) {
    // SAFETY: as the caller promises.
    if let Some(histogram) = unsafe { histogram.as_mut() } {
        histogram.update(value);
    }
}

/// # Safety
/// `histogram` is null or from `sb_histogram_new`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sb_histogram_print(histogram: *mut Histogram) {
    // SAFETY: as the caller promises.
    if let Some(histogram) = unsafe { histogram.as_ref() } {
        let lines = histogram.lines();
        shielded((), |session| {
            lines
                .iter()
                .for_each(|line| session.host.log(LogLevel::Notice, line))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fall_into_their_buckets_and_the_ends_catch_the_rest() {
        let mut histogram = Histogram::new(4, 1.0, 1000.0).expect("a range");
        for value in [0.0, 1.0, 10.0, 11.0, 1000.0, 1e9, f64::NAN] {
            histogram.update(value);
        }
        assert_eq!(histogram.counts, [3, 2, 0, 2]);
        assert_eq!(
            histogram.lines()[1],
            format!("       1.000 |{} 3", "*".repeat(40))
        );
    }

    #[test]
    fn a_senseless_range_is_refused() {
        assert!(Histogram::new(10, 0.0, 1.0).is_none());
        assert!(Histogram::new(10, 2.0, 1.0).is_none());
        assert!(Histogram::new(1, 1.0, 2.0).is_none());
    }
}
