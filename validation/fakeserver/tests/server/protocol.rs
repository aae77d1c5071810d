//! The server as a client sees it through its socket.

use crate::client::{Answer, FakeServer};

const RANGE: &str = "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?";

#[test]
fn text_and_prepared_answers_have_their_shape() {
    let server = FakeServer::start(&[]);
    let mut client = server.connect();
    let text = client.query("SELECT id, c FROM sbtest1 WHERE id=1").rows();
    assert_eq!(text.len(), 1);
    assert_eq!(text[0].len(), 5 + 1 + 119, "a number of four digits, a length of one byte, a text");
    let id = client.prepare(RANGE);
    let rows = client.execute(id).rows();
    assert_eq!((rows.len(), rows[0].len()), (100, 2 + 1 + 119));
    assert_eq!(client.execute(id + 1).error_code(), Some(1243));
    client.send(&[&[0x19], &id.to_le_bytes()[..]].concat());
    assert_eq!(client.execute(id).error_code(), Some(1243), "closed");
}

#[test]
fn transactions_show_in_the_status() {
    let server = FakeServer::start(&[]);
    let mut client = server.connect();
    assert_eq!(client.query("BEGIN"), Answer::Ok { status: 3 });
    assert_eq!(client.query("COMMIT"), Answer::Ok { status: 2 });
    assert!(matches!(client.query("SELECT 1"), Answer::Rows { status: 2, .. }));
    client.send(b"\x0e");
    assert_eq!(client.answer(), Answer::Ok { status: 2 });
}

#[test]
fn pipelined_commands_are_answered_in_order() {
    let server = FakeServer::start(&["--latency", "constant:1ms"]);
    let mut client = server.connect();
    for _ in 0..5 {
        client.send(b"\x03SELECT c FROM t WHERE id=1");
        client.send(b"\x0e");
    }
    for _ in 0..5 {
        client.send_with_sequence(b"\x0e", 0);
        assert!(matches!(client.answer(), Answer::Rows { .. }));
        client.send_with_sequence(b"\x0e", 0);
        assert_eq!(client.answer(), Answer::Ok { status: 2 });
    }
}

#[test]
fn a_password_is_checked() {
    let server = FakeServer::start(&["--password", "secret"]);
    let refused = server.try_connect("eve", &[1; 20]).err().unwrap();
    assert_eq!(refused[..3], [0xFF, 0x15, 0x04], "1045");
    assert!(
        String::from_utf8_lossy(&refused).contains("Access denied for user 'eve'@'localhost' (using password: YES)")
    );
    assert!(server.try_connect("eve", &[]).is_err());
}

#[test]
fn injected_errors_come_every_nth_statement() {
    let server = FakeServer::start(&["--error", "1213/3"]);
    let mut client = server.connect();
    let codes: Vec<_> = (0..6).map(|_| client.query("UPDATE t SET k=1").error_code()).collect();
    assert_eq!(codes, [None, None, Some(1213), None, None, Some(1213)]);
    let (last, code) = server.terminate();
    assert!(last.contains("\"questions\":6") && last.contains("\"fake_injected_errors\":2"), "{last}");
    assert_eq!(code, Some(0));
}

#[test]
fn the_socket_is_removed_at_exit_and_a_running_server_is_not_replaced() {
    let server = FakeServer::start(&[]);
    let path = server.socket.clone();
    assert_refused(&path, "A server is there already");
    server.terminate();
    assert!(!path.exists());
}

#[test]
fn a_file_that_is_not_a_socket_is_left_alone() {
    let path = std::env::temp_dir().join(format!("bakeoff-fake-file-{}", std::process::id()));
    std::fs::write(&path, "letters").unwrap();
    assert_refused(&path, "There is a file that is not a socket");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "letters");
    std::fs::remove_file(&path).unwrap();
}

fn assert_refused(socket: &std::path::Path, words: &str) {
    let started = std::process::Command::new(env!("CARGO_BIN_EXE_bakeoff-fakeserver"))
        .arg("--socket")
        .arg(socket)
        .output()
        .unwrap();
    assert_eq!(started.status.code(), Some(3));
    let said = String::from_utf8_lossy(&started.stderr);
    assert!(said.contains(words), "{said}");
}

#[test]
fn the_server_exits_with_its_parent() {
    let path = std::env::temp_dir().join(format!("bakeoff-fake-orphan-{}.sock", std::process::id()));
    let shell = format!("{} --socket {} & read line", env!("CARGO_BIN_EXE_bakeoff-fakeserver"), path.display());
    let mut parent =
        std::process::Command::new("sh").args(["-c", &shell]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    let up = wait_until(|| std::os::unix::net::UnixStream::connect(&path).is_ok());
    drop(parent.stdin.take());
    parent.wait().unwrap();
    assert!(up, "never came up");
    assert!(wait_until(|| !path.exists()), "lives on without its parent");
}

fn wait_until(condition: impl Fn() -> bool) -> bool {
    (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        condition()
    })
}

#[test]
fn ten_thousand_connections_are_served() {
    // Each connection is a file on both sides. A build machine may not allow the test that many.
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid pointer to a local.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
    let count = usize::try_from(limit.rlim_max.saturating_sub(100).min(10_000)).unwrap();
    let server = FakeServer::start(&[]);
    let mut clients: Vec<_> = (0..count).map(|_| server.connect()).collect();
    for client in clients.iter_mut().step_by(97) {
        assert_eq!(client.query("SELECT c FROM t WHERE id=1").rows().len(), 1);
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let resident_kib: usize = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap()
        .trim_end_matches(" kB")
        .trim()
        .parse()
        .unwrap();
    assert!(resident_kib / 4 < count.max(5000), "{resident_kib} KiB for {count} connections: above 4 KiB each");
}
