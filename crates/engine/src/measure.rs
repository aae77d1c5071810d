//! `measure`: the arms of a cell take turns, slice by slice, in a random order that cancels drift.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bakeoff_load::arm_workers::{ArmPlan, ArmWorkers, Workload};
use bakeoff_load::arrivals::{ArrivalSchedule, BlockOrders, intended_starts};
use bakeoff_load::connector::pairing;
use bakeoff_load::failure::{Code, Failure};
use bakeoff_load::host::{Reseed, SlicePlan};
use bakeoff_load::machine::freeze::Freezer;
use bakeoff_load::machine::observe::Observer;
use bakeoff_load::machine::placement::{CpuShuffle, Pairing, Placement};
use bakeoff_load::replay::stream::Replay;
use bakeoff_load::start_gate::{Slice, WaitError};
use bakeoff_load::worker_pool::give_back_memory;
use bakeoff_metrics::{now_ns, seconds};

use crate::answer::{Answer, Call, SliceRecord, send_histograms};
use crate::arm::OpenArm;
use crate::request::{Load, Measure};

const SET_UP_LIMIT: Duration = Duration::from_secs(30);
const DRAIN_LIMIT: Duration = Duration::from_secs(60);
/// Open loop: a queue not worked off by then is dropped, well before the drain's limit.
const QUEUE_LIMIT_NS: u64 = 30_000_000_000;
const CHUNK_LIMIT: Duration = Duration::from_secs(600);
/// Sets of histograms that the workers of an arm share.
const SHARDS: usize = 64;
/// Fewer for a replay, because there can be a thousand operations.
const REPLAY_SHARDS: usize = 4;
const CANCELLED_DRAIN_LIMIT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);

pub struct Contender<'a> {
    pub arm: &'a OpenArm,
    pub workload: Arc<dyn Workload>,
}

struct Cell<'a> {
    call: Call<'a>,
    request: &'a Measure,
    arms: Vec<MeasuredArm<'a>>,
    replay: Option<Replay>,
    freezer: Freezer,
    /// When `started` was sent or, before that, when the request began [ns of the clock].
    started_ns: u64,
}

struct MeasuredArm<'a> {
    arm: &'a OpenArm,
    workers: ArmWorkers,
    observer: Observer,
    pairing: Option<Arc<Pairing>>,
    live: usize,
}

enum Ending {
    AtRest(u64),
    /// Cancelled without waiting for workers, because they are being set up or their events take too long.
    CutShort(u64),
}

pub fn measure(
    call: Call<'_>,
    request: &Measure,
    contenders: Vec<Contender<'_>>,
    reseed: Reseed,
    replay: Option<Replay>,
) -> Result<Answer, Failure> {
    if request.freeze
        && let Some(unknown) = contenders.iter().find(|contender| contender.arm.server_pid.is_none())
    {
        let message = "measure: freeze needs the server_pid of every arm";
        return Err(Failure::bad_request(message).on_arm(&unknown.arm.name));
    }
    let mut cell = Cell {
        call,
        request,
        arms: Vec::with_capacity(contenders.len()),
        replay,
        freezer: Freezer::default(),
        started_ns: now_ns(),
    };
    let outcome = cell.set_up(contenders, reseed).and_then(|()| cell.run());
    cell.freezer.thaw_all();
    match outcome {
        Ok(Ending::AtRest(blocks)) => cell.finish(blocks),
        Ok(Ending::CutShort(blocks)) => {
            let done = cell.done(blocks);
            let failure = cell.abandon(Failure::new(Code::Internal, "cancelled"));
            if failure.fatal { Err(failure) } else { Ok(done) }
        }
        Err(failure) => Err(cell.abandon(failure)),
    }
}

impl MeasuredArm<'_> {
    /// Fails if a connection of the arm is not paired: such an arm must not be compared with one that is all paired.
    fn check_paired(&self) -> Result<(), Failure> {
        let failed = self.pairing.as_ref().and_then(|pairing| pairing.failure());
        failed.map_or(Ok(()), |reason| Err(not_paired(reason).on_arm(&self.arm.name)))
    }
}

