//! Rows: binary and text rows agree, large ones arrive intact, and several results come in order.

use bakeoff_script::host::Connection as _;

use super::servers::{Flavour, Server, fetch_all, rows, run, servers, value};

const TABLE: &str = "CREATE TABLE bakeoff_test.types (id INT PRIMARY KEY,
    t TINYINT, tu TINYINT UNSIGNED, s SMALLINT, m MEDIUMINT, mu MEDIUMINT UNSIGNED, i INT, iz INT(7) ZEROFILL, b BIGINT, bu BIGINT UNSIGNED,
    f FLOAT, f2 FLOAT(10,3), d DOUBLE, d2 DOUBLE(20,5), dz DOUBLE(20,5) ZEROFILL, n DECIMAL(30,10), y YEAR,
    da DATE, dt DATETIME, dt3 DATETIME(3), dt6 DATETIME(6), ts TIMESTAMP NULL, ts2 TIMESTAMP(2) NULL, ti TIME, ti1 TIME(1), ti6 TIME(6),
    c CHAR(10), v VARCHAR(100), bi BIT(17), e ENUM('a','b'), se SET('x','y','z'), bl BLOB, te TEXT, vb VARBINARY(10))";

const ROWS: &[&str] = &[
    "(1, NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL, NULL,NULL,NULL,NULL,NULL,NULL,NULL, NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL, \
      NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL)",
    "(2, -128,255,-32768,-8388608,16777215,-2147483648,42,-9223372036854775808,18446744073709551615, \
      0.1,3.14159,0.1,1234567.891,1.5,-12345678901234567890.0123456789,1901, '0000-00-00','2024-02-29 01:02:03','2024-02-29 01:02:03.456', \
      '9999-12-31 23:59:59.999999','2024-02-29 01:02:03','2024-02-29 01:02:03.45','-838:59:59','-12:00:00.5','838:59:58.000001', \
      'abc','with \\' quote',b'10000000000000001','b','x,z',x'00ff','text',x'00')",
    "(3, 0,0,0,0,0,0,0,0,0, 16777216,-0.0005,1e15,0,0,0,2155, '1000-01-01','0000-00-00 00:00:00','2024-01-01','2024-01-01','2024-01-01', \
      '2024-01-01','00:00:00','00:00:00','-00:00:00.000001', '','',0,'a','','','','')",
    "(4, 1,1,1,1,1,1,12345678,1,1, 1e-10,1e6,1e-15,-1.5,2,0.1,0, '2024-12-31','2024-12-31','2024-12-31','2024-12-31','2024-12-31', \
      '2024-12-31','01:00:00','24:00:00','100:00:00', 'x','x',1,'a','y','x','x','x')",
    "(5, 1,1,1,1,1,1,1,1,1, 1.17549e-38,1,2.2250738585072014e-308,1,1,1,2000, NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL, \
      'x','x',1,'a','y','x','x','x')",
    "(6, 1,1,1,1,1,1,1,1,1, -3.40282e38,1,-1.7976931348623157e308,1,1,1,2000, NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL, \
      'x','x',1,'a','y','x','x','x')",
];

#[test]
#[ignore = "needs real servers"]
fn binary_rows_read_like_text_rows() {
    for server in servers() {
        let mut client = server.root();
        run(
            &mut client,
            &[
                "SET sql_mode = ''",
                "CREATE DATABASE IF NOT EXISTS bakeoff_test",
                "DROP TABLE IF EXISTS bakeoff_test.types",
                TABLE,
                &format!("INSERT INTO bakeoff_test.types VALUES {}", ROWS.join(",")),
            ],
        );
        let sql = "SELECT * FROM bakeoff_test.types ORDER BY id";
        let text = rows(&mut client, sql);
        let names: Vec<String> = (0..34).map(|column| client.column_name(column).unwrap().to_owned()).collect();
        let statement = client.prepare(sql.as_bytes()).unwrap();
        client.execute(statement, &[]).unwrap();
        let binary = fetch_all(&mut client);
        assert_eq!(text.len(), binary.len());
        for (text, binary) in text.iter().zip(&binary) {
            for ((name, text), binary) in names.iter().zip(text).zip(binary) {
                assert_eq!(text, binary, "{:?}, column {name}", server.flavour);
            }
        }
    }
}

#[test]
#[ignore = "needs real servers"]
fn floats_of_every_magnitude_match_in_text_and_binary() {
    for server in servers() {
        let mut client = server.root();
        run(
            &mut client,
            &[
                "CREATE DATABASE IF NOT EXISTS bakeoff_test",
                "DROP TABLE IF EXISTS bakeoff_test.floats",
                "CREATE TABLE bakeoff_test.floats (id INT AUTO_INCREMENT PRIMARY KEY, f FLOAT, d DOUBLE)",
            ],
        );
        let digits = [1.0, 1.5, 9.999_999, 1.234_567_8, 1.234_567_890_123_456_7, 8.765_432_1];
        let values: Vec<String> = (-37..38)
            .flat_map(|exponent| digits.map(|digits| format!("({digits}e{exponent}, -{digits}e{exponent})")))
            .collect();
        run(&mut client, &[&format!("INSERT INTO bakeoff_test.floats (f, d) VALUES {}", values.join(","))]);
        let sql = "SELECT f, d, f + 0, d * 3 FROM bakeoff_test.floats ORDER BY id";
        let text = rows(&mut client, sql);
        let statement = client.prepare(sql.as_bytes()).unwrap();
        client.execute(statement, &[]).unwrap();
        let binary = fetch_all(&mut client);
        for (index, (text, binary)) in text.iter().zip(&binary).enumerate() {
            assert_eq!(text, binary, "{:?}, {}", server.flavour, values[index]);
        }
    }
}

