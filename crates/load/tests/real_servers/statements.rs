//! Text and prepared statements mean the same in every mode.

use bakeoff_load::net::PrepareMode;
use bakeoff_script::host::{Connection as _, QueryClass, Value};

use super::servers::{Flavour, Rows, Server, fetch_all, rows, run, servers, value};

const MODES: [PrepareMode; 2] = [PrepareMode::Server, PrepareMode::Client];

/// The rows of a prepared statement, by mode.
fn prepared(server: &Server, mode: PrepareMode, charset: &str, before: &str, sql: &[u8], values: &[Value<'_>]) -> Rows {
    let mut client = server.root_in(mode, charset);
    run(&mut client, &[before]);
    let statement = client.prepare(sql).unwrap();
    client.execute(statement, values).unwrap_or_else(|error| panic!("{:?} {mode:?}: {error}", server.flavour));
    fetch_all(&mut client)
}

#[test]
#[ignore = "needs real servers"]
fn replies_are_classified_like_sysbench() {
    for server in servers() {
        let mut client = server.root();
        run(
            &mut client,
            &[
                "CREATE DATABASE IF NOT EXISTS bakeoff_test",
                "DROP TABLE IF EXISTS bakeoff_test.classes",
                "CREATE TABLE bakeoff_test.classes (id INT AUTO_INCREMENT PRIMARY KEY, k INT)",
            ],
        );
        let insert = client.query(b"INSERT INTO bakeoff_test.classes (k) VALUES (1), (2)").unwrap();
        assert_eq!((insert.class, insert.affected_rows, insert.last_insert_id), (QueryClass::Write, 2, 1));
        let select = client.query(b"SELECT id, k FROM bakeoff_test.classes").unwrap();
        assert_eq!((select.class, select.columns, select.rows), (QueryClass::Read, 2, 2));
        assert_eq!((client.column_name(1), client.column_name(2)), (Some("k"), None));
        let empty = client.query(b"SELECT id FROM bakeoff_test.classes WHERE id < 0").unwrap();
        assert_eq!((empty.class, empty.rows), (QueryClass::Read, 0));
        let same = client.query(b"UPDATE bakeoff_test.classes SET k = 1 WHERE id = 1").unwrap();
        assert_eq!((same.class, same.affected_rows), (QueryClass::Other, 0));
        for mode in MODES {
            let mut client = server.root_in(mode, "utf8mb4");
            for (sql, class) in [("BEGIN", QueryClass::Other), ("COMMIT", QueryClass::Other)] {
                let statement = client.prepare(sql.as_bytes()).unwrap();
                assert_eq!(client.execute(statement, &[]).unwrap().class, class);
            }
            let update = client.prepare(b"UPDATE bakeoff_test.classes SET k = k + ? WHERE id = ?").unwrap();
            let reply = client.execute(update, &[Value::Int(1), Value::Int(2)]).unwrap();
            assert_eq!((reply.class, reply.affected_rows), (QueryClass::Write, 1));
        }
    }
}

#[test]
#[ignore = "needs real servers"]
fn both_modes_give_parameters_the_same_meaning() {
    let long = "x".repeat(70_000);
    let values = [
        Value::Null,
        Value::Int(0),
        Value::Int(i64::MAX),
        Value::Int(i64::MIN),
        Value::Double(0.1),
        Value::Double(-1.5e300),
        Value::Double(1e-300),
        Value::Bytes(b""),
        Value::Bytes(b"it's \\ \"quoted\" ? \0 \x1a \n % _"),
        Value::Bytes("Ünïcödé 🚀".as_bytes()),
        Value::Bytes(long.as_bytes()),
    ];
    for server in servers() {
        for before in ["SET sql_mode = ''", "SET sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'"] {
            for value in values {
                let ask = |mode| {
                    // HEX of a number rounds, and fails for some literals but not for the same values as parameters.
                    let sql: &[u8] = match value {
                        Value::Bytes(_) => b"SELECT HEX(?), ? + 0, ? IS NULL, '?', ? /* ? */ -- ?",
                        _ => b"SELECT CONCAT(?), ? + 0, ? IS NULL, '?', ? /* ? */ -- ?",
                    };
                    prepared(&server, mode, "utf8mb4", before, sql, &[value; 4])
                };
                let (by_server, by_client) = (ask(PrepareMode::Server), ask(PrepareMode::Client));
                assert_eq!(by_server, by_client, "{:?}, {before}", server.flavour);
            }
        }
    }
}

#[test]
#[ignore = "needs real servers"]
fn no_character_set_lets_a_value_break_out() {
    // 0x5c and 0x27 after lead bytes of each set, whole characters and halves.
    let values: [&[u8]; 6] =
        [b"\x83\x5c'", b"\xbf\x27 OR 1=1 -- ", b"\xbf\x5c\x27", b"\x81\x30\x81\x30'", b"\x83", b"\xe3\x27"];
    for server in servers() {
        for charset in ["sjis", "cp932", "gbk", "big5", "gb18030", "utf8mb4", "latin1"] {
            if charset == "gb18030" && server.flavour == Flavour::MariaDb {
                continue;
            }
            for before in ["SET sql_mode = ''", "SET sql_mode = 'NO_BACKSLASH_ESCAPES'"] {
                for value in values {
                    let ask = |mode| {
                        let sql = b"SELECT HEX(?), CHARACTER_LENGTH(?)";
                        prepared(&server, mode, charset, before, sql, &[Value::Bytes(value); 2])
                    };
                    let (by_server, by_client) = (ask(PrepareMode::Server), ask(PrepareMode::Client));
                    assert_eq!(by_server, by_client, "{:?}, {charset}, {value:x?}", server.flavour);
                }
            }
        }
    }
}

#[test]
#[ignore = "needs real servers"]
fn values_must_match_the_parameters() {
    for server in servers() {
        for mode in MODES {
            let mut client = server.root_in(mode, "utf8mb4");
            let statement = client.prepare(b"SELECT ?, '?'").unwrap();
            assert_eq!(client.execute(statement, &[]).unwrap_err().code, 2031);
            assert_eq!(client.execute(statement, &[Value::Double(f64::NAN)]).unwrap_err().code, 2036);
            assert!(client.execute(statement, &[Value::Int(1)]).is_ok(), "and the connection lives on");
            client.close_statement(statement);
            assert_eq!(client.execute(statement, &[Value::Int(1)]).unwrap_err().code, 2031);
            assert_eq!(value(&mut client, "SELECT 1"), "1", "the close went out in front of this");
        }
    }
}

#[test]
#[ignore = "needs real servers"]
fn types_may_change_from_one_execution_to_the_next() {
    for server in servers() {
        let mut client = server.root();
        let statement = client.prepare(b"SELECT ?").unwrap();
        let sequence = [
            (Value::Int(7), Some("7")),
            (Value::Int(8), Some("8")),
            (Value::Null, None),
            (Value::Int(9), Some("9")),
            (Value::Bytes(b"seven"), Some("seven")),
            (Value::Bytes(b"eight"), Some("eight")),
            (Value::Double(0.5), Some("0.5")),
            (Value::Int(-1), Some("-1")),
        ];
        for (value, expected) in sequence {
            client.execute(statement, &[value]).unwrap();
            assert_eq!(fetch_all(&mut client), [[expected.map(str::to_owned)]], "{:?}", server.flavour);
        }
    }
}

#[test]
#[ignore = "needs real servers"]
fn unpreparable_statements_are_sent_as_text() {
    for server in servers().into_iter().filter(|server| server.flavour == Flavour::MySql57) {
        let mut client = server.root();
        run(&mut client, &["CREATE DATABASE IF NOT EXISTS bakeoff_test"]);
        let statement = client.prepare(b"USE bakeoff_test").unwrap();
        client.execute(statement, &[]).unwrap();
        assert_eq!(value(&mut client, "SELECT DATABASE()"), "bakeoff_test");
    }
}

#[test]
#[ignore = "needs real servers"]
fn a_closed_statement_is_closed_on_the_server() {
    for server in servers() {
        let mut client = server.root();
        let count = |client: &mut bakeoff_load::net::Client| {
            let row = rows(client, "SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'").remove(0);
            row[1].clone().unwrap().parse::<i64>().unwrap()
        };
        let before = count(&mut client);
        let statements: Vec<_> = (0..5).map(|_| client.prepare(b"SELECT ?").unwrap()).collect();
        assert!(count(&mut client) >= before + 5);
        for statement in statements {
            client.close_statement(statement);
        }
        let after = count(&mut client);
        assert!(after < before + 5, "{after} statements, {before} before");
    }
}
