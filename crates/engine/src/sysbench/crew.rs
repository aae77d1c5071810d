//! The worker threads of a run: started, made ready, watched to their end.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bakeoff_metrics::now_ns;
use bakeoff_script::host::LogLevel;

use super::run_options::RunOptions;
use super::test::Test;
use super::worker_host::{Load, WorkerHost};
use crate::gate::WaitError;
use crate::canceller::Canceller;
use crate::team::{guarded, precise_sleep, spawn_with_stack};

/// How long workers may take to end by themselves after one of them failed, and again after their connections were cut.
const GRACE: Duration = Duration::from_secs(5);
/// Longest wait between two looks at a failure.
const POLL: Duration = Duration::from_millis(200);

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// All events ended.
    Complete,
    /// A script failed; it has been told.
    Failed,
    /// Workers were not ready in time.
    NotReady,
    /// Events overran `--time` by more than `--forced-shutdown`; so many were given up.
    Forced {
        /// Events that had begun.
        unfinished: u64,
    },
}

/// The threads. They leave by the gate; nobody joins them, for a forced shutdown leaves some behind.
pub(super) struct Crew {
    load: Arc<Load>,
    cancellers: Vec<Arc<Canceller>>,
}

impl Crew {
    /// Starts all workers; they set themselves up in parallel.
    pub(super) fn start(test: &Arc<Test>, options: &RunOptions, load: &Arc<Load>) -> Self {
        let mut crew = Self {
            load: Arc::clone(load),
            cancellers: Vec::with_capacity(options.threads as usize),
        };
        for thread in 0..options.threads {
            let canceller = Arc::<Canceller>::default();
            crew.cancellers.push(Arc::clone(&canceller));
            let (test, its_load) = (Arc::clone(test), Arc::clone(load));
            let body = move || work(&test, thread, &its_load, canceller);
            if let Err(failure) =
                spawn_with_stack("sb", &thread.to_string(), options.stack_bytes, body)
            {
                load.session.console.fatal(&failure.message);
                // Those that never came to be cannot leave by themselves.
                (thread..options.threads).for_each(|_| load.gate.leave(Err(failure.clone())));
                break;
            }
        }
        crew
    }

    /// Waits until every worker waits for the start.
    ///
    /// # Errors
    /// [`Ending::Failed`] or [`Ending::NotReady`], which has been told; the workers are on their way out then.
    pub(super) fn wait_until_ready(&self, options: &RunOptions) -> Result<(), Ending> {
        let limit = options.thread_init_timeout;
        let console = &self.load.session.console;
        match self.load.gate.wait_all_resting(limit) {
            Ok(_) => Ok(()),
            Err(WaitError::Failed(_)) => {
                console.fatal("Thread initialization failed!");
                self.send_home();
                Err(Ending::Failed)
            }
            Err(WaitError::TimedOut { .. }) => {
                let seconds = limit.as_secs();
                console.fatal(&format!(
                    "Worker threads failed to initialize within {seconds} seconds!"
                ));
                self.load.gate.close();
                Err(Ending::NotReady)
            }
        }
    }

    /// Waits until every worker has ended, or one has failed, or the time for a forced shutdown has come.
    pub(super) fn wait_until_done(&self, options: &RunOptions, deadline_ns: u64) -> Ending {
        let gate = &self.load.gate;
        let grace_ns = options
            .forced_shutdown
            .map(|grace| u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX));
        let limit_ns = grace_ns.map_or(u64::MAX, |grace_ns| deadline_ns.saturating_add(grace_ns));
        loop {
            let left = Duration::from_nanos(limit_ns.saturating_sub(now_ns()));
            if gate.wait_all_gone(left.min(POLL)) == 0 {
                break;
            }
            if gate.failure().is_some() {
                self.send_home();
                break;
            }
            if now_ns() >= limit_ns {
                gate.close();
                return Ending::Forced {
                    unfinished: self.load.tally.events_running(),
                };
            }
        }
        if gate.failure().is_some() {
            Ending::Failed
        } else {
            Ending::Complete
        }
    }

    /// Ends the workers after a failure: events that run may end, then connections are cut.
    pub(super) fn send_home(&self) {
        let gate = &self.load.gate;
        gate.close();
        let until = Instant::now() + GRACE;
        if gate.wait_all_gone(GRACE) > 0 {
            self.cut();
            gate.wait_all_gone(until.saturating_duration_since(Instant::now()) + GRACE);
        }
    }

    /// Ends all connections, so that servers do not go on for nobody.
    pub(super) fn cut(&self) {
        self.cancellers.iter().for_each(|canceller| canceller.cut());
    }
}

/// One worker's whole life.
fn work(test: &Test, thread: u32, load: &Arc<Load>, canceller: Arc<Canceller>) {
    let console = &load.session.console;
    console.log(
        LogLevel::Debug,
        &format!("Worker thread (#{thread}) started"),
    );
    let result = guarded(|| {
        precise_sleep();
        let paired = load.pairing.as_ref().map(|pairing| pairing.worker(thread));
        let connector = load.session.connector(canceller).paired(paired);
        let host = Rc::new(WorkerHost::new(load, thread, connector));
        test.work(thread, &host)?;
        if let Some(reason) = host.reason_of_end() {
            console.log(LogLevel::Info, reason);
        }
        Ok(())
    });
    if result.is_err() {
        // The others begin no more events.
        load.gate.close();
    }
    load.gate.leave(result);
}
