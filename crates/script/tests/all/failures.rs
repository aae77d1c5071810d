//! Errors: retried, counted, reported with file and line.

use std::cell::RefCell;
use std::rc::Rc;

use crate::world::{Answer, World, load, run, settings};
use bakeoff_script::host::SqlError;
use bakeoff_script::{IgnoreErrors, Script, ScriptError, ScriptSource, Settings, SqlCall};

const QUERY_EVENT: &str = "
function thread_init() con = sysbench.sql.driver():connect() end
function event() con:query('UPDATE t') end
";

/// The code of an SQL error, or None for other errors.
fn errno(error: &ScriptError) -> Option<u16> {
    if let ScriptError::Sql { error, .. } = error { Some(error.code) } else { None }
}

#[test]
fn ignored_errors_run_the_event_again_within_its_latency() {
    let world = World::new(2);
    world.answer("UPDATE t", Answer::Fails(1213, false));
    world.answer("UPDATE t", Answer::Fails(1205, false));
    let text = format!(
        "{QUERY_EVENT}
        function sysbench.hooks.before_restart_event(err) print(err.sql_errno, err.sql_state, err.sql_errmsg, err.query, err.connection == con) end"
    );
    run(&text, &world).expect("both errors are survived");
    assert_eq!(*world.calls.borrow(), ["start", "Done", "start", "Done"]);
    assert_eq!(world.statements().len(), 4);
    assert_eq!((world.restarts.get(), world.errors.borrow().clone()), (2, vec![1213, 1205]));
    assert_eq!(world.replies("write"), 2);
    assert_eq!(world.lines()[0], "1213\t42000\terror 1213 of the fake\tUPDATE t\ttrue");
}

#[test]
fn an_error_in_an_unfetched_result_is_raised_by_the_next_statement() {
    for next in ["con:query('UPDATE t')", "statement:execute()"] {
        let text = QUERY_EVENT.replace("con:query('UPDATE t')", &format!("con:query('MANY') {next}"));
        let text = text.replace(":connect()", ":connect() statement = con:prepare('UPDATE t')");
        for (code, is_ignored) in [(1213, true), (1146, false)] {
            let world = World::new(1);
            world.answer("MANY", Answer::FailsLater(code));
            assert_eq!(run(&text, &world).is_ok(), is_ignored, "{next} after {code}");
            let (restarts, changes) = (world.restarts.get(), world.replies("write"));
            assert_eq!((restarts, changes), (u32::from(is_ignored), u64::from(is_ignored)), "{next} after {code}");
        }
    }
}

#[test]
fn a_hook_may_call_other_errors_ignorable() {
    let world = World::new(1);
    world.answer("UPDATE t", Answer::Fails(1062, false));
    let text =
        format!("{QUERY_EVENT} function sysbench.hooks.sql_error_ignorable(err) return err.sql_errno == 1062 end");
    run(&text, &world).expect("the hook says so");
    assert_eq!(*world.errors.borrow(), [1062]);
}

#[test]
fn a_restart_that_the_host_refuses_ends_the_thread() {
    let world = World::new(3);
    world.restarts_allowed.set(1);
    (0..5).for_each(|_| world.answer("UPDATE t", Answer::Fails(1213, false)));
    run(QUERY_EVENT, &world).expect("ends quietly");
    assert_eq!(*world.calls.borrow(), ["start", "Stop"]);
    assert_eq!(*world.errors.borrow(), [1213, 1213]);
}

#[test]
fn scripts_may_ask_for_a_restart_themselves() {
    let world = World::new(1);
    let text = "n = 0
        function event() n = n + 1 if n < 3 then error({ errcode = sysbench.error.RESTART_EVENT }) end end";
    run(text, &world).expect("runs");
    assert_eq!(world.restarts.get(), 2);
    assert!(world.errors.borrow().is_empty(), "no server error");
}

#[test]
fn other_sql_errors_end_the_run_with_statement_and_line() {
    let world = World::new(1);
    world.answer("UPDATE t", Answer::Fails(1146, false));
    let error = run(QUERY_EVENT, &world).expect_err("not ignored");
    let expected = ScriptError::Sql {
        place: "test.lua:3: ".into(),
        call: SqlCall::Query,
        error: SqlError {
            code: 1146,
            sqlstate: "42000".into(),
            message: "error 1146 of the fake".into(),
            fatal: false,
            io_errno: None,
        },
    };
    assert_eq!(error, expected);
    assert_eq!(error.to_string(), "test.lua:3: SQL error, errno = 1146, state = '42000': error 1146 of the fake");
    assert!(world.errors.borrow().is_empty(), "an error that ends the run is not one that was survived");
    assert_eq!(*world.calls.borrow(), ["start"]);
}

