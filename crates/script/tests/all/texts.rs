//! Texts with a content: what scripts draw, and what the bundled workloads load and send with `--content`.

use crate::world::{World, load, load_bundled, run, settings};
use bakeoff_script::Settings;

/// What `prepare` sends.
fn prepared(options: &[(&str, &str)]) -> Vec<String> {
    let world = World::new(0);
    load_bundled("oltp_read_write", &settings(options), 0, &world)
        .command("prepare")
        .unwrap_or_else(|error| panic!("{options:?}: {error}"));
    world.take_statements()
}

/// Texts of the first row that is inserted.
fn first_texts(statements: &[String]) -> (String, String) {
    let insert = statements.iter().find(|sql| sql.starts_with("INSERT")).expect("rows");
    let mut quoted = insert.split('\'');
    let c = quoted.nth(1).expect("c").to_owned();
    (c, quoted.nth(1).expect("pad").to_owned())
}

#[test]
fn tables_match_sysbench_by_default() {
    let statements = prepared(&[("table_size", "10")]);
    assert!(statements[0].contains("  c CHAR(120) DEFAULT '' NOT NULL,\n  pad CHAR(60) DEFAULT '' NOT NULL,\n"));
    let (c, pad) = first_texts(&statements);
    let groups = |text: &str| text.split('-').map(str::len).collect::<Vec<_>>();
    assert_eq!((groups(&c), groups(&pad)), (vec![11; 10], vec![11; 5]));
}

#[test]
fn content_fills_the_texts_and_leaves_the_keys() {
    let plain = prepared(&[("table_size", "10")]);
    for (content, of_it) in [
        ("japanese", '\u{3041}'..='\u{9fa5}'),
        ("cyrillic", '\u{410}'..='\u{44f}'),
        ("emoji", '\u{1F600}'..='\u{1F64F}'),
    ] {
        let statements = prepared(&[("table_size", "10"), ("content", content)]);
        assert_eq!(statements[0], plain[0], "the tables are declared alike");
        let (c, pad) = first_texts(&statements);
        assert_eq!((c.chars().count(), pad.chars().count()), (119, 59));
        assert!(c.chars().chain(pad.chars()).all(|each| of_it.contains(&each)), "{c}");
    }
    let half = [("table_size", "10"), ("compressibility", "0.5")];
    let (c, _) = first_texts(&prepared(&half));
    let end = |options| first_texts(&prepared(options)).0[80..].to_owned();
    assert_eq!(end(&half), end(&[("table_size", "10"), ("compressibility", "0.5"), ("auto_inc", "off")]));
    assert!(c.chars().any(|each| !each.is_ascii_digit() && each != '-'), "{c}");
    let again = prepared(&[("table_size", "10"), ("content", "uuid")]);
    assert_eq!(again, prepared(&[("table_size", "10"), ("content", "uuid")]));
}

#[test]
fn columns_have_the_type_length_and_character_set_that_is_asked_for() {
    let statements = prepared(&[
        ("table_size", "10"),
        ("column_type", "varchar"),
        ("column_length", "255"),
        ("text_length", "200"),
        ("column_charset", "latin1"),
        ("column_collation", "latin1_bin"),
    ]);
    assert!(statements[0].contains(
        "  c VARCHAR(255) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT '' NOT NULL,\n  \
         pad CHAR(60) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT '' NOT NULL,\n"
    ));
    assert_eq!(first_texts(&statements).0.len(), 200);
}

#[test]
fn impossible_options_are_refused_before_anything_is_sent() {
    for (options, words) in [
        ([("content", "japanes")], "Did you mean japanese?"),
        ([("text_length", "121")], "text_length must be 1 to column_length (120), not 121"),
        ([("compressibility", "2")], "compressibility must be 0 to 1, not 2"),
        ([("column_type", "blob")], "column_type must be char or varchar, not blob"),
    ] {
        let world = World::new(0);
        let script = load_bundled("oltp_insert", &settings(&options), 0, &world);
        let error = script.command("prepare").expect_err("refused").to_string();
        assert!(error.contains(words), "{error}");
        assert!(!world.take_statements().iter().any(|sql| sql.starts_with("INSERT")));
    }
}

