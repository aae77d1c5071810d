//! Unit tests that need only what the whole crate sees. Those of private items are in their modules.

mod command_line;
mod option_files;
mod report_final_block;
mod report_mod;
mod run_options;
mod server;
mod stats;
