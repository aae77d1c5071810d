pub mod stream;
pub mod workload;
