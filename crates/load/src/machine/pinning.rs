//! Pins threads of servers, and unpins them when the program ends. A table lists each pinned thread for signal
//! handlers. A locked file in memory does the same for the next start after a SIGKILL.

use std::ffi::CString;
use std::fs::{File, OpenOptions, read_dir};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use rustix::fs::{FlockOperation, OFlags, flock, unlink};
use rustix::process::{Pid, geteuid};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::change;

const PLACES: usize = 1 << 17;
const FOLDER: &str = "/dev/shm";
const PREFIX: &str = "bakeoff-pinned-";
const ENTRY_BYTES: usize = 16;

/// Threads that are pinned or about to be, as ids of the server's process and of the thread. 0 marks a free place.
static PINNED: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];
static RECORD: OnceLock<Option<Record>> = OnceLock::new();

struct Record {
    file: File,
    path: CString,
}

#[derive(Debug)]
pub(crate) struct PinnedThread {
    place: usize,
    server: i32,
    thread: i32,
}

impl PinnedThread {
    pub(crate) fn new(server: i32, thread: i32, cpus: &CpuSet) -> Result<Self, String> {
        let entry = u64::from(server.cast_unsigned()) << 32 | u64::from(thread.cast_unsigned());
        let mut places = PINNED.iter();
        let place = places
            .position(|place| place.compare_exchange(0, entry, SeqCst, SeqCst).is_ok())
            .ok_or_else(|| format!("cannot pin more than {PLACES} threads at a time"))?;
        let pinned = Self { place, server, thread };
        pinned.record(entry, started_at(server, thread).unwrap_or_default());
        let done = pinned.pin(cpus);
        done.map(|()| pinned).map_err(|error| format!("the server's threads cannot be pinned: {error}"))
    }

    pub(crate) fn pin(&self, cpus: &CpuSet) -> rustix::io::Result<()> {
        change(|| sched_setaffinity(Pid::from_raw(self.thread), cpus)).unwrap_or(Ok(()))
    }

    fn record(&self, entry: u64, started: u64) {
        if let Some(Record { file, .. }) = RECORD.get_or_init(Record::new) {
            let bytes = [entry.to_ne_bytes(), started.to_ne_bytes()];
            let _ = file.write_all_at(bytes.as_flattened(), (self.place * ENTRY_BYTES) as u64);
        }
    }
}

impl Drop for PinnedThread {
    fn drop(&mut self) {
        unpin(self.server, self.thread);
        self.record(0, 0);
        PINNED[self.place].store(0, SeqCst);
    }
}

impl Record {
    fn new() -> Option<Self> {
        let path = Path::new(FOLDER).join(format!("{PREFIX}{}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).ok()?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(Self { file, path: CString::new(path.as_os_str().as_bytes()).ok()? })
    }
}

/// Unpins all threads. Safe in a signal handler: only atomics and system calls.
pub(crate) fn unpin_everything() {
    for place in &PINNED {
        let entry = place.load(SeqCst);
        if entry != 0 {
            let (server, thread) = ids(entry);
            unpin(server, thread);
        }
    }
    if let Some(Some(Record { path, .. })) = RECORD.get() {
        let _ = unlink(&**path);
    }
}

pub(crate) fn unpin_leftovers() {
    for entry in read_dir(FOLDER).into_iter().flatten().flatten() {
        if entry.file_name().as_bytes().starts_with(PREFIX.as_bytes()) {
            unpin_recorded(&entry.path());
        }
    }
}

fn unpin_recorded(path: &Path) -> Option<()> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).ok()?;
    let facts = file.metadata().ok()?;
    // An empty file has not been locked yet. Anyone can put files here.
    if !facts.is_file() || facts.len() == 0 || facts.uid() != geteuid().as_raw() {
        return None;
    }
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let mut entries = Vec::new();
    file.take((PLACES * ENTRY_BYTES) as u64).read_to_end(&mut entries).ok()?;
    for entry in entries.as_chunks::<ENTRY_BYTES>().0 {
        let (server, thread) = ids(u64::from_ne_bytes(*entry.first_chunk()?));
        if started_at(server, thread).is_some_and(|now| now.to_ne_bytes() == entry[8..]) {
            unpin(server, thread);
        }
    }
    std::fs::remove_file(path).ok()
}

fn ids(entry: u64) -> (i32, i32) {
    ((entry >> 32) as i32, entry as i32)
}

/// Gives a thread the CPUs of its server's first thread, which serves no connection and so is never pinned.
fn unpin(server: i32, thread: i32) {
    if let Ok(cpus) = sched_getaffinity(Pid::from_raw(server)) {
        let _ = sched_setaffinity(Pid::from_raw(thread), &cpus);
    }
}

/// Start time of a thread [ticks since boot]. No two threads since boot share both id and start time.
fn started_at(process: i32, thread: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/task/{thread}/stat")).ok()?;
    // The 22nd field. The second is a name in parentheses and may contain spaces and parentheses.
    stat.rsplit(')').next()?.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
#[path = "../../tests/unit/pinning.rs"]
mod tests;
