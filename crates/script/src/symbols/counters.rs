//! `sb_counter_*`: the counters that scripts move by hand.

use std::ffi::c_int;

use crate::host::Counter;
use crate::session::shielded;

pub(super) const CDEF: &str = r"
typedef enum {
  SB_CNT_OTHER, SB_CNT_READ, SB_CNT_WRITE, SB_CNT_TRX, SB_CNT_ERROR, SB_CNT_RECONNECT,
  SB_CNT_BYTES_READ, SB_CNT_BYTES_WRITTEN, SB_CNT_MAX
} sb_counter_type;
uint64_t sb_counter_val(int thread_id, sb_counter_type type);
void sb_counter_add(int thread_id, sb_counter_type type, uint64_t val);
void sb_counter_inc(int thread_id, sb_counter_type type);
";

fn counter(kind: c_int) -> Option<Counter> {
    Some(match kind {
        0 => Counter::Other,
        1 => Counter::Read,
        2 => Counter::Write,
        3 => Counter::Transactions,
        4 => Counter::Error,
        5 => Counter::Reconnect,
        6 => Counter::BytesRead,
        7 => Counter::BytesWritten,
        _ => return None,
    })
}

/// This worker's counter. The thread number is ignored: a worker sees its own counters only.
#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_counter_val(_thread: c_int, kind: c_int) -> u64 {
    counter(kind).map_or(0, |counter| {
        shielded(0, |session| session.host.counter(counter))
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_counter_add(_thread: c_int, kind: c_int, amount: u64) {
    if let Some(counter) = counter(kind) {
        shielded((), |session| session.host.count(counter, amount));
    }
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn sb_counter_inc(thread: c_int, kind: c_int) {
    sb_counter_add(thread, kind, 1);
}
