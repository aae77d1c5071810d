//! The client against broken servers: every failure has an error code, and none hangs.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use bakeoff_load::net::{Client, ConnectionCanceller, Endpoint, PrepareMode, ServerAddress, TlsMode, TlsOptions};
use bakeoff_script::host::{Connection as _, SqlError, Value};

/// A greeting of protocol 4.1 with `mysql_native_password`, without TLS.
const GREETING: &[u8] = b"\x4a\0\0\0\x0a8.0.99\0\x07\0\0\x0001234567\0\x05\xa2\x2d\x02\0\x1b\x01\x15\0\0\0\0\0\0\0\0\0\089abcdefghij\0mysql_native_password\0";
const OK: &[u8] = b"\x07\0\0\x02\0\0\0\x02\0\0\0";
const OK_1: &[u8] = b"\x07\0\0\x01\0\0\0\x02\0\0\0";

/// One row of one column.
const ROW: &[u8] = b"\x01\0\0\x01\x01\x17\0\0\x02\x03def\0\0\0\x01a\0\x0c\x2d\0\x01\0\0\0\xfd\0\0\0\0\0\x02\0\0\x03\x011\x07\0\0\x04\xfe\0\0\x02\0\0\0";

/// Listens on a port and hands every client to `serve`, until the process ends.
fn server(serve: impl Fn(TcpStream) + Send + 'static) -> ServerAddress {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().flatten().for_each(&serve));
    ServerAddress {
        endpoint: Endpoint::Tcp { host: "127.0.0.1".into(), port },
        connect_timeout: Duration::from_millis(400),
        read_timeout: Duration::from_millis(400),
        ..ServerAddress::default()
    }
}

fn packet(stream: &mut TcpStream) {
    let mut header = [0; 4];
    if stream.read_exact(&mut header).is_ok() {
        let length = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        let _ = stream.read_exact(&mut vec![0; length as usize]);
    }
}

/// Accepts any login, then answers SET NAMES and the query for the session's names.
fn log_in(stream: &mut TcpStream) {
    let names = b"\x01\0\0\x01\x02\x17\0\0\x02\x03def\0\0\0\x01a\0\x0c\x2d\0\x01\0\0\0\xfd\0\0\0\0\0\x17\0\0\x03\x03def\0\0\0\x01b\0\x0c\x2d\0\x01\0\0\0\xfd\0\0\0\0\0\
        \x1b\0\0\x04\x07utf8mb4\x12utf8mb4_general_ci\x07\0\0\x05\xfe\0\0\x02\0\0\0";
    for answer in [GREETING, OK, OK_1, names] {
        if answer != GREETING {
            packet(stream);
        }
        let _ = stream.write_all(answer);
    }
}

fn refused(address: ServerAddress) -> SqlError {
    let began = Instant::now();
    let Err(error) = Client::connect(&Arc::new(address)) else { panic!("there was nothing to connect to") };
    assert!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
    assert!(error.fatal);
    error
}

#[test]
fn the_fake_greeting_is_accepted() {
    let address = server(|mut stream| {
        log_in(&mut stream);
        packet(&mut stream);
        let _ = stream.write_all(OK_1);
        packet(&mut stream);
    });
    let mut client = Client::connect(&Arc::new(address)).unwrap();
    assert_eq!(client.charset(), ("utf8mb4", "utf8mb4_general_ci"));
    client.query(b"DO 1").unwrap();
}

#[test]
fn an_unreachable_endpoint_is_an_error() {
    let nowhere = Endpoint::Unix("/nonexistent/s.sock".into());
    let error = refused(ServerAddress { endpoint: nowhere, ..ServerAddress::default() });
    assert_eq!(error.code, 2002);
    assert!(error.message.contains("/nonexistent/s.sock"), "{error}");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nowhere = Endpoint::Tcp { host: "127.0.0.1".into(), port: free };
    let error = refused(ServerAddress { endpoint: nowhere, ..ServerAddress::default() });
    assert_eq!(error.code, 2003);
    assert!(error.message.contains(&free.to_string()), "{error}");
    let long = Endpoint::Unix(format!("/tmp/{}", "x".repeat(200)).into());
    assert_eq!(refused(ServerAddress { endpoint: long, ..ServerAddress::default() }).code, 2002);
}

