//! What a script has named its events, by name: printed below the final block, which stays as it is.

use std::fmt::Write as _;

use super::ms;
use crate::sysbench::tally::Stretch;

/// The table, without the newline that the console adds; none when the script has named nothing.
///
/// A name with a point (`new_order.rollback`) is a part of the events of the name before the point, and its share is of these.
pub(in crate::sysbench) fn table(stretch: &Stretch) -> Option<String> {
    let named = stretch.latencies.by_operation();
    let (all, named) = named.split_first()?;
    if named.is_empty() {
        return None;
    }
    let mut text = format!(
        "Operations:{:>26}{:>9}{:>12}{:>10}{:>10}{:>10}{:>10}{:>10}\n",
        "count", "share", "per minute", "50% ms", "90% ms", "95% ms", "99% ms", "max ms"
    );
    for (name, histogram) in named {
        let of = name.split_once('.').map_or(all.1, |(whole, _)| {
            let found = named.iter().find(|(other, _)| *other == whole);
            found.map_or(all.1, |(_, histogram)| *histogram)
        });
        let _ = write!(
            text,
            "    {name:<22}{:>11}{:>8.2}%{:>12.1}",
            histogram.count(),
            100.0 * share(histogram.count(), of.count()),
            60.0 * stretch.per_second(histogram.count()),
        );
        for quantile in [0.5, 0.9, 0.95, 0.99] {
            let _ = write!(text, "{:>10.2}", ms(histogram.quantile_ns(quantile)));
        }
        let _ = writeln!(text, "{:>10.2}", ms(histogram.max_ns()));
    }
    Some(text)
}

/// A part of a whole, 0 to 1; 0 of nothing.
#[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
pub(super) fn share(count: u64, of: u64) -> f64 {
    if of == 0 {
        0.0
    } else {
        count as f64 / of as f64
    }
}
