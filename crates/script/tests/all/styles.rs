//! Scripts in the styles that people write (tests/styles/*.lua, all our own), run unmodified.

use std::path::PathBuf;
use std::rc::Rc;

use crate::world::{Answer, REPORTED, World, settings};
use bakeoff_script::{Script, Settings, find_on_path};

fn load(name: &str, settings: &Settings, thread: u32, world: &Rc<World>) -> Script {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "styles", name].iter().collect();
    let source = find_on_path(path.to_str().expect("UTF-8")).expect("the script");
    Script::load(&source, settings, thread, world.host()).unwrap_or_else(|error| panic!("{error}"))
}

fn drive(script: &Script) {
    for call in [Script::thread_init, Script::run, Script::thread_done] {
        call(script).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn a_fork_of_oltp_common_may_have_its_own_options() {
    let world = World::new(1);
    let script = load("fork_of_common.lua", &settings(&[("hot_rows", "3"), ("tables", "2")]), 0, &world);
    drive(&script);
    let sent = world.statements();
    assert_eq!(sent.iter().filter(|sql| sql.contains("WHERE id=")).count(), 3 + 1, "{sent:?}");
    assert_eq!((sent[0].as_str(), sent[sent.len() - 1].as_str()), ("BEGIN", "COMMIT"));
    assert!(script.commands().iter().any(|command| command.name == "prepare" && command.parallel));
}

#[test]
fn tpcc_through_ffi_counts_rollbacks_as_errors() {
    let world = World::new(40);
    let script = load("tpcc_with_ffi.lua", &settings(&[("scale", "2")]), 0, &world);
    (0..40).for_each(|_| world.answer("SELECT d_next_o_id", Answer::Rows(vec![vec![Some("3001".to_owned())]])));
    drive(&script);
    let rollbacks = world.statements().iter().filter(|sql| *sql == "ROLLBACK").count() as u64;
    assert!(rollbacks > 0);
    assert_eq!(world.counters.borrow()[&4], rollbacks, "SB_CNT_ERROR");
    assert!(world.statements().iter().any(|sql| sql.contains("o_id) VALUES (3001")), "{:?}", world.statements());
}

#[test]
fn custom_parallel_commands_run_in_every_thread() {
    let settings = Settings { threads: 3, ..settings(&[]) };
    let mut created = Vec::new();
    for thread in 0..3 {
        let world = World::new(0);
        let script = load("custom_commands.lua", &settings, thread, &world);
        let command = script.commands().iter().find(|command| command.name == "fill").expect("declared");
        assert!(command.parallel);
        script.command("fill").expect("fill");
        created.extend(world.statements());
    }
    assert_eq!(created.len(), 6);
    let world = World::new(0);
    let error = load("custom_commands.lua", &settings, 0, &world).command("fail").expect_err("fails");
    assert!(error.to_string().ends_with("custom_commands.lua:21: on purpose"), "{error}");
}

#[test]
fn the_old_global_functions_still_work() {
    let world = World::new(2);
    let settings = settings(&[("oltp-table-size", "50"), ("mysql_table_engine", "myisam")]);
    let script = load("legacy.lua", &settings, 0, &world);
    drive(&script);
    script.command("prepare").expect("prepare");
    let sent = world.statements();
    assert!(
        sent[0].starts_with("SELECT pad FROM sbtest WHERE id=") && sent[1].starts_with("UPDATE sbtest SET c='"),
        "{sent:?}"
    );
    assert!(sent.iter().any(|sql| sql.ends_with("ENGINE = myisam")), "{sent:?}");
    let id: u32 = sent[0].rsplit('=').next().and_then(|id| id.parse().ok()).expect("an id");
    assert!((1..=50).contains(&id));
    let bulk = sent.iter().find(|sql| sql.starts_with("INSERT")).expect("a bulk insert");
    assert_eq!(bulk.matches("),(").count(), 49);
}

#[test]
fn hooks_and_json_reports_work() {
    let world = World::new(1);
    world.answer("UPDATE counters", Answer::Fails(1062, false));
    let script = load("hooks.lua", &settings(&[]), 0, &world);
    drive(&script);
    assert_eq!(world.lines(), ["ignoring 1062", "restarting after 1062"]);
    let reports = World::new(0);
    let script = load("hooks.lua", &settings(&[]), 1, &reports);
    script.report("report_cumulative", &REPORTED, &[]).expect("reports");
    assert!(reports.lines().concat().contains("\"tps\": 50.00"), "{:?}", reports.lines());
}

#[test]
fn a_shebang_line_is_ignored() {
    let world = World::new(1);
    drive(&load("shebang.lua", &settings(&[]), 0, &world));
    assert_eq!(world.calls.borrow().len(), 2);
}
