//! Workloads with known latencies, and the messages about them.

use std::io::Write;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bakeoff_engine::answer::{Call, MessageWriter};
use bakeoff_engine::arm::OpenArm;
use bakeoff_engine::measure::{Contender, measure};
use bakeoff_engine::request::Measure;
use bakeoff_load::arm_workers::Workload;
use bakeoff_load::failure::Failure;
use bakeoff_load::host::SliceHost;
use bakeoff_load::net::ServerAddress;
use bakeoff_script::host::{EventEnd, Events as _, QueryClass, Reply};
use serde_json::Value;

/// The messages sent, line by line.
#[derive(Clone, Default)]
pub(crate) struct Said(Arc<Mutex<Vec<u8>>>);

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Said {
    pub(crate) fn of_type(&self, kind: &str) -> Vec<Value> {
        let bytes = self.0.lock().unwrap().clone();
        let lines = String::from_utf8(bytes).unwrap();
        let values = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        values.filter(|value| value["type"] == kind).collect()
    }
}

/// Runs `event` for each event and counts how often, injected ones and guard included, but none that begins after the deadline.
pub(crate) struct Events<F> {
    pub(crate) executed: AtomicU64,
    event: F,
}

impl<F: Fn(&SliceHost) -> Result<EventEnd, Failure> + Send + Sync + 'static> Workload for Events<F> {
    fn work(&self, host: Rc<SliceHost>) -> Result<(), Failure> {
        while host.more_events() {
            host.event_start();
            self.executed.fetch_add(u64::from(!host.is_past_deadline()), SeqCst);
            let end = (self.event)(&host)?;
            host.event_stop(end);
            if end == EventEnd::Stop {
                break;
            }
        }
        Ok(())
    }
}

pub(crate) fn events<F>(event: F) -> Arc<Events<F>>
where
    F: Fn(&SliceHost) -> Result<EventEnd, Failure> + Send + Sync + 'static,
{
    Arc::new(Events { executed: AtomicU64::new(0), event })
}

pub(crate) fn sleeping(milliseconds: f64) -> Arc<impl Workload> {
    events(move |_| {
        std::thread::sleep(Duration::from_secs_f64(milliseconds / 1e3));
        Ok(EventEnd::Done)
    })
}

pub(crate) fn arm(name: &str) -> OpenArm {
    OpenArm {
        name: name.into(),
        address: Arc::new(ServerAddress::default()),
        server_pid: None,
        slowdown_percent: 0.0,
        read_only: false,
        ignore_errors: vec![],
    }
}

pub(crate) fn cell(arms: &[&str], blocks: u64) -> Measure {
    Measure {
        cell: "memory/2".into(),
        script: Some("memory".into()),
        threads: 2,
        arms: arms.iter().map(|&name| name.into()).collect(),
        blocks: Some(blocks),
        slice_ns: 30_000_000,
        guard_ns: 5_000_000,
        order_seed: 1,
        key_seed: 2,
        ..Measure::default()
    }
}

pub(crate) fn no_streams(_: u64, _: u64, _: u32) {}

pub(crate) fn run(request: &Measure, arms: &[OpenArm], loads: &[Arc<dyn Workload>]) -> (Result<(), Failure>, Said) {
    let said = Said::default();
    let pairs = arms.iter().zip(loads);
    let contenders = pairs.map(|(arm, load)| Contender { arm, workload: Arc::clone(load) }).collect();
    let writer = MessageWriter::new(said.clone());
    let call = Call { id: 9, writer: &writer, cancel: &AtomicBool::default() };
    let outcome = measure(call, request, contenders, no_streams, None);
    (outcome.map(|done| writer.send(&done)), said)
}

pub(crate) fn reply(class: QueryClass) -> Reply {
    Reply { class, columns: 1, rows: 1, affected_rows: 0, last_insert_id: 0, more_results: false }
}

pub(crate) fn sum(slices: &[Value], arm: &str, field: &str) -> u64 {
    slices.iter().filter(|slice| slice["arm"] == arm).map(|slice| slice[field].as_u64().unwrap()).sum()
}

/// Ratio of sums: events x connections / busy time [1/s].
pub(crate) fn throughput(slices: &[Value], arm: &str) -> f64 {
    let connections = slices[0]["connections"].as_u64().unwrap();
    sum(slices, arm, "events") as f64 * connections as f64 / sum(slices, arm, "busy_ns") as f64 * 1e9
}
