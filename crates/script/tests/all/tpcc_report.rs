//! TPC-C's own results after a run.

use std::rc::Rc;

use bakeoff_script::Script;

use crate::world::{World, load_bundled, settings};

const DECKS: [(&str, u64); 6] = [
    ("new_order", 10_000),
    ("payment", 10_000),
    ("order_status", 1_000),
    ("delivery", 1_000),
    ("stock_level", 1_000),
    ("new_order.rollback", 100),
];

/// Reports a minute with these counts, each with a 90th percentile of 2 ms.
fn report(counts: &[(&str, u64)], options: &[(&str, &str)]) -> Vec<String> {
    let world = World::new(0);
    let script = load_bundled("tpcc", &settings(options), 0, &world);
    let operations: Vec<_> = counts.iter().map(|(name, count)| (*name, *count, 0.002)).collect();
    say(&script, &world, &operations)
}

fn say(script: &Script, world: &Rc<World>, operations: &[(&str, u64, f64)]) -> Vec<String> {
    script.report("report_operations", &[("time_interval", 60.0), ("errors", 7.0)], operations).expect("reports");
    world.lines()
}

fn value_of(lines: &[String], name: &str) -> String {
    let line = lines.iter().find(|line| line.contains(name)).expect("a line");
    line.split_once(':').expect("a value").1.trim().to_owned()
}

#[test]
fn a_proper_run_is_ok_in_all_respects() {
    let expected = "\
TPC-C (not an audited result):
    tpmC:                                10000.00
    tpmTotal:                            23000.00
    response times (90%):                OK
    mix:                                 OK
    rollbacks (1%):                      OK
    deliveries skipped:                  OK
    retried:                             0 after 7 deadlocks and lock waits
";
    assert_eq!(report(&DECKS, &[]).join("\n"), expected);
}

#[test]
fn values_outside_their_limits_are_named() {
    let mut counts = DECKS;
    counts[3].1 = 100;
    counts[5].1 = 300;
    let lines = report(&counts, &[]);
    assert_eq!(value_of(&lines, "mix"), "not OK: delivery 0.45%");
    assert_eq!(value_of(&lines, "rollbacks"), "not OK: rollbacks 3.00%");
    let few = report(&[("new_order", 30), ("payment", 29), ("order_status", 2)], &[]);
    assert_eq!(value_of(&few, "mix"), "too few to tell");
}

#[test]
fn late_responses_are_named() {
    let world = World::new(0);
    let script = load_bundled("tpcc", &settings(&[]), 0, &world);
    let lines = say(&script, &world, &[("payment", 9, 5.26), ("stock_level", 9, 19.9)]);
    assert_eq!(value_of(&lines, "response times"), "not OK: payment 5.3 s of at most 5 s");
}

#[test]
fn efficiency_is_shown_if_keying_and_thinking_are_on() {
    let efficiency = |scale: &str, orders: u64| {
        let options = [("keying_time", "on"), ("think_time", "true"), ("scale", scale), ("tables", "2")];
        value_of(&report(&[("new_order", orders), ("payment", orders)], &options), "efficiency")
    };
    // 25 / (4 * 12.86), and 2500 / (2048 * 12.86).
    assert_eq!(efficiency("2", 25), "48.6% of 12.86 a warehouse");
    assert_eq!(efficiency("1K", 2500), "9.5% of 12.86 a warehouse");
    assert!(!report(&DECKS, &[("keying_time", "on")]).iter().any(|line| line.contains("efficiency")));
}
