// SPDX-License-Identifier: Apache-2.0
use super::*;
use rand::{Rng, SeedableRng, rngs::SmallRng};

#[test]
fn percentiles_agree_with_a_sorted_vector_within_one_percent() {
    let mut random = SmallRng::seed_from_u64(7);
    for _ in 0..20 {
        let mut values: Vec<u64> = (0..random.random_range(1..5_000))
            .map(|_| random.random::<u64>() >> random.random_range(0..64))
            .collect();
        let mut histogram = Histogram::default();
        values.iter().for_each(|&value| histogram.record(value));
        values.sort_unstable();
        for percent in [0.0, 1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
            let rank = ((percent / 100.0 * values.len() as f64).ceil() as usize).max(1);
            let exact = values[rank - 1] as f64;
            let found = histogram.percentile(percent) as f64;
            assert!((found - exact).abs() <= exact * 0.01, "p{percent}: {found} for {exact}");
        }
    }
}

#[test]
fn every_value_falls_into_the_bucket_whose_middle_is_near() {
    for bits in 0..64 {
        for value in [1u64 << bits, (1u64 << bits) - 1, (1u64 << bits) | 1, u64::MAX >> bits] {
            let middle = middle_of(bucket_of(value)) as f64;
            assert!((middle - value as f64).abs() <= value as f64 * 0.01, "{value} became {middle}");
        }
    }
}

#[test]
fn merging_is_the_same_as_recording_everything_in_one() {
    let (mut left, mut right, mut both) = (Histogram::default(), Histogram::default(), Histogram::default());
    for value in 0..10_000u64 {
        let value = value * value;
        if value % 3 == 0 {
            left.record(value)
        } else {
            right.record(value)
        }
        both.record(value);
    }
    left.merge(&right);
    assert_eq!(left.counts, both.counts);
    assert_eq!((left.count(), left.max()), (both.count(), both.max()));
    assert!((left.mean() - both.mean()).abs() < 1e-9);
}

#[test]
fn an_empty_histogram_answers_zero() {
    let histogram = Histogram::default();
    assert_eq!((histogram.percentile(50.0), histogram.max(), histogram.count()), (0, 0, 0));
}
