//! Runs sysbench-style Lua scripts in LuaJIT.
//!
//! Owns: one Lua state a worker, sysbench's life cycle and API, random distributions, the C symbols that scripts reach through
//! `ffi.C`. Knows nothing of sockets, MySQL packets, latencies or arms: the engine implements [`host::Host`] and
//! [`host::Connection`]. Each state lives on one thread and is never shared.
//!
//! ```text
//! script.lua ──► lua/*.lua (API, ours)  ──ffi.C──►  symbols/  ──►  session  ──►  host::Host, host::Connection
//!                                                                    └─ random/
//! ```
//!
//! The program that links this crate must be linked with `-rdynamic` (a line in its `build.rs`): `ffi.C` finds only what an
//! executable exports. [`Script::load`] fails with a message when it was not.

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
pub use script::{Description, Script, ThreadRole, describe};
pub use session::reseed;
pub use source::{ScriptSource, bundled_names, find, find_on_path};
