//! Recording an event allocates nothing, in either kind of loop: not for replies, errors, named operations or histograms, and not
//! between slices.

#![allow(clippy::unwrap_used, reason = "in helpers of tests as in tests")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use bakeoff_engine::answer::{Call, MessageWriter};
use bakeoff_engine::arm::OpenArm;
use bakeoff_engine::measure::{Contender, measure};
use bakeoff_engine::request::{Load, Measure};
use bakeoff_load::arm_workers::Workload;
use bakeoff_load::arrivals::Arrivals;
use bakeoff_load::failure::Failure;
use bakeoff_load::host::SliceHost;
use bakeoff_load::net::ServerAddress;
use bakeoff_load::worker_stats::{Latencies, LatencyShard};
use bakeoff_script::host::{EventEnd, Events, QueryClass, Reply};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a count for each thread.
struct Counting;

// SAFETY: hands every call on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs events that use all that a script may report, and counts what its threads allocate after their first events.
#[derive(Default)]
struct Reporting {
    events: AtomicU64,
    allocations: AtomicU64,
}

impl Reporting {
    fn event(host: &SliceHost) {
        let reply = Reply {
            class: QueryClass::Read,
            columns: 1,
            rows: 1,
            affected_rows: 0,
            last_insert_id: 0,
            more_results: false,
        };
        host.event_start();
        host.count_reply(&reply);
        host.count_error(1213);
        host.event_restart();
        host.operation("new_order");
        host.operation("new_order.rollback");
        host.event_stop(EventEnd::Done);
    }
}

impl Workload for Reporting {
    fn work(&self, host: Rc<SliceHost>) -> Result<(), Failure> {
        // The names of operations are learnt at their first use.
        for _ in 0..2 {
            if host.more_events() {
                Self::event(&host);
            }
        }
        let before = ALLOCATIONS.get();
        let mut events = 0;
        while host.more_events() {
            Self::event(&host);
            events += 1;
        }
        self.allocations.fetch_add(ALLOCATIONS.get() - before, SeqCst);
        self.events.fetch_add(events, SeqCst);
        Ok(())
    }
}

#[test]
fn no_event_allocates() {
    let open = Load::Open { rate_per_s: 20_000.0, arrivals: Arrivals::Poisson };
    for load in [Load::Closed {}, open] {
        let arm = OpenArm {
            name: "A".into(),
            address: Arc::new(ServerAddress::default()),
            server_pid: None,
            slowdown_percent: 10.0,
            read_only: false,
            ignore_errors: vec![],
        };
        let request = Measure {
            cell: "reporting/2".into(),
            script: Some("reporting".into()),
            threads: 2,
            arms: vec!["A".into()],
            blocks: Some(3),
            slice_ns: 20_000_000,
            guard_ns: 1_000_000,
            order_seed: 1,
            key_seed: 2,
            load,
            ..Measure::default()
        };
        let reporting = Arc::new(Reporting::default());
        let contenders = vec![Contender { arm: &arm, workload: reporting.clone() }];
        let writer = MessageWriter::new(std::io::sink());
        let call = Call { id: 1, writer: &writer, cancel: &AtomicBool::default() };
        measure(call, &request, contenders, |_, _, _| {}, None).unwrap();
        let (events, allocations) = (reporting.events.load(SeqCst), reporting.allocations.load(SeqCst));
        assert!(events > 500, "{load:?}: {events} events");
        assert_eq!(allocations, 0, "{load:?}: in {events} events");
    }
}

/// Workers wait while a reporter takes their latencies, so it must only swap.
#[test]
fn taking_latencies_out_allocates_nothing_once_their_names_are_known() {
    let (shard, mut taken) = (LatencyShard::default(), Latencies::default());
    let mut report = || {
        shard.with(|latencies| {
            let operations = ["new_order", "payment"].map(|name| latencies.operation(name));
            for operation in [None, Some(operations[0]), Some(operations[1])] {
                latencies.record(operation, 1_000);
            }
        });
        let before = ALLOCATIONS.get();
        shard.take_into(&mut taken);
        let allocations = ALLOCATIONS.get() - before;
        assert_eq!(taken.by_operation().iter().map(|(_, histogram)| histogram.count()).sum::<u64>(), 3);
        taken.clear();
        allocations
    };
    report();
    assert_eq!(report(), 0);
}
