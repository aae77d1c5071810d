//! The process among others: signals, parent, limits, timers.

use std::io;
use std::num::NonZeroU64;

use rustix::process::{Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit};

/// The signals that end this process, blocked in every thread and waited for in one.
#[derive(Debug)]
pub(crate) struct EndingSignals(libc::sigset_t);

/// Blocks SIGTERM, SIGINT and SIGHUP; call it before starting threads, which inherit it.
pub(crate) fn block_ending_signals() -> io::Result<EndingSignals> {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set, which is then only read; all pointers are to locals.
    let (set, result) = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        let set = set.assume_init();
        (set, libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()))
    };
    if result == 0 { Ok(EndingSignals(set)) } else { Err(io::Error::from_raw_os_error(result)) }
}

impl EndingSignals {
    pub(crate) fn wait(&self) {
        let mut signal = 0;
        // SAFETY: both pointers are valid; the set was initialised by sigemptyset.
        while unsafe { libc::sigwait(&raw const self.0, &raw mut signal) } != 0 {}
    }
}

/// Asks for SIGTERM when the thread (not the process) that started this process ends.
pub(crate) fn end_with_parent() -> io::Result<()> {
    let before = getppid();
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // The parent may have ended in between: an orphan gets no signal.
    if getppid() != before {
        return Err(io::Error::other("the parent ended during the start"));
    }
    Ok(())
}

/// Allows as many open files as the system does; each connection is one.
pub(crate) fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    // A refusal leaves the limit as it was: fewer connections, which their clients will see.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Removes the default 50 µs of slack from this thread's waits.
pub(crate) fn sleep_precisely() {
    // Without it waits are only less precise.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}
