//! One connection with its packets, and the place in its event.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use crate::Mode;
use crate::Options;
use crate::connection::{Connection, Failure};
use crate::latency::Latencies;
use crate::packet::Packet;
use crate::pairing;
use crate::random::Random;
use crate::workload::{self, Statement, Step};

/// What was done.
#[derive(Debug)]
pub(crate) struct Totals {
    pub(crate) events: u64,
    pub(crate) queries: u64,
    pub(crate) restarts: u64,
    pub(crate) latencies: Latencies,
}

impl Totals {
    pub(crate) fn new() -> Self {
        Self { events: 0, queries: 0, restarts: 0, latencies: Latencies::new() }
    }

    /// Counts an event that began at `start` and has just ended; returns when that was, which is when the next one begins.
    pub(crate) fn event_done(&mut self, start: Instant) -> Instant {
        let now = Instant::now();
        self.latencies.record((now - start).as_nanos() as u64);
        self.events += 1;
        now
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.events += other.events;
        self.queries += other.queries;
        self.restarts += other.restarts;
        self.latencies.merge(&other.latencies);
    }
}

/// The next statement of an event.
#[derive(Clone, Copy, Debug, Default)]
struct Next {
    step: usize,
    table: usize,
    repeated: u32,
    statement: usize,
}

#[derive(Debug)]
pub(crate) struct Worker {
    connection: Connection,
    steps: Vec<Step<Packet>>,
    next: Next,
    row_id: u64,
    random: Random,
    table_size: u64,
}

impl Worker {
    /// Connects and prepares; with a CPU both threads of the connection are pinned to it.
    pub(crate) fn set_up(options: &Options, number: u64, cpu: Option<usize>) -> Result<Self, Failure> {
        let mut random = Random::new(options.seed.wrapping_mul(1_000_003).wrapping_add(number));
        let steps = workload::steps(&options.workload, options.tables, &mut random)
            .ok_or(Failure::Protocol("unknown workload: the bare loop has the oltp_* workloads but oltp_delete"))?;
        let mut connection = match (&options.socket, options.port) {
            (Some(path), _) => Connection::unix(path, options.wait)?,
            (None, port) => Connection::tcp(&options.host, port.unwrap_or(3306), options.wait)?,
        };
        connection.log_in(&options.user, &options.database)?;
        if let Some(cpu) = cpu {
            pairing::pair(&mut connection, cpu)?;
        }
        let mut encoded = Vec::with_capacity(steps.len());
        for Step { by_table, repeat } in steps {
            let mut packets = Vec::with_capacity(by_table.len());
            for statements in by_table {
                let group = statements.iter().map(|statement| encode(&mut connection, statement, options, &mut random));
                packets.push(group.collect::<Result<Vec<_>, _>>()?);
            }
            encoded.push(Step { by_table: packets, repeat });
        }
        let table_size = options.table_size;
        Ok(Self { connection, steps: encoded, next: Next::default(), row_id: 1, random, table_size })
    }

    /// Fills in the next packet of the event and hands it to `give` with the connection; false when the event is over.
    pub(crate) fn next(
        &mut self,
        give: impl FnOnce(&mut Connection, &[u8]) -> Result<(), Failure>,
    ) -> Result<bool, Failure> {
        let Some(step) = self.steps.get_mut(self.next.step) else {
            self.next = Next::default();
            return Ok(false);
        };
        if self.next.repeated == 0 && self.next.statement == 0 {
            self.next.table = self.random.below(step.by_table.len() as u64) as usize;
        }
        let group = &mut step.by_table[self.next.table];
        let statements = group.len();
        let packet = &mut group[self.next.statement];
        packet.fill(&mut self.random, self.table_size, &mut self.row_id);
        give(&mut self.connection, &packet.bytes)?;
        self.next.statement += 1;
        if self.next.statement == statements {
            (self.next.statement, self.next.repeated) = (0, self.next.repeated + 1);
        }
        if self.next.repeated == step.repeat {
            (self.next.repeated, self.next.step) = (0, self.next.step + 1);
        }
        Ok(true)
    }

    /// As [`Connection::room`].
    pub(crate) fn room(&mut self) -> Result<&mut [u8], Failure> {
        self.connection.room()
    }

    /// As [`Connection::received`].
    pub(crate) fn received(&mut self, count: usize) -> Result<bool, Failure> {
        self.connection.received(count)
    }

    /// Reads once; true when the reply is whole.
    pub(crate) fn receive(&mut self) -> Result<bool, Failure> {
        self.connection.receive()
    }

    /// Goes back to the event's start after an error that sysbench too runs an event again for: deadlock, changed record, lock wait.
    ///
    /// # Errors
    /// Any other failure, handed back.
    pub(crate) fn restart(&mut self, failure: Failure) -> Result<(), Failure> {
        let Failure::Sql { code: 1213 | 1020 | 1205, .. } = failure else {
            return Err(failure);
        };
        self.next = Next::default();
        self.connection.round_trip(&Packet::text(&Statement::text("ROLLBACK", &[])).bytes)
    }
}

impl AsFd for Worker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
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
        // The parameters' types are sent once; later packets leave them out.
        let mut first = Packet::execute(statement, id, true);
        first.fill(random, options.table_size, &mut 1);
        connection.round_trip(&first.bytes)?;
        return Ok(Packet::execute(statement, id, false));
    }
    // A write is not executed for its types' sake.
    Ok(Packet::execute(statement, id, true))
}
