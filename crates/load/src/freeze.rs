//! Stopping the servers of resting arms, and making sure that none stays stopped.
//!
//! Every stopped process is in one table of the whole program, written before SIGSTOP and cleared after SIGCONT. So whatever ends the
//! engine short of SIGKILL (a signal, an abort, a crash in a script's C code) thaws them: the signal handlers only read that table.
//! A panic unwinds through the [`Freezer`], which thaws when dropped.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Servers frozen at one time at most.
const PLACES: usize = 256;
/// How long a thawed process may take to show another state than stopped. It takes microseconds.
const THAW_LIMIT: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_micros(100);

/// How long the end of the program waits for a freeze that is under way in another thread. It takes microseconds.
const LAST_FREEZE_POLLS: u32 = 100;

/// Process ids that are stopped, or about to be; 0 is a free place.
static FROZEN: [AtomicI32; PLACES] = [const { AtomicI32::new(0) }; PLACES];
/// Threads that are about to stop a process.
static FREEZING: AtomicI32 = AtomicI32::new(0);
/// The program is ending: nothing is stopped any more.
static ENDING: AtomicBool = AtomicBool::new(false);

/// A server could not be stopped.
#[derive(Debug, thiserror::Error)]
pub enum FreezeError {
    /// No such process, or not ours to stop.
    #[error("process {pid} cannot be stopped: {reason}")]
    Refused {
        /// The server.
        pid: i32,
        /// The kernel's words.
        reason: rustix::io::Errno,
    },
    /// More servers than the table has places.
    #[error("more than {PLACES} servers cannot be frozen at a time")]
    TooMany,
}

/// Stops processes and thaws every one of them when dropped.
#[derive(Debug, Default)]
pub struct Freezer {
    frozen: Vec<i32>,
}

impl Freezer {
    /// Stops a process (SIGSTOP) and waits until it stands; one that is stopped by us already is left so.
    ///
    /// # Errors
    /// [`FreezeError`] when it cannot be signalled.
    pub fn freeze(&mut self, pid: i32) -> Result<(), FreezeError> {
        if self.frozen.contains(&pid) {
            return Ok(());
        }
        let place = FROZEN
            .iter()
            .find(|place| place.compare_exchange(0, pid, SeqCst, SeqCst).is_ok())
            .ok_or(FreezeError::TooMany)?;
        FREEZING.fetch_add(1, SeqCst);
        let stopped = if ENDING.load(SeqCst) { Ok(()) } else { signal(pid, Signal::STOP) };
        FREEZING.fetch_sub(1, SeqCst);
        if let Err(reason) = stopped {
            place.store(0, SeqCst);
            return Err(FreezeError::Refused { pid, reason });
        }
        self.frozen.push(pid);
        if !ENDING.load(SeqCst) {
            wait_for(pid, |stopped| stopped);
        }
        Ok(())
    }

    /// Thaws a process (SIGCONT) and waits until it is no longer stopped; one that we did not stop is left alone.
    pub fn thaw(&mut self, pid: i32) {
        let Some(index) = self.frozen.iter().position(|&frozen| frozen == pid) else {
            return;
        };
        self.frozen.swap_remove(index);
        // A server that died meanwhile cannot be thawed; the arm's next query fails for it.
        let _ = signal(pid, Signal::CONT);
        for place in &FROZEN {
            if place.compare_exchange(pid, 0, SeqCst, SeqCst).is_ok() {
                break;
            }
        }
        wait_for(pid, |stopped| !stopped);
    }

    /// Thaws everything that this freezer stopped.
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

/// Thaws every process that any part of this program stopped, for good: to be followed by the program's end.
///
/// Safe in a signal handler: atomics, `kill` and `nanosleep` only.
pub fn thaw_for_good() {
    ENDING.store(true, SeqCst);
    // Another thread may have looked at ENDING just before. When it is this very thread that a signal interrupted, it will not go on.
    for _ in 0..LAST_FREEZE_POLLS {
        if FREEZING.load(SeqCst) == 0 {
            break;
        }
        std::thread::sleep(POLL);
    }
    for place in &FROZEN {
        let pid = place.load(SeqCst);
        if pid > 0 {
            let _ = signal(pid, Signal::CONT);
        }
    }
}

/// Makes sure that signals which end the program thaw the servers first.
///
/// SIGTERM, SIGINT, SIGHUP and SIGQUIT then end it with status 128 + signal; SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT have
/// their usual end. For the binary: call once, before any thread is made.
pub fn thaw_when_ended() {
    for number in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        handle(number, end_by_signal, 0);
    }
    for number in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT] {
        // The default action is restored first, so that the signal, raised again, ends the program as usual.
        handle(number, thaw_by_signal, libc::SA_RESETHAND);
    }
}

fn handle(number: i32, handler: extern "C" fn(i32), flags: i32) {
    // SAFETY: the structure is valid when zeroed; the handlers make only async-signal-safe calls.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigaction(number, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn end_by_signal(number: i32) {
    thaw_for_good();
    // SAFETY: `_exit` is async-signal-safe and does not return.
    unsafe { libc::_exit(128 + number) }
}

extern "C" fn thaw_by_signal(number: i32) {
    thaw_for_good();
    // Blocked until this handler returns, then it meets the default action: also when another process sent it.
    // SAFETY: `raise` is async-signal-safe.
    unsafe { libc::raise(number) };
}

fn signal(pid: i32, signal: Signal) -> rustix::io::Result<()> {
    let pid = Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH)?;
    kill_process(pid, signal)
}

/// Polls the process state until `wanted(is stopped)`, the process is gone, or the limit has passed.
fn wait_for(pid: i32, wanted: impl Fn(bool) -> bool) {
    let begun = Instant::now();
    while is_stopped(pid).is_some_and(|stopped| !wanted(stopped)) && begun.elapsed() < THAW_LIMIT {
        std::thread::sleep(POLL);
    }
}

/// Is the process stopped? `None` when there is no such process.
fn is_stopped(pid: i32) -> Option<bool> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name is in parentheses and may hold spaces and parentheses itself.
    let state = stat.rsplit(')').next()?.trim_start().chars().next()?;
    Some(state == 'T')
}

#[cfg(test)]
#[path = "../tests/unit/freeze.rs"]
mod tests;
