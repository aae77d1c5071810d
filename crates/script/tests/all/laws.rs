//! Chi-square tests of random draws.

/// Pearson's statistic of observed counts against probabilities, and its degrees of freedom.
pub(crate) fn chi_square(observed: &[u64], expected: &[f64]) -> (f64, f64) {
    let total = observed.iter().sum::<u64>() as f64;
    let statistic = observed.iter().zip(expected).map(|(&n, p)| (n as f64 - total * p).powi(2) / (total * p)).sum();
    (statistic, observed.len() as f64 - 1.0)
}

/// The value that chi-square with `degrees` of freedom exceeds about once in a million (Wilson and Hilferty's approximation).
pub(crate) fn chi_square_limit(degrees: f64) -> f64 {
    let a = 2.0 / (9.0 * degrees);
    degrees * (1.0 - a + 4.75 * a.sqrt()).powi(3)
}
