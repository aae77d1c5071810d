//! A run of many slices needs no more memory than one of few: a day's run needs as much as a minute's.

#![allow(clippy::unwrap_used, reason = "in helpers of tests as in tests")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

use bakeoff_engine::answer::{Call, MessageWriter};
use bakeoff_engine::arm::OpenArm;
use bakeoff_engine::measure::{Contender, measure};
use bakeoff_engine::request::Measure;
use bakeoff_load::arm_workers::Workload;
use bakeoff_load::failure::Failure;
use bakeoff_load::host::SliceHost;
use bakeoff_load::net::ServerAddress;
use bakeoff_script::host::{EventEnd, Events};

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which also counts the live bytes.
struct Counting;

// SAFETY: hands every call on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size(), SeqCst);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), SeqCst);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Slices until memory has settled.
const FIRST_SLICES: u64 = 500;
/// A quarter of an hour of slices of 100 ms.
const BLOCKS: u64 = 5_000;

/// Receives the answers and checks the live memory after each slice.
struct Watching {
    slices: Arc<AtomicU64>,
    early_bytes: Arc<AtomicUsize>,
    most_bytes: Arc<AtomicUsize>,
}

impl Write for Watching {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if line.windows(15).any(|part| part == br#""type":"slice","#) {
            let (slice, live) = (self.slices.fetch_add(1, SeqCst), LIVE_BYTES.load(SeqCst));
            let bytes = if slice < FIRST_SLICES { &self.early_bytes } else { &self.most_bytes };
            bytes.fetch_max(live, SeqCst);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Instant events with a named operation.
struct Naming;

impl Workload for Naming {
    fn work(&self, host: Rc<SliceHost>) -> Result<(), Failure> {
        while host.more_events() {
            host.event_start();
            host.operation("new_order");
            host.event_stop(EventEnd::Done);
        }
        Ok(())
    }
}

#[test]
fn memory_does_not_grow_with_the_number_of_slices() {
    let arm = |name: &str| OpenArm {
        name: name.into(),
        address: Arc::new(ServerAddress::default()),
        server_pid: None,
        slowdown_percent: 0.0,
        read_only: false,
        ignore_errors: vec![],
    };
    let arms = [arm("A"), arm("B")];
    let request = Measure {
        cell: "naming/1".into(),
        script: Some("naming".into()),
        threads: 1,
        arms: vec!["A".into(), "B".into()],
        blocks: Some(BLOCKS / 4),
        // Long enough for a worker to wake up in: its first event makes the histogram of its name.
        slice_ns: 200_000,
        guard_ns: 1_000,
        order_seed: 1,
        key_seed: 2,
        ..Measure::default()
    };
    let contenders = arms.iter().map(|arm| Contender { arm, workload: Arc::new(Naming) });
    let (slices, early_bytes, most_bytes) = <(Arc<AtomicU64>, Arc<_>, Arc<_>)>::default();
    let writer = MessageWriter::new(Watching {
        slices: Arc::clone(&slices),
        early_bytes: Arc::clone(&early_bytes),
        most_bytes: Arc::clone(&most_bytes),
    });
    let call = Call { id: 1, writer: &writer, cancel: &AtomicBool::default() };
    measure(call, &request, contenders.collect(), |_, _, _| {}, None).unwrap();
    let (early, most) = (early_bytes.load(SeqCst), most_bytes.load(SeqCst));
    assert_eq!(slices.load(SeqCst), BLOCKS);
    // A byte a slice would show: there are 4,500 more of them.
    assert!(most > 0 && most < early + 4_096, "{early} bytes, then {most}");
}
