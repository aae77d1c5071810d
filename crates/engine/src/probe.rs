//! `probe`: the round trip and the throughput of one TCP connection to the servers' host. The other end reads the
//! token, echoes every `p`, and after a `b` sends until its time is up.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use bakeoff_load::failure::{Code, Failure};

use crate::request::Probe;

const CONNECT_LIMIT: Duration = Duration::from_secs(10);
const SILENCE_LIMIT: Duration = Duration::from_secs(10);
const ROUND_TRIPS: usize = 300;
const ROUND_TRIPS_LIMIT: Duration = Duration::from_secs(3);
const CHUNK_BYTES: usize = 1 << 18;

/// Returns the round trip [ns] and the throughput [bytes/s].
pub fn probe(request: &Probe) -> Result<(u64, f64), Failure> {
    let place = format!("{} port {}", request.host, request.port);
    let failed = |what: &str| {
        let what = format!("{place} {what}");
        move |error: io::Error| Failure::new(Code::ConnectFailed, format!("{what}: {error}"))
    };
    let mut peer = connect(request).map_err(failed("cannot be reached"))?;
    let measured = peer.write_all(request.token.as_bytes()).and_then(|()| measure(&mut peer));
    measured.map_err(failed("does not answer the probe"))
}

fn connect(request: &Probe) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (request.host.as_str(), request.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_LIMIT) {
            Ok(peer) => {
                peer.set_nodelay(true)?;
                peer.set_read_timeout(Some(SILENCE_LIMIT))?;
                peer.set_write_timeout(Some(SILENCE_LIMIT))?;
                return Ok(peer);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn measure(peer: &mut TcpStream) -> io::Result<(u64, f64)> {
    let mut round_trips = Vec::with_capacity(ROUND_TRIPS);
    let begin = Instant::now();
    while round_trips.len() < ROUND_TRIPS && (round_trips.is_empty() || begin.elapsed() < ROUND_TRIPS_LIMIT) {
        let sent = Instant::now();
        peer.write_all(b"p")?;
        peer.read_exact(&mut [0])?;
        round_trips.push(sent.elapsed());
    }
    round_trips.sort_unstable();
    let rtt_ns = round_trips[round_trips.len() / 2].as_nanos() as u64;
    peer.write_all(b"b")?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let (mut bytes, mut first, mut last) = (0_u64, None, Instant::now());
    loop {
        let size = peer.read(&mut chunk)?;
        if size == 0 {
            break;
        }
        last = Instant::now();
        first.get_or_insert(last);
        bytes += size as u64;
    }
    let seconds = first.map_or(0.0, |first| (last - first).as_secs_f64());
    #[expect(clippy::cast_precision_loss, reason = "seconds of one connection stay far below 2^53 bytes")]
    Ok((rtt_ns, bytes as f64 / seconds.max(1e-9)))
}
