//! Stops the servers of resting arms, and makes sure that none stays stopped: a table lists every stopped process from
//! before SIGSTOP until after SIGCONT.

use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::change;

const PLACES: usize = 256;
const THAW_LIMIT: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_micros(100);

static FROZEN: [AtomicI32; PLACES] = [const { AtomicI32::new(0) }; PLACES];

#[derive(Debug, Default)]
pub struct Freezer {
    frozen: Vec<i32>,
}

impl Freezer {
    pub fn freeze(&mut self, pid: i32) -> Result<(), String> {
        if self.frozen.contains(&pid) {
            return Ok(());
        }
        let place = FROZEN
            .iter()
            .find(|place| place.compare_exchange(0, pid, SeqCst, SeqCst).is_ok())
            .ok_or_else(|| format!("cannot freeze more than {PLACES} servers at a time"))?;
        let stopped = change(|| signal(pid, Signal::STOP));
        if let Some(Err(reason)) = stopped {
            place.store(0, SeqCst);
            return Err(format!("process {pid} cannot be stopped: {reason}"));
        }
        self.frozen.push(pid);
        if stopped.is_some() {
            wait_for(pid, |stopped| stopped);
        }
        Ok(())
    }

    pub fn thaw(&mut self, pid: i32) {
        let Some(index) = self.frozen.iter().position(|&frozen| frozen == pid) else { return };
        self.frozen.swap_remove(index);
        // A dead server cannot be thawed. The arm's next query fails.
        let _ = signal(pid, Signal::CONT);
        for place in &FROZEN {
            if place.compare_exchange(pid, 0, SeqCst, SeqCst).is_ok() {
                break;
            }
        }
        wait_for(pid, |stopped| !stopped);
    }

    pub fn thaw_all(&mut self) {
        while let Some(&pid) = self.frozen.last() {
            self.thaw(pid);
        }
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.thaw_all();
    }
}

/// Thaws every process that this program stopped. Safe in a signal handler: only atomics and `kill`.
pub(crate) fn thaw_everything() {
    for place in &FROZEN {
        let pid = place.load(SeqCst);
        if pid > 0 {
            let _ = signal(pid, Signal::CONT);
        }
    }
}

fn signal(pid: i32, signal: Signal) -> rustix::io::Result<()> {
    let pid = Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH)?;
    kill_process(pid, signal)
}

fn wait_for(pid: i32, wanted: impl Fn(bool) -> bool) {
    let begun = Instant::now();
    while is_stopped(pid).is_some_and(|stopped| !wanted(stopped)) && begun.elapsed() < THAW_LIMIT {
        std::thread::sleep(POLL);
    }
}

fn is_stopped(pid: i32) -> Option<bool> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name is in parentheses and may contain spaces and parentheses.
    let state = stat.rsplit(')').next()?.trim_start().chars().next()?;
    Some(state == 'T')
}

#[cfg(test)]
#[path = "../../tests/unit/freeze.rs"]
mod tests;
