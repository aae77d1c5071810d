//! Life cycle, options, commands, hooks, restarts and errors.

mod world;

use std::cell::RefCell;
use std::rc::Rc;

use bakeoff_script::error::Place;
use bakeoff_script::{
    IgnoreErrors, OptionType, OptionValue, ScriptError, Settings, Statistics, ThreadRole,
};
use world::{Answer, World, load, run, settings};

const QUERY_EVENT: &str = "
function thread_init() con = sysbench.sql.driver():connect() end
function event() con:query('UPDATE t') end
";

#[test]
fn functions_are_called_in_order_with_the_thread_number() {
    let world = World::new(2);
    let text = "
        print('body', sysbench.tid, sysbench.opt.threads)
        function init() print('init', sysbench.opt.threads) end
        function thread_init(tid) print('thread_init', tid) end
        function event(tid) print('event', tid) end
        function thread_done(tid) print('thread_done', tid) end
        function done() print('done') end";
    let script = load(
        text,
        &Settings {
            threads: 3,
            ..settings(&[])
        },
        &world,
    )
    .expect("loads");
    script.init().expect("init");
    script.thread_init().expect("thread_init");
    script.run().expect("run");
    script.thread_done().expect("thread_done");
    script.done().expect("done");
    let expected = [
        "body\t0\tnil",
        "init\t3",
        "thread_init\t0",
        "event\t0",
        "event\t0",
        "thread_done\t0",
        "done",
    ];
    assert_eq!(world.lines(), expected);
    assert_eq!(*world.calls.borrow(), ["start", "Done", "start", "Done"]);
}

#[test]
fn a_true_value_stops_the_thread_and_does_not_count() {
    for value in ["0", "1", "true", "{}", "''"] {
        let world = World::new(5);
        run(
            &format!("n = 0 function event() n = n + 1 if n == 2 then return {value} end end"),
            &world,
        )
        .expect("runs");
        assert_eq!(
            *world.calls.borrow(),
            ["start", "Done", "start", "Stop"],
            "{value}"
        );
    }
    let world = World::new(3);
    run("function event() return false end", &world).expect("runs");
    assert_eq!(world.calls.borrow().len(), 6);
}

#[test]
fn a_script_may_bring_its_own_thread_run() {
    let world = World::new(2);
    let text = "function thread_run(tid)
        while ffi.C.sb_more_events(tid) do ffi.C.sb_event_start(tid) print('own') ffi.C.sb_event_stop(tid) end
    end";
    let script = load(text, &settings(&[]), &world).expect("loads");
    script.init().expect("no event() is needed");
    script.run().expect("runs");
    assert_eq!(world.lines(), ["own", "own"]);
}

#[test]
fn without_an_event_there_is_nothing_to_run() {
    let script = load("x = 1", &settings(&[]), &World::new(1)).expect("loads");
    assert_eq!(
        script.init(),
        Err(ScriptError::NoEvent {
            script: "test.lua".into()
        })
    );
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
    assert_eq!(
        (world.restarts.get(), world.errors.borrow().clone()),
        (2, vec![1213, 1205])
    );
    assert_eq!(world.replies("write"), 2);
    assert_eq!(
        world.lines()[0],
        "1213\t42000\terror 1213 of the fake\tUPDATE t\ttrue"
    );
}

