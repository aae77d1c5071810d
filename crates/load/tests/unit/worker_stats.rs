//! Tests of `src/worker_stats.rs`.

use super::*;

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
    let mut latencies = Latencies::default();
    let payment = latencies.operation("payment");
    let delivery = latencies.operation("delivery");
    latencies.record(&[payment], 1_000);
    let mut first = latencies.take();
    latencies.record(&[delivery], 2_000);
    first.forget_empty();
    let names = |latencies: &Latencies| -> Vec<String> {
        let all = latencies.by_operation().into_iter();
        all.map(|(name, h)| format!("{name} {}", h.count())).collect()
    };
    assert_eq!(names(&first), ["event 1", "payment 1"]);
    assert_eq!(names(&latencies), ["event 1", "delivery 1", "payment 0"]);
}
