//! What the command asks of the system for its whole process, before it starts a thread.

/// Raises the limit of open files as far as one may: thousands of connections are two each, one to use and one to cut.
pub(super) fn allow_many_files() {
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

/// A run whose output nobody reads any more ends, as any command's does (`sysbench … | head`). Sockets send without this signal.
pub(super) fn end_with_the_reader() {
    // SAFETY: sets the signal's own default, which Rust's start-up has replaced, before any thread exists.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
