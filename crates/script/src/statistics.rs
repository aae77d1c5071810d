//! What report hooks are told.

use mlua::{Lua, Table};

/// What a report hook is told; times in seconds, latencies in seconds. Fields that are `None` are absent from the table.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[allow(missing_docs, reason = "the names are sysbench's")]
pub struct Statistics {
    pub threads_running: u32,
    pub time_interval: f64,
    pub time_total: f64,
    pub latency_pct: f64,
    pub events: u64,
    pub reads: u64,
    pub writes: u64,
    pub other: u64,
    pub errors: u64,
    pub reconnects: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub queue_length: Option<u64>,
    pub concurrency: Option<u64>,
    pub latency_min: Option<f64>,
    pub latency_max: Option<f64>,
    pub latency_avg: Option<f64>,
    pub latency_sum: Option<f64>,
}

impl Statistics {
    /// The table that a hook gets.
    pub(crate) fn to_table(self, lua: &Lua) -> mlua::Result<Table> {
        let table = lua.create_table()?;
        let whole = [
            ("threads_running", Some(u64::from(self.threads_running))),
            ("events", Some(self.events)),
            ("reads", Some(self.reads)),
            ("writes", Some(self.writes)),
            ("other", Some(self.other)),
            ("errors", Some(self.errors)),
            ("reconnects", Some(self.reconnects)),
            ("bytes_read", Some(self.bytes_read)),
            ("bytes_written", Some(self.bytes_written)),
            ("queue_length", self.queue_length),
            ("concurrency", self.concurrency),
        ];
        for (name, value) in whole {
            table.set(name, value.map(|value| value as f64))?;
        }
        let seconds = [
            ("time_interval", Some(self.time_interval)),
            ("time_total", Some(self.time_total)),
            ("latency_pct", Some(self.latency_pct)),
            ("latency_min", self.latency_min),
            ("latency_max", self.latency_max),
            ("latency_avg", self.latency_avg),
            ("latency_sum", self.latency_sum),
        ];
        for (name, value) in seconds {
            table.set(name, value)?;
        }
        Ok(table)
    }
}
