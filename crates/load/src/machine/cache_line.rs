//! Measures how long two CPUs take to pass a cache line back and forth (docs/evidence/placement.md).

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::machine::placement::{SYS, cores_first};

const ROUNDS: u32 = 10_000;
/// Rounds that are timed together. Only the fastest batch counts, because other work may occupy either CPU.
const TIMED: u32 = 100;
const LIMIT: Duration = Duration::from_millis(50);
const GIVEN_UP: u32 = u32::MAX;

#[repr(align(128))]
struct Line(AtomicU32);

/// Measures between the CPUs of the first two connections. None if only one CPU is usable or others keep them busy.
pub fn between_cpus() -> Option<Duration> {
    match *cores_first(&sched_getaffinity(None).ok()?, Path::new(SYS)) {
        [first, second, ..] => round_trip(first, second),
        _ => None,
    }
}

pub fn round_trip(first: usize, second: usize) -> Option<Duration> {
    if first == second || first.max(second) >= CpuSet::MAX_CPU {
        return None;
    }
    let line = Line(AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| pass(&line, second, 1));
        scope.spawn(|| pass(&line, first, 0)).join().ok().flatten()
    })
}

/// Passes the line on whenever it is this CPU's turn. Returns the mean time of a round in the fastest batch.
fn pass(line: &Line, cpu: usize, turn: u32) -> Option<Duration> {
    let mut set = CpuSet::new();
    set.set(cpu);
    let until = Instant::now() + LIMIT;
    let can_run = sched_setaffinity(None, &set).is_ok();
    let mut begin = Instant::now();
    let mut quickest = None;
    for round in 0..ROUNDS {
        if !can_run || !waited(line, 2 * round + turn, until) {
            line.0.store(GIVEN_UP, Ordering::Release);
            break;
        }
        if round % TIMED == 0 {
            let took = (round > 0).then(|| begin.elapsed());
            quickest = quickest.into_iter().chain(took).min();
            begin = Instant::now();
        }
        line.0.store(2 * round + turn + 1, Ordering::Release);
    }
    quickest.map(|time| time / TIMED)
}

fn waited(line: &Line, number: u32, until: Instant) -> bool {
    for spins in 1_u32.. {
        match line.0.load(Ordering::Acquire) {
            found if found == number => return true,
            GIVEN_UP => return false,
            _ if spins.is_multiple_of(4_096) && Instant::now() > until => return false,
            _ => std::hint::spin_loop(),
        }
    }
    false
}
