//! The messages of `docs/engine.md`, contract version 2: requests read, answers written.
//!
//! The JSON shapes and the checks that need no server.

mod answer;
mod arm;
mod cell;
mod request;

pub use answer::{Answer, Build, Clock, OpenedArm, SliceRecord};
pub use arm::{Address, Arm};
pub use cell::{Length, Load, Measure};
pub use request::{Body, Command, Request};

/// Version of the contract that this engine speaks.
pub const CONTRACT: u32 = 2;
