//! Tests of `src/observe.rs`.

use super::*;

fn burn(milliseconds: u64) {
    let begun = own_cpu_ns().unwrap();
    let mut sum = 0_u64;
    while own_cpu_ns().unwrap().0 + own_cpu_ns().unwrap().1 - begun.0 - begun.1 < milliseconds * 1_000_000 {
        sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
    }
}

#[test]
fn a_process_watching_itself_sees_its_cpu_time() {
    let pid = i32::try_from(std::process::id()).unwrap();
    let mut observer = Observer::new(Some(pid));
    observer.before_slice(50_000_000);
    burn(50);
    observer.after_slice();
    let spent = observer.spent(1, 1, 50_000_000);
    assert!(spent.server_cpu_ns.unwrap() >= 40_000_000, "{spent:?}");
    assert!(spent.client_user_ns.unwrap() + spent.client_system_ns.unwrap() >= 40_000_000, "{spent:?}");
    assert!(spent.server_rss_bytes.unwrap() > 100_000, "{spent:?}");
    assert!(spent.server_read_bytes.is_some(), "{spent:?}");
    assert!(spent.context_switches.is_some(), "{spent:?}");
}

#[test]
fn costs_of_uncounted_events_are_left_out() {
    let before = KernelCounters { server_cpu_ns: Some(7), host_steal_ns: Some(30), ..KernelCounters::default() };
    let after = KernelCounters {
        server_cpu_ns: Some(44_000_007),
        host_steal_ns: Some(20),
        server_rss_bytes: Some(5),
        ..before
    };
    let spent = after.in_slice(&before, 20_000_000, 22_000_000);
    let slice =
        KernelCounters { server_cpu_ns: Some(40_000_000), host_steal_ns: Some(0), server_rss_bytes: Some(5), ..before };
    assert_eq!(spent, slice);
    assert_eq!(after.in_slice(&before, 0, 0).server_cpu_ns, Some(0));
}

#[test]
fn busy_threads_are_reported_by_name() {
    let pid = i32::try_from(std::process::id()).unwrap();
    let mut observer = Observer::new(Some(pid));
    observer.before_slice(100_000_000);
    let seen = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let spinner = std::thread::Builder::new().name("log_spinner".into());
        let spin = || {
            while !seen.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        spinner.spawn_scoped(scope, spin).unwrap();
        loop {
            std::thread::sleep(std::time::Duration::from_millis(5));
            observer.after_slice();
            let busy = observer.busy_threads(100_000_000, 100_000_000);
            if busy.get("log_spinner").is_some_and(|spent_ns| *spent_ns >= 20_000_000) {
                break;
            }
        }
        seen.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn a_missing_server_process_has_no_counters() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let mut observer = Observer::new(Some(i32::try_from(child.id()).unwrap()));
    observer.before_slice(1);
    observer.after_slice();
    let snapshot = observer.after;
    assert_eq!((snapshot.server_cpu_ns, snapshot.server_rss_bytes, snapshot.server_read_bytes), (None, None, None));
    assert!(snapshot.host_idle_ns.is_some());
}

#[test]
fn proc_stat_columns_are_parsed() {
    let mut snapshot = KernelCounters::default();
    parse_host("cpu  1 2 4 8 16 32 64 128 0 0\ncpu0 9 9\nctxt 77\nbtime 5\n", &mut snapshot);
    let tick_ns = 1_000_000_000 / clock_ticks_per_second();
    assert_eq!(snapshot.host_user_ns, Some(3 * tick_ns));
    assert_eq!(snapshot.host_system_ns, Some(100 * tick_ns));
    assert_eq!(snapshot.host_idle_ns, Some(8 * tick_ns));
    assert_eq!(snapshot.host_iowait_ns, Some(16 * tick_ns));
    assert_eq!(snapshot.host_steal_ns, Some(128 * tick_ns));
    assert_eq!(snapshot.context_switches, Some(77));
}

#[test]
fn expensive_counters_are_read_only_every_few_slices() {
    let slice_ns = 5_000_000;
    let mut reading = SparseReading { cost_ns: 400_000, unread_ns: 20_000_000, is_due: false };
    let mut stood_for_ns = Vec::new();
    for _ in 0..9 {
        reading.read_if_due(slice_ns, || ());
        if reading.is_due {
            reading.cost_ns = 400_000; // a fiftieth of four slices
        }
        stood_for_ns.push(reading.stands_for(slice_ns));
    }
    assert_eq!(stood_for_ns, [5, 0, 0, 0, 4, 0, 0, 0, 4].map(|slices| slices * slice_ns));
}

#[test]
fn host_counters_are_scaled_up_for_slices_without_a_reading() {
    let mut observer = Observer::default();
    observer.before.host_steal_ns = Some(10);
    observer.before.client_user_ns = Some(10);
    observer.after = KernelCounters { host_steal_ns: Some(40), client_user_ns: Some(40), ..observer.before };
    observer.host = SparseReading { cost_ns: 0, unread_ns: 200, is_due: true };
    let spent = observer.spent(2, 3, 100);
    assert_eq!((spent.host_steal_ns, spent.client_user_ns), (Some(60), Some(20)));
    observer.host.is_due = false;
    let spent = observer.spent(2, 3, 100);
    assert_eq!((spent.host_steal_ns, spent.client_user_ns), (Some(0), Some(20)));
}
