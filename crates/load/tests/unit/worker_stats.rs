//! Tests of `src/worker_stats.rs`.

use crate::worker_stats::{Latencies, LatencyShard};

#[test]
fn merging_workers_joins_operations_by_name() {
    let worker = |names: &[&str]| {
        let mut latencies = Latencies::default();
        for (index, name) in names.iter().enumerate() {
            let operation = latencies.operation(name);
            latencies.record(&[operation], 1_000 * (index as u64 + 1));
        }
        latencies.record(&[], 9);
        latencies
    };
    let mut arm = Latencies::default();
    arm.merge(&worker(&["payment", "delivery"]));
    arm.merge(&worker(&["delivery"]));
    let counts: Vec<_> = arm.by_operation().into_iter().map(|(name, h)| (name, h.count(), h.max_ns())).collect();
    assert_eq!(counts, [("event", 5, 2_000), ("delivery", 2, 2_000), ("payment", 1, 1_000)]);
}

#[test]
fn what_is_taken_out_leaves_the_numbers_of_operations_valid() {
    let shard = LatencyShard::default();
    let (payment, delivery) = shard.with(|latencies| (latencies.operation("payment"), latencies.operation("delivery")));
    let mut taken = Latencies::default();
    for (operation, latency_ns, expected) in [
        (payment, 1_000, ["event 1", "delivery 0", "payment 1"]),
        (delivery, 2_000, ["event 1", "delivery 1", "payment 0"]),
    ] {
        shard.with(|latencies| latencies.record(&[operation], latency_ns));
        shard.take_into(&mut taken);
        let all = taken.by_operation();
        assert_eq!(all.iter().map(|(name, h)| format!("{name} {}", h.count())).collect::<Vec<_>>(), expected);
        assert_eq!((all[0].1.min_ns(), all[0].1.max_ns()), (latency_ns, latency_ns));
        taken.clear();
    }
}

#[test]
fn one_set_of_histograms_serves_shards_with_other_operations() {
    let shards = [LatencyShard::default(), LatencyShard::default()];
    let (mut taken, mut sum) = (Latencies::default(), Latencies::default());
    for (shard, names) in shards.iter().zip([&["payment", "delivery"][..], &["stock_level"]]) {
        for name in names {
            shard.with(|latencies| {
                let operation = latencies.operation(name);
                latencies.record(&[operation], 1_000);
            });
        }
        shard.take_into(&mut taken);
        sum.merge(&taken);
        taken.clear();
    }
    let counts: Vec<_> = sum.by_operation().into_iter().map(|(name, h)| (name, h.count())).collect();
    assert_eq!(counts, [("event", 3), ("delivery", 1), ("payment", 1), ("stock_level", 1)]);
}
