//! `sysbench.sql`: connections, statements, parameters, results, as scripts use them.

use crate::world::{Answer, Rows, World, run};
use bakeoff_script::host::ConnectTarget;

fn row(fields: &[Option<&str>]) -> Vec<Option<String>> {
    fields.iter().map(|field| field.map(str::to_owned)).collect()
}

fn table() -> Rows {
    vec![row(&[Some("1"), Some("x"), None]), row(&[Some("2"), None, Some("")])]
}

/// What the script prints in `thread_init`, a line each.
fn printed(world: &std::rc::Rc<World>, body: &str) -> Vec<String> {
    let text = format!(
        "local sql = sysbench.sql\nfunction thread_init()\n  drv = sql.driver()\n  con = drv:connect()\n{body}\nend"
    );
    run(&text, world).unwrap_or_else(|error| panic!("{error}"));
    world.lines()
}

#[test]
fn lua_objects_match_sysbench() {
    let lines = printed(
        &World::new(0),
        r#"
        stmt = con:prepare("SELECT ?")
        local param = stmt:bind_create(sql.type.CHAR, 10)
        print(drv, con, stmt, param, con:query("SELECT 1"), sysbench.histogram.new(10, 1, 100))
        print(ffi.typeof("sql_bind")())
        print(drv:name(), ffi.string(drv.sname), ffi.string(drv.lname))
        print(type(con), con.error, con.sql_errno, stmt.connection == con)
        print(con:query("SET @a = 1"), stmt:bind_param())
        print(param.type, param.max_len, tonumber(param.data_len[0]), param.is_null[0])
    "#,
    );
    assert_eq!(
        lines,
        [
            "<sql_driver>\t<sql_connection>\t<sql_statement>\t<sql_param>\t<sql_result>\t<sb_histogram>",
            "<sql_bind>",
            "mysql\tmysql\tMySQL driver",
            "cdata\t0\t0\ttrue",
            "<sql_result>\tnil",
            "12\t10\t0\t1",
        ]
    );
}

#[test]
fn rows_come_as_arrays_and_as_values() {
    let world = World::new(0);
    world.answer("SELECT t", Answer::Rows(table()));
    world.answer("SELECT t", Answer::Rows(table()));
    world.answer("SELECT none", Answer::Rows(vec![]));
    let lines = printed(
        &world,
        r#"
        local rs = con:query("SELECT t")
        print(rs.nrows, rs.nfields, rs:column_name(1), rs:column_name(2))
        for i = 1, 2 do
          local row = rs:fetch_row()
          print(row[1], row[2], row[3])
        end
        print(rs:fetch_row(), rs:free())
        print(con:query_row("SELECT t"))
        print(con:query_row("SELECT none"), con:query_row("SET @a = 1"))
    "#,
    );
    assert_eq!(lines, ["2\t3\tfirst\tnil", "1\tx\tnil", "2\tnil\t", "nil\ttrue", "1\tx\tnil", "nil\tnil"]);
}

#[test]
fn rows_of_prepared_statements_are_fetched_too() {
    let world = World::new(0);
    world.answer("SELECT t", Answer::Rows(table()));
    let lines = printed(
        &world,
        r#"
        local rs = con:prepare("SELECT t"):execute()
        print(rs.nrows, rs:fetch_row()[2])
    "#,
    );
    assert_eq!(lines, ["2\tx"]);
}

