//! The engine's requests: makes and measures load as JSON lines ask for it (`docs/reference/engine.md`).
//!
//! The load itself comes from `bakeoff-load`. The engine knows nothing of studies, verdicts or how a server is started. It is a library so
//! that its parts can be tested. `main.rs` only parses the command line.
//!
//! ```text
//! drive ─► arm                    open: where the servers are
//!      ├─► command                a script's command on one arm
//!      ├─► load ─► dump_sql       a dump into one arm
//!      ├─► measure                the arms of a cell in turn, slice by slice
//!      └─► probe                  the network to the servers' host
//! captures                        query logs into captures, by `bakeoff-capture`
//! request, answer                 the JSON lines read and written
//! ```

pub mod answer;
pub mod arm;
pub mod captures;
pub mod command;
pub mod drive;
pub mod dump_sql;
pub mod load;
pub mod measure;
pub mod probe;
pub mod request;
pub mod scripts;
