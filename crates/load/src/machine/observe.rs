//! What a slice cost: CPU time, bytes and memory of client, server and machine. Whatever cannot be read is None.

use std::collections::BTreeMap;

use bakeoff_metrics::now_ns;
use rustix::param::{clock_ticks_per_second, page_size};
use serde::Serialize;

const BUSY_SHARE: u64 = 50;
/// Look at the server's threads one by one only in slices of at least this length.
const THREADS_FROM_NS: u64 = 100_000_000;
/// What is slow to read is skipped in enough slices that reading takes at most a fiftieth of an arm's time.
const READING_SHARE: u64 = 50;

/// Defines [`KernelCounters`], and the difference between two of them for each of the counters in the list.
macro_rules! kernel_counters {
    ($($counter:ident,)*) => {
        /// Kernel counters at one moment. All but `server_rss_bytes` only grow.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        pub struct KernelCounters {
            $(pub $counter: Option<u64>,)*
            pub server_rss_bytes: Option<u64>,
        }

        impl KernelCounters {
            /// Returns what was spent since `earlier`, scaled to `counted` of `whole` events or time, except memory.
            pub fn in_slice(&self, earlier: &Self, counted: u64, whole: u64) -> Self {
                let spent = |now: Option<u64>, then: Option<u64>| Some(part(now?.saturating_sub(then?), counted, whole));
                Self {
                    $($counter: spent(self.$counter, earlier.$counter),)*
                    server_rss_bytes: self.server_rss_bytes,
                }
            }
        }
    };
}

impl KernelCounters {
    fn of_host(&mut self) -> [&mut Option<u64>; 6] {
        let Self {
            host_user_ns, host_system_ns, host_iowait_ns, host_steal_ns, host_idle_ns, context_switches, ..
        } = self;
        [host_user_ns, host_system_ns, host_iowait_ns, host_steal_ns, host_idle_ns, context_switches]
    }
}

kernel_counters! {
    client_user_ns, client_system_ns, server_cpu_ns, server_read_bytes, server_write_bytes,
    host_user_ns, host_system_ns, host_iowait_ns, host_steal_ns, host_idle_ns, context_switches,
}

fn part(spent: u64, counted: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(spent) * u128::from(counted) / u128::from(whole).max(1)).unwrap_or(spent)
}

type ThreadTimes = BTreeMap<i32, u64>;

/// Reads the counters of this process, of the machine and of a server at both ends of a slice.
#[derive(Debug, Default)]
pub struct Observer {
    server_pid: Option<i32>,
    before: KernelCounters,
    after: KernelCounters,
    threads_before: ThreadTimes,
    threads_after: ThreadTimes,
    host: SparseReading,
    threads: SparseReading,
}

impl Observer {
    pub fn new(server_pid: Option<i32>) -> Self {
        Self { server_pid, ..Self::default() }
    }

    /// The client's CPU time comes last, so that the other readings are not charged to the slice.
    pub fn before_slice(&mut self, slice_ns: u64) {
        let Self { before, threads_before, .. } = self;
        *before = KernelCounters::default();
        self.host.read_if_due(slice_ns, || read_host(before));
        threads_before.clear();
        if let Some(pid) = self.server_pid {
            if slice_ns >= THREADS_FROM_NS {
                self.threads.read_if_due(slice_ns, || *threads_before = thread_times(pid));
            }
            read_server(pid, before);
        }
        read_client(before);
    }

    pub fn after_slice(&mut self) {
        let mut after = KernelCounters::default();
        read_client(&mut after);
        if let Some(pid) = self.server_pid {
            read_server(pid, &mut after);
            self.threads_after = if self.threads.is_due { thread_times(pid) } else { ThreadTimes::default() };
        }
        if self.host.is_due {
            read_host(&mut after);
        }
        self.after = after;
    }

    /// Returns what the slice cost, scaled to `counted` of `whole` events (or time). `load_ns` is how long it took.
    pub fn spent(&mut self, counted: u64, whole: u64, load_ns: u64) -> KernelCounters {
        let mut spent = self.after.in_slice(&self.before, counted, whole);
        let stands_for_ns = self.host.stands_for(load_ns);
        for counter in spent.of_host() {
            *counter = match stands_for_ns {
                0 => Some(0),
                _ => counter.map(|spent| part(spent, stands_for_ns, load_ns)),
            };
        }
        spent
    }

