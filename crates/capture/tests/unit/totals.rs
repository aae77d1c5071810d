//! Tests of totals.

use super::*;
use crate::digest::Digester;

fn add(totals: &mut Totals, sql: &str, query_us: u64, weight: u64) {
    let mut digester = Digester::default();
    digester.read(sql.as_bytes());
    let event = Event {
        query_us: Some(query_us),
        rows_examined: Some(10),
        errno: Some(u32::from(query_us == 1) * 1064),
        weight,
        ..Event::default()
    };
    totals.statement(digester.key(), &event, sql.as_bytes(), None);
}

#[test]
fn weights_count_in_sums_and_percentiles() {
    let mut totals = Totals::default();
    for took in 1..=100 {
        add(&mut totals, &format!("SELECT {took}"), took, 1);
    }
    add(&mut totals, "SELECT 'slow'", 5_000, 900);
    add(&mut totals, "COMMIT", 7, 1);
    let (digests, overall) = totals.finish();
    let (select, commit) = (&digests[0], &digests[1]);
    assert_eq!((select.events, select.count, select.timed), (101, 1000, 1000));
    assert_eq!(select.total_us, 5050 + 4_500_000);
    assert_eq!((select.p50_us, select.max_us, select.rows_examined, select.errors), (5_000, 5_000, 10_000, 1));
    assert_eq!((select.sample.as_str(), select.text.as_str()), ("SELECT 'slow'", "SELECT ?"));
    assert_eq!((commit.count, commit.p50_us, commit.p99_us), (1, 7, 7));
    assert_eq!((overall.events, overall.count, overall.digests), (102, 1001, 2));
}

#[test]
fn percentiles_are_within_one_per_cent() {
    let mut totals = Totals::default();
    for took in 1..=10_000 {
        add(&mut totals, "SELECT 1", took * 100, 1);
    }
    let (digests, _) = totals.finish();
    for (found, expected) in [(digests[0].p50_us, 500_000), (digests[0].p95_us, 950_000), (digests[0].p99_us, 990_000)]
    {
        assert!(found.abs_diff(expected) * 100 <= expected, "{found} for {expected}");
    }
}

#[test]
fn beyond_the_limit_of_groups_statements_are_counted_together() {
    let mut totals = Totals::default();
    for table in 0..DIGESTS_MAX + 5 {
        add(&mut totals, &format!("SELECT a FROM t{table}"), 1, 1);
    }
    let (digests, overall) = totals.finish();
    assert_eq!(digests.len(), DIGESTS_MAX + 1);
    let others = digests.iter().find(|each| each.text == "(other statements)").unwrap();
    assert_eq!((others.count, overall.events), (5, DIGESTS_MAX as u64 + 5));
}

#[test]
fn long_texts_are_shortened_and_stay_apart() {
    let mut totals = Totals::default();
    let columns =
        |last: &str| format!("SELECT {} FROM t", (0..3000).map(|n| format!("column_{n}, ")).collect::<String>() + last);
    add(&mut totals, &columns("a"), 1, 1);
    add(&mut totals, &columns("b"), 1, 1);
    add(&mut totals, &columns("a"), 1, 1);
    let (digests, _) = totals.finish();
    assert_eq!(digests.iter().map(|each| each.count).collect::<Vec<_>>(), [2, 1]);
    assert!(digests.iter().all(|each| each.text.len() < TEXT_MAX + 4 && each.text.ends_with('…')));
}
