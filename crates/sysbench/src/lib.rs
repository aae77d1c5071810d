//! The drop-in for sysbench: `bakeoff-engine sysbench …`, or the engine under the name `sysbench` (`docs/sysbench.md`).
//!
//! Same command line, same scripts, same output. Written from a description of sysbench's interface (its own code is GPL, and none of
//! it is here); its bugs are not taken over. Workers, connections and histograms are `bakeoff-load`'s, as for `drive`.
//!
//! ```text
//! invocation ─► command_line ─► options
//!     ├─► run_options, server
//!     ├─► test                       a script and its commands, or cpu
//!     └─► run ─► test, stats, session   one worker pool
//!          └─► report/reporter ─► report/*
//! ```

mod command_line;
mod console;
mod invocation;
mod options;
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
    /// Cargo's profile.
    pub profile: &'static str,
    /// The commit that was checked out, with `+` when the working tree differed.
    pub commit: &'static str,
}
