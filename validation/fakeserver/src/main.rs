//! bakeoff-fakeserver: a MySQL-speaking server whose latency law is known, so that a measurement can be compared with the truth.
//!
//! It owns its half of the protocol and shares no code with bakeoff's client. Threads: one that waits for signals, one that
//! accepts, and `--threads` event loops, each with its own connections; they share counters only.

mod event_loop;
mod fault;
mod handshake;
mod law;
mod options;
mod packet;
mod prepared;
mod process;
mod resultset;
mod scanner;
mod server;
mod session;
mod settings;
mod sql;

use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use serde_json::json;

use crate::event_loop::{EventLoop, Inbox, monotonic_ns};
use crate::options::Options;
use crate::server::{Counters, Server, count_one};

/// Small, because connections share the stacks of a few threads.
const STACK_BYTES: usize = 512 << 10;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bakeoff-fakeserver: {error}");
            ExitCode::from(3)
        }
    }
}

fn run(options: &Options) -> io::Result<()> {
    let signals = process::block_ending_signals()?;
    if !options.detached {
        process::end_with_parent()?;
    }
    process::raise_file_limit();

    let started_ns = monotonic_ns();
    let server = Arc::new(Server { config: options.config(started_ns), counters: Counters::default() });
    let origin_ns = options.origin_ns.unwrap_or(started_ns);
    let mut inboxes = Vec::new();
    for index in 0..options.threads {
        let inbox = Arc::new(Inbox::new()?);
        inboxes.push(Arc::clone(&inbox));
        let server = Arc::clone(&server);
        spawn(&format!("serve-{index}"), move || {
            process::sleep_precisely();
            match EventLoop::new(server, inbox, origin_ns) {
                Ok(serving) => serving.run(),
                Err(error) => error,
            }
        })?;
    }
    let (listener, accepting) = (listen_at(&options.socket)?, Arc::clone(&server));
    spawn("accept", move || accept_forever(&listener, &accepting, &inboxes))?;

    print_line(&json!({
        "type": "ready", "socket": options.socket, "pid": std::process::id(), "seed": server.config.seed,
        "instance_factor": server.config.law.instance_factor, "origin_ns": origin_ns,
    }))?;
    signals.wait();
    // Best effort: the path may be gone with its folder.
    let _ = std::fs::remove_file(&options.socket);
    let counters: serde_json::Map<_, _> =
        server.counters.snapshot().into_iter().map(|(name, count)| (name.to_ascii_lowercase(), json!(count))).collect();
    print_line(&json!({ "type": "ended", "counters": counters }))
}

fn print_line(value: &serde_json::Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{value}").and_then(|()| out.flush()) {
        // The parent that read it has ended.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

fn describe(error: io::Error, what: String, hint: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}. {hint}"))
}

/// Listens at the path. Removes the socket of a dead server, but not a live one's or another file.
fn listen_at(path: &Path) -> io::Result<UnixListener> {
    let what = format!("cannot listen at {}", path.display());
    let in_use = |hint| Err(describe(io::ErrorKind::AddrInUse.into(), what.clone(), hint));
    if UnixStream::connect(path).is_ok() {
        return in_use("A server is there already; give another --socket.");
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path)?,
        Ok(_) => return in_use("There is a file that is not a socket; give another --socket."),
        Err(_) => {}
    }
    UnixListener::bind(path)
        .map_err(|error| describe(error, what, "Is the folder there, and the path below 108 bytes?"))
}

fn accept_forever(listener: &UnixListener, server: &Server, inboxes: &[Arc<Inbox>]) -> io::Error {
    loop {
        match listener.accept().and_then(|(stream, _)| stream.set_nonblocking(true).map(|()| stream)) {
            Ok(stream) => {
                let number = count_one(&server.counters.connections);
                if let Err(error) = inboxes[number as usize % inboxes.len()].push(stream.into(), number as u32) {
                    return error;
                }
            }
            // Out of files: the client waits in the backlog until others leave.
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
        }
    }
}

/// Starts a thread that ends only with an error, which ends the process.
fn spawn(name: &str, body: impl FnOnce() -> io::Error + Send + 'static) -> io::Result<()> {
    let shown = name.to_owned();
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(move || {
        let error = body();
        eprintln!("bakeoff-fakeserver: thread {shown}: {error}");
        std::process::exit(70);
    })?;
    Ok(())
}