impl<'a> Cell<'a> {
    fn set_up(&mut self, contenders: Vec<Contender<'a>>, reseed: Reseed) -> Result<(), Failure> {
        for Contender { arm, workload } in contenders {
            let pairing = match self.request.placement {
                Placement::Free => None,
                Placement::Paired => {
                    Some(pairing(&arm.address, arm.server_pid).map_err(|reason| not_paired(reason).on_arm(&arm.name))?)
                }
            };
            let plan = ArmPlan {
                arm: arm.name.clone(),
                address: Arc::clone(&arm.address),
                slices: SlicePlan {
                    threads: u32::try_from(self.request.threads).unwrap_or(u32::MAX),
                    reseed,
                    key_seed: self.request.key_seed,
                    slowdown_per_event: arm.slowdown_percent / 100.0,
                },
                environment: Arc::new(self.call.writer.clone()),
                shards: vec![OnceLock::new(); if self.replay.is_some() { REPLAY_SHARDS } else { SHARDS }],
                pairing: pairing.clone(),
            };
            self.arms.push(MeasuredArm {
                arm,
                workers: ArmWorkers::start(plan, &workload),
                observer: Observer::new(arm.server_pid),
                pairing,
                live: self.request.threads,
            });
        }
        let until = Instant::now() + SET_UP_LIMIT;
        let late = format!("were not ready within {} s", SET_UP_LIMIT.as_secs());
        for index in 0..self.arms.len() {
            let live = self.wait_resting(index, POLL, until, (Code::ThreadInitTimeout, &late))?;
            self.arms[index].live = live.unwrap_or(self.request.threads);
        }
        if self.call.is_cancelled() {
            return Ok(()); // a worker that is connecting would block the check below
        }
        self.arms.iter().try_for_each(MeasuredArm::check_paired)?;
        give_back_memory(self.request.threads * self.arms.len());
        Ok(())
    }

    /// Waits until an arm's workers rest. Returns how many live, or None if a cancel ended the wait. A failure of any
    /// arm ends it too. `late` is what to say after `until`.
    fn wait_resting(
        &self,
        index: usize,
        mut limit: Duration,
        until: Instant,
        (code, late): (Code, &str),
    ) -> Result<Option<usize>, Failure> {
        let measured = &self.arms[index];
        loop {
            let busy = match measured.workers.wait_resting(limit) {
                Ok(live) => return Ok(Some(live)),
                Err(WaitError::Failed(failure)) => return Err(failure),
                Err(WaitError::TimedOut { busy }) => busy,
            };
            if let Some(failure) = self.arms.iter().find_map(|arm| arm.workers.failure()) {
                return Err(failure);
            }
            if self.call.is_cancelled() {
                return Ok(None);
            }
            if Instant::now() >= until {
                let message = too_late(busy, self.request.threads, late);
                return Err(Failure::new(code, message).on_arm(&measured.arm.name));
            }
            limit = POLL;
        }
    }

    /// Waits for the end of a running slice. It is one sleep until well after the slice's end, so that the coordinator
    /// does not disturb what it measures.
    fn drain(&self, index: usize) -> Result<Option<usize>, Failure> {
        let slice = Duration::from_nanos(self.request.whole_guard_ns() + self.request.slice_ns);
        let drain = if self.replay.is_some() { CHUNK_LIMIT } else { DRAIN_LIMIT };
        let late = format!("had no reply within {} s of the slice's end", drain.as_secs());
        let until = Instant::now() + slice + drain;
        self.wait_resting(index, slice + CANCELLED_DRAIN_LIMIT, until, (Code::ServerLost, &late))
    }

    fn run(&mut self) -> Result<Ending, Failure> {
        if self.call.is_cancelled() {
            return Ok(Ending::CutShort(0));
        }
        if self.request.freeze {
            for index in 0..self.arms.len() {
                self.freeze(index)?;
            }
        }
        let pairings = self.arms.iter().filter_map(|arm| arm.pairing.clone()).collect();
        let mut cpus = CpuShuffle::new(pairings, self.request.threads, self.request.order_seed);
        self.started_ns = now_ns();
        self.call.writer.send(&Answer::Started { id: self.call.id });
        let orders = BlockOrders::new(self.arms.len(), self.request.order_seed);
        for (block, order) in (0_u64..).zip(orders) {
            if self.is_over(block) || !self.replay.as_mut().map_or(Ok(true), Replay::advance)? {
                return Ok(Ending::AtRest(block));
            }
            cpus.shuffle_when_due();
            for (position, &index) in order.iter().enumerate() {
                if self.call.is_cancelled() || self.arms.iter().any(|arm| arm.live == 0) {
                    return Ok(Ending::AtRest(block));
                }
                let turn = u64::from(position >= self.arms.len());
                let chunk = self.replay.as_ref().map(|replay| replay.block.chunk(turn));
                if chunk.is_some_and(|chunk| chunk.statements == 0) {
                    continue;
                }
                if !self.slice(index, block, position, turn)? {
                    return Ok(Ending::CutShort(block));
                }
            }
        }
        Ok(Ending::AtRest(0))
    }

    fn is_over(&self, blocks: u64) -> bool {
        match self.request.blocks {
            Some(wanted) => blocks >= wanted,
            None => blocks > 0 && Some(seconds(now_ns() - self.started_ns)) >= self.request.seconds,
        }
    }

