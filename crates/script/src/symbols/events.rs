//! The event loop, counters, histograms and messages: what a script asks of its host besides SQL.

use std::ffi::{c_char, c_int, c_void};

use super::{bytes_of, text_of};
use crate::histogram::Histogram;
use crate::host::{Counter, EventEnd, LogLevel};
use crate::options::OptionDecl;
use crate::session::shielded;

pub(super) const CDEF: &str = r"
typedef enum {
  SB_CNT_OTHER, SB_CNT_READ, SB_CNT_WRITE, SB_CNT_TRX, SB_CNT_ERROR, SB_CNT_RECONNECT,
  SB_CNT_BYTES_READ, SB_CNT_BYTES_WRITTEN, SB_CNT_MAX
} sb_counter_type;
uint64_t sb_counter_val(int thread_id, sb_counter_type type);
void sb_counter_add(int thread_id, sb_counter_type type, uint64_t val);
void sb_counter_inc(int thread_id, sb_counter_type type);
bool sb_more_events(int thread_id);
void sb_event_start(int thread_id);
void sb_event_stop(int thread_id);
void bakeoff_event_abandon(int thread_id);
bool bakeoff_event_restart(int thread_id);
void bakeoff_operation(const char *name, size_t len);
void bakeoff_think(double seconds);
bool bakeoff_barrier(void);
void bakeoff_progress(const char *label, double done, double total);
void bakeoff_log(const char *message, size_t len);
void sb_lua_set_test_args(void *args, size_t len);
void sb_print_test_options(void);
typedef struct sb_histogram sb_histogram_t;
sb_histogram_t *sb_histogram_new(size_t size, double range_min, double range_max);
void sb_histogram_delete(sb_histogram_t *h);
void sb_histogram_update(sb_histogram_t *h, double value);
void sb_histogram_print(sb_histogram_t *h);
";

fn counter(kind: c_int) -> Option<Counter> {
    use Counter::{BytesRead, BytesWritten, Error, Other, Read, Reconnect, Transactions, Write};
    [Other, Read, Write, Transactions, Error, Reconnect, BytesRead, BytesWritten]
        .into_iter()
        .find(|counter| *counter as c_int == kind)
}

/// Returns this worker's counter. The thread number is ignored, because a worker sees only its own counters.
#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_counter_val(_thread: c_int, kind: c_int) -> u64 {
    counter(kind).map_or(0, |counter| shielded(0, |session| session.events.counter(counter)))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_counter_add(_thread: c_int, kind: c_int, amount: u64) {
    if let Some(counter) = counter(kind) {
        shielded((), |session| session.events.count(counter, amount));
    }
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_counter_inc(thread: c_int, kind: c_int) {
    sb_counter_add(thread, kind, 1);
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_more_events(_thread: c_int) -> bool {
    shielded(false, |session| !session.has_panicked() && session.events.more_events())
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_event_start(_thread: c_int) {
    shielded((), |session| session.events.event_start());
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_event_stop(_thread: c_int) {
    stop(EventEnd::Done);
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn bakeoff_event_abandon(_thread: c_int) {
    stop(EventEnd::Stop);
}

fn stop(end: EventEnd) {
    shielded((), |session| {
        session.survived();
        session.events.event_stop(end);
    });
}

/// Runs the event again within the same latency. Returns false if it must not.
#[unsafe(no_mangle)]
pub(super) extern "C" fn bakeoff_event_restart(_thread: c_int) -> bool {
    shielded(false, |session| {
        session.survived();
        session.events.event_restart()
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn bakeoff_operation(name: *const c_char, length: usize) {
    let name = unsafe { bytes_of(name, length) };
    shielded((), |session| session.events.operation(&String::from_utf8_lossy(name)));
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn bakeoff_think(seconds: f64) {
    shielded((), |session| session.events.think((seconds.max(0.0) * 1e9) as u64));
}

/// Waits for all threads of the command. Returns false if one of them failed.
#[unsafe(no_mangle)]
pub(super) extern "C" fn bakeoff_barrier() -> bool {
    shielded(false, |session| {
        session.host.barrier();
        !session.host.aborted()
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn bakeoff_progress(label: *const c_char, done: f64, total: f64) {
    let label = unsafe { text_of(label) };
    shielded((), |session| session.host.progress(&label, done as u64, total as u64));
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn bakeoff_log(message: *const c_char, length: usize) {
    let message = unsafe { bytes_of(message, length) };
    shielded((), |session| session.host.log(LogLevel::Notice, &String::from_utf8_lossy(message)));
}

/// Exists because sysbench exports it. Options are read from the script itself here.
#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_lua_set_test_args(_args: *mut c_void, _length: usize) {}

#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_print_test_options() {
    shielded((), |session| {
        let options: Vec<_> = session.declared.get().into_iter().flatten().map(OptionDecl::help).collect();
        let width = options.iter().map(|(option, _)| option.len()).max().unwrap_or(0);
        for (option, words) in options {
            session.host.log(LogLevel::Notice, &format!("  {option:width$} {words}"));
        }
        session.host.log(LogLevel::Notice, "");
    });
}

/// Returns null if the range or size makes no sense.
#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_histogram_new(size: usize, minimum: f64, maximum: f64) -> *mut Histogram {
    Histogram::new(size, minimum, maximum).map_or(std::ptr::null_mut(), |histogram| Box::into_raw(Box::new(histogram)))
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sb_histogram_delete(histogram: *mut Histogram) {
    if !histogram.is_null() {
        drop(unsafe { Box::from_raw(histogram) });
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sb_histogram_update(histogram: *mut Histogram, value: f64) {
    if let Some(histogram) = unsafe { histogram.as_mut() } {
        histogram.add(value, 1);
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sb_histogram_print(histogram: *mut Histogram) {
    if let Some(histogram) = unsafe { histogram.as_ref() } {
        let lines = histogram.lines();
        shielded((), |session| lines.iter().for_each(|line| session.host.log(LogLevel::Notice, line)));
    }
}
