//! The drop-in for sysbench: `bakeoff-engine sysbench …`, or the engine under the name `sysbench` (`docs/reference/sysbench.md`).
//!
//! Same command line, scripts and output, without the bugs. Written from a description of sysbench's interface: its own code is GPL, and
//! none of it is here. Workers, connections and histograms come from `bakeoff-load`, as for `drive`.
//!
//! ```text
//! invocation ─► command_line ─► option_files
//!     ├─► run_options, server
//!     ├─► test                       a script and its commands, or cpu
//!     └─► run ─► test, stats, session   one worker pool
//!          └─► report/reporter ─► report/*
//! ```

mod command_line;
mod console;
mod invocation;
mod option_files;
mod report;
mod run;
mod run_options;
mod server;
mod session;
mod stats;
mod test;

pub use invocation::sysbench;

/// How the program was built, for the JSON result.
#[derive(Debug, Clone, Copy)]
pub struct Build {
    pub profile: &'static str,
    /// The commit, with `+` if the working tree differed.
    pub commit: &'static str,
}
