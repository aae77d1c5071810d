//! Tests of `src/histogram.rs`.

use super::*;
use hdrhistogram::serialization::Deserializer;
use proptest::prelude::*;

fn recorded(values: &[u64]) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::default();
    for &value in values {
        histogram.record(value);
    }
    histogram
}

fn latency() -> impl Strategy<Value = u64> {
    prop_oneof![1_u64..1_000_000, 1_u64..HIGHEST_NS, Just(0), HIGHEST_NS..=u64::MAX / 1_000]
}

proptest! {
    #[test]
    fn merging_equals_recording_all(parts in prop::collection::vec(prop::collection::vec(latency(), 0..40), 1..6)) {
        let together = recorded(&parts.concat());
        let mut merged = LatencyHistogram::default();
        for part in &parts {
            merged.merge(&recorded(part));
        }
        prop_assert_eq!(merged.buckets, together.buckets);
        prop_assert_eq!(
            (merged.sum_ns, merged.min_ns, merged.max_ns),
            (together.sum_ns, together.min_ns, together.max_ns)
        );
    }

    #[test]
    fn quantiles_are_within_a_thousandth_of_sorting(
        mut values in prop::collection::vec(1_u64..HIGHEST_NS, 1..300),
        quantile in 0.0_f64..=1.0,
    ) {
        let histogram = recorded(&values);
        values.sort_unstable();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let rank = ((quantile * values.len() as f64).ceil() as usize).clamp(1, values.len());
        let exact = values[rank - 1];
        let found = histogram.quantile_ns(quantile);
        #[expect(clippy::cast_precision_loss)]
        let error = (found as f64 - exact as f64).abs() / exact as f64;
        prop_assert!(error <= 1e-3, "{found} for {exact}");
    }
}

#[test]
fn the_encoded_form_round_trips() {
    let histogram = recorded(&[1, 48_000, 48_000, 912_345_678, HIGHEST_NS]);
    let text = histogram.to_base64();
    assert!(text.starts_with("HISTFAAAA"), "{text}");
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    let read: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
    assert_eq!(read, histogram.buckets);
}

#[test]
fn out_of_range_values_are_kept() {
    let histogram = recorded(&[0, HIGHEST_NS + 1, 7]);
    assert_eq!(histogram.count(), 3);
    assert_eq!((histogram.min_ns(), histogram.max_ns()), (0, HIGHEST_NS + 1));
}

#[test]
fn an_empty_histogram_returns_zeros() {
    let histogram = LatencyHistogram::default();
    assert_eq!((histogram.count(), histogram.min_ns(), histogram.max_ns(), histogram.quantile_ns(0.5)), (0, 0, 0, 0));
    assert!(histogram.mean_ns().abs() < f64::EPSILON);
    assert!(histogram.to_base64().starts_with("HISTF"));
    assert_eq!(histogram.buckets().count(), 0);
}

#[test]
fn every_value_is_in_exactly_one_bucket() {
    let histogram = recorded(&[1_000, 1_000, 5_000_000]);
    let buckets: Vec<_> = histogram.buckets().collect();
    assert_eq!(buckets.len(), 2);
    assert_eq!(buckets[0], (1_000, 2));
    // The middle of a bucket is exact to 0.1 %.
    assert!(buckets[1].0.abs_diff(5_000_000) <= 5_000 && buckets[1].1 == 1);
}
