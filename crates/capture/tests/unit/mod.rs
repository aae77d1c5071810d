//! Unit tests that need only what the whole crate sees. Those of private items are in their modules.

mod capture_file;
mod class;
mod digest;
mod event;
mod general_log;
mod input;
mod lexer;
mod logs;
mod redact;
mod session;
pub(crate) mod slow_log;
