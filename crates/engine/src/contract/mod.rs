//! The messages of `docs/engine.md`, contract version 3: requests read, answers written.
//!
//! The JSON shapes and the checks that need no server.

mod answer;
mod arm;
mod cell;
mod request;

pub use answer::{Answer, Build, Clock, FailureCount, OpenedArm, SliceRecord};
pub use arm::{Address, Arm};
pub use cell::{Length, Load, Measure, ReplayWork, Work};
pub use request::{Body, Command, DumpFile, DumpRows, LoadDump, Request};

/// Version of the contract that this engine speaks.
pub const CONTRACT: u32 = 3;
