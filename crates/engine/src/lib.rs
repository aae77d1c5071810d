//! Generates load on MySQL servers and measures it, steered by JSON lines (`docs/engine.md`).
//!
//! Owns: workers, arms, slices, pacing, `/proc` observation, the contract's messages. Joins `bakeoff-wire` (bytes),
//! `bakeoff-script` (Lua) and `bakeoff-metrics` (numbers), which know nothing of each other. Knows nothing of studies, verdicts or
//! how a server is started. A library so that its parts can be tested; `main.rs` only parses the command line.

pub mod arm;
pub mod barrier;
pub mod build_info;
pub mod command;
pub mod connector;
pub mod contract;
pub mod control;
pub mod counting;
pub mod desk;
pub mod drive;
pub mod freeze;
pub mod gate;
pub mod host;
pub mod latencies;
pub mod canceller;
pub mod measure;
pub mod net;
pub mod observe;
pub mod order;
pub mod message_writer;
pub mod placement;
mod process;
pub mod progress;
pub mod random;
mod records;
pub mod schedule;
pub mod scripting;
pub mod slice;
pub mod sysbench;
pub mod team;
pub mod workloads;
