//! The bundled workloads, statement by statement.
//!
//! `tests/snapshots/NAME.sql` holds what each sends in two events with seed 7. `UPDATE_SNAPSHOTS=1` writes the files anew: the streams
//! are part of what users rely on (same seed, same load), so a change needs a line in the changelog.

mod world;

use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

use bakeoff_script::{OptionValue, ScriptError, Settings, ThreadRole};
use world::{Answer, OLTP, World, load_bundled, settings};

/// What worker 0 sends from `thread_init` to `thread_done`.
fn stream(name: &str, settings: &Settings, events: u64) -> (Vec<String>, Rc<World>) {
    let world = World::new(events);
    let script = load_bundled(name, settings, ThreadRole::Worker(0), &world);
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
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/snapshots/{name}.sql"));
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&path, &text).expect("the snapshot is written");
        }
        let expected = std::fs::read_to_string(&path).expect("a snapshot");
        assert_eq!(
            text, expected,
            "{name} no longer sends what tests/snapshots/{name}.sql says"
        );
        assert_eq!(
            *world.calls.borrow(),
            ["start", "Done", "start", "Done"],
            "{name}"
        );
        assert_eq!(
            world.journal.open_connections.get(),
            0,
            "{name} left a connection open"
        );
        assert_eq!(
            world.journal.open_statements.get(),
            0,
            "{name} left a statement open"
        );
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
        let counted = (
            world.replies("read"),
            world.replies("write"),
            world.replies("other"),
        );
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

    let (statements, _) = stream(
        "oltp_read_only",
        &settings(&[("range_size", "7"), ("table_size", "1")]),
        1,
    );
    assert!(
        statements.contains(&"SELECT c FROM sbtest1 WHERE id BETWEEN 1 AND 7".to_owned()),
        "{statements:?}"
    );

    let (statements, _) = stream(
        "select_random_points",
        &settings(&[("random_points", "3")]),
        1,
    );
    assert_eq!(statements[0].matches(',').count(), 3 + 2, "{statements:?}");

    let (_, world) = stream("oltp_point_select", &settings(&[("reconnect", "2")]), 7);
    assert_eq!(world.journal.reconnects.get(), 3);
    assert_eq!(world.counters.borrow()[&5], 3, "SB_CNT_RECONNECT");
}

#[test]
fn each_thread_selects_points_from_its_own_keys() {
    let settings = Settings {
        threads: 4,
        ..settings(&[("table_size", "400")])
    };
    let world = World::new(50);
    let script = load_bundled(
        "select_random_points",
        &settings,
        ThreadRole::Worker(2),
        &world,
    );
    script
        .thread_init()
        .and_then(|()| script.run())
        .expect("runs");
    for statement in world.statements() {
        let keys = statement
            .split_once("IN (")
            .expect("a list")
            .1
            .trim_end_matches(')');
        assert!(
            keys.split(", ")
                .all(|key| (201..=300).contains(&key.parse::<u32>().expect("a key"))),
            "{statement}"
        );
    }
}

#[test]
fn client_given_ids_are_signed_and_differ_between_threads() {
    let settings = Settings {
        threads: 2,
        ..settings(&[("auto_inc", "off")])
    };
    let mut ids = BTreeSet::new();
    for thread in 0..2 {
        let world = World::new(200);
        let script = load_bundled("oltp_insert", &settings, ThreadRole::Worker(thread), &world);
        script
            .thread_init()
            .and_then(|()| script.run())
            .expect("runs");
        for statement in world.statements() {
            let id = statement
                .split_once("VALUES (")
                .and_then(|(_, rest)| rest.split_once(','))
                .expect("an id")
                .0;
            assert!(
                ids.insert(id.parse::<i32>().expect("fits INTEGER")),
                "{id} came twice"
            );
        }
    }
    assert!(ids.iter().any(|id| *id < 0));
}

/// What `prepare` sends with so many threads, thread after thread.
fn prepare(threads: u32, options: &[(&str, &str)]) -> (Vec<Vec<String>>, Vec<Rc<World>>) {
    let settings = Settings {
        threads,
        ..settings(options)
    };
    let worlds: Vec<Rc<World>> = (0..threads).map(|_| World::new(0)).collect();
    let statements = worlds.iter().zip(0..).map(|(world, thread)| {
        world.answer(
            "SELECT @@max_allowed_packet",
            Answer::Rows(vec![vec![Some("65536".to_owned())]]),
        );
        let script = load_bundled(
            "oltp_read_only",
            &settings,
            ThreadRole::Worker(thread),
            world,
        );
        script
            .command("prepare")
            .unwrap_or_else(|error| panic!("thread {thread}: {error}"));
        world.take_statements()
    });
    (statements.collect(), worlds)
}

