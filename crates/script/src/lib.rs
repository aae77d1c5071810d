//! Runs sysbench-style Lua scripts in LuaJIT: one state per worker, sysbench's life cycle and API, random
//! distributions, and the C symbols that scripts reach through `ffi.C`. Knows nothing of sockets or arms: the engine
//! implements [`host::Host`], [`host::Events`] and [`host::Connection`]. A program that uses this crate must be linked
//! with `-rdynamic`, because `ffi.C` finds only what it exports.

pub mod error;
pub mod histogram;
pub mod host;
pub mod options;
pub mod random;
mod runtime;
pub mod script;
mod session;
pub mod source;
mod symbols;

pub use error::ScriptError;
pub use host::SqlCall;
pub use options::{IgnoreErrors, OptionDecl, OptionType, OptionValue, Settings};
pub use random::{RandKind, RandSettings};
pub use runtime::{CommandDecl, luajit_version};
pub use script::{Script, describe};
pub use session::reseed;
pub use source::{ScriptSource, bundled_names, find, find_on_path};

#[cfg(test)]
#[path = "../tests/unit/mod.rs"]
mod tests;
