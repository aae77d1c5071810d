//! Life cycle, report hooks, output.

use crate::world::{REPORTED, World, load, run, settings};
use bakeoff_script::{OptionValue, ScriptError, Settings};

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
    let script = load(text, &Settings { threads: 3, ..settings(&[]) }, &world).expect("loads");
    script.init().expect("init");
    script.thread_init().expect("thread_init");
    script.run().expect("run");
    script.thread_done().expect("thread_done");
    script.done().expect("done");
    let expected = ["body\t0\tnil", "init\t3", "thread_init\t0", "event\t0", "event\t0", "thread_done\t0", "done"];
    assert_eq!(world.lines(), expected);
    assert_eq!(*world.calls.borrow(), ["start", "Done", "start", "Done"]);
}

#[test]
fn a_true_value_stops_the_thread_and_does_not_count() {
    for value in ["0", "1", "true", "{}", "''"] {
        let world = World::new(5);
        run(&format!("n = 0 function event() n = n + 1 if n == 2 then return {value} end end"), &world).expect("runs");
        assert_eq!(*world.calls.borrow(), ["start", "Done", "start", "Stop"], "{value}");
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
fn a_script_without_an_event_is_an_error() {
    let script = load("x = 1", &settings(&[]), &World::new(1)).expect("loads");
    assert_eq!(script.init(), Err(ScriptError::NoEvent { script: "test.lua".into() }));
}

#[test]
fn report_hooks_get_their_numbers() {
    let text = "
        sysbench.hooks.report_intermediate = sysbench.report_csv
        function sysbench.hooks.report_cumulative(stat) print(stat.latency_max, stat.queue_length, stat.events) sysbench.report_default(stat) end";
    let world = World::new(0);
    let script = load(text, &settings(&[]), &world).expect("loads");
    assert!(script.has_hook("report_intermediate") && script.has_hook("report_cumulative"));
    assert!(!script.has_hook("before_restart_event"));
    script.report("report_intermediate", &REPORTED, &[]).expect("reports");
    script.report("report_cumulative", &REPORTED, &[]).expect("reports");
    assert_eq!(
        world.lines(),
        [
            "10,4,50.00,1000.00,700.00,200.00,100.00,12.50,1.00,0.00",
            "0.5\tnil\t100",
            "[ 10s ] thds: 4 tps: 50.00 qps: 1000.00 (r/w/o: 700.00/200.00/100.00) lat (ms,95%): 12.50 err/s 1.00 reconn/s: 0.00",
        ]
    );
    let mut fine = settings(&[]);
    fine.general.insert("percentile".into(), OptionValue::Double(99.9));
    let world = World::new(0);
    let script = load(text, &fine, &world).expect("loads");
    script.report("report_cumulative", &REPORTED, &[]).expect("reports");
    assert!(world.lines()[1].contains("lat (ms,99.9%): 12.50"), "{:?}", world.lines());
}

#[test]
fn garbage_connections_are_freed_by_the_collector() {
    let world = World::new(0);
    let text = "function sysbench.hooks.report_intermediate() sysbench.sql.driver():connect() end";
    let script = load(text, &settings(&[]), &world).expect("loads");
    let calls = 20_000;
    for _ in 0..calls {
        script.report("report_intermediate", &[], &[]).expect("connects");
    }
    assert!(world.journal.open_connections.get() < calls / 2);
}

#[test]
fn the_json_hook_writes_one_array() {
    let world = World::new(0);
    let script =
        load("sysbench.hooks.report_intermediate = sysbench.report_json", &settings(&[]), &world).expect("loads");
    script.report("report_intermediate", &REPORTED, &[]).expect("reports");
    script.report("report_intermediate", &REPORTED, &[]).expect("reports");
    drop(script);
    let text: String = world.lines().concat().split_whitespace().collect();
    let object = r#"{"time":10,"threads":4,"tps":50.00,"qps":{"total":1000.00,"reads":700.00,"writes":200.00,"other":100.00},"latency":12.50,"errors":1.00,"reconnects":0.00}"#;
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
fn a_line_may_be_written_in_pieces_and_flushed() {
    let world = World::new(0);
    let text = "io.write('dot') io.flush() io.flush() io.write('a\\n\\nb', '', 'c\\nd')";
    load(text, &settings(&[]), &world).expect("loads");
    assert_eq!(world.lines(), ["dot", "a", "", "bc", "d"]);

    let world = World::new(0);
    let started = std::time::Instant::now();
    load("for _ = 1, 1e6 do io.write('.') end", &settings(&[]), &world).expect("loads");
    assert_eq!(world.lines()[0].len(), 1_000_000);
    assert!(started.elapsed().as_secs() < 20, "copied at each write: {:?}", started.elapsed());
}

#[test]
fn a_script_knows_its_thread() {
    let number = |thread: u32| {
        let world = World::new(0);
        let settings = Settings { threads: 8, ..settings(&[]) };
        let source = bakeoff_script::ScriptSource::inline("t.lua", "print(sysbench.tid)");
        bakeoff_script::Script::load(&source, &settings, thread, world.host()).expect("loads");
        world.lines()[0].clone()
    };
    assert_eq!(number(0), "0");
    assert_eq!(number(5), "5");
    assert_eq!(number(8), "8");
}
