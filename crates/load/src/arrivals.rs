//! Arrival schedules of an open loop, and the order in which a block's arms take their turns. Both follow from a seed.
//! A worker takes the next start with one atomic addition, and a lock only to move to the next piece.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

use crate::lock;

/// A stream is drawn in pieces of at most this length [ns] and about [`PIECE_STARTS`] starts.
const LONGEST_PIECE_NS: u64 = 1_000_000_000;
const PIECE_STARTS: u64 = 65_536;

/// Starts of a stream that may wait, as in sysbench. With a mistyped rate, following it further would take forever.
pub const LONGEST_QUEUE: u64 = 100_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    #[default]
    Poisson,
    Fixed,
}

/// Creates the generator that follows from four numbers, the same in every version and on every machine.
pub(crate) fn generator(key: [u64; 4]) -> ChaCha8Rng {
    let mut seed = [0; 32];
    for (bytes, number) in seed.chunks_exact_mut(8).zip(key) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
    ChaCha8Rng::from_seed(seed)
}

/// Draws intended starts [ns], in order, below `length_ns`. The key of a slice is its seed, its block, its turn of the
/// block (0 or 1) and 0, so all arms of a block face the same arrivals.
/// Fixed gaps have a random phase, so that rates below one per slice are right on average.
pub fn intended_starts(arrivals: Arrivals, rate_per_s: f64, length_ns: u64, key: [u64; 4]) -> Vec<u64> {
    let mut random = generator(key);
    let gap_ns = 1e9 / rate_per_s;
    let length_ns = length_ns as f64;
    let mut starts = Vec::with_capacity((length_ns / gap_ns * 1.1) as usize + 16);
    let mut uniform = || random.random::<f64>();
    let exponential = |uniform: f64| -(1.0 - uniform).ln();
    let mut start_ns = match arrivals {
        Arrivals::Poisson => exponential(uniform()) * gap_ns,
        Arrivals::Fixed => uniform() * gap_ns,
    };
    while start_ns < length_ns {
        starts.push(start_ns as u64);
        start_ns += match arrivals {
            Arrivals::Poisson => exponential(uniform()) * gap_ns,
            Arrivals::Fixed => gap_ns,
        };
    }
    starts
}

/// Part of a schedule. Later parts are drawn on demand.
#[derive(Debug, Default)]
pub struct Piece {
    number: u64,
    origin_ns: u64,
    starts: Vec<u64>,
    next_start: Shared,
    /// Number of starts in all earlier pieces.
    earlier: u64,
    next: OnceLock<Option<Arc<Piece>>>,
}

/// Alone in its pair of cache lines, because every worker of the arm writes it once per event.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shared(AtomicUsize);

impl Piece {
    #[inline]
    fn take(&self) -> Option<u64> {
        let start_ns = self.starts.get(self.next_start.0.fetch_add(1, Relaxed))?;
        Some(self.origin_ns + start_ns)
    }

    fn taken(&self) -> usize {
        self.next_start.0.load(Relaxed).min(self.starts.len())
    }

    fn before(&self, time_ns: u64) -> usize {
        let offset_ns = time_ns.saturating_sub(self.origin_ns);
        self.starts.partition_point(|&start| start < offset_ns)
    }
}

#[derive(Debug)]
pub struct ArrivalSchedule {
    /// The first piece that may have starts left.
    front: Mutex<Arc<Piece>>,
    give_up_ns: u64,
    stream: Option<Stream>,
}

#[derive(Debug)]
struct Stream {
    rate_per_s: u32,
    seed: u64,
    piece_ns: u64,
    end_ns: u64,
}

impl Stream {
    /// Poisson arrivals have no memory, so each piece has its own key.
    fn piece(&self, number: u64, origin_ns: u64, earlier: u64) -> Arc<Piece> {
        let length_ns = self.end_ns.saturating_sub(origin_ns).min(self.piece_ns);
        let key = [self.seed, u64::from(self.rate_per_s), number, 1];
        let starts = intended_starts(Arrivals::Poisson, f64::from(self.rate_per_s), length_ns, key);
        Arc::new(Piece { number, origin_ns, starts, earlier, ..Piece::default() })
    }
}

impl ArrivalSchedule {
    pub fn of_slice(starts: Vec<u64>, start_ns: u64, give_up_ns: u64) -> Self {
        let piece = Piece { origin_ns: start_ns, starts, ..Piece::default() };
        Self { front: Mutex::new(Arc::new(piece)), give_up_ns, stream: None }
    }

