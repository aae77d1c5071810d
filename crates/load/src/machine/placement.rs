//! Pins the client thread and the server thread of each connection to one CPU, so that neither waits for another CPU to
//! wake it. The server's thread is found by what it does: it runs for each ping, and rests without.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bakeoff_script::host::SqlError;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rustix::process::Pid;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};
use serde::Deserialize;

use crate::arrivals::generator;
use crate::lock;
use crate::machine::observe::threads_of;
use crate::machine::pinning::PinnedThread;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    #[default]
    Free,
    Paired,
}

/// Pings in a row that the last remaining thread must answer.
const PINGS_ALONE: u32 = 3;
const RESTS: u32 = 2;
/// Wait before each look, so that the server's thread goes back to sleep. A ping takes 20 to 100 us.
const PAUSE: Duration = Duration::from_micros(60);
/// On a busy machine threads wait for their turn, so each attempt waits longer, up to this.
const PAUSE_MAX: Duration = Duration::from_millis(2);
/// How long to look for the thread of one connection. An attempt takes a millisecond; a busy machine may need several.
const FIND_LIMIT: Duration = Duration::from_secs(2);
/// Fifty draws in five seconds leave little to luck. More would cost too much: moved threads must refill their caches.
const SHUFFLE_EVERY: Duration = Duration::from_millis(100);
pub(crate) const SYS: &str = "/sys";

#[derive(Debug)]
pub struct Pairing {
    server_pid: i32,
    cpus: Vec<usize>,
    /// The memory node of each of them, in the same order.
    nodes: Vec<usize>,
    /// Locked while a connection is made and its thread is found, so that the others' threads are quiet.
    threads: Mutex<Threads>,
}

#[derive(Debug, Default)]
struct Threads {
    paired: HashMap<i32, Paired>,
    places: Vec<usize>,
    pairs_made: u64,
    /// Pairs whose thread was found to serve a later connection while their own was still open.
    contradicted: HashSet<u64>,
    failure: Option<String>,
}

#[derive(Debug)]
struct Paired {
    number: u64,
    worker: usize,
    client: Pid,
    pinned: PinnedThread,
}

impl Pairing {
    pub fn new(server_pid: i32) -> Result<Arc<Self>, String> {
        let theirs = sched_getaffinity(Pid::from_raw(server_pid))
            .map_err(|error| format!("cannot read the CPUs of the server's process {server_pid}: {error}"))?;
        let cpus = shared_cpus(&theirs)?;
        let nodes = nodes_of(&cpus, Path::new(SYS));
        Ok(Arc::new(Self { server_pid, cpus, nodes, threads: Mutex::default() }))
    }

    pub fn worker(self: &Arc<Self>, thread: u32) -> PairedWorker {
        PairedWorker { pairing: Arc::clone(self), worker: thread as usize }
    }

    fn shuffle(&self, order: &[usize]) {
        let mut threads = lock(&self.threads);
        threads.places = places_within_nodes(order, &self.nodes);
        for Paired { worker, client, pinned, .. } in threads.paired.values() {
            let cpu = self.cpu(&threads, *worker);
            // Either may have ended with its connection. The next one is pinned when it is made.
            let _ = pinned.pin(&cpu);
            let _ = sched_setaffinity(Some(*client), &cpu);
        }
    }

    fn cpu(&self, threads: &Threads, worker: usize) -> CpuSet {
        self.cpu_of(threads.places.get(worker).copied().unwrap_or(worker))
    }

    fn cpu_of(&self, place: usize) -> CpuSet {
        let mut cpu = CpuSet::new();
        cpu.set(self.cpus[place % self.cpus.len()]);
        cpu
    }

    /// Why not every connection is paired, or None if all are. Ask while the workers rest.
    pub fn failure(&self) -> Option<String> {
        let threads = lock(&self.threads);
        threads.failure.clone().or_else(|| {
            (!threads.contradicted.is_empty())
                .then(|| "one thread of the server was found to serve two connections".to_owned())
        })
    }
}

/// Moves the connections of all arms between the CPUs now and then, in the same way for all arms: the cost of a slice
/// depends on which connections share a CPU and on where they are. Each stays on the memory node where its heap is.
#[derive(Debug)]
pub struct CpuShuffle {
    pairings: Vec<Arc<Pairing>>,
    order: Vec<usize>,
    random: ChaCha8Rng,
    due: Instant,
}

