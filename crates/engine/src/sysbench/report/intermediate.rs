//! The line of `--report-interval`.

use super::percentile_ms;
use crate::sysbench::run_options::Percentile;
use crate::sysbench::tally::Stretch;

/// With `--rate`: what waits, and what runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sysbench) struct Queue {
    /// Events whose time has come and that no worker has taken.
    pub(in crate::sysbench) length: u64,
    /// Events that run.
    pub(in crate::sysbench) concurrency: u64,
}

/// The line, with a second one for the queue.
pub(in crate::sysbench) fn lines(
    at_s: f64,
    threads: u32,
    stretch: &Stretch,
    percentile: Option<&Percentile>,
    queue: Option<Queue>,
    uses_database: bool,
) -> String {
    let rate = |count| stretch.per_second(count);
    let totals = &stretch.totals;
    let (label, latency_ms) = match percentile {
        Some(percentile) => (
            percentile.label.as_str(),
            percentile_ms(stretch, percentile),
        ),
        None => ("0", 0.0),
    };
    let latency = format!("lat (ms,{label}%): {latency_ms:4.2}");
    let mut lines = if uses_database {
        format!(
            "[ {at_s:.0}s ] thds: {threads} tps: {:4.2} qps: {:4.2} (r/w/o: {:4.2}/{:4.2}/{:4.2}) {latency} err/s: {:4.2} reconn/s: {:4.2}",
            rate(totals.events),
            rate(stretch.queries()),
            rate(totals.reads),
            rate(totals.writes),
            rate(totals.other),
            rate(stretch.errors()),
            rate(totals.reconnects),
        )
    } else {
        format!(
            "[ {at_s:.0}s ] thds: {threads} eps: {:4.2} {latency}",
            rate(totals.events)
        )
    };
    if let Some(Queue {
        length,
        concurrency,
    }) = queue
    {
        let comma = if uses_database { "," } else { "" };
        lines +=
            &format!("\n[ {at_s:.0}s ] queue length: {length}{comma} concurrency: {concurrency}");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use bakeoff_metrics::SliceTotals;

    fn stretch() -> Stretch {
        let mut stretch = Stretch {
            seconds: 2.0,
            totals: SliceTotals {
                events: 100,
                reads: 1400,
                writes: 400,
                other: 201,
                errors: [(1213, 1)].into(),
                ..SliceTotals::default()
            },
            ..Stretch::default()
        };
        stretch.latencies.record(&[], 2_500_000);
        stretch
    }

    #[test]
    fn the_lines_are_sysbenchs() {
        let percentile = Percentile {
            per_cent: 95.0,
            label: "95".into(),
        };
        let queue = Some(Queue {
            length: 9,
            concurrency: 2,
        });
        assert_eq!(
            lines(2.0004, 4, &stretch(), Some(&percentile), queue, true),
            "[ 2s ] thds: 4 tps: 50.00 qps: 1000.50 (r/w/o: 700.00/200.00/100.50) lat (ms,95%): 2.50 err/s: 0.50 reconn/s: 0.00\n\
             [ 2s ] queue length: 9, concurrency: 2"
        );
        assert_eq!(
            lines(2.0, 1, &stretch(), None, queue, false),
            "[ 2s ] thds: 1 eps: 50.00 lat (ms,0%): 0.00\n[ 2s ] queue length: 9 concurrency: 2"
        );
    }
}