    pub fn poisson(rate_per_s: u32, start_ns: u64, end_ns: u64, seed: u64) -> Self {
        let full_ns = LONGEST_PIECE_NS * PIECE_STARTS / u64::from(rate_per_s.max(1));
        let stream = Stream { rate_per_s, seed, piece_ns: full_ns.min(LONGEST_PIECE_NS), end_ns };
        let front = Mutex::new(stream.piece(0, start_ns, 0));
        Self { front, give_up_ns: u64::MAX, stream: Some(stream) }
    }

    pub fn first(&self) -> Arc<Piece> {
        Arc::clone(&lock(&self.front))
    }

    /// Takes the next intended start [ns of the clock] from `piece` on. None if all are taken or it is too late.
    #[inline]
    pub fn take(&self, piece: &mut Arc<Piece>, now_ns: u64) -> Option<u64> {
        if now_ns >= self.give_up_ns {
            return None;
        }
        loop {
            if let Some(start_ns) = piece.take() {
                return Some(start_ns);
            }
            *piece = self.after(piece)?;
            let mut front = lock(&self.front);
            if front.number < piece.number {
                *front = Arc::clone(piece);
            }
        }
    }

    fn after(&self, piece: &Piece) -> Option<Arc<Piece>> {
        let draw = || {
            let stream = self.stream.as_ref()?;
            let origin_ns =
                piece.origin_ns.checked_add(stream.piece_ns).filter(|origin_ns| *origin_ns < stream.end_ns)?;
            Some(stream.piece(piece.number + 1, origin_ns, piece.earlier + piece.starts.len() as u64))
        };
        piece.next.get_or_init(draw).clone()
    }

    /// After a slice: counts the intended starts from `first_counted_ns` [ns of the clock] on that were never taken.
    pub fn dropped(&self, first_counted_ns: u64) -> u64 {
        let piece = self.first();
        (piece.starts.len() - piece.taken().max(piece.before(first_counted_ns))) as u64
    }

    /// Counts the intended starts before `now_ns` [ns of the clock] that nobody has taken, and those that were taken.
    /// Stops when more than [`LONGEST_QUEUE`] wait.
    fn waiting_and_taken(&self, now_ns: u64) -> (u64, u64) {
        let mut piece = self.first();
        let (mut waiting, mut taken) = (0, piece.earlier);
        loop {
            waiting += piece.before(now_ns).saturating_sub(piece.taken()) as u64;
            taken += piece.taken() as u64;
            match self.after(&piece) {
                Some(next) if next.origin_ns < now_ns && waiting <= LONGEST_QUEUE => piece = next,
                _ => return (waiting, taken),
            }
        }
    }

    pub fn waiting(&self, now_ns: u64) -> u64 {
        self.waiting_and_taken(now_ns).0
    }

    /// Whether `waiting` starts at the end mean that the workers did not keep up. A few may just have arrived.
    pub fn fell_behind(&self, waiting: u64, workers: u32, end_ns: u64) -> bool {
        let (untaken, taken) = self.waiting_and_taken(end_ns);
        waiting > u64::from(workers) && waiting > (untaken + taken) / 100
    }
}

/// Blocks in a permuted group of two arms: two ABBA and two BAAB, so that their counts never differ by more than two.
const GROUP: usize = 4;

/// Endless orders of successive blocks, each a permutation of the arms and its reverse, so that a linear drift cancels.
/// Two arms: ABBA or BAAB by fair coin, in permuted groups of four.
#[derive(Debug, Clone)]
pub struct BlockOrders {
    arms: usize,
    random: ChaCha8Rng,
    group: Vec<bool>,
}

impl BlockOrders {
    pub fn new(arms: usize, seed: u64) -> Self {
        Self { arms, random: generator([seed, arms as u64, 0, 2]), group: Vec::new() }
    }

    fn permutation(&mut self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.arms).collect();
        if self.arms == 2 {
            if self.group.is_empty() {
                self.group = (0..GROUP).map(|index| index < GROUP / 2).collect();
                self.group.shuffle(&mut self.random);
            }
            if self.group.pop() == Some(true) {
                order.reverse();
            }
        } else {
            order.shuffle(&mut self.random);
        }
        order
    }
}

impl Iterator for BlockOrders {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        let mut order = self.permutation();
        order.extend_from_within(..);
        order[self.arms..].reverse();
        Some(order)
    }
}

#[cfg(test)]
#[path = "../tests/unit/arrivals.rs"]
mod tests;
