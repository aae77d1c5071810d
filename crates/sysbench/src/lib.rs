//! The drop-in for sysbench: `bakeoff-engine sysbench …`, or the engine under the name `sysbench`
//! (`docs/reference/sysbench.md`). Written from a description of sysbench's interface: its own code is GPL, and none of
//! it is here. Workers, connections and histograms come from `bakeoff-load`.

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