#[test]
fn every_writing_workload_sends_the_chosen_content() {
    for name in ["oltp_insert", "oltp_update_non_index", "oltp_read_write", "oltp_write_only"] {
        let world = World::new(3);
        let script = load_bundled(
            name,
            &settings(&[("content", "japanese"), ("column_length", "200"), ("text_length", "180")]),
            0,
            &world,
        );
        script.thread_init().expect("thread_init");
        script.run().expect("events");
        script.thread_done().expect("thread_done");
        let sent = world.take_statements();
        let texts: Vec<&str> = sent.iter().filter_map(|sql| sql.split('\'').nth(1)).collect();
        assert!(!texts.is_empty(), "{name}: {sent:?}");
        for text in texts {
            assert_eq!(text.chars().count(), 180, "{name}: {text}");
            assert!(!text.is_ascii(), "{name}: {text}");
        }
    }
}

#[test]
fn an_update_by_keys_sends_whole_texts() {
    let lengths = [("column_type", "varchar"), ("column_length", "1000"), ("text_length", "1000")];
    for content in ["digits", "japanese"] {
        let world = World::new(1);
        let options = [&lengths[..], &[("statement", "update"), ("content", content)]].concat();
        let script = load_bundled("oltp_micro", &settings(&options), 0, &world);
        script.thread_init().expect("thread_init");
        script.run().expect("events");
        let sent = world.take_statements();
        let text = sent.iter().find_map(|sql| sql.split('\'').nth(1)).expect("an update");
        assert_eq!(text.chars().count(), 1000, "{content}");
    }
}

#[test]
fn custom_scripts_can_draw_texts() {
    let world = World::new(1);
    run(
        "function event()
           local con = sysbench.sql.driver():connect()
           local texts = bakeoff.text(con, 'japanese', 0.4)
           con:query(texts:of(7, 20))
           con:query(texts:of(7, 20))
           con:query(texts:of(8, 20))
           con:query(texts:draw(2000))
           local statement = con:prepare('SELECT ?')
           local param = statement:bind_create(sysbench.sql.type.VARCHAR, 40)
           statement:bind_param(param)
           texts:put(param, 10)
           statement:execute()
         end",
        &world,
    )
    .expect("runs");
    let sent = world.take_statements();
    assert_eq!(sent[0], sent[1]);
    assert_ne!(sent[0], sent[2]);
    assert_eq!(sent[3].chars().count(), 2000);
    assert_eq!(sent[4].chars().count(), "SELECT ''".len() + 10);
}

#[test]
fn a_text_without_a_connection_or_of_an_impossible_length_is_refused() {
    let none = "bakeoff.text: no connection; give it one first \
                (get_c_value and get_pad_value of oltp_common use the global con)";
    let length = |number: &str| format!("test.lua:1: a text has 0 to 268435456 characters, not {number}");
    let text = |call: &str| {
        format!("function event() local texts = bakeoff.text(sysbench.sql.driver():connect(), 'text') {call} end")
    };
    for (script, message) in [
        ("function event() bakeoff.text(nil, 'text') end".to_owned(), format!("test.lua:1: {none}")),
        (text("texts:draw(-1)"), length("-1")),
        (text("texts:of(1, 2^32 + 5)"), length("4294967301")),
        (text("texts:put({}, 0/0)"), length("nan")),
    ] {
        let error = run(&script, &World::new(1)).expect_err(&script).to_string();
        assert_eq!(error.replace("-nan", "nan"), message);
    }
    let forgetful = "require('oltp_common')
        function thread_init() local con = sysbench.sql.driver():connect() end
        function thread_done() end
        function event() get_c_value() end";
    let script = load(forgetful, &settings(&[("content", "text")]), &World::new(1)).expect("loads");
    let error = script.run().expect_err("no connection").to_string();
    assert!(error.ends_with(none), "{error}");
}

#[test]
fn the_text_of_a_number_does_not_depend_on_the_seed() {
    let text_of = |settings: &Settings| {
        let world = World::new(1);
        let script = load(
            "function event()
               local con = sysbench.sql.driver():connect()
               con:query(bakeoff.text(con, 'text'):of(12, 30))
             end",
            settings,
            &world,
        )
        .expect("loads");
        script.run().expect("runs");
        world.take_statements()
    };
    let other_seed = Settings { seed: 99, ..settings(&[]) };
    assert_eq!(text_of(&settings(&[])), text_of(&other_seed));
}
