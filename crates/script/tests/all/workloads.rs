//! The bundled workloads, statement by statement.
//!
//! `tests/snapshots/NAME.sql` holds what each sends in two events with seed 7. `UPDATE_SNAPSHOTS=1` writes the files anew: the streams
//! are part of what users rely on (same seed, same load), so a change needs a line in the changelog.

use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

use crate::world::{OLTP, World, load_bundled, settings};
use bakeoff_script::{OptionValue, ScriptError, Settings};

/// What worker 0 sends from `thread_init` to `thread_done`.
fn stream(name: &str, settings: &Settings, events: u64) -> (Vec<String>, Rc<World>) {
    let world = World::new(events);
    let script = load_bundled(name, settings, 0, &world);
    let calls = [script.thread_init(), script.run(), script.thread_done()];
    for call in calls {
        call.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    (world.take_statements(), world)
}

#[test]
fn each_workload_sends_its_statements() {
    for name in OLTP {
        let (statements, world) = stream(name, &settings(&[("tables", "3")]), 2);
        let text = statements.join("\n") + "\n";
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/snapshots/{name}.sql"));
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&path, &text).expect("the snapshot is written");
        }
        let expected = std::fs::read_to_string(&path).expect("a snapshot");
        assert_eq!(text, expected, "{name} no longer sends what tests/snapshots/{name}.sql says");
        assert_eq!(*world.calls.borrow(), ["start", "Done", "start", "Done"], "{name}");
        assert_eq!(world.journal.open_connections.get(), 0, "{name} left a connection open");
        assert_eq!(world.journal.open_statements.get(), 0, "{name} left a statement open");
    }
}

#[test]
fn replies_of_one_transaction_are_counted_once_each() {
    for (name, reads, writes, other) in [
        ("oltp_read_only", 14, 0, 2),
        ("oltp_read_write", 14, 4, 2),
        ("oltp_write_only", 0, 4, 2),
        ("oltp_point_select", 1, 0, 0),
        ("oltp_update_index", 0, 1, 0),
        ("oltp_update_non_index", 0, 1, 0),
        ("oltp_insert", 0, 1, 0),
        ("oltp_delete", 0, 1, 0),
        ("select_random_points", 1, 0, 0),
        ("select_random_ranges", 1, 0, 0),
    ] {
        let (_, world) = stream(name, &settings(&[]), 1);
        let counted = (world.replies("read"), world.replies("write"), world.replies("other"));
        assert_eq!(counted, (reads, writes, other), "{name}");
    }
}

#[test]
fn options_shape_the_transaction() {
    let options = [
        ("skip_trx", "on"),
        ("range_selects", "off"),
        ("point_selects", "2"),
        ("index_updates", "3"),
        ("non_index_updates", "0"),
        ("delete_inserts", "0"),
    ];
    let (statements, _) = stream("oltp_read_write", &settings(&options), 1);
    let verbs: Vec<&str> = statements.iter().map(|sql| &sql[..6]).collect();
    assert_eq!(verbs, ["SELECT", "SELECT", "UPDATE", "UPDATE", "UPDATE"]);

    let (statements, _) = stream("oltp_read_only", &settings(&[("range_size", "7"), ("table_size", "1")]), 1);
    assert!(statements.contains(&"SELECT c FROM sbtest1 WHERE id BETWEEN 1 AND 7".to_owned()), "{statements:?}");

    let (statements, _) = stream("select_random_points", &settings(&[("random_points", "3")]), 1);
    assert_eq!(statements[0].matches(',').count(), 3 + 2, "{statements:?}");

    let (_, world) = stream("oltp_point_select", &settings(&[("reconnect", "2")]), 7);
    assert_eq!(world.journal.reconnects.get(), 3);
    assert_eq!(world.counters.borrow()[&5], 3, "SB_CNT_RECONNECT");
}

#[test]
fn each_thread_selects_points_from_its_own_keys() {
    let settings = Settings { threads: 4, ..settings(&[("table_size", "400")]) };
    let world = World::new(50);
    let script = load_bundled("select_random_points", &settings, 2, &world);
    script.thread_init().and_then(|()| script.run()).expect("runs");
    for statement in world.statements() {
        let keys = statement.split_once("IN (").expect("a list").1.trim_end_matches(')');
        assert!(keys.split(", ").all(|key| (201..=300).contains(&key.parse::<u32>().expect("a key"))), "{statement}");
    }
}

