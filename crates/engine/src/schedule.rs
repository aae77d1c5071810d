//! Intended starts of an open loop: fixed before the slice, the same for every arm, moved by no reply.

use crate::contract::Arrivals;
use crate::random::SplitMix64;

/// Intended starts within one slice [ns since its start], in order, below `length_ns`.
///
/// They depend on `(seed, block, turn)` and the law alone, where `turn` is 0 for an arm's first slice in the block and 1 for its second:
/// so all arms of a block face the same arrivals. Poisson: exponential gaps of mean 1/rate. Fixed: equal gaps, with a random phase so
/// that rates below one a slice are right on average.
pub fn intended_starts(
    arrivals: Arrivals,
    rate_per_s: f64,
    length_ns: u64,
    (seed, block, turn): (u64, u64, u64),
) -> Vec<u64> {
    let mut stream = SplitMix64::of(&[seed, block, turn]);
    let gap_ns = 1e9 / rate_per_s;
    #[expect(clippy::cast_precision_loss, reason = "an hour in ns has 42 bits")]
    let length_ns = length_ns as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bounded at 20 million by the contract"
    )]
    let mut starts = Vec::with_capacity((length_ns / gap_ns * 1.1) as usize + 16);
    let mut start_ns = match arrivals {
        Arrivals::Poisson => exponential(&mut stream) * gap_ns,
        Arrivals::Fixed => stream.unit() * gap_ns,
    };
    while start_ns < length_ns {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to an hour"
        )]
        starts.push(start_ns as u64);
        start_ns += match arrivals {
            Arrivals::Poisson => exponential(&mut stream) * gap_ns,
            Arrivals::Fixed => gap_ns,
        };
    }
    starts
}

/// A draw from the exponential distribution of mean 1, by inversion; `1 - u` is above 0, so it is finite.
fn exponential(stream: &mut SplitMix64) -> f64 {
    -(1.0 - stream.unit()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn starts_are_in_order_within_the_slice_and_follow_from_the_key(
            rate_per_s in 0.1_f64..1e5,
            length_ns in 1_u64..1_000_000_000,
            key: (u64, u64, u64),
            fixed: bool,
        ) {
            let law = if fixed { Arrivals::Fixed } else { Arrivals::Poisson };
            let starts = intended_starts(law, rate_per_s, length_ns, key);
            prop_assert!(starts.is_sorted());
            prop_assert!(starts.last().is_none_or(|&last| last < length_ns));
            prop_assert_eq!(intended_starts(law, rate_per_s, length_ns, key), starts);
        }
    }

    #[test]
    fn poisson_counts_have_the_mean_and_variance_of_the_law() {
        // 2000 slices of 100 expected arrivals: the mean's standard error is 0.22, the variance's 3.2.
        let counts: Vec<f64> = (0..2_000)
            .map(|block| {
                intended_starts(Arrivals::Poisson, 1_000.0, 100_000_000, (1, block, 0)).len() as f64
            })
            .collect();
        let mean = counts.iter().sum::<f64>() / 2_000.0;
        let variance = counts
            .iter()
            .map(|count| (count - mean).powi(2))
            .sum::<f64>()
            / 1_999.0;
        assert!((mean - 100.0).abs() < 1.5, "{mean}");
        assert!((variance - 100.0).abs() < 20.0, "{variance}");
    }

    #[test]
    fn fixed_gaps_are_equal() {
        let starts = intended_starts(Arrivals::Fixed, 1_000.0, 50_000_000, (1, 2, 0));
        assert_eq!(starts.len(), 50);
        assert!(
            starts
                .windows(2)
                .all(|pair| (pair[1] - pair[0]).abs_diff(1_000_000) <= 1)
        );
    }

    #[test]
    fn fewer_than_one_a_slice_are_right_on_average() {
        let count: usize = (0..1_000)
            .map(|block| intended_starts(Arrivals::Fixed, 3.0, 100_000_000, (9, block, 1)).len())
            .sum();
        // 300 expected, standard deviation 14.
        assert!((230..370).contains(&count), "{count}");
    }
}