impl CpuShuffle {
    pub fn new(pairings: Vec<Arc<Pairing>>, workers: usize, seed: u64) -> Self {
        let random = generator([seed, workers as u64, 0, 3]);
        Self { pairings, order: (0..workers).collect(), random, due: Instant::now() + SHUFFLE_EVERY }
    }

    pub fn shuffle_when_due(&mut self) {
        if Instant::now() < self.due {
            return;
        }
        self.order.shuffle(&mut self.random);
        for pairing in &self.pairings {
            pairing.shuffle(&self.order);
        }
        self.due = Instant::now() + SHUFFLE_EVERY;
    }
}

#[derive(Debug, Clone)]
pub struct PairedWorker {
    pairing: Arc<Pairing>,
    worker: usize,
}

impl PairedWorker {
    /// Pins the calling thread to the worker's first CPU, so that memory it touches from now on is on that CPU's node.
    pub(crate) fn settle(&self) {
        // If it cannot be pinned, pairing will say so.
        let _ = sched_setaffinity(None, &self.pairing.cpu_of(self.worker));
    }

    /// Keeps the other workers from connecting until this connection's thread is found. Returns None if
    /// pairing has already failed.
    pub(crate) fn begin(&self) -> Option<Search<'_>> {
        let threads = lock(&self.pairing.threads);
        threads.failure.is_none().then_some(Search { worker: self, threads })
    }
}

pub(crate) struct Search<'a> {
    worker: &'a PairedWorker,
    threads: MutexGuard<'a, Threads>,
}

impl Search<'_> {
    /// Finds the thread that answers `ping`, and pins it and the calling thread to the worker's CPU. None if that is
    /// impossible; [`Pairing::failure`] says why.
    pub(crate) fn pair(mut self, mut ping: impl FnMut() -> Result<(), SqlError>) -> Result<Option<Pair>, SqlError> {
        let outcome = match self.find(&mut ping)? {
            Some(thread) => self.pin(thread),
            None => Err("cannot tell which server thread serves which connection".to_owned()),
        };
        Ok(outcome.map_err(|reason| self.threads.failure.get_or_insert(reason).clone()).ok())
    }

    fn find(&self, ping: &mut impl FnMut() -> Result<(), SqlError>) -> Result<Option<i32>, SqlError> {
        let pid = self.worker.pairing.server_pid;
        let until = Instant::now() + FIND_LIMIT;
        let mut pause = PAUSE;
        while Instant::now() < until {
            // Later attempts look at all threads, because one whose own connection was killed may serve this one.
            let again = pause > PAUSE;
            let mut threads: Vec<TimesRun> = threads_of(pid)
                .filter(|thread| again || !self.threads.paired.contains_key(thread))
                .filter_map(|thread| TimesRun::open(pid, thread))
                .collect();
            // Other threads run in many looks, but not in all. Only the connection's own remains.
            let mut alone = 0;
            while !threads.is_empty() && Instant::now() < until {
                ping()?;
                wait(pause);
                threads.retain_mut(TimesRun::answers);
                alone = if matches!(threads[..], [TimesRun { missed: false, .. }]) { alone + 1 } else { 0 };
                if alone == PINGS_ALONE {
                    // A thread that waits for its CPU may run late, so it is pinged again.
                    alone = 0;
                    let rests = (0..RESTS).all(|_| {
                        wait(pause);
                        !threads[0].ran()
                    });
                    if rests {
                        return Ok(Some(threads[0].thread));
                    }
                }
            }
            pause = PAUSE_MAX.min(pause + PAUSE);
        }
        Ok(None)
    }

    fn pin(&mut self, thread: i32) -> Result<Pair, String> {
        let PairedWorker { pairing, worker } = self.worker;
        let cpu = pairing.cpu(&self.threads, *worker);
        let earlier = self.threads.paired.remove(&thread).map(|pair| pair.number);
        let pinned = PinnedThread::new(pairing.server_pid, thread, &cpu)?;
        sched_setaffinity(None, &cpu).map_err(|error| format!("the client's threads cannot be pinned: {error}"))?;
        let threads = &mut *self.threads;
        threads.pairs_made += 1;
        let number = threads.pairs_made;
        threads.contradicted.extend(earlier);
        threads.paired.insert(thread, Paired { number, worker: *worker, client: gettid(), pinned });
        Ok(Pair { pairing: Arc::clone(pairing), thread, number })
    }
}

/// A connection's server thread, pinned until this is dropped. Drop it before closing the connection, because the
/// server may reuse the thread.
#[derive(Debug)]
pub(crate) struct Pair {
    pairing: Arc<Pairing>,
    thread: i32,
    number: u64,
}