#[test]
fn each_thread_selects_ranges_that_begin_in_its_own_keys() {
    let options = [("table_size", "400"), ("delta", "7"), ("number_of_ranges", "3")];
    let settings = Settings { threads: 4, ..settings(&options) };
    let world = World::new(200);
    let script = load_bundled("select_random_ranges", &settings, 3, &world);
    script.thread_init().and_then(|()| script.run()).expect("runs");
    let mut begins = BTreeSet::new();
    for statement in world.statements() {
        for range in statement.split("BETWEEN ").skip(1) {
            let ends: Vec<u32> = range.split(' ').filter_map(|word| word.parse().ok()).collect();
            assert_eq!(ends[1] - ends[0], 7, "{statement}");
            begins.insert(ends[0]);
        }
    }
    assert_eq!((begins.first(), begins.last()), (Some(&301), Some(&400)));
}

#[test]
fn client_given_ids_are_signed_and_differ_between_threads() {
    let settings = Settings { threads: 2, ..settings(&[("auto_inc", "off")]) };
    let mut ids = BTreeSet::new();
    for thread in 0..2 {
        let world = World::new(200);
        let script = load_bundled("oltp_insert", &settings, thread, &world);
        script.thread_init().and_then(|()| script.run()).expect("runs");
        for statement in world.statements() {
            let id = statement.split_once("VALUES (").and_then(|(_, rest)| rest.split_once(',')).expect("an id").0;
            assert!(ids.insert(id.parse::<i32>().expect("fits INTEGER")), "{id} came twice");
        }
    }
    assert!(ids.iter().any(|id| *id < 0));
}

#[test]
fn commands_and_options_are_declared() {
    let description =
        bakeoff_script::describe(&bakeoff_script::find("oltp_read_only").expect("bundled")).expect("loads");
    let parallel: Vec<(&str, bool)> =
        description.commands().iter().map(|command| (command.name.as_str(), command.parallel)).collect();
    assert_eq!(parallel, [("prepare", true), ("prewarm", true), ("warmup", true), ("cleanup", false), ("help", false)]);
    assert!(description.has_event());
    let names: Vec<&str> = description.declared_options().iter().map(|option| option.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "auto_inc",
            "column_charset",
            "column_collation",
            "column_length",
            "column_type",
            "compressibility",
            "content",
            "create_secondary",
            "create_table_options",
            "delete_inserts",
            "distinct_ranges",
            "index_updates",
            "mysql_storage_engine",
            "non_index_updates",
            "order_ranges",
            "pgsql_variant",
            "point_selects",
            "range_selects",
            "range_size",
            "reconnect",
            "secondary",
            "simple_ranges",
            "skip_trx",
            "sum_ranges",
            "table_size",
            "tables",
            "text_length",
        ]
    );
    let defaults: Vec<String> =
        description.declared_options().iter().map(|option| option.default_value().to_text()).collect();
    assert_eq!(
        defaults,
        [
            "on", "", "", "120", "char", "-1", "digits", "on", "", "1", "1", "1", "innodb", "1", "1", "", "10", "on",
            "100", "0", "off", "1", "off", "1", "10000", "1", "119"
        ]
    );
}

#[test]
fn sizes_may_have_a_suffix_and_misspelled_options_are_refused() {
    let mut settings = settings(&[("table_size", "1M")]);
    settings.options.insert("point-selects".into(), OptionValue::Int(1));
    let world = World::new(2000);
    let script = load_bundled("oltp_point_select", &settings, 0, &world);
    script.thread_init().and_then(|()| script.run()).expect("runs");
    let ids = world.statements();
    let largest = ids.iter().filter_map(|sql| sql.rsplit('=').next()?.parse::<u32>().ok()).max();
    assert!(largest > Some(1_000_000), "{largest:?}: 1M is 1,048,576");

    let source = bakeoff_script::find("oltp_point_select").expect("bundled");
    let settings = crate::world::settings(&[("table_sise", "10")]);
    let error = bakeoff_script::Script::load(&source, &settings, 0, World::new(0).host()).err();
    let expected = ScriptError::UnknownOption { name: "table_sise".into(), suggestion: Some("table_size".into()) };
    assert_eq!(error, Some(expected));
}

#[test]
fn arms_that_are_reseeded_alike_draw_alike() {
    let stream = |arm: u64| {
        let world = World::new(6);
        *world.on_more_events.borrow_mut() = Some(Box::new(move |left| {
            if left % 3 == 0 {
                // The first block differs between the arms, the second does not.
                bakeoff_script::reseed(99, if left == 6 { arm } else { 7 }, 0);
            }
        }));
        let script = load_bundled("oltp_point_select", &settings(&[]), 0, &world);
        script.thread_init().and_then(|()| script.run()).expect("runs");
        world.statements()
    };
    let (first, second) = (stream(1), stream(2));
    assert_ne!(first[..3], second[..3]);
    assert_eq!(first[3..], second[3..]);
}
