//! `prepare`, warm-up and cleanup of the bundled workloads.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::world::{Answer, World, load, load_bundled, settings};
use bakeoff_script::Settings;

/// What each of `threads` threads sends in `prepare`.
fn prepare(threads: u32, options: &[(&str, &str)]) -> (Vec<Vec<String>>, Vec<Rc<World>>) {
    let settings = Settings { threads, ..settings(options) };
    let worlds: Vec<Rc<World>> = (0..threads).map(|_| World::new(0)).collect();
    let statements = worlds.iter().zip(0..).map(|(world, thread)| {
        world.answer("SELECT @@max_allowed_packet", Answer::Rows(vec![vec![Some("65536".to_owned())]]));
        let script = load_bundled("oltp_read_only", &settings, thread, world);
        script.command("prepare").unwrap_or_else(|error| panic!("thread {thread}: {error}"));
        world.take_statements()
    });
    (statements.collect(), worlds)
}

/// `table (id,k,'c','pad')` of every row inserted.
fn rows(statements: &[Vec<String>]) -> Vec<String> {
    let inserts = statements.iter().flatten().filter_map(|sql| {
        let (head, values) = sql.strip_prefix("INSERT INTO ")?.split_once("(id, k, c, pad) VALUES(")?;
        Some((head.to_owned(), values.trim_end_matches(')').to_owned()))
    });
    inserts
        .flat_map(|(table, values)| values.split("),(").map(|row| format!("{table} {row}")).collect::<Vec<_>>())
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
        assert!(found.into_iter().collect::<BTreeSet<_>>() == expected, "{threads} threads made other rows");
    }
    let world = World::new(0);
    let settings = Settings { seed: 8, ..settings(&options) };
    load_bundled("oltp_read_only", &settings, 0, &world).command("prepare").expect("prepare");
    let other_seed = [world.take_statements()];
    assert!(rows(&other_seed).into_iter().collect::<BTreeSet<_>>() != expected, "the seed decides");
}

#[test]
fn ids_run_from_1_to_table_size_and_keys_stay_within() {
    let (statements, _) = prepare(3, &[("table_size", "7000")]);
    let mut ids = BTreeSet::new();
    for row in rows(&statements) {
        let fields: Vec<&str> = row.strip_prefix("sbtest1 ").expect("the only table").split(',').collect();
        assert!(ids.insert(fields[0].parse::<u32>().expect("an id")));
        assert!((1..=7000).contains(&fields[1].parse::<u32>().expect("a key")));
        assert_eq!((fields[2].len(), fields[3].len()), (119 + 2, 59 + 2));
    }
    assert_eq!(ids, (1..=7000).collect());
}

#[test]
fn prepare_keeps_its_order_and_the_servers_packet_size() {
    let (statements, worlds) = prepare(2, &[("tables", "1"), ("table_size", "10000")]);
    let kinds_of = |thread: usize| -> Vec<String> {
        let kind = |sql: &String| sql.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        statements[thread].iter().map(kind).collect()
    };
    let (kinds, second) = (kinds_of(0), kinds_of(1));
    assert!(statements.iter().flatten().all(|sql| sql.len() <= 65_536));
    assert!(kinds.contains(&"INSERT INTO".to_owned()));
    // One table: the second of two threads declares and indexes it, the first only loads.
    assert_eq!(second[0], "CREATE TABLE");
    assert_eq!(&second[second.len() - 2..], ["CREATE INDEX", "ANALYZE TABLE"]);
    assert!(!kinds.contains(&"CREATE TABLE".to_owned()));
    for world in &worlds {
        assert_eq!(*world.calls.borrow(), ["barrier", "barrier"]);
    }
    let done: u64 = worlds.iter().map(|world| world.progress.borrow()["rows"].0).sum();
    assert_eq!((done, worlds[0].progress.borrow()["rows"].1), (10_000, 10_000));
}

#[test]
fn a_failed_thread_ends_the_others_at_the_barrier() {
    let world = World::new(0);
    world.aborted.set(true);
    let script = load_bundled("oltp_read_only", &settings(&[]), 0, &world);
    let error = script.command("prepare").expect_err("another thread failed");
    assert_eq!(error.to_string(), "another thread of this command failed");
    assert_eq!(world.statements().len(), 1, "only its table was created");
}

