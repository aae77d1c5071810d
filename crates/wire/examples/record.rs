//! Records conversations with real servers into `tests/golden`, for `tests/all/golden.rs` of this crate to play again.
//!
//!     cargo run -p bakeoff-wire --example record -- NAME SOCKET PORT [FOLDER]
//!
//! NAME is the prefix of the file names (`mysql-8.0.15`). root must have no password on SOCKET, and PORT must listen on 127.0.0.1.
//! It creates accounts `bakeoff_golden_…`, whose passwords are in the recordings, and a database `bakeoff_golden`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

#[path = "../tests/all/conversation.rs"]
mod conversation;

use conversation::{Peer, Script, converse};

/// The steps for every server.
const STEPS: &str = "\
> query SET NAMES utf8mb4
> use bakeoff_golden
> query DROP TABLE IF EXISTS t
> query CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, k INT UNSIGNED, d DOUBLE, c VARCHAR(20), at DATETIME(3), n DECIMAL(10,2))
> query INSERT INTO t (k, d, c, at, n) VALUES (1, 0.1, 'one', '2024-02-29 01:02:03.456', 1.5), (4294967295, -1e300, NULL, NULL, NULL)
> query SELECT * FROM t ORDER BY id
> query SELECT * FROM t WHERE id < 0
> query UPDATE t SET k = 2 WHERE id = 1
> query UPDATE t SET k = 2 WHERE id = 1
> query SELECT no_such_column
> query SELEKT
> query SELECT 1; SET @a = 'two'; SELECT @a AS a
> next
> next
> query SELECT 1; SELECT no_such_column
> next
> prepare SELECT id, k, d, c, at, n, ? AS given FROM t WHERE id >= ? ORDER BY id
> execute i:-5 i:1
> execute i:7 i:2
> execute null i:1
> execute s:text d:1.5
> reset
> execute s:text d:1.5
> close
> prepare INSERT INTO t (k) VALUES (?)
> execute i:9
> prepare COMMIT
> execute
> prepare SELEKT ?
> prepare SELECT ?
> query CREATE OR REPLACE VIEW v AS SELECT 1
> query DROP PROCEDURE IF EXISTS two
> query CREATE PROCEDURE two() BEGIN SELECT 1.5e0 AS x; SELECT 2 AS y; END
> query CALL two()
> next
> next
> prepare CALL two()
> execute
> next
> next
> ping
> quit
";

const BRIEF: &str = "> query SELECT CURRENT_USER()\n> quit\n";

struct Scenario {
    name: &'static str,
    /// Options of the login, in lines.
    options: &'static str,
    /// After `CREATE USER u`; `None`: the account of the scenario before is used again.
    identified: Option<&'static str>,
    steps: &'static str,
}

const fn scenario(
    name: &'static str,
    options: &'static str,
    identified: Option<&'static str>,
    steps: &'static str,
) -> Scenario {
    Scenario { name, options, identified, steps }
}

/// 16777216 is DEPRECATE_EOF.
const EVERY_SERVER: &[Scenario] = &[
    scenario("commands", "password: secret-1\nchannel: unix", Some("BY 'secret-1'"), STEPS),
    scenario("commands-eof", "password: secret-1\nchannel: unix\nfewer: 16777216", Some("BY 'secret-1'"), STEPS),
    scenario("wrong-password", "password: secret-X\nchannel: unix", Some("BY 'secret-1'"), BRIEF),
    scenario("no-password", "password: \nchannel: unix", Some("BY ''"), BRIEF),
    scenario(
        "unknown-database",
        "password: secret-1\nchannel: unix\ndatabase: no_such_database",
        Some("BY 'secret-1'"),
        BRIEF,
    ),
];

const MYSQL_8: &[Scenario] = &[
    scenario(
        "native-switch",
        "password: secret-1\nchannel: unix",
        Some("WITH mysql_native_password BY 'secret-1'"),
        BRIEF,
    ),
    scenario(
        "sha2-full-unix",
        "password: secret-2\nchannel: unix",
        Some("WITH caching_sha2_password BY 'secret-2'"),
        BRIEF,
    ),
    scenario("sha2-fast", "password: secret-2\nchannel: unix", None, BRIEF),
    scenario(
        "sha2-full-rsa",
        "password: secret-2\nchannel: tcp",
        Some("WITH caching_sha2_password BY 'secret-2'"),
        BRIEF,
    ),
    scenario("sha256-rsa", "password: secret-4\nchannel: tcp", Some("WITH sha256_password BY 'secret-4'"), BRIEF),
];

const MARIADB: &[Scenario] =
    &[scenario("ed25519", "password: secret-3\nchannel: unix", Some("VIA ed25519 USING PASSWORD('secret-3')"), BRIEF)];

struct Live<T: Read + Write>(T);

impl<T: Read + Write> Peer for Live<T> {
    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the server takes it");
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; 64 * 1024];
        let received = self.0.read(&mut bytes).expect("the server answers within 10 s");
        bytes.truncate(received);
        bytes
    }
}

fn record(script: &Script, socket: &str, port: u16, over_tcp: bool) -> String {
    let patience = Some(Duration::from_secs(10));
    if over_tcp {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("a server at the port");
        stream.set_read_timeout(patience).expect("a socket option");
        converse(script, &mut Live(stream))
    } else {
        let stream = UnixStream::connect(socket).expect("a server at the socket");
        stream.set_read_timeout(patience).expect("a socket option");
        converse(script, &mut Live(stream))
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, socket, port, folder @ ..] = arguments.as_slice() else {
        eprintln!("usage: record NAME SOCKET PORT [FOLDER]");
        std::process::exit(2);
    };
    let port: u16 = port.parse().expect("PORT is a number");
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden").to_owned();
    let folder = Path::new(folder.first().unwrap_or(&default));
    let own = match name {
        name if name.starts_with("mysql-8") => MYSQL_8,
        name if name.starts_with("mariadb") => MARIADB,
        _ => &[],
    };
    for scenario in EVERY_SERVER.iter().chain(own) {
        if let Some(identified) = scenario.identified {
            make_account(identified, socket, port);
        }
        let mut steps = scenario.steps.to_owned();
        if name.starts_with("mysql-5.5") {
            steps = steps.replace("DATETIME(3)", "DATETIME");
        }
        let script = Script::parse(&format!("user: bakeoff_golden\n{}\n{steps}", scenario.options));
        let over_tcp = scenario.options.contains("channel: tcp");
        let recording = record(&script, socket, port, over_tcp);
        let path = folder.join(format!("{name}-{}.capture", scenario.name));
        std::fs::write(&path, recording).expect("a folder that can be written to");
        println!("{}", path.display());
    }
}

fn make_account(identified: &str, socket: &str, port: u16) {
    // Fails where there is none yet; DROP USER IF EXISTS is younger than 5.5.
    let drop = "user: root\n> query DROP USER bakeoff_golden@'%'\n> quit\n";
    record(&Script::parse(drop), socket, port, false);
    let steps = format!(
        "user: root\n> query CREATE USER bakeoff_golden@'%' IDENTIFIED {identified}\n\
         > query GRANT ALL ON *.* TO bakeoff_golden@'%'\n> query CREATE DATABASE IF NOT EXISTS bakeoff_golden\n> quit\n"
    );
    let made = record(&Script::parse(&steps), socket, port, false);
    assert!(!made.contains("= error"), "{made}");
}