#[test]
fn a_hook_may_call_other_errors_ignorable() {
    let world = World::new(1);
    world.answer("UPDATE t", Answer::Fails(1062, false));
    let text = format!(
        "{QUERY_EVENT} function sysbench.hooks.sql_error_ignorable(err) return err.sql_errno == 1062 end"
    );
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
        place: Some(Place {
            file: "test.lua".into(),
            line: 3,
        }),
        errno: 1146,
        sqlstate: "42000".into(),
        message: "error 1146 of the fake".into(),
        query: "UPDATE t".into(),
        fatal: false,
    };
    assert_eq!(error, expected);
    assert_eq!(
        error.to_string(),
        "test.lua:3: SQL error, errno = 1146, state = '42000': error 1146 of the fake"
    );
    assert!(
        world.errors.borrow().is_empty(),
        "an error that ends the run is not one that was survived"
    );
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
fn an_ignored_loss_of_the_connection_is_mended() {
    let world = World::new(1);
    world.answer("UPDATE t", Answer::Fails(2013, true));
    let settings = Settings {
        ignore_errors: IgnoreErrors::All,
        ..settings(&[])
    };
    let script = load(QUERY_EVENT, &settings, &world).expect("loads");
    script
        .thread_init()
        .and_then(|()| script.run())
        .expect("connects anew and runs the event again");
    assert_eq!(
        (world.journal.reconnects.get(), world.counters.borrow()[&5]),
        (1, 1)
    );

    let world = World::new(1);
    world.answer("UPDATE t", Answer::Fails(2013, true));
    let error = run(QUERY_EVENT, &world).expect_err("not ignored by default");
    assert_eq!(
        (error.code(), world.journal.reconnects.get()),
        ("server_lost", 0)
    );
}

#[test]
fn a_refused_connection_says_why() {
    let world = World::new(1);
    world.refuse_connections.set(Some(1045));
    let error = run(QUERY_EVENT, &world).expect_err("no connection");
    assert_eq!(error.code(), "access_denied");
    assert_eq!(
        error.to_string(),
        "test.lua:2: SQL error, errno = 1045, state = '42000': error 1045 of the fake"
    );
}

#[test]
fn ignorable_errors_outside_of_an_event_end_a_command() {
    let world = World::new(0);
    world.answer("UPDATE t", Answer::Fails(1213, false));
    let script = load(
        "function prepare() sysbench.sql.driver():connect():query('UPDATE t') end",
        &settings(&[]),
        &world,
    )
    .expect("loads");
    let error = script
        .command("prepare")
        .expect_err("nothing can be run again");
    assert_eq!(
        error.to_string(),
        "SQL error, errno = 1213, state = '42000': error 1213 of the fake"
    );
    assert_eq!(error.code(), "sql_error");
}

#[test]
fn lua_errors_have_file_line_and_stack() {
    let error = run(
        "function event()\n  local x = nil\n  x.y = 1\nend",
        &World::new(1),
    )
    .expect_err("an error");
    let ScriptError::Lua {
        place,
        message,
        traceback,
    } = error
    else {
        panic!("{error:?}")
    };
    assert_eq!(
        place,
        Some(Place {
            file: "test.lua".into(),
            line: 3
        })
    );
    assert_eq!(message, "attempt to index local 'x' (a nil value)");
    assert!(traceback.contains("in function"), "{traceback}");

    let syntax = load("function (", &settings(&[]), &World::new(0))
        .err()
        .expect("does not compile");
    assert_eq!(
        syntax.to_string(),
        "test.lua:1: <name> expected near '('"
            .replace("<name>", "'<name>'")
            .replace("''", "'")
    );
    let missing = load("\nrequire('nowhere')", &settings(&[]), &World::new(0))
        .err()
        .expect("no such module");
    assert!(
        missing
            .to_string()
            .starts_with("test.lua:2: module 'nowhere' not found:"),
        "{missing}"
    );
    let thrown = run("function event() error({ 1 }) end", &World::new(1)).expect_err("an error");
    assert!(thrown.to_string().starts_with("table: "), "{thrown}");
}

