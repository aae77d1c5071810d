//! Tests of `src/fault.rs`.

use super::*;

#[test]
fn valid_faults_are_parsed_and_invalid_ones_refused() {
    assert_eq!("close@3".parse(), Ok(Fault { kind: FaultKind::Close, at: 3 }));
    assert_eq!("exit@40000".parse(), Ok(Fault { kind: FaultKind::Exit, at: 40_000 }));
    for wrong in ["", "close", "close@0", "close@x", "close@1/connection", "nonsense@1", "close=1@2"] {
        assert!(wrong.parse::<Fault>().is_err(), "{wrong}");
    }
}
