//! How long two CPUs take to pass a cache line to each other and back, every two seconds: on a virtual machine whose CPUs
//! the host moves, this changes, and with it how much equal servers differ (docs/evidence/placement.md).
//!
//!     cargo run --release -p bakeoff-load --example cache_line [CPU CPU]

use std::error::Error;
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const ROUNDS: u32 = 3_000;

/// A line of its own: processors fetch them in pairs.
#[repr(align(128))]
struct Line(AtomicU32);

fn main() -> Result<(), Box<dyn Error>> {
    let cpus: Option<Vec<usize>> = std::env::args().skip(1).map(|text| text.parse().ok()).collect();
    let usable = sched_getaffinity(None)?;
    let (first, second) = match cpus.as_deref() {
        Some([]) => (0, 1),
        Some(&[first, second]) => (first, second),
        _ => return Err("usage: cache_line [CPU CPU]".into()),
    };
    // Each waits for the other without end: both must be able to run at the same time.
    if first == second || [first, second].iter().any(|&cpu| cpu >= CpuSet::MAX_CPU || !usable.is_set(cpu)) {
        return Err(format!("CPUs {first} and {second} are not two that this process may use").into());
    }
    loop {
        // The quickest of five: other work may take either CPU away.
        let quickest = (0..5).map(|_| round_trip(first, second)).min().unwrap_or_default();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        writeln!(std::io::stdout(), "{} {} ns", now.as_secs(), quickest.as_nanos())?;
        std::thread::sleep(Duration::from_secs(2));
    }
}

fn round_trip(first: usize, second: usize) -> Duration {
    let line = Line(AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| pass(&line, second, 1));
        scope.spawn(|| pass(&line, first, 0)).join().unwrap_or_default()
    })
}

/// Answers every even or every odd number with the next one; returns the mean time of a round.
fn pass(line: &Line, cpu: usize, turn: u32) -> Duration {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).expect("this process may use the CPU");
    let mut begin = Instant::now();
    for round in 0..ROUNDS {
        while line.0.load(Ordering::Acquire) != 2 * round + turn {
            std::hint::spin_loop();
        }
        if round == ROUNDS / 10 {
            begin = Instant::now();
        }
        line.0.store(2 * round + turn + 1, Ordering::Release);
    }
    begin.elapsed() / (ROUNDS - ROUNDS / 10)
}
