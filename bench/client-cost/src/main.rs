//! bakeoff-bareloop: the least that a load generator can do, as the floor that real ones are measured against.
//!
//! One thread and one connection each; packets are encoded beforehand and only row numbers are put in; write, wait, read, walk
//! over the packets to the reply's end. One clock read an event. No script, no types, no rows. It takes its statements from
//! sysbench's workloads in meaning and order, so that the server has the same work to do.

mod connection;
mod latency;
mod packet;
mod random;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use serde_json::json;

use crate::connection::{Connection, Failure, Wait};
use crate::latency::Latencies;
use crate::packet::Packet;
use crate::random::Random;
use crate::workload::{Statement, Step};

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
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Seconds.
    #[arg(long, default_value_t = 10.0)]
    time: f64,
    #[arg(long, value_enum, default_value_t = Mode::Prepared)]
    mode: Mode,
    #[arg(long, value_enum, default_value_t = Wait::Poll)]
    wait: Wait,
    #[arg(long, default_value_t = 1)]
    seed: u64,
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

/// What a thread did.
#[derive(Debug)]
struct Tally {
    events: u64,
    queries: u64,
    restarts: u64,
    latencies: Latencies,
}

fn run(options: &Options) -> Result<(), Failure> {
    let ready = Arc::new(Barrier::new(options.threads));
    let handles: Vec<_> = (0..options.threads)
        .map(|thread| {
            let (options, ready) = (options.clone(), Arc::clone(&ready));
            std::thread::spawn(move || {
                // Nobody may be left waiting at the barrier: a failure passes it too.
                let worker = Worker::set_up(&options, thread as u64);
                ready.wait();
                worker?.run(Duration::from_secs_f64(options.time))
            })
        })
        .collect();
    let mut total = Tally {
        events: 0,
        queries: 0,
        restarts: 0,
        latencies: Latencies::new(),
    };
    for handle in handles {
        let tally = handle
            .join()
            .map_err(|_| Failure::Protocol("a thread panicked"))??;
        total.events += tally.events;
        total.queries += tally.queries;
        total.restarts += tally.restarts;
        total.latencies.merge(&tally.latencies);
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

/// One connection with its packets.
#[derive(Debug)]
struct Worker {
    connection: Connection,
    steps: Vec<Step<Packet>>,
    random: Random,
    table_size: u64,
}

impl Worker {
    fn set_up(options: &Options, thread: u64) -> Result<Self, Failure> {
        let mut random = Random::new(options.seed.wrapping_mul(1_000_003).wrapping_add(thread));
        let steps = workload::steps(&options.workload, options.tables, &mut random).ok_or(
            Failure::Protocol(
                "unknown workload: the bare loop has the oltp_* workloads but oltp_delete",
            ),
        )?;
        let mut connection = match (&options.socket, options.port) {
            (Some(path), _) => Connection::unix(path, options.wait)?,
            (None, port) => Connection::tcp(&options.host, port.unwrap_or(3306), options.wait)?,
        };
        connection.log_in(&options.user, &options.database)?;
        let mut encoded = Vec::with_capacity(steps.len());
        for Step { by_table, repeat } in steps {
            let mut packets = Vec::with_capacity(by_table.len());
            for statements in by_table {
                let group = statements
                    .iter()
                    .map(|statement| encode(&mut connection, statement, options, &mut random));
                packets.push(group.collect::<Result<Vec<_>, _>>()?);
            }
            encoded.push(Step {
                by_table: packets,
                repeat,
            });
        }
        Ok(Self {
            connection,
            steps: encoded,
            random,
            table_size: options.table_size,
        })
    }

    fn run(mut self, time: Duration) -> Result<Tally, Failure> {
        let mut tally = Tally {
            events: 0,
            queries: 0,
            restarts: 0,
            latencies: Latencies::new(),
        };
        let mut now = Instant::now();
        let end = now + time;
        while now < end {
            match self.event(&mut tally.queries) {
                Ok(()) => {
                    let after = Instant::now();
                    tally.latencies.record((after - now).as_nanos() as u64);
                    tally.events += 1;
                    now = after;
                }
                // Deadlock, changed record, lock wait: the event is run again within the same latency, as sysbench does.
                Err(Failure::Sql {
                    code: 1213 | 1020 | 1205,
                    ..
                }) => {
                    tally.restarts += 1;
                    self.connection
                        .round_trip(&Packet::text(&Statement::text("ROLLBACK", &[])).bytes)?;
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(tally)
    }

    fn event(&mut self, queries: &mut u64) -> Result<(), Failure> {
        let mut row_id = 1;
        for step in &mut self.steps {
            let table = self.random.below(step.by_table.len() as u64) as usize;
            for _ in 0..step.repeat {
                for packet in &mut step.by_table[table] {
                    packet.fill(&mut self.random, self.table_size, &mut row_id);
                    *queries += 1;
                    self.connection.round_trip(&packet.bytes)?;
                }
            }
        }
        Ok(())
    }
}

fn encode(
    connection: &mut Connection,
    statement: &Statement,
    options: &Options,
    random: &mut Random,
) -> Result<Packet, Failure> {
    if options.mode == Mode::Text || statement.always_text {
        return Ok(Packet::text(statement));
    }
    let id = connection.prepare(&statement.sql)?;
    if statement.sql.starts_with("SELECT") {
        // The parameters' types are told once; later packets leave them out.
        let mut first = Packet::execute(statement, id, true);
        first.fill(random, options.table_size, &mut 1);
        connection.round_trip(&first.bytes)?;
        return Ok(Packet::execute(statement, id, false));
    }
    // A write is not executed for its types' sake.
    Ok(Packet::execute(statement, id, true))
}