#[test]
fn every_parameter_type_is_bound() {
    let world = World::new(0);
    printed(
        &world,
        r#"
        local t = sql.type
        local stmt = con:prepare("INSERT ?,?,?,?,?,?,?,?")
        local kinds = { t.TINYINT, t.SMALLINT, t.INT, t.BIGINT, t.FLOAT, t.DOUBLE }
        local p = {}
        for i, kind in ipairs(kinds) do p[i] = stmt:bind_create(kind) end
        p[7], p[8] = stmt:bind_create(t.VARCHAR, 5), stmt:bind_create(t.DATETIME)
        stmt:bind_param(unpack(p))
        stmt:execute()
        p[1]:set(-1) p[2]:set(2) p[3]:set(3.9) p[4]:set(2^40) p[5]:set(0.5) p[6]:set(1e300)
        p[7]:set("abcdefgh") p[8]:set("2026-11-21 00:00:00")
        stmt:execute()
        p[7]:set("xy") p[6]:set(nil) p[8]:set("")
        stmt:execute()
        p[7]:set(42) p[1]:set(1) p[8]:set(nil)
        stmt:execute()
    "#,
    );
    assert_eq!(
        world.statements(),
        [
            "INSERT NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL",
            "INSERT -1,2,3,1099511627776,0.5,1e300,'abcde','2026-11-21 00:00:00'",
            "INSERT -1,2,3,1099511627776,0.5,NULL,'xy',''",
            "INSERT 1,2,3,1099511627776,0.5,NULL,'42',NULL",
        ]
    );
}

#[test]
fn numbers_in_text_parameters_keep_their_digits() {
    let world = World::new(0);
    printed(
        &world,
        r#"
        local stmt = con:prepare("INSERT ?")
        local p = stmt:bind_create(sql.type.VARCHAR, 30)
        stmt:bind_param(p)
        local numbers = { 5, -3, 1.5, 0.1, 1e15, 123456789012345678, 2^63, 1e300, 5ULL, 18446744073709551615ULL, -1LL }
        for _, value in ipairs(numbers) do
          p:set(value)
          stmt:execute()
        end
    "#,
    );
    let sent: Vec<String> = world.statements().iter().map(|sql| sql["INSERT ".len()..].to_owned()).collect();
    assert_eq!(
        sent.join(","),
        "'5','-3','1.5','0.1','1000000000000000','123456789012345680','9.2233720368548e+18','1e+300','5',\
         '18446744073709551615','-1'"
    );
}

#[test]
fn random_texts_are_written_into_the_parameter_and_cut_to_its_length() {
    let world = World::new(0);
    printed(
        &world,
        r#"
        local stmt = con:prepare("INSERT ?")
        local p = stmt:bind_create(sql.type.CHAR, 4)
        stmt:bind_param(p)
        p:set_rand_str('##-@@@@@@')
        stmt:execute()
        p:set_rand_str("x")
        stmt:execute()
    "#,
    );
    let sent = world.statements();
    assert_eq!(sent[0].len(), "INSERT '00-a'".len(), "{sent:?}");
    assert_eq!(&sent[0][10..11], "-");
    assert_eq!(sent[1], "INSERT 'x'");
}

#[test]
fn bulk_inserts_are_sent_when_full_and_at_the_end() {
    let world = World::new(0);
    printed(
        &world,
        r#"
        con:bulk_insert_init("INSERT INTO t VALUES", 2000)
        for i = 1, 300 do con:bulk_insert_next(string.format("(%d,'0123456789')", i)) end
        con:bulk_insert_done()
        con:bulk_insert_done()
        con:bulk_insert_init("INSERT INTO empty VALUES")
        con:bulk_insert_done()
    "#,
    );
    let sent = world.statements();
    assert!(sent.len() > 2 && sent.iter().all(|sql| sql.len() <= 2000 && sql.starts_with("INSERT INTO t VALUES(")));
    assert_eq!(sent.iter().map(|sql| sql.matches('(').count()).sum::<usize>(), 300);
    assert_eq!(world.replies("write"), sent.len() as u64);
}

#[test]
fn several_results_are_walked_or_left() {
    let many = || Answer::Many(vec![table(), vec![], vec![row(&[Some("z")])]]);
    let world = World::new(0);
    world.answer("CALL", many());
    world.answer("CALL", many());
    let lines = printed(
        &world,
        r#"
        local rs = con:query("CALL p()")
        while true do
          local row = rs:fetch_row()
          print(row and row[1], con:more_results())
          if not con:more_results() then break end
          rs = con:next_result()
        end
        print(con:next_result())
        con:prepare("CALL q()"):execute()
        print(con:query_row("SELECT 1"))
    "#,
    );
    assert_eq!(lines, ["1\ttrue", "nil\ttrue", "z\tfalse", "nil", "1"]);
    assert_eq!(world.replies("read"), 3 + 3 + 1, "results left lying are received and counted");
}

