//! The engine's requests: generates and measures load as JSON lines ask for it (`docs/reference/engine.md`). It knows
//! nothing of studies, verdicts or how a server is started.

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

#[cfg(test)]
#[path = "../tests/unit/mod.rs"]
mod tests;
