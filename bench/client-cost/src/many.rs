//! A thread for many connections: epoll says which have a reply, each of them is read and sent its next statement.

use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::connection::{Connection, Failure};
use crate::worker::{Totals, Worker};

/// Runs all workers for so long.
pub(crate) fn run(mut workers: Vec<Worker>, time: Duration) -> Result<Totals, Failure> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    for (index, worker) in workers.iter().enumerate() {
        epoll::add(&epoll, worker, EventData::new_u64(index as u64), EventFlags::IN)?;
    }
    let mut totals = Totals::new();
    let mut starts = vec![Instant::now(); workers.len()];
    let end = Instant::now() + time;
    for worker in &mut workers {
        worker.next(Connection::send)?;
        totals.queries += 1;
    }
    let mut running = workers.len();
    let mut ready = Vec::with_capacity(workers.len().max(1));
    while running > 0 {
        ready.clear();
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut ready), None) {
            // Stopped and continued, as the benchmark does.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &ready {
            let index = event.data.u64() as usize;
            let worker = &mut workers[index];
            match worker.receive() {
                Ok(true) => {}
                Ok(false) => continue,
                Err(failure) => {
                    totals.restarts += 1;
                    worker.restart(failure)?;
                }
            }
            if !worker.next(Connection::send)? {
                starts[index] = totals.event_done(starts[index]);
                if starts[index] >= end {
                    running -= 1;
                    continue;
                }
                worker.next(Connection::send)?;
            }
            totals.queries += 1;
        }
    }
    Ok(totals)
}
