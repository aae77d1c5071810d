//! io_uring: the writes and reads of all connections of a thread that are due, in one system call.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, squeue, types};

use crate::connection::Failure;
use crate::worker::{Totals, Worker};

/// Marks what becomes of a write, which is reported only when it failed.
const WRITE: u64 = u64::MAX;
/// IORING_RECVSEND_POLL_FIRST: the reply to a statement that is just being sent is not there yet.
const POLL_FIRST: u16 = 1;

/// Runs all workers for so long.
pub(crate) fn run(mut workers: Vec<Worker>, time: Duration) -> Result<Totals, Failure> {
    let entries = (2 * workers.len()).next_power_of_two().max(8) as u32;
    let mut ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries)?;
    let files: Vec<_> = workers.iter().map(|worker| worker.as_fd().as_raw_fd()).collect();
    ring.submitter().register_files(&files)?;
    let mut totals = Totals::new();
    let mut starts = vec![Instant::now(); workers.len()];
    let end = Instant::now() + time;
    for (index, worker) in workers.iter_mut().enumerate() {
        submit_next(&mut ring, worker, index)?;
        totals.queries += 1;
    }
    let mut running = workers.len();
    let mut done = Vec::with_capacity(entries as usize);
    while running > 0 {
        match ring.submit_and_wait(1) {
            Ok(_) => {}
            // Stopped and continued, as the benchmark does.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        done.clear();
        done.extend(ring.completion().map(|entry| (entry.user_data(), entry.result())));
        for &(data, result) in &done {
            let count = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))?;
            if data == WRITE {
                continue;
            }
            let index = data as usize;
            let worker = &mut workers[index];
            match worker.received(count) {
                Ok(true) => {}
                Ok(false) => {
                    submit_read(&mut ring, worker, index)?;
                    continue;
                }
                Err(failure) => {
                    totals.restarts += 1;
                    worker.restart(failure)?;
                }
            }
            if !submit_next(&mut ring, worker, index)? {
                starts[index] = totals.event_done(starts[index]);
                if starts[index] >= end {
                    running -= 1;
                    continue;
                }
                submit_next(&mut ring, worker, index)?;
            }
            totals.queries += 1;
        }
    }
    Ok(totals)
}

/// Puts the worker's next statement and the reading of its reply into the queue; false when its event is over.
fn submit_next(ring: &mut IoUring, worker: &mut Worker, index: usize) -> Result<bool, Failure> {
    let mut write = None;
    let more = worker.next(|connection, packet| {
        connection.expect_reply();
        write = Some(
            opcode::Send::new(types::Fixed(index as u32), packet.as_ptr(), packet.len() as u32)
                .build()
                .flags(squeue::Flags::SKIP_SUCCESS)
                .user_data(WRITE),
        );
        Ok(())
    })?;
    if let Some(write) = write {
        // SAFETY: the packet lives in its worker and is not touched before its reply has come.
        push(ring, unsafe { Entry::new(write) })?;
        submit_read(ring, worker, index)?;
    }
    Ok(more)
}

fn submit_read(ring: &mut IoUring, worker: &mut Worker, index: usize) -> Result<(), Failure> {
    let room = worker.room()?;
    let read = opcode::Recv::new(types::Fixed(index as u32), room.as_mut_ptr(), room.len() as u32)
        .ioprio(POLL_FIRST)
        .build()
        .user_data(index as u64);
    // SAFETY: the buffer lives in its worker, which does nothing until the read is done.
    push(ring, unsafe { Entry::new(read) })
}

/// A queue entry whose memory is known to live until it is done.
struct Entry(squeue::Entry);

impl Entry {
    /// # Safety
    /// What the entry points to stays where it is, untouched, until it is done.
    unsafe fn new(entry: squeue::Entry) -> Self {
        Self(entry)
    }
}

fn push(ring: &mut IoUring, entry: Entry) -> Result<(), Failure> {
    // SAFETY: as `Entry` promises.
    unsafe { ring.submission().push(&entry.0) }
        .map_err(|_| Failure::Protocol("the ring has room for a write and a read of each connection"))
}
