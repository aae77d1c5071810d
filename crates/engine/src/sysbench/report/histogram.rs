//! `--histogram`: latencies as bars, over sysbench's buckets.

use crate::sysbench::tally::Stretch;

/// sysbench's buckets: so many, equally wide on a logarithmic axis between these latencies [ms].
const BUCKETS: f64 = 1024.0;
const LOWEST_MS: f64 = 1e-3;
const HIGHEST_MS: f64 = 1e5;
/// Length of the longest bar.
const BAR: usize = 40;

/// The table, without the newline that the console adds; rows are those buckets that hold anything.
pub(in crate::sysbench) fn table(stretch: &Stretch) -> String {
    let mut rows: Vec<(usize, u64)> = Vec::new();
    for (latency_ns, count) in stretch.events().buckets() {
        let bucket = bucket_of(super::ms(latency_ns));
        match rows.last_mut() {
            Some((last, sum)) if *last == bucket => *sum += count,
            _ => rows.push((bucket, count)),
        }
    }
    let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(1);
    let mut table = "Latency histogram (values are in milliseconds)\n       value  ------------- distribution ------------- count\n".to_owned();
    for (bucket, count) in rows {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "0 to the bar's length"
        )]
        let length = (count as f64 / most as f64 * BAR as f64 + 0.5) as usize;
        table += &format!(
            "{:12.3} |{:BAR$} {count}\n",
            value_of(bucket),
            "*".repeat(length)
        );
    }
    table + " "
}

fn per_log() -> f64 {
    (BUCKETS - 1.0) / (HIGHEST_MS / LOWEST_MS).ln()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "0 to 1023"
)]
fn bucket_of(latency_ms: f64) -> usize {
    let within_ms = latency_ms.clamp(LOWEST_MS, HIGHEST_MS);
    ((within_ms / LOWEST_MS).ln() * per_log() + 0.5) as usize
}

#[expect(clippy::cast_precision_loss, reason = "0 to 1023")]
fn value_of(bucket: usize) -> f64 {
    LOWEST_MS * (bucket as f64 / per_log()).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_with_bars_to_scale() {
        let mut stretch = Stretch::default();
        for (latency_ns, count) in [(30_265_000, 4), (45_793_000, 1), (1, 1)] {
            (0..count).for_each(|_| stretch.latencies.record(&[], latency_ns));
        }
        let table = table(&stretch);
        let rows: Vec<&str> = table.lines().collect();
        assert_eq!(rows[2], format!("       0.001 |{:40} 1", "*".repeat(10)));
        assert_eq!(rows[3], format!("      30.265 |{} 4", "*".repeat(40)));
        assert_eq!(rows[4], format!("      45.793 |{:40} 1", "*".repeat(10)));
        assert_eq!(rows.last(), Some(&" "));
    }
}
