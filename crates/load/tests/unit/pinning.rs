//! Tests of `src/pinning.rs`.

use super::*;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// A thread of this process that plays the server.
struct Thread {
    id: i32,
    end: Option<Sender<()>>,
    handle: Option<JoinHandle<()>>,
}

impl Thread {
    fn start() -> Self {
        let (send, receive) = channel();
        let (end, ended) = channel::<()>();
        let body = move || {
            send.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            let _ = ended.recv();
        };
        let handle = std::thread::spawn(body);
        Self { id: receive.recv().unwrap(), end: Some(end), handle: Some(handle) }
    }

    fn cpus(&self) -> CpuSet {
        sched_getaffinity(Pid::from_raw(self.id)).unwrap()
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.end = None;
        self.handle.take().unwrap().join().unwrap();
    }
}

fn own_pid() -> i32 {
    std::process::id().cast_signed()
}

fn all_cpus() -> CpuSet {
    sched_getaffinity(Pid::from_raw(own_pid())).unwrap()
}

fn one_cpu() -> CpuSet {
    let mut cpu = CpuSet::new();
    cpu.set((0..CpuSet::MAX_CPU).find(|&cpu| all_cpus().is_set(cpu)).unwrap());
    cpu
}

/// Writes the file that a killed program leaves behind.
fn file_of_the_killed(name: &str, thread: &Thread, started: u64) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("bakeoff-test-{name}-{}", own_pid()));
    let entry = u64::from(own_pid().cast_unsigned()) << 32 | u64::from(thread.id.cast_unsigned());
    // The first place is free.
    std::fs::write(&path, [0, 0, entry, started].map(u64::to_ne_bytes).as_flattened()).unwrap();
    path
}

#[test]
fn a_thread_is_pinned_and_gets_its_cpus_back() {
    let thread = Thread::start();
    let pinned = PinnedThread::new(own_pid(), thread.id, &one_cpu()).unwrap();
    assert_eq!(thread.cpus(), one_cpu());
    drop(pinned);
    assert_eq!(thread.cpus(), all_cpus());
}

#[test]
fn threads_left_pinned_by_a_killed_program_are_unpinned() {
    let thread = Thread::start();
    sched_setaffinity(Pid::from_raw(thread.id), &one_cpu()).unwrap();
    let path = file_of_the_killed("left", &thread, started_at(own_pid(), thread.id).unwrap());
    unpin_recorded(&path).unwrap();
    assert_eq!(thread.cpus(), all_cpus());
    assert!(!path.exists());
}

#[test]
fn a_thread_with_a_reused_id_is_left_alone() {
    let thread = Thread::start();
    sched_setaffinity(Pid::from_raw(thread.id), &one_cpu()).unwrap();
    let path = file_of_the_killed("later", &thread, 1);
    unpin_recorded(&path).unwrap();
    assert_eq!(thread.cpus(), one_cpu());
    assert!(!path.exists());
}

#[test]
fn threads_pinned_by_a_running_program_are_left_alone() {
    let thread = Thread::start();
    sched_setaffinity(Pid::from_raw(thread.id), &one_cpu()).unwrap();
    let path = file_of_the_killed("lives", &thread, started_at(own_pid(), thread.id).unwrap());
    let lock = File::open(&path).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    assert_eq!(unpin_recorded(&path), None);
    assert_eq!(thread.cpus(), one_cpu());
    std::fs::remove_file(&path).unwrap();
}
