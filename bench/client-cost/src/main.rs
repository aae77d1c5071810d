//! bakeoff-bareloop: the least that a load generator can do, as the floor that real ones are measured against.
//!
//! One thread and one connection each; packets are encoded beforehand and only row numbers are put in; write, wait, read, walk
//! over the packets to the reply's end. One clock read an event. No script, no types, no rows. It takes its statements from
//! sysbench's workloads in meaning and order, so that the server has the same work to do.

mod connection;
mod latency;
mod many;
mod one;
mod packet;
mod pairing;
mod random;
mod uring;
mod worker;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use rustix::thread::CpuSet;
use serde_json::json;

use crate::connection::{Failure, Wait};
use crate::worker::{Totals, Worker};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// COM_STMT_EXECUTE.
    Prepared,
    /// COM_QUERY.
    Text,
}

/// Loads a MySQL server at the least cost that a client can have; prints one JSON line at the end.
#[derive(Clone, Debug, Parser)]
#[command(name = "bakeoff-bareloop", version)]
struct Options {
    /// Unix socket of the server.
    #[arg(long, required_unless_present = "port")]
    socket: Option<PathBuf>,
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// TCP port of the server.
    #[arg(long, conflicts_with = "socket")]
    port: Option<u16>,
    /// A user without a password.
    #[arg(long, default_value = "root")]
    user: String,
    #[arg(long, default_value = "sbtest")]
    database: String,
    #[arg(long, default_value = "oltp_point_select")]
    workload: String,
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    tables: u32,
    /// Rows of each table.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=9_000_000_000))]
    table_size: u64,
    /// Connections; with a thread each, but for --wait=epoll and uring-many.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Seconds.
    #[arg(long, default_value_t = 10.0)]
    time: f64,
    #[arg(long, value_enum, default_value_t = Mode::Prepared)]
    mode: Mode,
    #[arg(long, value_enum, default_value_t = Wait::Poll)]
    wait: Wait,
    /// With --wait=epoll and uring-many: threads that share the connections.
    #[arg(long, default_value_t = 4)]
    loops: usize,
    /// CPUs to pair connections on: the n-th thread and the server's threads of its connections run on the n-th of these, modulo
    /// their number. None: left free.
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = cpu_number)]
    cpus: Vec<usize>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A CPU that a mask can hold.
fn cpu_number(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(cpu) if cpu < CpuSet::MAX_CPU => Ok(cpu),
        _ => Err(format!("{text} is no CPU")),
    }
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("bakeoff-bareloop: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Failure> {
    let threads = if options.wait.shares_threads() { options.threads.min(options.loops) } else { options.threads };
    let ready = Arc::new(Barrier::new(threads));
    let handles: Vec<_> = (0..threads)
        .map(|thread| {
            let (options, ready) = (options.clone(), Arc::clone(&ready));
            std::thread::spawn(move || {
                if options.wait == Wait::PollBatch {
                    schedule_as_batch();
                }
                let cpu = options.cpus.iter().cycle().nth(thread).copied();
                // Connections are dealt out in turn; with a thread each there is one.
                let own = (thread..options.threads).step_by(threads);
                let workers =
                    own.map(|number| Worker::set_up(&options, number as u64, cpu)).collect::<Result<Vec<_>, _>>();
                // Nobody may be left waiting at the barrier: a failure passes it too.
                ready.wait();
                let (workers, time) = (workers?, Duration::from_secs_f64(options.time));
                match options.wait {
                    Wait::Epoll => many::run(workers, time),
                    Wait::Uring | Wait::UringMany => uring::run(workers, time),
                    _ => one::run(workers, time),
                }
            })
        })
        .collect();
    let mut total = Totals::new();
    for handle in handles {
        total.merge(&handle.join().map_err(|_| Failure::Protocol("a thread panicked"))??);
    }
    let quantile = |q| total.latencies.quantile_ns(q);
    println!(
        "{}",
        json!({
            "events": total.events, "queries": total.queries, "restarts": total.restarts, "seconds": options.time,
            "quantiles_ns": {"0.5": quantile(0.5), "0.95": quantile(0.95), "0.99": quantile(0.99)},
            "max_ns": total.latencies.max_ns(),
        })
    );
    Ok(())
}

/// This thread's policy from now on; one that cannot be had shows in the figures as no difference.
fn schedule_as_batch() {
    let no_priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: reads the structure, changes this thread's policy.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const no_priority) };
}
