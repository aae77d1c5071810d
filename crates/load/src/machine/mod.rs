//! The machine around a measurement: placement of threads, freezing of servers, kernel counters. Changes to servers are
//! undone when the program exits, and none begins once it is exiting.

pub mod cache_line;
pub mod ending;
pub mod freeze;
pub mod observe;
mod pinning;
pub mod placement;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

/// How long the exiting program waits for changes in progress in other threads. They take microseconds.
const LAST_CHANGE_POLLS: u32 = 100;
const POLL: Duration = Duration::from_micros(100);

static CHANGING: AtomicU32 = AtomicU32::new(0);
static ENDING: AtomicBool = AtomicBool::new(false);

fn change<T>(change: impl FnOnce() -> T) -> Option<T> {
    CHANGING.fetch_add(1, SeqCst);
    let changed = (!ENDING.load(SeqCst)).then(change);
    CHANGING.fetch_sub(1, SeqCst);
    changed
}

/// Lets no further change begin and waits for those in progress. Safe in a signal handler.
fn end_changes() {
    ENDING.store(true, SeqCst);
    // A thread may have checked ENDING just before. If it is the one that the signal interrupted, it will not go on.
    for _ in 0..LAST_CHANGE_POLLS {
        if CHANGING.load(SeqCst) == 0 {
            break;
        }
        std::thread::sleep(POLL);
    }
}