#[test]
fn declared_options_are_typed_filled_and_checked() {
    let text = "
        sysbench.cmdline.options = {
          flag = { 'A flag', false }, rate = { 'A number', 2.5 }, name = { 'A text', 'x' }, list = { 'A list', { 'a', 'b' } },
          bare = { 'No default' }, size = { 'Bytes', nil, sysbench.cmdline.ARG_SIZE }, ['with-dash'] = { 'Dashed', 1, sysbench.cmdline.ARG_INT },
          even = { 'Checked', 2, sysbench.cmdline.ARG_INT, function(name, text, value) return value % 2 == 0 end },
        }
        function event() end
        function thread_init()
          local o = sysbench.opt
          print(o.flag, o.rate, o.name, table.concat(o.list, '+'), '[' .. o.bare .. ']', o.size, o.with_dash, o.even)
          print(o.threads, o.mysql_user, o.time, o.mysql_host[1], o.debug)
        end";
    let world = World::new(0);
    let script = load(text, &settings(&[]), &world).expect("loads");
    script.thread_init().expect("runs");
    assert_eq!(
        world.lines(),
        [
            "false\t2.5\tx\ta+b\t[]\t0\t1\t2",
            "1\tsbtest\t10\tlocalhost\tfalse"
        ]
    );
    let kinds: Vec<(String, OptionType)> = script
        .declared_options()
        .iter()
        .map(|option| (option.name.clone(), option.kind))
        .collect();
    assert_eq!(kinds[1], ("even".to_owned(), OptionType::Int));
    assert_eq!(kinds[5], ("rate".to_owned(), OptionType::Double));

    let world = World::new(0);
    let mut given = settings(&[
        ("flag", "on"),
        ("rate", "1k"),
        ("list", "x, y"),
        ("with-dash", "7"),
        ("size", "1M"),
        ("even", "4"),
    ]);
    given.options.insert("name".into(), OptionValue::Int(5));
    given
        .general
        .insert("mysql-user".into(), OptionValue::Text("me".into()));
    load(text, &given, &world)
        .expect("loads")
        .thread_init()
        .expect("runs");
    assert_eq!(
        world.lines(),
        [
            "true\t1024\t5\tx+y\t[]\t1048576\t7\t4",
            "1\tme\t10\tlocalhost\tfalse"
        ]
    );

    let refused = |name: &str, value: &str| {
        load(text, &settings(&[(name, value)]), &World::new(0))
            .err()
            .expect("refused")
            .to_string()
    };
    assert_eq!(
        refused("even", "3"),
        "invalid value for option --even: \"3\". It takes a value that the script's own check accepts."
    );
    assert_eq!(
        refused("flag", "maybe"),
        "invalid value for option --flag: \"maybe\". It takes on or off."
    );
    assert_eq!(
        refused("flagg", "on"),
        "invalid option: --flagg. Did you mean --flag?"
    );
    assert_eq!(refused("colour", "on"), "invalid option: --colour.");
}

#[test]
fn commands_are_the_scripts_own_then_the_built_in_ones() {
    let text = "
        sysbench.cmdline.options = { n = { 'A number', 3 } }
        sysbench.cmdline.commands = {
          fill = { function() print('fill', sysbench.tid) end, sysbench.cmdline.PARALLEL_COMMAND },
          prepare = { function() print('own prepare') end },
        }
        function prepare() print('not this one') end
        function cleanup() print('cleanup', sysbench.cmdline.command_defined('fill'), sysbench.cmdline.command_parallel('prepare')) end";
    let world = World::new(0);
    let script = load(text, &settings(&[]), &world).expect("loads");
    let known: Vec<(&str, bool)> = script
        .commands()
        .iter()
        .map(|c| (c.name.as_str(), c.parallel))
        .collect();
    assert_eq!(
        known,
        [
            ("fill", true),
            ("prepare", false),
            ("cleanup", false),
            ("help", false)
        ]
    );
    for name in ["fill", "prepare", "cleanup", "help"] {
        script.command(name).expect(name);
    }
    let expected = [
        "fill\t0",
        "own prepare",
        "cleanup\ttrue\tfalse",
        "test.lua options:",
        "  --n=N                         A number [3]",
    ];
    assert_eq!(world.lines(), expected);
    let error = script.command("warmup").expect_err("no such command");
    assert_eq!(
        error.to_string(),
        "script test.lua has no command warmup. It has: fill, prepare, cleanup, help."
    );
}

