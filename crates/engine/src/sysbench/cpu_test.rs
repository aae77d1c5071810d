//! The built-in test `cpu`: prime numbers by trial division. People run it to see whether a machine is the one that they think it is.

/// Default of `--cpu-max-prime`.
pub(super) const MAX_PRIME: u64 = 10_000;

/// A value of `--cpu-max-prime`.
///
/// # Errors
/// One line.
pub(super) fn max_prime(number: &str) -> Result<u64, String> {
    number
        .parse()
        .ok()
        .filter(|limit| *limit > 0)
        .ok_or_else(|| format!("Invalid value of cpu-max-prime: {number}."))
}

/// One event: counts the primes from 3 to `max_prime` by dividing each number by all up to its square root, in 64 bits.
pub(super) fn event(max_prime: u64) -> u64 {
    let max_prime = std::hint::black_box(max_prime);
    let is_prime = |number: u64| {
        (2..)
            .take_while(|divisor| divisor * divisor <= number)
            .all(|divisor| !number.is_multiple_of(divisor))
    };
    let primes = (3..=max_prime).filter(|&number| is_prime(number)).count();
    std::hint::black_box(primes as u64)
}

#[cfg(test)]
mod tests {
    use super::event;

    #[test]
    fn there_are_1229_primes_below_10_000() {
        // 2 is not counted.
        assert_eq!(event(10_000), 1228);
        assert_eq!(event(30), 9);
    }
}
