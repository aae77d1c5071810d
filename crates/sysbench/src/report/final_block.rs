//! The block at the end of a run and at checkpoints, byte for byte in sysbench's layout: people's scripts parse it.

use bakeoff_metrics::ms;

use super::percentile_ms;
use crate::run_options::{Dialect, Percentile};
use crate::stats::Delta;
use crate::test::Test;

pub(crate) fn block(
    delta: &Delta,
    total_s: f64,
    (test, uses_database): (&Test, bool),
    dialect: Dialect,
    percentiles: &[Percentile],
) -> String {
    let (count, events) = (delta.totals.events, delta.events());
    let per_s = delta.per_second(count);
    let heading = match test {
        Test::Script(_) if uses_database => sql(delta),
        Test::Script(_) => String::new(),
        Test::Cpu { .. } => format!("CPU speed:\n    events per second: {per_s:8.2}\n"),
    };
    let general = match dialect {
        Dialect::V1_0 => format!("General statistics:\n    total time:                          {total_s:.4}s"),
        Dialect::V1_1 => format!(
            "Throughput:\n    events/s (eps):                      {per_s:.4}\n    time elapsed:                        {total_s:.4}s"
        ),
    };
    let percentile = |percentile: &Percentile| {
        let name = format!("{:>3}th percentile:", percentile.label);
        // Numbers end at column 53.
        let room = 45_usize.saturating_sub(name.len());
        format!("        {name}{:room$.2}\n", percentile_ms(events, percentile))
    };
    let percentiles: String = match percentiles {
        [] => "         percentile stats:               disabled\n".to_owned(),
        some => some.iter().map(percentile).collect(),
    };
    let [(events_mean, events_deviation), (busy_mean, busy_deviation)] = delta.fairness();
    format!(
        "\
{heading}
{general}
    total number of events:              {count}

Latency (ms):
         min: {:39.2}
         avg: {:39.2}
         max: {:39.2}
{percentiles}         sum: {:39.2}

Threads fairness:
    events (avg/stddev):           {events_mean:.4}/{events_deviation:3.2}
    execution time (avg/stddev):   {busy_mean:.4}/{busy_deviation:3.2}
",
        ms(events.min_ns()),
        events.mean_ns() / 1e6,
        ms(events.max_ns()),
        ms(events.sum_ns()),
    )
}

fn sql(delta: &Delta) -> String {
    let totals = &delta.totals;
    let mut text = format!(
        "\
SQL statistics:
    queries performed:
        read:                            {}
        write:                           {}
        other:                           {}
        total:                           {}
",
        totals.reads,
        totals.writes,
        totals.other,
        delta.queries()
    );
    for (name, count) in [
        ("transactions:", totals.events),
        ("queries:", delta.queries()),
        ("ignored errors:", delta.errors()),
        ("reconnects:", totals.reconnects),
    ] {
        text += &format!("    {name:<37}{count:<6} ({:.2} per sec.)\n", delta.per_second(count));
    }
    text
}

#[cfg(test)]
#[path = "../../tests/unit/report_final_block.rs"]
mod tests;
