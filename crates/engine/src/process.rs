//! What is asked of the system for the whole process.

/// From so many workers on, the memory that setting them up has freed is worth a walk over the allocator's arenas.
const MANY_WORKERS: usize = 256;

/// Raises the limit of open files as far as one may: thousands of connections may be more than a login's limit.
pub(crate) fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // A limit that cannot be raised shows itself when connecting.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    );
}

/// Gives the pages back that loading so many workers' scripts has left behind: a third of all memory with thousands of them.
///
/// To be called when they are ready and rest.
pub(crate) fn give_back_memory(workers: usize) {
    #[cfg(target_env = "gnu")]
    if workers >= MANY_WORKERS {
        // SAFETY: locks each arena while it looks at it; takes no pointers.
        unsafe { libc::malloc_trim(0) };
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = (workers, MANY_WORKERS);
}

/// A run whose output nobody reads any more ends, as any command's does (`sysbench … | head`). Sockets send without this signal.
pub(crate) fn end_with_the_reader() {
    // SAFETY: sets the signal's own default, which Rust's start-up has replaced, before any thread exists.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
