//! The messages of `docs/engine.md`, contract version 2: requests read, answers written, failures named.
//!
//! Owns: the JSON shapes and the checks that need no server. Knows nothing of workers or sockets.

mod answer;
mod arm;
mod cell;
mod failure;
mod request;

pub use answer::{Answer, Build, Clock, OpenedArm, SliceRecord};
pub use arm::{Address, Arm, ArmPrepareMode, ArmTls, ArmTlsMode, Password};
pub use cell::{Arrivals, Length, Load, Measure, Placement};
pub use failure::{Code, Failure};
pub use request::{Body, Command, Request};

/// Version of the contract that this engine speaks.
pub const CONTRACT: u32 = 2;
