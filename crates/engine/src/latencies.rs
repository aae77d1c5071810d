//! Latency histograms of one worker or one arm, one for each operation.

use bakeoff_metrics::LatencyHistogram;

/// The operation that every script has.
pub const EVENT: &str = "event";

/// Histograms by operation: `event` first, then those that the script named, in the order met.
#[derive(Debug)]
pub struct Latencies {
    event: LatencyHistogram,
    named: Vec<(String, LatencyHistogram)>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            event: LatencyHistogram::new(),
            named: Vec::new(),
        }
    }
}

impl Latencies {
    /// The number of a named operation. Allocates when the name is new: once for each name and worker.
    pub fn operation(&mut self, name: &str) -> usize {
        match self.named.iter().position(|(known, _)| known == name) {
            Some(index) => index,
            None => {
                self.named.push((name.to_owned(), LatencyHistogram::new()));
                self.named.len() - 1
            }
        }
    }

    /// Records an event's latency, also under each name that it was given.
    #[inline]
    pub fn record(&mut self, operations: &[usize], latency_ns: u64) {
        self.event.record(latency_ns);
        for &operation in operations {
            if let Some((_, histogram)) = self.named.get_mut(operation) {
                histogram.record(latency_ns);
            }
        }
    }

    /// Adds what another worker recorded.
    pub fn merge(&mut self, other: &Self) {
        self.event.merge(&other.event);
        for (name, histogram) in &other.named {
            let index = self.operation(name);
            self.named[index].1.merge(histogram);
        }
    }

    /// `event` first, then the named operations by name.
    pub fn by_operation(&self) -> Vec<(&str, &LatencyHistogram)> {
        let mut all: Vec<_> = self
            .named
            .iter()
            .map(|(name, histogram)| (name.as_str(), histogram))
            .collect();
        all.sort_by_key(|(name, _)| *name);
        all.insert(0, (EVENT, &self.event));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_workers_joins_operations_by_name() {
        let worker = |names: &[&str]| {
            let mut latencies = Latencies::default();
            for (index, name) in names.iter().enumerate() {
                let operation = latencies.operation(name);
                latencies.record(&[operation], 1_000 * (index as u64 + 1));
            }
            latencies.record(&[], 9);
            latencies
        };
        let mut arm = Latencies::default();
        arm.merge(&worker(&["payment", "delivery"]));
        arm.merge(&worker(&["delivery"]));
        let counts: Vec<_> = arm
            .by_operation()
            .into_iter()
            .map(|(name, h)| (name, h.count(), h.max_ns()))
            .collect();
        assert_eq!(
            counts,
            [
                ("event", 5, 2_000),
                ("delivery", 2, 2_000),
                ("payment", 1, 1_000)
            ]
        );
    }
}
