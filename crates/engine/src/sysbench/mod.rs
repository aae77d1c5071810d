//! The drop-in for sysbench: `bakeoff-engine sysbench …`, or the engine under the name `sysbench` (`docs/sysbench.md`).
//!
//! Same command line, same scripts, same output. Written from a description of sysbench's interface (its own code is GPL, and none of
//! it is here); its bugs are not taken over. Shares connections, histograms and the script runtime with `drive`.
//!
//! ```text
//! command_line ─► run_options, server ─► commands            prepare, cleanup, a script's own
//!                                    └─► run ─► crew ─► worker_host ─► pace, tally
//!                                              └─► report/reporter ─► report/*
//! ```

mod command_line;
mod commands;
mod config_file;
mod console;
mod cpu_test;
mod crew;
mod dry_run;
mod header;
mod help;
mod idle;
mod invocation;
mod my_cnf;
mod options;
mod pace;
mod report;
mod run;
mod run_options;
mod server;
mod session;
mod tally;
mod test;
mod semaphore;
mod worker_host;

pub use invocation::sysbench;
