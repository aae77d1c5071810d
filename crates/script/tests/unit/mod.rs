//! Unit tests that need only what the whole crate sees. Those of private items are in their modules.

mod error;
mod histogram;
mod options;
mod random;
mod runtime;
mod source;