    /// Returns the server's threads that used at least a fiftieth of a CPU in a slice, and how much [ns].
    pub fn busy_threads(&mut self, slice_ns: u64, load_ns: u64) -> BTreeMap<String, u64> {
        self.threads.stands_for(load_ns);
        let Some(pid) = self.server_pid else { return BTreeMap::new() };
        let name = |thread: i32| {
            let path = format!("/proc/{pid}/task/{thread}/comm");
            std::fs::read_to_string(path).map(|name| name.trim().to_owned())
        };
        let process = name(pid).unwrap_or_default();
        let mut busy = BTreeMap::new();
        for (number, (thread, now_ns)) in self.threads_after.iter().enumerate() {
            let spent_ns = now_ns.saturating_sub(self.threads_before.get(thread).copied().unwrap_or_default());
            let spent_ns = part(spent_ns, slice_ns, load_ns);
            if spent_ns * BUSY_SHARE >= slice_ns {
                let own = name(*thread).ok().filter(|own| *own != process);
                let name = own.unwrap_or_else(|| format!("thread {number}"));
                *busy.entry(name).or_default() += spent_ns;
            }
        }
        busy
    }
}

/// A reading at both ends of a slice, skipped in some slices if it is slow.
#[derive(Debug, Default)]
struct SparseReading {
    cost_ns: u64,
    /// Load since the last slice in which it was read [ns].
    unread_ns: u64,
    is_due: bool,
}

impl SparseReading {
    fn read_if_due(&mut self, slice_ns: u64, read: impl FnOnce()) {
        self.is_due = self.unread_ns + slice_ns >= READING_SHARE * self.cost_ns;
        if self.is_due {
            let begun_ns = now_ns();
            read();
            self.cost_ns = 2 * (now_ns() - begun_ns);
        }
    }

    /// After a slice: how much load [ns] its reading covers, with the slices skipped before. 0 if it was not read.
    fn stands_for(&mut self, load_ns: u64) -> u64 {
        self.unread_ns += load_ns;
        if self.is_due { std::mem::take(&mut self.unread_ns) } else { 0 }
    }
}

/// CPU time of a process's threads so far, about 5 us per thread.
fn thread_times(pid: i32) -> ThreadTimes {
    threads_of(pid)
        .filter_map(|thread| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat"));
            let time_ns = text.ok()?.split_ascii_whitespace().next()?.parse().ok()?;
            Some((thread, time_ns))
        })
        .collect()
}

fn read_server(pid: i32, snapshot: &mut KernelCounters) {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    snapshot.server_cpu_ns = process_cpu_ns(pid);
    let io = read("io");
    snapshot.server_read_bytes = labelled(&io, "read_bytes:");
    snapshot.server_write_bytes = labelled(&io, "write_bytes:");
    let resident = read("statm").split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    snapshot.server_rss_bytes = resident.map(|pages| pages * page_size() as u64);
}

fn read_client(snapshot: &mut KernelCounters) {
    (snapshot.client_user_ns, snapshot.client_system_ns) = own_cpu_ns().unzip();
}

fn read_host(snapshot: &mut KernelCounters) {
    parse_host(&std::fs::read_to_string("/proc/stat").unwrap_or_default(), snapshot);
}

fn labelled(text: &str, label: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(label)?.trim().parse().ok())
}

/// Parses `/proc/stat`: the line of all CPUs (in ticks, usually 10 ms) and context switches since boot. See proc(5).
fn parse_host(text: &str, snapshot: &mut KernelCounters) {
    snapshot.context_switches = labelled(text, "ctxt");
    let Some(line) = text.lines().find_map(|line| line.strip_prefix("cpu ")) else { return };
    let ticks: Vec<u64> = line.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
    let tick_ns = 1_000_000_000 / clock_ticks_per_second().max(1);
    // user nice system idle iowait irq softirq steal; guest time is already in user and nice.
    let sum_ns = |columns: &[usize]| columns.iter().map(|&column| ticks.get(column).map(|t| t * tick_ns)).sum();
    snapshot.host_user_ns = sum_ns(&[0, 1]);
    snapshot.host_system_ns = sum_ns(&[2, 5, 6]);
    snapshot.host_idle_ns = sum_ns(&[3]);
    snapshot.host_iowait_ns = sum_ns(&[4]);
    snapshot.host_steal_ns = sum_ns(&[7]);
}

pub fn threads_of(pid: i32) -> impl Iterator<Item = i32> {
    std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

// libc for these two: rustix has neither getrusage nor the CPU clock of another process.

fn own_cpu_ns() -> Option<(u64, u64)> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: `usage` is a valid place to write to, and is read only when the call succeeded.
    let usage = unsafe {
        if libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) != 0 {
            return None;
        }
        usage.assume_init()
    };
    let ns = |time: libc::timeval| time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_usec.cast_unsigned() * 1_000;
    Some((ns(usage.ru_utime), ns(usage.ru_stime)))
}

/// Exact CPU time of all threads of a process [ns]. Needs no rights over the process.
fn process_cpu_ns(pid: i32) -> Option<u64> {
    // The kernel's number for a process's CPU clock: include/linux/posix-timers.h, CPUCLOCK_SCHED = 2, not per thread.
    let clock = ((!pid) << 3) | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place to write to; a clock that does not exist is an error, not undefined.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (result == 0).then(|| time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}

#[cfg(test)]
#[path = "../../tests/unit/observe.rs"]
mod tests;
