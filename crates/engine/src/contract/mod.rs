//! The messages of `docs/engine.md`, contract version 1: requests read, answers written, failures named.
//!
//! Owns: the JSON shapes and the checks that need no server. Knows nothing of workers or sockets.

mod answer;
mod failure;
mod request;

pub use answer::{Answer, Build, Clock, OpenedArm, SliceRecord};
pub use failure::{Code, Failure};
pub use request::{
    Address, Arm, ArmPrepareMode, ArmTls, ArmTlsMode, Arrivals, Body, Command, Length, Load,
    Measure, Request,
};

/// Version of the contract that this engine speaks.
pub const CONTRACT: u32 = 1;
