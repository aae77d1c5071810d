//! Tests of the messages in `src/measure.rs`.

use super::*;

#[test]
fn an_init_that_does_not_return_is_not_blamed_on_the_workers() {
    assert_eq!(too_late(5, 4, "were not ready within 30 s"), "init() did not return within 30 s");
    assert_eq!(too_late(4, 4, "were not ready within 30 s"), "4 of 4 workers were not ready within 30 s");
}