/// `table (id,k,'c','pad')` of every row inserted.
fn rows(statements: &[Vec<String>]) -> Vec<String> {
    let inserts = statements.iter().flatten().filter_map(|sql| {
        let (head, values) = sql
            .strip_prefix("INSERT INTO ")?
            .split_once("(id, k, c, pad) VALUES(")?;
        Some((head.to_owned(), values.trim_end_matches(')').to_owned()))
    });
    inserts
        .flat_map(|(table, values)| {
            values
                .split("),(")
                .map(|row| format!("{table} {row}"))
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn prepared_rows_do_not_depend_on_the_number_of_threads() {
    let options = [("tables", "3"), ("table_size", "12001")];
    let (alone, _) = prepare(1, &options);
    let expected: BTreeSet<String> = rows(&alone).into_iter().collect();
    assert_eq!(expected.len(), 3 * 12_001);
    for threads in [2, 4, 16] {
        let (shared, _) = prepare(threads, &options);
        let found = rows(&shared);
        assert_eq!(found.len(), expected.len(), "no row twice");
        assert!(
            found.into_iter().collect::<BTreeSet<_>>() == expected,
            "{threads} threads made other rows"
        );
    }
    let world = World::new(0);
    let settings = Settings {
        seed: 8,
        ..settings(&options)
    };
    load_bundled("oltp_read_only", &settings, ThreadRole::Worker(0), &world)
        .command("prepare")
        .expect("prepare");
    let other_seed = [world.take_statements()];
    assert!(
        rows(&other_seed).into_iter().collect::<BTreeSet<_>>() != expected,
        "the seed decides"
    );
}

#[test]
fn ids_run_from_1_to_table_size_and_keys_stay_within() {
    let (statements, _) = prepare(3, &[("table_size", "7000")]);
    let mut ids = BTreeSet::new();
    for row in rows(&statements) {
        let fields: Vec<&str> = row
            .strip_prefix("sbtest1 ")
            .expect("the only table")
            .split(',')
            .collect();
        assert!(ids.insert(fields[0].parse::<u32>().expect("an id")));
        assert!((1..=7000).contains(&fields[1].parse::<u32>().expect("a key")));
        assert_eq!((fields[2].len(), fields[3].len()), (119 + 2, 59 + 2));
    }
    assert_eq!(ids, (1..=7000).collect());
}

#[test]
fn prepare_keeps_its_order_and_the_servers_packet_size() {
    let (statements, worlds) = prepare(2, &[("tables", "1"), ("table_size", "10000")]);
    let kinds: Vec<String> = statements[0]
        .iter()
        .map(|sql| sql.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
        .collect();
    let first = |kind: &str| kinds.iter().position(|known| known == kind);
    let last = |kind: &str| kinds.iter().rposition(|known| known == kind);
    assert!(statements.iter().flatten().all(|sql| sql.len() <= 65_536));
    assert!(last("INSERT INTO").is_some());
    // One table: the second of two threads declares and indexes it, the first only loads.
    let second: Vec<&str> = statements[1].iter().map(|sql| &sql[..12]).collect();
    assert_eq!(second.first(), Some(&"CREATE TABLE"));
    assert_eq!(
        &second[second.len() - 2..],
        ["CREATE INDEX", "ANALYZE TABL"]
    );
    assert_eq!(first("CREATE TABLE"), None);
    for world in &worlds {
        assert_eq!(*world.calls.borrow(), ["barrier", "barrier"]);
    }
    let done: u64 = worlds
        .iter()
        .map(|world| world.progress.borrow()["rows"].0)
        .sum();
    assert_eq!(
        (done, worlds[0].progress.borrow()["rows"].1),
        (10_000, 10_000)
    );
}

#[test]
fn a_failed_thread_ends_the_others_at_the_barrier() {
    let world = World::new(0);
    world.aborted.set(true);
    let script = load_bundled(
        "oltp_read_only",
        &settings(&[]),
        ThreadRole::Worker(0),
        &world,
    );
    let error = script
        .command("prepare")
        .expect_err("another thread failed");
    assert_eq!(error.to_string(), "another thread of this command failed");
    assert_eq!(world.statements().len(), 1, "only its table was created");
}

#[test]
fn table_options_reach_the_server() {
    let (statements, _) = prepare(
        1,
        &[
            ("table_size", "1"),
            ("create_table_options", "ROW_FORMAT=COMPRESSED"),
            ("mysql_storage_engine", "rocksdb"),
        ],
    );
    assert!(
        statements[0][0].ends_with("/*! ENGINE = rocksdb */ ROW_FORMAT=COMPRESSED"),
        "{}",
        statements[0][0]
    );
    let (statements, _) = prepare(
        1,
        &[
            ("secondary", "on"),
            ("auto_inc", "off"),
            ("create_secondary", "off"),
            ("table_size", "1"),
        ],
    );
    assert!(
        statements[0][0].contains("id INTEGER NOT NULL,")
            && statements[0][0].contains("KEY xid (id)")
    );
    assert!(
        !statements[0]
            .iter()
            .any(|sql| sql.starts_with("CREATE INDEX"))
    );
}

#[test]
fn cleanup_and_warmup_visit_every_table() {
    let world = World::new(0);
    let script = load_bundled(
        "oltp_read_only",
        &settings(&[("tables", "2")]),
        ThreadRole::Main,
        &world,
    );
    script.command("cleanup").expect("cleanup");
    assert_eq!(
        world.take_statements(),
        [
            "DROP TABLE IF EXISTS sbtest1",
            "DROP TABLE IF EXISTS sbtest2"
        ]
    );
    assert_eq!(
        world.lines(),
        ["Dropping table 'sbtest1'...", "Dropping table 'sbtest2'..."]
    );
    for name in ["warmup", "prewarm"] {
        script.command(name).expect("warm-up");
        let statements = world.take_statements();
        assert_eq!(
            statements
                .iter()
                .filter(|sql| sql.starts_with("ANALYZE TABLE"))
                .count(),
            2
        );
        assert!(
            statements
                .iter()
                .any(|sql| sql.contains("sbtest2 FORCE KEY (PRIMARY)")),
            "{statements:?}"
        );
    }
}

#[test]
fn commands_and_options_are_declared() {
    let description =
        bakeoff_script::describe(&bakeoff_script::find("oltp_read_only").expect("bundled"))
            .expect("loads");
    let parallel: Vec<(&str, bool)> = description
        .commands
        .iter()
        .map(|command| (command.name.as_str(), command.parallel))
        .collect();
    assert_eq!(
        parallel,
        [
            ("prepare", true),
            ("prewarm", true),
            ("warmup", true),
            ("cleanup", false),
            ("help", false)
        ]
    );
    assert!(description.has_event);
    let names: Vec<&str> = description
        .options
        .iter()
        .map(|option| option.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "auto_inc",
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
        ]
    );
    let defaults: Vec<String> = description
        .options
        .iter()
        .map(|option| option.default_value().to_text())
        .collect();
    assert_eq!(
        defaults,
        [
            "on", "on", "", "1", "1", "1", "innodb", "1", "1", "", "10", "on", "100", "0", "off",
            "1", "off", "1", "10000", "1"
        ]
    );
}

#[test]
fn sizes_may_be_written_with_a_suffix_and_slips_are_named() {
    let mut settings = settings(&[("table_size", "1M")]);
    settings
        .options
        .insert("point-selects".into(), OptionValue::Int(1));
    let world = World::new(2000);
    let script = load_bundled(
        "oltp_point_select",
        &settings,
        ThreadRole::Worker(0),
        &world,
    );
    script
        .thread_init()
        .and_then(|()| script.run())
        .expect("runs");
    let ids = world.statements();
    let largest = ids
        .iter()
        .filter_map(|sql| sql.rsplit('=').next()?.parse::<u32>().ok())
        .max();
    assert!(largest > Some(1_000_000), "{largest:?}: 1M is 1,048,576");

    let source = bakeoff_script::find("oltp_point_select").expect("bundled");
    let settings = world::settings(&[("table_sise", "10")]);
    let error =
        bakeoff_script::Script::load(&source, &settings, ThreadRole::Main, World::new(0)).err();
    let expected = ScriptError::UnknownOption {
        name: "table_sise".into(),
        suggestion: Some("table_size".into()),
    };
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
        let script = load_bundled(
            "oltp_point_select",
            &settings(&[]),
            ThreadRole::Worker(0),
            &world,
        );
        script
            .thread_init()
            .and_then(|()| script.run())
            .expect("runs");
        world.statements()
    };
    let (first, second) = (stream(1), stream(2));
    assert_ne!(first[..3], second[..3]);
    assert_eq!(first[3..], second[3..]);
}
