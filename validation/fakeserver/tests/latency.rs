//! Latencies as a client measures them. Machines are slow at times, so upper ends are wide and medians are taken; these
//! tests run beside no other.

#![allow(clippy::unwrap_used)]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[path = "server/client.rs"]
mod client;

use client::{Client, FakeServer};

/// Held while a test measures.
fn alone() -> MutexGuard<'static, ()> {
    static MEASURING: Mutex<()> = Mutex::new(());
    MEASURING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn timed_ms(client: &mut Client) -> f64 {
    let start = Instant::now();
    client.query("SELECT c FROM sbtest1 WHERE id=1").rows();
    start.elapsed().as_secs_f64() * 1e3
}

fn median_ms(client: &mut Client, count: usize) -> f64 {
    median((0..count).map(|_| timed_ms(client)).collect())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[test]
fn constant_latency_is_kept() {
    let _alone = alone();
    let server = FakeServer::start(&["--latency", "constant:2ms"]);
    let median = median_ms(&mut server.connect(), 51);
    assert!((2.0..4.0).contains(&median), "{median} ms");
}

#[test]
fn waits_are_finer_than_a_millisecond() {
    let _alone = alone();
    let server = FakeServer::start(&["--latency", "constant:300us"]);
    let median = median_ms(&mut server.connect(), 201);
    assert!((0.3..0.9).contains(&median), "{median} ms");
}

#[test]
fn an_injected_factor_shows_as_its_ratio() {
    let _alone = alone();
    let plain = FakeServer::start(&["--latency", "constant:2ms"]);
    let slowed = FakeServer::start(&["--latency", "constant:2ms", "--slow-factor", "1.5"]);
    let mut clients = [slowed.connect(), plain.connect()];
    // Alternate, so that a busy machine slows both.
    let mut times: [Vec<f64>; 2] = Default::default();
    for _ in 0..51 {
        for (client, own) in clients.iter_mut().zip(&mut times) {
            own.push(timed_ms(client));
        }
    }
    let [slowed_ms, plain_ms] = times.map(median);
    let ratio = slowed_ms / plain_ms;
    assert!((1.35..1.65).contains(&ratio), "{ratio}");
}

#[test]
fn waits_overlap_on_one_thread() {
    let _alone = alone();
    let server = FakeServer::start(&["--threads", "1", "--latency", "constant:20ms"]);
    let mut clients: Vec<Client> = (0..8).map(|_| server.connect()).collect();
    let start = Instant::now();
    for client in &mut clients {
        client.send(b"\x03SELECT c FROM sbtest1 WHERE id=1");
    }
    for client in &mut clients {
        client.answer().rows();
    }
    let waiting = start.elapsed().as_secs_f64() * 1e3;
    assert!((20.0..100.0).contains(&waiting), "{waiting} ms");
}

#[test]
fn a_stall_delays_the_queries_it_hits() {
    let _alone = alone();
    let server = FakeServer::start(&["--latency", "constant:1ms", "--stall", "100ms/500ms"]);
    let mut client = server.connect();
    let start = Instant::now();
    let mut longest: f64 = 0.0;
    while start.elapsed() < Duration::from_millis(1200) {
        longest = longest.max(timed_ms(&mut client));
    }
    assert!((90.0..300.0).contains(&longest), "{longest} ms");
}

#[test]
fn a_seed_reproduces_its_instance_factor() {
    let _alone = alone();
    let factor = |seed: &str| {
        let ready = FakeServer::start(&["--instance-sd", "0.05", "--seed", seed]).ready.clone();
        ready.split("\"instance_factor\":").nth(1).unwrap().split(',').next().unwrap().to_owned()
    };
    assert_eq!(factor("7"), factor("7"));
    assert_ne!(factor("7"), factor("8"));
}
