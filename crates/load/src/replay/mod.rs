mod read_only;
pub mod stream;
pub mod workload;
