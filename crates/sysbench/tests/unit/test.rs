//! Tests of `src/test.rs`.

use super::count_primes;

#[test]
fn there_are_1229_primes_below_10_000() {
    // 2 is not counted.
    assert_eq!(count_primes(10_000), 1228);
    assert_eq!(count_primes(30), 9);
}
