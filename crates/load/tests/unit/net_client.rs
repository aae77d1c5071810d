//! Tests of `src/net/client.rs`.

use super::*;

#[test]
fn a_closed_statement_is_gone() {
    let mut statements = Statements::default();
    let template = || Statement::Text(Template::new(b"x", DIALECT));
    let closed = statements.add(template());
    assert!(statements.remove(closed).is_some());
    assert!(statements.get_mut(closed).is_none());
    assert!(statements.remove(closed).is_none());
    assert_ne!(statements.add(template()), statements.add(template()), "its place is given out once");
}

#[test]
fn slots_of_closed_statements_are_reused() {
    let mut statements = Statements::default();
    let template = || Statement::Text(Template::new(b"x", DIALECT));
    let lasting = statements.add(template());
    for _ in 0..10_000 {
        let [one, other] = [0; 2].map(|_| statements.add(template()));
        assert!(statements.remove(one).is_some());
        assert!(statements.remove(other).is_some());
    }
    assert_eq!(statements.0.len(), 3);
    assert!(statements.get_mut(lasting).is_some());
}

const DIALECT: bakeoff_wire::dialect::Dialect = bakeoff_wire::dialect::Dialect {
    no_backslash_escapes: false,
    ansi_quotes: false,
    multi_byte: bakeoff_wire::dialect::MultiByte::Safe,
};