#[test]
fn a_missing_greeting_times_out() {
    let address = server(|stream| {
        std::thread::sleep(Duration::from_secs(2));
        drop(stream);
    });
    let error = refused(address);
    assert_eq!(error.code, 2003);
    assert!(error.message.contains("did not answer in time"), "{error}");
}

#[test]
fn a_trickling_greeting_times_out() {
    let address = server(|mut stream| {
        for byte in GREETING {
            let _ = stream.write_all(&[*byte]);
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    assert_eq!(refused(address).code, 2003);
}

#[test]
fn a_hangup_or_a_foreign_protocol_is_an_error() {
    let address = server(drop);
    assert_eq!(refused(address).code, 2013);
    let address = server(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        std::thread::sleep(Duration::from_secs(2));
    });
    let error = refused(address);
    assert_eq!(error.code, 2027);
    assert!(error.message.contains("is this a MySQL server?"), "{error}");
}

#[test]
fn required_tls_that_the_server_does_not_offer_is_an_error() {
    let address = server(|mut stream| {
        let _ = stream.write_all(GREETING);
        std::thread::sleep(Duration::from_secs(2));
    });
    let with = |tls| ServerAddress { tls, ..address.clone() };
    let error = refused(with(TlsOptions { mode: TlsMode::Required, ..TlsOptions::default() }));
    assert_eq!(error.code, 2026);
    assert!(error.message.contains("the server (8.0.99) does not offer it"), "{error}");
}

#[test]
fn a_stall_after_the_login_hits_the_connect_timeout() {
    let address = server(|mut stream| {
        let _ = stream.write_all(GREETING);
        packet(&mut stream);
        let _ = stream.write_all(OK);
        std::thread::sleep(Duration::from_secs(20));
    });
    let error = refused(ServerAddress { read_timeout: Duration::from_secs(20), ..address });
    assert_eq!(error.code, 2013, "{error}");
}

#[test]
fn an_unreadable_client_certificate_is_an_error() {
    let address = server(|mut stream| log_in(&mut stream));
    for mode in [TlsMode::Preferred, TlsMode::Required] {
        let missing = Some("/nonexistent/client.pem".into());
        let tls = TlsOptions { mode, cert: missing.clone(), key: missing, ..TlsOptions::default() };
        let error = refused(ServerAddress { tls, ..address.clone() });
        assert_eq!(error.code, 2026);
        assert!(error.message.contains("/nonexistent/client.pem"), "{error}");
    }
}

/// The server serves one client at a time: the second waits until the first is gone.
#[test]
fn reconnecting_closes_the_old_connection_first() {
    let address = server(|mut stream| {
        log_in(&mut stream);
        packet(&mut stream);
        let _ = stream.write_all(b"\x05\0\0\x01\xfegarbage");
        packet(&mut stream);
    });
    let mut client = Client::connect(&Arc::new(address)).unwrap();
    assert_eq!(client.query(b"SELECT 1").unwrap_err().code, 2027);
    client.reconnect().unwrap();
}

#[test]
fn a_failed_reconnect_disconnects_despite_pending_results() {
    let clients = AtomicU32::new(0);
    let address = server(move |mut stream| {
        if clients.fetch_add(1, Relaxed) == 0 {
            log_in(&mut stream);
            packet(&mut stream);
            let _ = stream.write_all(b"\x07\0\0\x01\0\0\0\x0a\0\0\0");
            packet(&mut stream);
        }
    });
    let mut client = Client::connect(&Arc::new(address)).unwrap();
    assert!(client.query(b"CALL p()").unwrap().more_results);
    assert_eq!(client.reconnect().unwrap_err().code, 2013);
    let error = client.query(b"DO 1").unwrap_err();
    assert_eq!((error.code, error.fatal), (2006, true), "{error}");
}

#[test]
fn a_rejected_parameter_keeps_the_previous_rows() {
    let address = server(|mut stream| {
        log_in(&mut stream);
        packet(&mut stream);
        let _ = stream.write_all(ROW);
        packet(&mut stream);
    });
    let address = ServerAddress { prepare_mode: PrepareMode::Client, ..address };
    let mut client = Client::connect(&Arc::new(address)).unwrap();
    let statement = client.prepare(b"SELECT ?").unwrap();
    client.query(b"SELECT a").unwrap();
    let error = client.execute(statement, &[Value::Double(f64::INFINITY)]).unwrap_err();
    assert_eq!((error.code, error.fatal), (2036, false), "{error}");
    let mut row = Vec::new();
    assert!(client.fetch_row(&mut row).unwrap());
    assert_eq!(row, [Some(b"1".to_vec())]);
}

#[test]
fn too_many_connections_is_reported() {
    let address = server(|mut stream| {
        let _ = stream.write_all(b"\x17\0\0\0\xff\x10\x04Too many connections");
    });
    let error = refused(address);
    assert_eq!((error.code, &*error.message), (1040, "Too many connections"));
}

/// Cuts the reply after each of these numbers of bytes.
#[test]
fn a_truncated_reply_is_a_lost_connection() {
    for length in [0, 3, 4, 5, 9, 30, 33, 36, ROW.len() - 1] {
        let address = server(move |mut stream| {
            log_in(&mut stream);
            packet(&mut stream);
            let _ = stream.write_all(&ROW[..length]);
        });
        let mut client = Client::connect(&Arc::new(address)).unwrap();
        let error = client.query(b"SELECT a").unwrap_err();
        assert_eq!((error.code, error.fatal), (2013, true), "{length} bytes: {error}");
        assert_eq!(client.query(b"SELECT a").unwrap_err().code, 2006);
    }
}

#[test]
fn a_malformed_reply_is_fatal() {
    let address = server(|mut stream| {
        log_in(&mut stream);
        packet(&mut stream);
        let _ = stream.write_all(b"\x05\0\0\x01\xfegarbage");
        std::thread::sleep(Duration::from_secs(2));
    });
    let mut client = Client::connect(&Arc::new(address)).unwrap();
    let error = client.query(b"SELECT 1").unwrap_err();
    assert_eq!((error.code, error.fatal), (2027, true), "{error}");
}

#[test]
fn a_request_for_a_local_file_ends_the_connection() {
    let (report, reported) = std::sync::mpsc::channel();
    let address = server(move |mut stream| {
        log_in(&mut stream);
        packet(&mut stream);
        let _ = stream.write_all(b"\x0c\0\0\x01\xfb/etc/passwd");
        let mut sent = Vec::new();
        stream.read_to_end(&mut sent).unwrap();
        report.send(sent).unwrap();
    });
    let mut client = Client::connect(&Arc::new(address)).unwrap();
    let error = client.query(b"LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE t").unwrap_err();
    assert_eq!((error.code, error.fatal), (2027, true));
    assert_eq!(client.query(b"DO 1").unwrap_err().code, 2006);
    drop(client);
    assert_eq!(reported.recv_timeout(Duration::from_secs(5)).unwrap(), b"");
}

#[test]
fn cutting_the_connection_ends_a_running_statement() {
    let address = server(|mut stream| {
        log_in(&mut stream);
        std::thread::sleep(Duration::from_secs(20));
    });
    let canceller = Arc::new(ConnectionCanceller::default());
    let address = Arc::new(ServerAddress { read_timeout: Duration::from_secs(20), ..address });
    let mut client = Client::connect_attached(&address, Arc::clone(&canceller), Default::default(), None).unwrap();
    let began = Instant::now();
    let cutter = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        canceller.cut();
    });
    assert_eq!(client.query(b"SELECT SLEEP(20)").unwrap_err().code, 2013);
    assert!(began.elapsed() < Duration::from_secs(10));
    cutter.join().unwrap();
}

