//! TPC-C without a server: the statements of its transactions, their retries, its options.

use std::rc::Rc;

use crate::world::{Answer, Rows, World, load_bundled, settings};
use bakeoff_script::{IgnoreErrors, Settings};

/// A world whose tables answer as a loaded server would, for `events` New-Orders.
fn shop(events: u64) -> Rc<World> {
    let world = World::new(events);
    let row = |fields: &[&str]| -> Rows { vec![fields.iter().map(|field| Some((*field).to_owned())).collect()] };
    for _ in 0..40 * events {
        world.answer("SELECT d_tax", Answer::Rows(row(&["0.1000", "3001"])));
        world.answer("SELECT c_discount", Answer::Rows(row(&["0.2000", "BARBARBAR", "GC"])));
        world.answer("SELECT i_price", Answer::Rows(row(&["12.34", "name", "data"])));
        world.answer("SELECT s_quantity", Answer::Rows(row(&["15", "dist", "data"])));
    }
    world
}

const NEW_ORDERS: &[(&str, &str)] = &[("scale", "1"), ("mix", "1,0,0,0,0"), ("c_load", "100")];

fn run_shop(world: &Rc<World>, options: &[(&str, &str)]) {
    let script = load_bundled("tpcc", &settings(options), 0, world);
    script.thread_init().unwrap();
    world.take_statements();
    script.run().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_new_order_runs_the_statements_of_its_profile() {
    let world = shop(1);
    run_shop(&world, NEW_ORDERS);
    let statements = world.statements();
    let lines = statements.iter().filter(|statement| statement.starts_with("INSERT INTO order_line")).count();
    assert!((5..=15).contains(&lines));
    assert_eq!(statements.len(), 8 + 4 * lines);
    assert_eq!((statements[0].as_str(), statements.last().unwrap().as_str()), ("BEGIN", "COMMIT"));
    assert!(statements[3].starts_with("UPDATE district SET d_next_o_id = 3002 WHERE d_w_id = 1"));
    let update = statements.iter().find(|statement| statement.starts_with("UPDATE stock")).unwrap();
    assert!(update.contains("s_ytd = s_ytd + ") && update.contains("s_order_cnt = s_order_cnt + 1"), "{update}");
    assert!(update.contains("s_remote_cnt = s_remote_cnt + 0 WHERE s_w_id = 1"), "{update}");
    assert_eq!(*world.calls.borrow(), ["start", "operation new_order", "Done"]);
}

#[test]
fn a_connection_prepares_as_many_statements_as_documented() {
    let world = World::new(0);
    let script = load_bundled("tpcc", &settings(&[]), 0, &world);
    script.thread_init().unwrap();
    let words = format!("prepares {} statements a table set,", world.journal.open_statements.get());
    assert!(include_str!("../../../../docs/reference/tpcc.md").contains(&words), "{words}");
}

#[test]
fn a_deadlock_repeats_the_same_transaction() {
    let world = shop(1);
    world.answer("UPDATE stock", Answer::Fails(1213, false));
    run_shop(&world, NEW_ORDERS);
    let statements = world.statements();
    let rollback = statements.iter().position(|statement| statement == "ROLLBACK").unwrap();
    let (first, second) = (&statements[..rollback], &statements[rollback + 1..]);
    assert_eq!(*first, second[..first.len()]);
    assert_eq!(second.last().unwrap(), "COMMIT");
    assert_eq!(*world.errors.borrow(), [1213]);
    assert_eq!(*world.calls.borrow(), ["start", "operation new_order", "operation new_order.retried", "Done"]);
}

#[test]
fn a_reconnect_restores_the_isolation_level() {
    let set_isolation = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
    for (errno, fatal, times) in [(1213, false, 0), (2013, true, 1)] {
        let world = shop(1);
        world.answer("UPDATE stock", Answer::Fails(errno, fatal));
        let settings =
            Settings { ignore_errors: IgnoreErrors::All, ..settings(&[NEW_ORDERS, &[("trx_level", "RC")]].concat()) };
        let script = load_bundled("tpcc", &settings, 0, &world);
        script.thread_init().unwrap();
        world.take_statements();
        script.run().unwrap();
        let statements = world.statements();
        let set = statements.iter().filter(|sent| *sent == set_isolation);
        assert_eq!(set.count(), times, "{errno}");
    }
}

#[test]
fn an_unknown_item_rolls_back_without_an_error() {
    let world = World::new(1);
    let row = |fields: &[&str]| -> Rows { vec![fields.iter().map(|field| Some((*field).to_owned())).collect()] };
    world.answer("SELECT d_tax", Answer::Rows(row(&["0.1", "3001"])));
    world.answer("SELECT c_discount", Answer::Rows(row(&["0.2", "BARBARBAR", "GC"])));
    world.answer("SELECT i_price", Answer::Rows(Vec::new()));
    run_shop(&world, NEW_ORDERS);
    assert_eq!(world.statements().last().unwrap(), "ROLLBACK");
    assert!(world.errors.borrow().is_empty());
    assert_eq!(*world.calls.borrow(), ["start", "operation new_order", "operation new_order.rollback", "Done"]);
}

#[test]
fn a_delivery_changes_an_order_before_it_reads_it() {
    let world = World::new(1);
    run_shop(&world, &[("mix", "0,0,0,1,0"), ("c_load", "100")]);
    let of_orders: Vec<String> = world
        .statements()
        .iter()
        .filter(|statement| statement.contains(" orders "))
        .map(|statement| statement[..6].to_owned())
        .collect();
    assert_eq!(of_orders, ["UPDATE", "SELECT"].repeat(10));
}

#[test]
fn keying_and_thinking_happen_between_events() {
    let world = shop(2);
    run_shop(&world, &[NEW_ORDERS, &[("keying_time", "on"), ("think_time", "on")]].concat());
    let calls = world.calls.borrow().clone();
    let (waits, others): (Vec<String>, Vec<String>) = calls.iter().cloned().partition(|call| call.starts_with("think"));
    assert_eq!(others, ["start", "operation new_order", "Done", "start", "operation new_order", "Done"]);
    assert!(calls[0].starts_with("think") && calls[4].starts_with("think"));
    let seconds: Vec<f64> = waits.iter().map(|wait| wait[6..].parse::<f64>().unwrap() / 1e9).collect();
    assert_eq!(seconds[0], 18.0); // keying alone: nothing to think about yet
    assert!(seconds[1..].iter().all(|wait| (18.0..=18.0 + 120.0).contains(wait)), "{seconds:?}");
}

#[test]
fn bad_options_are_reported_in_one_line() {
    for (name, value, words) in [
        ("trx_level", "XX", "tpcc: --trx_level=XX: it takes RC, RR or SER."),
        ("mix", "1,2", "five whole numbers"),
        ("statements", "many", "single or multi"),
        ("scale", "0", "a whole number from 1"),
    ] {
        let script = load_bundled("tpcc", &settings(&[(name, value)]), 0, &World::new(0));
        let error = script.thread_init().expect_err(name).to_string();
        assert!(error.contains(words), "{error}");
        assert!(!error.contains('\n'));
    }
}
