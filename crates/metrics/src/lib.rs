//! Numbers of a measurement: the clock, latency histograms, per-worker counters, and how they are merged.
//!
//! Owns no thread, socket or file. Nothing here allocates or locks when an event is recorded. Times are integers of nanoseconds.

mod clock;
mod counters;
mod histogram;

pub use clock::now_ns;
pub use counters::{SliceCounters, SliceTotals};
pub use histogram::{EncodeError, HIGHEST_NS, LOWEST_NS, LatencyHistogram};