#[test]
#[ignore = "needs real servers"]
fn several_results_come_in_order() {
    for server in servers() {
        let mut client = server.root();
        let first = client.query(b"SELECT 1; SET @a = 2; SELECT @a, 3").unwrap();
        assert!(first.more_results);
        assert_eq!(client.query(b"SELECT 9").unwrap_err().code, 2014);
        assert_eq!(fetch_all(&mut client).len(), 1, "the rows survive the refused statement");
        let second = client.next_result().unwrap().unwrap();
        assert_eq!((second.columns, second.more_results), (0, true));
        let third = client.next_result().unwrap().unwrap();
        assert_eq!((third.columns, third.more_results), (2, false));
        assert_eq!(fetch_all(&mut client), [[Some("2".to_owned()), Some("3".to_owned())]]);
        assert!(client.next_result().unwrap().is_none());
        let broken = client.query(b"SELECT 1; SELECT no_such_column").unwrap();
        assert!(broken.more_results);
        assert_eq!(client.next_result().unwrap_err().code, 1054);
        assert!(client.next_result().unwrap().is_none(), "an error ends the results");
        assert_eq!(value(&mut client, "SELECT 5"), "5");
    }
}

#[test]
#[ignore = "needs real servers"]
fn procedures_can_be_called_as_text_or_prepared() {
    for server in servers() {
        let mut client = server.root();
        run(
            &mut client,
            &[
                "CREATE DATABASE IF NOT EXISTS bakeoff_test",
                "DROP PROCEDURE IF EXISTS bakeoff_test.two",
                "CREATE PROCEDURE bakeoff_test.two() BEGIN SELECT 1.5e0, 'a'; SELECT 2; END",
            ],
        );
        let call = b"CALL bakeoff_test.two()";
        let statement = client.prepare(call).unwrap();
        for prepared in [false, true] {
            if prepared { client.execute(statement, &[]) } else { client.query(call) }.unwrap();
            assert_eq!(fetch_all(&mut client), [[Some("1.5".to_owned()), Some("a".to_owned())]]);
            client.next_result().unwrap().unwrap();
            assert_eq!(fetch_all(&mut client), [[Some("2".to_owned())]]);
            let last = client.next_result().unwrap().unwrap();
            assert_eq!((last.columns, last.more_results), (0, false));
        }
    }
}

/// Packets at and around 16 MiB, both ways, in text and binary.
#[test]
#[ignore = "needs real servers"]
fn packets_around_16_mib_arrive_intact() {
    use bakeoff_script::host::Value;
    // Splitting packets does not depend on the server: try every length on the first and the crucial two on the others.
    let lengths = [16_777_215_usize, 20_000_000, 16_777_215 - 9, 16_777_215 - 4, 16_777_216];
    for (index, server) in servers().into_iter().enumerate() {
        allow_long_packets(&server);
        let mut client = server.root();
        let statement = client.prepare(b"SELECT ?, MD5(?)").unwrap();
        for length in lengths.into_iter().take(if index == 0 { 5 } else { 2 }) {
            let mut sent = b"abcdefghijklmnopqrstuvw".repeat(length / 23 + 1);
            sent.truncate(length);
            let mut row = Vec::new();
            client.execute(statement, &[Value::Bytes(&sent), Value::Bytes(&sent)]).unwrap();
            assert!(client.fetch_row(&mut row).unwrap());
            assert!(row[0].as_ref() == Some(&sent), "{:?}, binary, {length} bytes", server.flavour);
            let sum = row[1].clone();
            let mut sql = b"SELECT '".to_vec();
            sql.extend_from_slice(&sent);
            sql.extend_from_slice(b"', MD5('");
            sql.extend_from_slice(&sent);
            sql.extend_from_slice(b"')");
            client.query(&sql).unwrap();
            assert!(client.fetch_row(&mut row).unwrap());
            assert!(row[0].as_ref() == Some(&sent) && row[1] == sum, "{:?}, text, {length} bytes", server.flavour);
        }
    }
}

fn allow_long_packets(server: &Server) {
    run(&mut server.root(), &["SET GLOBAL max_allowed_packet = 67108864"]);
}

#[test]
#[ignore = "needs real servers"]
fn rows_of_an_oversized_result_are_counted_and_discarded() {
    for server in servers() {
        let mut client = server.root();
        let bits = "(SELECT 0 x UNION ALL SELECT 1)";
        let sql = format!(
            "SELECT REPEAT('x', 1000000) FROM {bits} a, {bits} b, {bits} c, {bits} d, {bits} e, {bits} f, {bits} g"
        );
        let reply = client.query(sql.as_bytes()).unwrap();
        assert_eq!(reply.rows, 128);
        let error = client.fetch_row(&mut Vec::new()).unwrap_err();
        assert!(!error.fatal && error.message.contains("too large"), "{error}");
        assert_eq!(value(&mut client, "SELECT 1"), "1");
    }
}

#[test]
#[ignore = "needs real servers"]
fn a_local_file_is_never_sent() {
    for server in servers() {
        let mut client = server.root();
        run(
            &mut client,
            &[
                "CREATE DATABASE IF NOT EXISTS bakeoff_test",
                "DROP TABLE IF EXISTS bakeoff_test.lines",
                "CREATE TABLE bakeoff_test.lines (line TEXT)",
            ],
        );
        let error = client.query(b"LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE bakeoff_test.lines").unwrap_err();
        assert!(!error.fatal, "{error}");
        let known = match server.flavour {
            Flavour::MySql57 | Flavour::MySql80 => [1148, 3948],
            Flavour::MariaDb => [4166, 1148],
        };
        assert!(known.contains(&error.code), "{error}");
        assert_eq!(value(&mut client, "SELECT COUNT(*) FROM bakeoff_test.lines"), "0");
    }
}
