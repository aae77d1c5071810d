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
fn a_detached_socket_is_closed_for_the_peer() {
    let (here, mut there) = UnixStream::pair().unwrap();
    let canceller = ConnectionCanceller::default();
    // SAFETY: detached before it is closed.
    unsafe { canceller.attach(here.as_fd()) };
    canceller.detach(here.as_fd());
    drop(here);
    assert_eq!(there.read(&mut [0; 1]).unwrap(), 0);
    canceller.cut();
}