impl Drop for Pair {
    fn drop(&mut self) {
        let mut threads = lock(&self.pairing.threads);
        threads.contradicted.remove(&self.number);
        if threads.paired.get(&self.thread).is_some_and(|pair| pair.number == self.number) {
            threads.paired.remove(&self.thread);
        }
    }
}

/// Gives each worker a place on its own node: the workers in `order`, the places of each node ascending.
fn places_within_nodes(order: &[usize], nodes: &[usize]) -> Vec<usize> {
    let node = |place: &usize| nodes[place % nodes.len()];
    let (mut workers, mut free) = (order.to_vec(), (0..order.len()).collect::<Vec<_>>());
    workers.sort_by_key(node); // stable, so on each node they stay in order
    free.sort_by_key(node);
    let mut places = vec![0; order.len()];
    for (worker, place) in workers.into_iter().zip(free) {
        places[worker] = place;
    }
    places
}

fn shared_cpus(theirs: &CpuSet) -> Result<Vec<usize>, String> {
    let mut both = sched_getaffinity(None).map_err(|error| format!("cannot read the client's CPUs: {error}"))?;
    (0..CpuSet::MAX_CPU).filter(|&cpu| !theirs.is_set(cpu)).for_each(|cpu| both.unset(cpu));
    if both.count() == 0 {
        return Err("client and server share no CPU".to_owned());
    }
    Ok(cores_first(&both, Path::new(SYS)))
}

/// Returns the usable CPUs, one of each core before its siblings.
pub(crate) fn cores_first(usable: &CpuSet, sys: &Path) -> Vec<usize> {
    let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| usable.is_set(cpu)).collect();
    let mut cpus = usable.clone();
    cpus.sort_by_cached_key(|&cpu| (siblings_before(cpu, &usable, sys), cpu));
    cpus
}

fn siblings_before(cpu: usize, usable: &[usize], sys: &Path) -> usize {
    let path = sys.join(format!("devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
    let list = std::fs::read_to_string(path).unwrap_or_default();
    parse_list(&list).filter(|sibling| *sibling < cpu && usable.contains(sibling)).count()
}

/// Returns the memory node of each CPU, 0 on machines without nodes.
fn nodes_of(cpus: &[usize], sys: &Path) -> Vec<usize> {
    let list = |file: &str| {
        let text = std::fs::read_to_string(sys.join("devices/system/node").join(file)).unwrap_or_default();
        parse_list(&text).collect::<Vec<_>>()
    };
    let nodes = list("online").into_iter().map(|node| (node, list(&format!("node{node}/cpulist"))));
    let node_of: HashMap<_, _> = nodes.flat_map(|(node, own)| own.into_iter().map(move |cpu| (cpu, node))).collect();
    cpus.iter().map(|cpu| node_of.get(cpu).copied().unwrap_or_default()).collect()
}

/// Parses a list of numbers as the kernel writes it: `0-2,8`.
fn parse_list(list: &str) -> impl Iterator<Item = usize> {
    list.trim()
        .split(',')
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.parse().ok()?..=last.parse().ok()?)
        })
        .flatten()
}

/// Waits. The shortest pauses spin, because waking from sleep takes longer than they do.
fn wait(pause: Duration) {
    if pause > PAUSE {
        return std::thread::sleep(pause);
    }
    let until = Instant::now() + pause;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

struct TimesRun {
    thread: i32,
    file: File,
    times: u64,
    missed: bool,
}

impl TimesRun {
    fn open(pid: i32, thread: i32) -> Option<Self> {
        let file = File::open(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
        let mut opened = Self { thread, file, times: 0, missed: false };
        opened.ran();
        Some(opened)
    }

    fn ran(&mut self) -> bool {
        let before = self.times;
        let mut buffer = [0; 80];
        let length = rustix::io::pread(&self.file, &mut buffer, 0).unwrap_or_default();
        let times = std::str::from_utf8(&buffer[..length])
            .ok()
            .and_then(|text| text.split_ascii_whitespace().nth(2)?.parse().ok());
        self.times = times.unwrap_or(before);
        self.times != before
    }

    /// Whether the thread may be the one that answers the pings: it ran in this look or in the one before. A thread
    /// that did not get to sleep between two pings answers the second without a new start.
    fn answers(&mut self) -> bool {
        let missed = !self.ran();
        let twice = missed && self.missed;
        self.missed = missed;
        !twice
    }
}

#[cfg(test)]
#[path = "../../tests/unit/placement.rs"]
mod tests;
