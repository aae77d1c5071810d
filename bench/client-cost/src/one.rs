//! A thread for each connection: send, wait, read.

use std::time::{Duration, Instant};

use crate::connection::{Connection, Failure};
use crate::worker::{Totals, Worker};

/// Runs each worker for so long; there is one in a thread.
pub(crate) fn run(workers: Vec<Worker>, time: Duration) -> Result<Totals, Failure> {
    let mut totals = Totals::new();
    for mut worker in workers {
        let mut now = Instant::now();
        let end = now + time;
        while now < end {
            match worker.next(Connection::round_trip) {
                Ok(true) => totals.queries += 1,
                Ok(false) => now = totals.event_done(now),
                Err(failure) => {
                    totals.restarts += 1;
                    worker.restart(failure)?;
                }
            }
        }
    }
    Ok(totals)
}
