//! The event loop's symbols, and the few words a script has with its host besides SQL.

use std::ffi::{c_char, c_int, c_void};

use super::{bytes_of, text_of};
use crate::host::{EventEnd, LogLevel};
use crate::session::shielded;

pub(super) const CDEF: &str = r"
bool sb_more_events(int thread_id);
void sb_event_start(int thread_id);
void sb_event_stop(int thread_id);
void bakeoff_event_abandon(int thread_id);
bool bakeoff_event_restart(int thread_id);
void bakeoff_operation(const char *name, size_t len);
void bakeoff_think(double seconds);
bool bakeoff_barrier(void);
void bakeoff_progress(const char *label, double done, double total);
void bakeoff_log(int level, const char *message, size_t len);
void sb_lua_set_test_args(void *args, size_t len);
void sb_print_test_options(void);
";

/// May another event start?
#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_more_events(_thread: c_int) -> bool {
    shielded(false, |session| {
        !session.has_panicked() && session.host.more_events()
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_event_start(_thread: c_int) {
    shielded((), |session| session.host.event_start());
}

/// The event is done and counts.
#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_event_stop(_thread: c_int) {
    stop(EventEnd::Done);
}

/// The event asked its thread to stop: it does not count.
#[unsafe(no_mangle)]
pub(super) extern "C" fn bakeoff_event_abandon(_thread: c_int) {
    stop(EventEnd::Stop);
}

fn stop(end: EventEnd) {
    shielded((), |session| {
        session.survived();
        session.host.event_stop(end);
    });
}

/// The event is about to run again, within the same latency; false when it must not.
#[unsafe(no_mangle)]
pub(super) extern "C" fn bakeoff_event_restart(_thread: c_int) -> bool {
    shielded(false, |session| {
        session.survived();
        session.host.event_restart()
    })
}

/// Names what the event turned out to be.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn bakeoff_operation(name: *const c_char, length: usize) {
    // SAFETY: Lua passes a string with its length.
    let name = unsafe { bytes_of(name, length) };
    shielded((), |session| {
        session.host.operation(&String::from_utf8_lossy(name))
    });
}

/// Keying or thinking, between two events.
#[unsafe(no_mangle)]
pub(super) extern "C" fn bakeoff_think(seconds: f64) {
    shielded((), |session| {
        session.host.think((seconds.max(0.0) * 1e9) as u64)
    });
}

/// Waits for all threads of the command; false when one of them failed.
#[unsafe(no_mangle)]
pub(super) extern "C" fn bakeoff_barrier() -> bool {
    shielded(false, |session| {
        session.host.barrier();
        !session.host.aborted()
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn bakeoff_progress(label: *const c_char, done: f64, total: f64) {
    // SAFETY: Lua strings end with a zero byte.
    let label = unsafe { text_of(label) };
    shielded((), |session| {
        session.host.progress(&label, done as u64, total as u64)
    });
}

/// One line for the person.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn bakeoff_log(level: c_int, message: *const c_char, length: usize) {
    let level = match level {
        0 => LogLevel::Fatal,
        1 => LogLevel::Alert,
        2 => LogLevel::Warning,
        3 => LogLevel::Notice,
        4 => LogLevel::Info,
        _ => LogLevel::Debug,
    };
    // SAFETY: Lua passes a string with its length.
    let message = unsafe { bytes_of(message, length) };
    shielded((), |session| {
        session.host.log(level, &String::from_utf8_lossy(message))
    });
}

/// Exists because sysbench exports it; options are read from the script itself here.
#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_lua_set_test_args(_args: *mut c_void, _length: usize) {}

/// Prints the script's options, one a line.
#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_print_test_options() {
    shielded((), |session| {
        let declared = session.declared.borrow();
        declared
            .iter()
            .for_each(|option| session.host.log(LogLevel::Notice, &option.help_line()));
    });
}