#[test]
fn a_dropped_client_says_goodbye() {
    let (report, reported) = std::sync::mpsc::channel();
    let address = server(move |mut stream| {
        log_in(&mut stream);
        let mut last = Vec::new();
        stream.read_to_end(&mut last).unwrap();
        report.send(last).unwrap();
    });
    drop(Client::connect(&Arc::new(address)).unwrap());
    assert_eq!(reported.recv_timeout(Duration::from_secs(5)).unwrap(), b"\x01\0\0\0\x01");
}

/// Answers every command of a client, SELECT with `utf8mb4` and the collation that its login announced, or `utf8mb4_unicode_ci` after SET
/// NAMES. Reports each connection's announced collation and its commands when it ends.
fn obliging(mut stream: TcpStream, report: &Sender<(u8, Vec<String>)>) {
    let _ = stream.write_all(GREETING);
    let login = read_packet(&mut stream).unwrap();
    let _ = stream.write_all(OK);
    let (announced, mut commands) = (login[8], Vec::new());
    let mut collation = if announced == 224 { "utf8mb4_unicode_ci" } else { "utf8mb4_general_ci" };
    while let Some(packet) = read_packet(&mut stream).filter(|packet| packet[0] == 3) {
        let command = String::from_utf8_lossy(&packet[1..]).into_owned();
        if command.starts_with("SET NAMES") {
            collation = "utf8mb4_unicode_ci";
        }
        let mut names = b"\x01\0\0\x01\x02\x17\0\0\x02\x03def\0\0\0\x01a\0\x0c\x2d\0\x01\0\0\0\xfd\0\0\0\0\0\x17\0\0\x03\x03def\0\0\0\x01b\0\x0c\x2d\0\x01\0\0\0\xfd\0\0\0\0\0".to_vec();
        names.extend([9 + collation.len() as u8, 0, 0, 4, 7]);
        names.extend(b"utf8mb4");
        names.push(collation.len() as u8);
        names.extend(collation.as_bytes());
        names.extend(b"\x07\0\0\x05\xfe\0\0\x02\0\0\0");
        let _ = stream.write_all(if command.starts_with("SELECT") { &names } else { OK_1 });
        commands.push(command);
    }
    let _ = report.send((announced, commands));
}

