//! Tests of `src/cache_line.rs`.

use std::path::Path;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::machine::cache_line::{between_cpus, round_trip};
use crate::machine::placement::{SYS, cores_first};

#[test]
fn two_usable_cpus_exchange_a_cache_line() {
    let usable = cores_first(&sched_getaffinity(None).unwrap(), Path::new(SYS));
    let [first, second, ..] = usable[..] else {
        return assert_eq!(between_cpus(), None);
    };
    // Other tests may keep a CPU for a whole try.
    let found = (0..20).filter_map(|_| round_trip(first, second)).min().expect("two CPUs");
    assert!(found > Duration::from_nanos(5) && found < Duration::from_micros(20), "{found:?}");
}

#[test]
fn a_round_trip_needs_two_usable_cpus() {
    assert_eq!(round_trip(0, 0), None);
    assert_eq!(round_trip(0, CpuSet::MAX_CPU), None);
    assert_eq!(round_trip(0, CpuSet::MAX_CPU - 1), None);
    let own = sched_getaffinity(None).unwrap();
    let mut one = CpuSet::new();
    one.set(cores_first(&own, Path::new(SYS))[0]);
    std::thread::spawn(move || {
        sched_setaffinity(None, &one).unwrap();
        assert_eq!(between_cpus(), None);
    })
    .join()
    .unwrap();
}