#[test]
fn table_options_reach_the_server() {
    let (statements, _) = prepare(
        1,
        &[("table_size", "1"), ("create_table_options", "ROW_FORMAT=COMPRESSED"), ("mysql_storage_engine", "rocksdb")],
    );
    assert!(statements[0][0].ends_with("/*! ENGINE = rocksdb */ ROW_FORMAT=COMPRESSED"), "{}", statements[0][0]);
    let (statements, _) =
        prepare(1, &[("secondary", "on"), ("auto_inc", "off"), ("create_secondary", "off"), ("table_size", "1")]);
    assert!(statements[0][0].contains("id INTEGER NOT NULL,") && statements[0][0].contains("KEY xid (id)"));
    assert!(!statements[0].iter().any(|sql| sql.starts_with("CREATE INDEX")));
}

#[test]
fn cleanup_and_warmup_visit_every_table() {
    let world = World::new(0);
    let script = load_bundled("oltp_read_only", &settings(&[("tables", "2")]), 0, &world);
    script.command("cleanup").expect("cleanup");
    assert_eq!(world.take_statements(), ["DROP TABLE IF EXISTS sbtest1", "DROP TABLE IF EXISTS sbtest2"]);
    assert_eq!(world.lines(), ["Dropping table 'sbtest1'...", "Dropping table 'sbtest2'..."]);
    for name in ["warmup", "prewarm"] {
        script.command(name).expect("warm-up");
        let statements = world.take_statements();
        assert_eq!(statements.iter().filter(|sql| sql.starts_with("ANALYZE TABLE")).count(), 2);
        assert!(statements.iter().any(|sql| sql.contains("sbtest2 FORCE KEY (PRIMARY)")), "{statements:?}");
    }
}

/// What `prepare` of a script that requires `oltp_common` sends for two tables of two rows.
fn prepare_own(script: &str) -> Vec<String> {
    let text = format!("require('oltp_common')\n{script}\nfunction event() end");
    let world = World::new(0);
    world.answer("SELECT @@max_allowed_packet", Answer::Rows(vec![vec![Some("65536".to_owned())]]));
    let script = load(&text, &settings(&[("tables", "2"), ("table_size", "2")]), &world).expect("loads");
    script.command("prepare").expect("prepare");
    world.take_statements()
}

#[test]
fn prepare_calls_a_scripts_own_create_table_for_each_table() {
    let own = "function create_table(drv, con, n) con:query('CREATE TABLE mine' .. n .. ' FOR ' .. drv:name()) end";
    assert_eq!(prepare_own(own), ["CREATE TABLE mine1 FOR mysql", "CREATE TABLE mine2 FOR mysql"]);

    let wrapper = "local theirs = create_table
        function create_table(drv, con, n) theirs(drv, con, n) con:query('ALTER TABLE sbtest' .. n) end";
    let statements = prepare_own(wrapper);
    let kinds: Vec<String> =
        statements.iter().map(|sql| sql.split(['(', '\n']).next().unwrap_or_default().to_owned()).collect();
    let of_table = |n: u32| {
        [
            format!("CREATE TABLE sbtest{n}"),
            "SELECT @@max_allowed_packet".to_owned(),
            "BEGIN".to_owned(),
            format!("INSERT INTO sbtest{n}"),
            "COMMIT".to_owned(),
            format!("CREATE INDEX k_{n} ON sbtest{n}"),
            format!("ALTER TABLE sbtest{n}"),
        ]
    };
    assert_eq!(kinds, [of_table(1), of_table(2)].concat());
}

#[test]
fn rows_use_a_scripts_own_text_functions() {
    for (own, c, pad) in [
        ("function get_c_value() return 'mine' end", 4, 59),
        ("function get_pad_value() return 'mine' end", 119, 4),
        ("get_c_value, get_pad_value = function() return 'c' end, function() return 'pad' end", 1, 3),
    ] {
        let statements = [prepare_own(own)];
        let rows = rows(&statements);
        assert_eq!(rows.len(), 4, "{statements:?}");
        for row in &rows {
            let lengths: Vec<usize> = row.split(',').skip(2).map(|text| text.len() - 2).collect();
            assert_eq!(lengths, [c, pad], "{row}");
        }
        let ids: Vec<&str> = rows.iter().filter_map(|row| row.split(',').next()).collect();
        assert_eq!(ids, ["sbtest1 1", "sbtest1 2", "sbtest2 1", "sbtest2 2"]);
    }
}
