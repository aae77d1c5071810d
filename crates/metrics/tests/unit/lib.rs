//! Tests of `src/lib.rs`.

use super::now_ns;

#[test]
fn the_clock_is_monotonic_and_in_nanoseconds() {
    let before_ns = now_ns();
    std::thread::sleep(std::time::Duration::from_millis(5));
    let passed_ns = now_ns() - before_ns;
    assert!(passed_ns >= 5_000_000, "{passed_ns}");
    assert!(passed_ns < 5_000_000_000, "{passed_ns}");
}