#[test]
fn connections_go_where_the_script_says() {
    let world = World::new(0);
    printed(
        &world,
        r#"drv:connect{ host = "db2", port = 3307, user = "u", password = "p", db = "d" }
        drv:connect{ socket = "/s", password = 7 }"#,
    );
    let own = ConnectTarget::default();
    let second = ConnectTarget {
        host: Some("db2".into()),
        port: Some(3307),
        user: Some("u".into()),
        password: Some("p".into()),
        database: Some("d".into()),
        ..own.clone()
    };
    let third = ConnectTarget { socket: Some("/s".into()), password: Some("7".into()), ..own.clone() };
    assert_eq!(*world.journal.targets.borrow(), [own, second, third]);
}

#[test]
fn closed_things_raise_and_leak_nothing() {
    let world = World::new(0);
    let lines = printed(
        &world,
        r#"
        local stmt = con:prepare("SELECT ?")
        local old = con:prepare("SELECT 2")
        print(stmt:close(), stmt:close())
        print(pcall(stmt.execute, stmt))
        print(con:reconnect(), con:disconnect())
        print(pcall(con.query, con, "SELECT 1"))
        print(pcall(old.execute, old))
        for i = 1, 50 do drv:connect():query("SELECT 1") end
        con, stmt, old = nil, nil, nil
        collectgarbage() collectgarbage()
    "#,
    );
    assert_eq!(
        lines,
        [
            "0\t0",
            "false\tSQL error, errno = 2030, state = 'HY000': the statement or its connection is closed",
            "0\ttrue",
            "false\tSQL error, errno = 2006, state = 'HY000': the connection is closed",
            "false\tSQL error, errno = 2030, state = 'HY000': the statement or its connection is closed",
        ]
    );
    assert_eq!(world.journal.open_connections.get(), 0);
    assert_eq!(world.journal.reconnects.get(), 1);
}

#[test]
fn a_state_closes_what_its_script_left_open() {
    let world = World::new(0);
    printed(&world, "con2 = drv:connect() stmt2 = con2:prepare('SELECT 1')");
    assert_eq!(world.journal.open_connections.get(), 0, "`printed` has dropped the script");
}

#[test]
fn misuse_is_reported_at_the_scripts_own_line() {
    for (body, message) in [
        ("con:prepare('SELECT ?'):bind_create(99)", "test.lua:5: Unsupported argument type: 99"),
        (
            "con:prepare('SELECT ?'):bind_create(sql.type.CHAR)",
            "test.lua:5: bind_create: a text parameter takes its largest length",
        ),
        (
            "con:prepare('SELECT ?'):bind_param(1)",
            "test.lua:5: bind_param: argument 1 is not a parameter (from bind_create)",
        ),
        (
            "con:prepare('SELECT ?'):bind_create(sql.type.CHAR, 5):set(true)",
            "test.lua:5: set: a text parameter takes a string or a number, not a boolean",
        ),
        (
            "con:prepare('SELECT ?'):bind_create(sql.type.CHAR, 5):set(ffi.new('int[1]'))",
            "test.lua:5: set: a text parameter takes a string or a number, not a cdata",
        ),
        (
            "drv:connect{ hots = 'x' }",
            "test.lua:5: connect: unknown field 'hots'; it takes host, port, socket, user, password, db",
        ),
        ("sql.driver('pgsql')", "test.lua:5: failed to initialize the DB driver"),
        (
            "sysbench.histogram.new(1, 2, 1)",
            "test.lua:5: histogram.new: it takes a size above 1 and 0 < range_min < range_max",
        ),
        ("sysbench.rand.varstring(5, 1)", "test.lua:5: rand.varstring: the shortest length must be 0 to the longest"),
    ] {
        let text = format!(
            "local sql = sysbench.sql\nfunction thread_init()\n  drv = sql.driver()\n  con = drv:connect()\n{body}\nend"
        );
        let error = run(&text, &World::new(0)).expect_err(body);
        assert_eq!(error.to_string(), message);
    }
}
