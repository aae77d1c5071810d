//! Errors and their codes.

use std::time::{Duration, Instant};

use bakeoff_load::net::ServerAddress;
use bakeoff_script::host::{Connection as _, Value};

use super::servers::{connect, fetch_all, run, servers, value};

#[test]
#[ignore = "needs real servers"]
fn an_unknown_database_is_reported() {
    for server in servers() {
        let address = ServerAddress { database: Some("no_such_database".into()), ..server.address() };
        let error = connect(address).err().expect("refused");
        assert_eq!((error.code, error.fatal), (1049, true));
    }
}

#[test]
#[ignore = "needs real servers"]
fn an_error_leaves_the_connection_usable() {
    for server in servers() {
        let mut client = server.root();
        for _ in 0..3 {
            let error = client.query(b"SELECT * FROM no_such_database.t").unwrap_err();
            assert!([1049, 1146].contains(&error.code) && !error.fatal, "{error}");
            let error = client.prepare(b"SELEKT ?").unwrap_err();
            assert_eq!((error.code, &*error.sqlstate, error.fatal), (1064, "42000", false));
        }
        assert_eq!(value(&mut client, "SELECT 1"), "1");
    }
}

#[test]
#[ignore = "needs real servers"]
fn reconnecting_after_a_kill_restores_prepared_statements() {
    for server in servers() {
        let mut client = server.root();
        run(&mut client, &["CREATE DATABASE IF NOT EXISTS bakeoff_test"]);
        let statement = client.prepare(b"SELECT ? + 1").unwrap();
        client.execute(statement, &[Value::Int(1)]).unwrap();
        let id = value(&mut client, "SELECT CONNECTION_ID()");
        run(&mut server.root(), &[&format!("KILL {id}")]);
        std::thread::sleep(Duration::from_millis(200));
        let error = client.query(b"SELECT 1").unwrap_err();
        assert!(error.fatal && [2006, 2013, 1927, 4031, 1053].contains(&error.code), "{error}");
        assert_eq!(client.query(b"SELECT 1").unwrap_err().code, 2006, "it stays gone");
        client.reconnect().unwrap();
        client.execute(statement, &[Value::Int(41)]).unwrap();
        assert_eq!(fetch_all(&mut client), [[Some("42".to_owned())]]);
    }
}

#[test]
#[ignore = "needs real servers"]
fn a_slow_query_hits_the_read_timeout() {
    for server in servers() {
        let mut client =
            connect(ServerAddress { read_timeout: Duration::from_millis(300), ..server.address() }).unwrap();
        let began = Instant::now();
        let error = client.query(b"SELECT SLEEP(5)").unwrap_err();
        assert_eq!((error.code, error.fatal), (2013, true));
        assert!(error.message.contains("read timeout"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(3));
    }
}

#[test]
#[ignore = "needs real servers"]
fn a_statement_above_max_allowed_packet_is_a_fatal_error() {
    for server in servers() {
        run(&mut server.root(), &["SET GLOBAL max_allowed_packet = 1048576"]);
        let mut client = server.root();
        let sql = format!("SELECT '{}'", "x".repeat(5_000_000));
        let error = client.query(sql.as_bytes()).unwrap_err();
        run(&mut server.root(), &["SET GLOBAL max_allowed_packet = 67108864"]);
        assert!(error.fatal && [1153, 2006, 2013].contains(&error.code), "{error}");
    }
}