fn read_packet(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).ok()?;
    let mut payload = vec![0; usize::from(header[0])];
    stream.read_exact(&mut payload).ok()?;
    Some(payload)
}

#[test]
fn reconnects_do_not_repeat_known_session_setup() {
    let (report, connections) = channel();
    let address = server(move |stream| obliging(stream, &report));
    let mut client = Client::connect(&Arc::new(address)).unwrap();
    for _ in 0..3 {
        client.reconnect().unwrap();
        assert_eq!(client.charset(), ("utf8mb4", "utf8mb4_unicode_ci"));
    }
    drop(client);
    let ask =
        "SELECT @@character_set_connection, @@collation_connection, @@character_set_client, @@character_set_results";
    let seen: Vec<_> = connections.iter().take(4).collect();
    let seen: Vec<(u8, Vec<&str>)> =
        seen.iter().map(|(collation, commands)| (*collation, commands.iter().map(String::as_str).collect())).collect();
    // The first connection sets and queries the names. The second queries whether its login set them.
    assert_eq!(seen, [(45, vec!["SET NAMES utf8mb4", ask]), (224, vec![ask]), (224, vec![]), (224, vec![])]);
}

#[test]
fn a_non_ascii_user_runs_set_names_on_every_connection() {
    let (report, connections) = channel();
    let address = server(move |stream| obliging(stream, &report));
    // The server would decode this name in the announced character set.
    let mut client = Client::connect(&Arc::new(ServerAddress { user: "Gr\u{fc}n".into(), ..address })).unwrap();
    for _ in 0..2 {
        client.reconnect().unwrap();
    }
    drop(client);
    let sent: Vec<_> = connections.iter().take(3).map(|(collation, commands)| (collation, commands.len())).collect();
    assert_eq!(sent, [(45, 2), (45, 2), (45, 1)]);
}

#[test]
fn preferred_tls_that_fails_is_tried_once() {
    let sockets = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&sockets);
    let address = server(move |mut stream| {
        // The first greeting offers TLS, and its connection is closed in the handshake. So would be each later one that asked for TLS.
        if counted.fetch_add(1, Relaxed) == 0 {
            let mut greeting = GREETING.to_vec();
            let capabilities = 4 + 1 + b"8.0.99\0".len() + 4 + 9;
            greeting[capabilities + 1] |= 8;
            let _ = stream.write_all(&greeting);
            packet(&mut stream);
        } else {
            obliging(stream, &channel().0);
        }
    });
    let tls = TlsOptions { mode: TlsMode::Preferred, ..TlsOptions::default() };
    let mut client = Client::connect(&Arc::new(ServerAddress { tls, ..address })).unwrap();
    assert_eq!(sockets.load(Relaxed), 2);
    client.reconnect().unwrap();
    assert_eq!(sockets.load(Relaxed), 3);
}
