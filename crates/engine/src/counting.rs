//! The names by which scripts count, in a worker's counters.

use bakeoff_metrics::SliceCounters;
use bakeoff_script::host::{Counter, QueryClass, Reply};

/// Counts a reply as the class of its statement says.
#[inline]
pub fn add_reply(counters: &SliceCounters, reply: &Reply) {
    match reply.class {
        QueryClass::Read => counters.add_reads(1),
        QueryClass::Write => counters.add_writes(1),
        QueryClass::Other => counters.add_other(1),
    }
}

/// Adds what a script has counted itself.
pub fn add(counters: &SliceCounters, counter: Counter, amount: u64) {
    match counter {
        Counter::Other => counters.add_other(amount),
        Counter::Read => counters.add_reads(amount),
        Counter::Write => counters.add_writes(amount),
        Counter::Transactions => counters.add_bare_events(amount),
        Counter::Error => counters.add_errors(0, amount),
        Counter::Reconnect => counters.add_reconnects(amount),
        Counter::BytesRead => counters.add_bytes(0, amount),
        Counter::BytesWritten => counters.add_bytes(amount, 0),
    }
}

/// What a counter stands at since the counters began.
pub fn value(counters: &SliceCounters, counter: Counter) -> u64 {
    let totals = counters.totals();
    match counter {
        Counter::Other => totals.other,
        Counter::Read => totals.reads,
        Counter::Write => totals.writes,
        Counter::Transactions => totals.events,
        Counter::Error => totals.errors.values().sum(),
        Counter::Reconnect => totals.reconnects,
        Counter::BytesRead => totals.received_bytes,
        Counter::BytesWritten => totals.sent_bytes,
    }
}
