//! Tests of `src/histogram.rs`.

use super::*;

#[test]
fn values_fall_into_their_buckets_and_the_ends_catch_the_rest() {
    let mut histogram = Histogram::new(4, 1.0, 1000.0).expect("a range");
    for value in [0.0, 1.0, 10.0, 11.0, 1000.0, 1e9, f64::NAN] {
        histogram.add(value, 1);
    }
    assert_eq!(histogram.counts, [3, 2, 0, 2]);
    assert_eq!(histogram.lines()[1], format!("       1.000 |{} 3", "*".repeat(40)));
}

#[test]
fn an_invalid_range_is_refused() {
    assert!(Histogram::new(10, 0.0, 1.0).is_none());
    assert!(Histogram::new(10, 2.0, 1.0).is_none());
    assert!(Histogram::new(1, 1.0, 2.0).is_none());
}
