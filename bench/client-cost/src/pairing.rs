//! Both threads of a connection on one CPU: the server's, which the server reports, and the calling one.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::connection::{Connection, Failure};

const THREAD: &str = "SELECT THREAD_OS_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()";

/// Pins the thread that serves the connection and the calling thread to the CPU.
pub(crate) fn pair(connection: &mut Connection, cpu: usize) -> Result<(), Failure> {
    let serving = connection
        .number(THREAD)?
        .and_then(|thread| Pid::from_raw(i32::try_from(thread).ok()?))
        .ok_or(Failure::Protocol("the server does not report its threads"))?;
    let mut only = CpuSet::new();
    only.set(cpu);
    for thread in [Some(serving), None] {
        sched_setaffinity(thread, &only).map_err(|_| Failure::Protocol("a connection's threads cannot be pinned"))?;
    }
    Ok(())
}
