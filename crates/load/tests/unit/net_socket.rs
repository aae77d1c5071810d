//! Tests of `src/net/socket.rs`.

use super::*;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

#[test]
fn cut_wakes_a_blocked_reader() {
    let (mut here, _there) = UnixStream::pair().unwrap();
    let canceller = ConnectionCanceller::default();
    // SAFETY: it outlives the canceller's use.
    unsafe { canceller.attach(here.as_fd()) };
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || here.read(&mut [0; 1]).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(20));
        canceller.cut();
        assert_eq!(reader.join().unwrap(), 0, "end of file");
    });
}

#[test]
fn a_socket_attached_after_the_cut_is_dead() {
    let (mut here, _there) = UnixStream::pair().unwrap();
    let canceller = ConnectionCanceller::default();
    canceller.cut();
    // SAFETY: it outlives the canceller's use.
    unsafe { canceller.attach(here.as_fd()) };
    assert_eq!(here.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn dropping_a_detached_socket_closes_it() {
    let (here, mut there) = UnixStream::pair().unwrap();
    let canceller = ConnectionCanceller::default();
    // SAFETY: detached before it is closed.
    unsafe { canceller.attach(here.as_fd()) };
    canceller.detach(here.as_fd());
    drop(here);
    assert_eq!(there.read(&mut [0; 1]).unwrap(), 0);
    canceller.cut();
}

#[test]
fn an_address_that_does_not_answer_leaves_time_for_the_next() {
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let full = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    full.bind(&loopback.into()).unwrap();
    full.listen(0).unwrap();
    let silent = full.local_addr().unwrap().as_socket().unwrap();
    // The queue takes one or two connections. Later ones get no answer.
    let waiting: Vec<_> =
        (0..3).map(|_| std::net::TcpStream::connect_timeout(&silent, Duration::from_millis(50))).collect();
    assert!(waiting.iter().any(Result::is_err));
    let listener = std::net::TcpListener::bind(loopback).unwrap();
    let answers = listener.local_addr().unwrap();
    let connected = connect_any(&[silent, answers], Instant::now() + Duration::from_millis(800)).unwrap();
    assert_eq!(connected.peer_addr().unwrap().as_socket(), Some(answers));
}

#[test]
fn the_error_of_the_first_address_is_reported() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    let unreachable = "[2001:db8::1]:3306".parse().unwrap();
    let error = connect_any(&[closed, unreachable], Instant::now() + Duration::from_millis(400)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_hanging_resolver_times_out() {
    let begun = Instant::now();
    let (_hold, forever) = channel::<()>();
    let hanging = move || {
        let _ = forever.recv();
        Ok(())
    };
    let error = within(begun + Duration::from_millis(200), "not in time", hanging).unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::TimedOut, "not in time"));
    assert!(begun.elapsed() < Duration::from_secs(5), "it took {:?}", begun.elapsed());
}

#[test]
fn a_resolved_name_is_cached_until_connecting_fails() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let resolved = Mutex::default();
    let endpoint = Endpoint::Tcp { host: "localhost".into(), port };
    let connect = || connect_tcp(("localhost", port), &endpoint, Instant::now() + Duration::from_secs(10), &resolved);
    connect().unwrap();
    let first = lock(&resolved).clone().unwrap();
    connect().unwrap();
    assert!(Arc::ptr_eq(&first, lock(&resolved).as_ref().unwrap()));
    drop(listener);
    connect().unwrap_err();
    assert!(lock(&resolved).is_none());
}
