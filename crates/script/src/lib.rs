//! Runs sysbench-style Lua scripts in LuaJIT.
//!
//! Owns: one Lua state a worker, sysbench's life cycle and API, random distributions, the C symbols that scripts reach through
//! `ffi.C`. Knows nothing of sockets, MySQL packets, histograms or arms: everything a script wants from the world goes through
//! [`host::Host`] and [`host::Connection`], which the engine implements. Each state lives on one thread and is never shared.

pub mod host;
