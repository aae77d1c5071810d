//! Thaws servers and unpins their threads however the program ends: at exit, after a signal, an abort or a crash. Only
//! SIGKILL is not handled here.

use libc::{SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGHUP, SIGILL, SIGINT, SIGPIPE, SIGQUIT, SIGSEGV, SIGTERM};
use libc::{SIGUSR1, SIGUSR2, SIGXCPU};

use super::{end_changes, freeze, pinning};

const REQUESTS: [i32; 9] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU];
const CRASHES: [i32; 5] = [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT];

/// How the program ends after a signal that asks it to. `Signal` shows a shell that it was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalEnd {
    Status,
    Signal,
}

/// Undoes all changes and prevents new ones. Safe in a signal handler: only atomics and system calls.
extern "C" fn undo() {
    end_changes();
    freeze::thaw_everything();
    pinning::unpin_everything();
}

/// Unpins what an earlier program left, and undoes this program's changes when it exits, panics, crashes, or gets a
/// signal that it does not ignore. The binary calls it once, before it creates threads.
pub fn undo_when_ended(end: SignalEnd) {
    pinning::unpin_leftovers();
    unsafe { libc::atexit(undo) };
    for number in REQUESTS.into_iter().chain(CRASHES) {
        match end {
            SignalEnd::Status if REQUESTS.contains(&number) => handle(number, exit_by_signal, 0),
            _ => handle(number, end_by_signal, libc::SA_RESETHAND),
        }
    }
}

fn handle(number: i32, handler: extern "C" fn(i32), flags: i32) {
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        libc::sigaction(number, std::ptr::null(), &raw mut before);
        if before.sa_sigaction == libc::SIG_IGN {
            return; // as under nohup
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigaction(number, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn exit_by_signal(number: i32) {
    undo();
    // SAFETY: `_exit` is async-signal-safe and does not return.
    unsafe { libc::_exit(128 + number) }
}

/// The default action has been restored by now.
extern "C" fn end_by_signal(number: i32) {
    undo();
    // Blocked until this handler returns, then the default action applies, even if another process sent it.
    // SAFETY: `raise` is async-signal-safe.
    unsafe { libc::raise(number) };
}
