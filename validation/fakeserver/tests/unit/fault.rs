//! Tests of `src/fault.rs`.

use super::*;

#[test]
fn faults_are_read_and_refused() {
    let fault = |kind, at, scope| Ok(Fault { kind, at, scope });
    assert_eq!("close-mid-reply@3".parse(), fault(FaultKind::CloseMidReply, 3, Scope::Server));
    assert_eq!("never-answer@1/connection".parse(), fault(FaultKind::NeverAnswer, 1, Scope::Connection));
    assert_eq!("auth-plugin=dialog".parse(), fault(FaultKind::AuthPlugin("dialog".into()), 0, Scope::Server));
    for wrong in
        ["", "close", "close@0", "close@x", "close@1/thread", "nonsense@1", "truncated-handshake@1", "close=1@2"]
    {
        assert!(wrong.parse::<Fault>().is_err(), "{wrong}");
    }
}

#[test]
fn half_an_answer_is_half() {
    let mut answer = vec![1; 10];
    assert_eq!(corrupt(&FaultKind::CloseMidReply, &mut answer), Delivery::WholeThenClose);
    assert_eq!(answer.len(), 5);
}