#[test]
fn report_hooks_get_their_numbers() {
    let text = "
        sysbench.hooks.report_intermediate = sysbench.report_csv
        function sysbench.hooks.report_cumulative(stat) print(stat.latency_max, stat.queue_length, stat.events) sysbench.report_default(stat) end";
    let world = World::new(0);
    let script = load(text, &settings(&[]), &world).expect("loads");
    assert!(script.has_report_intermediate() && script.has_report_cumulative());
    let statistics = Statistics {
        threads_running: 4,
        time_interval: 2.0,
        time_total: 10.0,
        latency_pct: 0.0125,
        events: 100,
        reads: 1400,
        writes: 400,
        other: 200,
        errors: 2,
        latency_max: Some(0.5),
        ..Statistics::default()
    };
    script.report_intermediate(&statistics).expect("reports");
    script.report_cumulative(&statistics).expect("reports");
    assert_eq!(
        world.lines(),
        [
            "10,4,50.00,1000.00,700.00,200.00,100.00,12.50,1.00,0.00",
            "0.5\tnil\t100",
            "[ 10s ] thds: 4 tps: 50.00 qps: 1000.00 (r/w/o: 700.00/200.00/100.00) lat (ms,95%): 12.50 err/s 1.00 reconn/s: 0.00",
        ]
    );
}

#[test]
fn the_json_hook_writes_one_array() {
    let world = World::new(0);
    let script = load(
        "sysbench.hooks.report_intermediate = sysbench.report_json",
        &settings(&[]),
        &world,
    )
    .expect("loads");
    let statistics = Statistics {
        threads_running: 2,
        time_interval: 1.0,
        time_total: 1.0,
        events: 10,
        ..Statistics::default()
    };
    script.report_intermediate(&statistics).expect("reports");
    script.report_intermediate(&statistics).expect("reports");
    drop(script);
    let text: String = world.lines().concat().split_whitespace().collect();
    let object = r#"{"time":1,"threads":2,"tps":10.00,"qps":{"total":0.00,"reads":0.00,"writes":0.00,"other":0.00},"latency":0.00,"errors":0.00,"reconnects":0.00}"#;
    assert_eq!(text, format!("[{object},{object}]"));
}

#[test]
fn output_goes_through_the_host_line_by_line() {
    let world = World::new(0);
    let text = "io.write('a', 1) io.write('b\\nc') io.stdout:write('d', '\\n\\n') print(nil, 2) io.write('tail')";
    load(text, &settings(&[]), &world).expect("loads");
    assert_eq!(world.lines(), ["a1b", "cd", "", "nil\t2", "tail"]);
}

#[test]
fn a_panic_of_the_host_passes_through_lua_unharmed() {
    let world = World::new(3);
    *world.on_more_events.borrow_mut() =
        Some(Box::new(|left| assert!(left != 2, "the host panics")));
    let script = Rc::new(RefCell::new(
        load("function event() end", &settings(&[]), &world).expect("loads"),
    ));
    let inner = Rc::clone(&script);
    let caught =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || inner.borrow().run()));
    let panic = caught.expect_err("it goes on");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the host panics"));
    assert_eq!(*world.calls.borrow(), ["start", "Done"]);
}

#[test]
fn the_threads_role_decides_its_number() {
    let number = |role: ThreadRole| {
        let world = World::new(0);
        let settings = Settings {
            threads: 8,
            ..settings(&[])
        };
        let source = bakeoff_script::ScriptSource::inline("t.lua", "print(sysbench.tid)");
        let host: bakeoff_script::host::HostRef = world.clone();
        bakeoff_script::Script::load(&source, &settings, role, host).expect("loads");
        world.lines()[0].clone()
    };
    assert_eq!(number(ThreadRole::Main), "0");
    assert_eq!(number(ThreadRole::Worker(5)), "5");
    assert_eq!(number(ThreadRole::Report), "8");
}
