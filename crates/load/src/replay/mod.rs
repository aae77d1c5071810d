//! Captures as workloads: the stream of chunks that all arms share, and the sessions that run them.

mod read_only;
pub mod stream;
pub mod workload;
