//! Unit tests that need only what the whole crate sees. Those of private items are in their modules.

mod error;
mod options;
mod runtime;
