//! Tests of `src/worker_stats.rs`.

use std::sync::Arc;

use crate::worker_stats::{Latencies, LatencyShard, LatencyStore};

#[test]
fn merging_workers_joins_operations_by_name() {
    let worker = |names: &[&str]| {
        let mut latencies = Latencies::default();
        for (index, name) in names.iter().enumerate() {
            let operation = latencies.operation(name);
            latencies.record(Some(operation), 1_000 * (index as u64 + 1));
            latencies.record(None, 1_000 * (index as u64 + 1));
        }
        latencies.record(None, 9);
        latencies
    };
    let mut arm = Latencies::default();
    arm.merge(&worker(&["payment", "delivery"]));
    arm.merge(&worker(&["delivery"]));
    let counts: Vec<_> = arm.by_operation().into_iter().map(|(name, h)| (name, h.count(), h.max_ns())).collect();
    assert_eq!(counts, [("event", 5, 2_000), ("delivery", 2, 2_000), ("payment", 1, 1_000)]);
}

#[test]
fn operation_ids_stay_valid_after_latencies_are_taken() {
    let shard: Arc<LatencyShard> = Arc::default();
    let (payment, delivery) = shard.with(|latencies| (latencies.operation("payment"), latencies.operation("delivery")));
    let mut taken = Latencies::default();
    for (operation, latency_ns, expected) in [
        (payment, 1_000, ["event 1", "delivery 0", "payment 1"]),
        (delivery, 2_000, ["event 1", "delivery 1", "payment 0"]),
    ] {
        LatencyStore::new(Arc::clone(&shard), 1).record(&[operation], latency_ns);
        shard.take_into(&mut taken);
        let all = taken.by_operation();
        assert_eq!(all.iter().map(|(name, h)| format!("{name} {}", h.count())).collect::<Vec<_>>(), expected);
        assert_eq!((all[0].1.min_ns(), all[0].1.max_ns()), (latency_ns, latency_ns));
        taken.clear();
    }
}

#[test]
fn one_buffer_takes_from_shards_with_different_operations() {
    let shards = [LatencyShard::default(), LatencyShard::default()];
    let (mut taken, mut sum) = (Latencies::default(), Latencies::default());
    for (shard, names) in shards.iter().zip([&["payment", "delivery"][..], &["stock_level"]]) {
        for name in names {
            shard.with(|latencies| {
                let operation = latencies.operation(name);
                latencies.record(None, 1_000);
                latencies.record(Some(operation), 1_000);
            });
        }
        shard.take_into(&mut taken);
        sum.merge(&taken);
        taken.clear();
    }
    let counts: Vec<_> = sum.by_operation().into_iter().map(|(name, h)| (name, h.count())).collect();
    assert_eq!(counts, [("event", 3), ("delivery", 1), ("payment", 1), ("stock_level", 1)]);
}

#[test]
fn latencies_are_buffered_and_added_in_batches() {
    let shard: Arc<LatencyShard> = Arc::default();
    let counts =
        || shard.with(|all| all.by_operation().iter().map(|(_, h)| (h.count(), h.max_ns())).collect::<Vec<_>>());
    let stores = [LatencyStore::new(Arc::clone(&shard), 8), LatencyStore::new(Arc::clone(&shard), 8)];
    // The second worker meets the names in another order.
    let [first, second] = [["a", "b"], ["b", "a"]].map(|names| names.map(|name| stores[0].operation(name)));
    assert_eq!(second, [stores[1].operation("b"), stores[1].operation("a")]);
    for latency_ns in 1..=3 {
        stores[0].record(&first[..1], latency_ns);
    }
    assert_eq!(counts(), [(0, 0), (0, 0), (0, 0)]);
    stores[0].add_if_half_full(); // six of eight
    assert_eq!(counts(), [(3, 3), (3, 3), (0, 0)]);
    stores[1].record(&second[..1], 40);
    stores[1].add_if_half_full(); // two of eight
    assert_eq!(counts(), [(3, 3), (3, 3), (0, 0)]);
    for latency_ns in 50..53 {
        stores[1].record(&second[..1], latency_ns); // the eighth fills it
    }
    assert_eq!(counts(), [(7, 52), (3, 3), (4, 52)]);
    stores[1].record(&[], 60);
    stores[1].add_all();
    assert_eq!(counts(), [(8, 60), (3, 3), (4, 52)]);
}
