//! sysbench's histogram: scripts fill their own, and a run's latencies are shown in one.

#[derive(Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    minimum: f64,
    per_log: f64,
}

impl Histogram {
    const BAR: usize = 40;

    pub fn new(size: usize, minimum: f64, maximum: f64) -> Option<Self> {
        let usable = (2..=1 << 24).contains(&size) && minimum > 0.0 && maximum > minimum && maximum.is_finite();
        let per_log = (size.max(2) - 1) as f64 / (maximum / minimum).ln();
        usable.then(|| Self { counts: vec![0; size], minimum, per_log })
    }

    pub fn add(&mut self, value: f64, count: u64) {
        let place = ((value.max(self.minimum) / self.minimum).ln() * self.per_log + 0.5) as usize;
        let last = self.counts.len() - 1;
        self.counts[place.min(last)] += count;
    }

    pub fn lines(&self) -> Vec<String> {
        let most = self.counts.iter().copied().max().unwrap_or(0).max(1);
        let row = |(place, count): (usize, &u64)| {
            let value = self.minimum * (place as f64 / self.per_log).exp();
            let bar = "*".repeat((*count as f64 / most as f64 * Self::BAR as f64 + 0.5) as usize);
            format!("{value:12.3} |{bar:<40} {count}")
        };
        let heading = "       value  ------------- distribution ------------- count".to_owned();
        std::iter::once(heading)
            .chain(self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(row))
            .collect()
    }
}

#[cfg(test)]
#[path = "../tests/unit/histogram.rs"]
mod tests;
