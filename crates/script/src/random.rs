//! Random numbers: one generator a thread, sysbench's distributions over it, rows of random text.
//!
//! Everything follows from the settings' seed: a stream is named by numbers ([`Generator::for_stream`]), never by a clock.

mod alphabets;
mod content;
mod distributions;
mod generator;
mod text;
mod unique;

pub use content::{Content, Encoding, Texts};
pub use distributions::{Distributions, Zipfian};
pub use generator::{Generator, StreamKind};
pub use text::{SbtestRow, fill_template, fill_varied, push_decimal};
pub use unique::{Unique, UniquePlace};