#[test]
fn errors_that_the_script_catches_are_counted() {
    let world = World::new(2);
    world.answer("UPDATE t", Answer::Fails(1146, false));
    let text = "
        function thread_init() con = sysbench.sql.driver():connect() end
        function event() pcall(con.query, con, 'UPDATE t') end";
    run(text, &world).expect("survives");
    assert_eq!(*world.errors.borrow(), [1146]);
    assert_eq!(*world.calls.borrow(), ["start", "Done", "start", "Done"]);
}

#[test]
fn an_ignored_connection_loss_reconnects() {
    let world = World::new(1);
    world.answer("UPDATE t", Answer::Fails(2013, true));
    let settings = Settings { ignore_errors: IgnoreErrors::All, ..settings(&[]) };
    let script = load(QUERY_EVENT, &settings, &world).expect("loads");
    script.thread_init().and_then(|()| script.run()).expect("connects anew and runs the event again");
    assert_eq!((world.journal.reconnects.get(), world.counters.borrow()[&5]), (1, 1));

    let world = World::new(1);
    world.answer("UPDATE t", Answer::Fails(2013, true));
    let error = run(QUERY_EVENT, &world).expect_err("not ignored by default");
    assert_eq!((errno(&error), world.journal.reconnects.get()), (Some(2013), 0));
}

#[test]
fn a_refused_connection_says_why() {
    let world = World::new(1);
    world.refuse_connections.set(Some(1045));
    let error = run(QUERY_EVENT, &world).expect_err("no connection");
    assert_eq!(errno(&error), Some(1045));
    assert_eq!(error.to_string(), "test.lua:2: SQL error, errno = 1045, state = '42000': error 1045 of the fake");
}

#[test]
fn ignorable_errors_outside_of_an_event_end_a_command() {
    let world = World::new(0);
    world.answer("UPDATE t", Answer::Fails(1213, false));
    let script =
        load("function prepare() sysbench.sql.driver():connect():query('UPDATE t') end", &settings(&[]), &world)
            .expect("loads");
    let error = script.command("prepare").expect_err("nothing can be run again");
    assert_eq!(error.to_string(), "SQL error, errno = 1213, state = '42000': error 1213 of the fake");
    assert_eq!(errno(&error), Some(1213));
}

#[test]
fn lua_errors_have_file_line_and_stack() {
    let error = run("function event()\n  local x = nil\n  x.y = 1\nend", &World::new(1)).expect_err("an error");
    let ScriptError::Lua { message, traceback } = error else { panic!("{error:?}") };
    assert_eq!(message, "test.lua:3: attempt to index local 'x' (a nil value)");
    assert!(traceback.contains("in function"), "{traceback}");

    let syntax = load("function (", &settings(&[]), &World::new(0)).err().expect("does not compile");
    assert_eq!(
        syntax.to_string(),
        "test.lua:1: <name> expected near '('".replace("<name>", "'<name>'").replace("''", "'")
    );
    let missing = load("\nrequire('nowhere')", &settings(&[]), &World::new(0)).err().expect("no such module");
    assert!(missing.to_string().starts_with("test.lua:2: module 'nowhere' not found:"), "{missing}");
    let thrown = run("function event() error({ 1 }) end", &World::new(1)).expect_err("an error");
    assert_eq!(thrown.to_string(), "(not a string)");
}

#[test]
fn scripts_in_any_character_set_load_and_report_their_errors() {
    let source = ScriptSource {
        text: b"sysbench.cmdline.options = { gr\xf6sse = { 'Gr\xf6\xdfe', '\xfc' }, liste = { 'Liste', { '\xe4' } } }
            function event() error('kein Schl\xfcssel') end"
            .to_vec(),
        ..ScriptSource::inline("test.lua", "")
    };
    let script = Script::load(&source, &settings(&[]), 0, World::new(1).host()).expect("loads");
    assert_eq!(script.declared_options()[0].description, "Gr\u{fffd}\u{fffd}e");
    let error = script.run().expect_err("raises").to_string();
    assert!(error.ends_with("kein Schl\u{fffd}ssel"), "{error}");
}

#[test]
fn a_panic_of_the_host_passes_through_lua_unharmed() {
    let world = World::new(3);
    *world.on_more_events.borrow_mut() = Some(Box::new(|left| assert!(left != 2, "the host panics")));
    let script = Rc::new(RefCell::new(load("function event() end", &settings(&[]), &world).expect("loads")));
    let inner = Rc::clone(&script);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || inner.borrow().run()));
    let panic = caught.expect_err("it goes on");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the host panics"));
    assert_eq!(*world.calls.borrow(), ["start", "Done"]);
}