    /// Runs one arm's turn: thaw, observe, load, drain, observe, freeze, report. False if a cancel cut the drain short.
    fn slice(&mut self, index: usize, block: u64, position: usize, turn: u64) -> Result<bool, Failure> {
        let starts = self.intended_starts(block, turn);
        let request = self.request;
        let arm = &mut self.arms[index];
        if let Some(pid) = arm.arm.server_pid {
            self.freezer.thaw(pid);
        }
        arm.observer.before_slice(request.slice_ns);

        let start_ns = now_ns();
        let slice = Arc::new(request.slice((block, turn), start_ns, arm.live, starts));
        let guard_end_ns = slice.guard_end_ns;
        arm.workers.begin(&slice);
        let Some(live) = self.drain(index)? else { return Ok(false) };
        let arm = &mut self.arms[index];
        arm.live = live;
        let load_ns = now_ns() - start_ns;
        arm.check_paired()?;
        arm.observer.after_slice();
        let sum = arm.workers.slice_sum();
        let length_ns = sum.ended_ns.saturating_sub(guard_end_ns);
        let (counted, whole) = match sum.totals.events {
            0 => (length_ns, load_ns),
            events => (events, events + sum.totals.outside_events),
        };
        let spent = arm.observer.spent(counted, whole, load_ns);
        let threads = arm.observer.busy_threads(length_ns, load_ns);
        if request.freeze {
            self.freeze(index)?;
        }
        let record = SliceRecord {
            id: self.call.id,
            cell: request.cell.clone(),
            arm: self.arms[index].arm.name.clone(),
            block,
            position,
            start_ns: guard_end_ns - self.started_ns,
            length_ns,
            load_ns,
            // Replay sessions without work in this chunk do not take part.
            connections: if self.replay.is_some() { sum.active } else { sum.connections },
            dropped: slice.schedule.as_ref().map_or(0, |schedule| schedule.dropped(guard_end_ns)),
            totals: sum.totals,
            spent,
            threads,
        };
        self.call.writer.send(&Answer::Slice(Box::new(record)));
        Ok(true)
    }

    fn intended_starts(&self, block: u64, turn: u64) -> Option<Vec<u64>> {
        let Load::Open { rate_per_s, arrivals } = self.request.load else { return None };
        let length_ns = self.request.whole_guard_ns() + self.request.slice_ns;
        Some(intended_starts(arrivals, rate_per_s, length_ns, [self.request.key_seed, block, turn, 0]))
    }

    fn freeze(&mut self, index: usize) -> Result<(), Failure> {
        let arm = self.arms[index].arm;
        let Some(pid) = arm.server_pid else { return Ok(()) };
        self.freezer.freeze(pid).map_err(|error| {
            let message = format!("freeze: {error}; run the engine as the server's user, or measure without freeze");
            Failure::bad_request(message).on_arm(&arm.name)
        })
    }

    fn abandon(self, failure: Failure) -> Failure {
        self.arms.into_iter().fold(failure, |failure, arm| arm.workers.abandon(failure))
    }

    fn finish(self, blocks: u64) -> Result<Answer, Failure> {
        let done = self.done(blocks);
        let (names, workers): (Vec<_>, Vec<_>) = self.arms.into_iter().map(|arm| (&arm.arm.name, arm.workers)).unzip();
        let ended: Vec<_> = workers.into_iter().map(ArmWorkers::end).collect();
        let latencies = ended.into_iter().collect::<Result<Vec<_>, _>>()?;
        for (name, latencies) in names.into_iter().zip(&latencies) {
            send_histograms(self.call, self.request, name, latencies);
        }
        Ok(done)
    }

    fn done(&self, blocks: u64) -> Answer {
        let stopped = self.arms.iter().map(|arm| self.request.threads - arm.live);
        Answer::Done {
            id: self.call.id,
            seconds: seconds(now_ns() - self.started_ns),
            blocks: Some(blocks),
            cancelled: self.call.is_cancelled(),
            workers_stopped: Some(stopped.sum::<usize>() as u64),
        }
    }
}

impl Measure {
    fn slice(&self, (block, turn): (u64, u64), start_ns: u64, live: usize, starts: Option<Vec<u64>>) -> Slice {
        let guard_end_ns = start_ns + self.whole_guard_ns();
        let deadline_ns = match self.capture {
            Some(_) => u64::MAX, // the work ends it
            None => guard_end_ns + self.slice_ns,
        };
        let give_up_ns = deadline_ns.saturating_add(QUEUE_LIMIT_NS);
        let schedule = starts.map(|starts| ArrivalSchedule::of_slice(starts, start_ns, give_up_ns));
        Slice { block, turn, start_ns, guard_end_ns, deadline_ns, open_windows: live.into(), schedule }
    }
}

/// Until `init()` has returned, its thread and all workers are busy.
fn too_late(busy: usize, threads: usize, late: &str) -> String {
    if busy > threads {
        return format!("init() did not return within {} s", SET_UP_LIMIT.as_secs());
    }
    format!("{busy} of {threads} workers {late}")
}

fn not_paired(reason: String) -> Failure {
    Failure::new(Code::NotPaired, format!("connections cannot be paired: {reason}"))
}

#[cfg(test)]
#[path = "../tests/unit/measure.rs"]
mod tests;
