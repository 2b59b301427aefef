// SPDX-License-Identifier: Apache-2.0
//! How many different values there are in rows of which a sample is known.
//!
//! Of `n` rows of a sample `d` differ, `once` of which are met a single time, and there are `scale` times as many rows. Then there are about
//! `n * d / (n - once + once / scale)` values. It is the estimator Duj1 of Haas and Stokes (*Estimating the Number of Classes in a Finite
//! Population*, JASA 1998), which PostgreSQL has, too. Where each value is met several times these are all, and where each is met once all
//! rows differ.
//!
//! Beside one value that half of the rows have it would take the others for few, of which each is met once as well. So, as they propose,
//! values that are frequent count for themselves, and it is asked of the rest of the rows. NULL is no value.
//!
//! A sample has rows from all over a table, in which equal values that stand together, as the number of an order in its lines, are met once.
//! But of such values there are no more than there are runs of equal ones, and a run ends at each row whose neighbour has another value.

use arrow::array::{Array, ArrayRef};
use datafusion::common::hash_utils::{RandomState, create_hashes};

/// Values that a sample has more often are frequent. Of those that are as frequent, next to none is missing in it.
const RARE_MAX: usize = 10;

/// The number of different values in `rows` rows, estimated from `sample`, a part of them, and the neighbour of each of these if that is known;
/// at least one. If there are no more rows than those of the sample, it is theirs. `None` of types that have no hash.
pub(super) fn distinct_of_sample(sample: &ArrayRef, neighbours: Option<&ArrayRef>, rows: f64) -> Option<f64> {
    let hashes = hashes_of(sample)?;
    let nulls = sample.logical_nulls();
    let is_there = |place: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*place));
    let places = (0..hashes.len()).filter(is_there);
    let ends = match neighbours {
        Some(neighbours) => {
            let beside = hashes_of(neighbours)?;
            places.clone().filter(|&place| hashes[place] != beside[place]).count()
        }
        None => hashes.len(),
    };
    let mut values: Vec<u64> = places.map(|place| hashes[place]).collect();
    values.sort_unstable();
    let times: Vec<usize> = values.chunk_by(|one, other| one == other).map(<[u64]>::len).collect();
    let scale = (rows / (hashes.len() as f64).max(1.0)).max(1.0);
    let runs = (ends as f64 * scale).max(times.len() as f64);
    Some(estimated(&times, scale).min(runs).max(1.0))
}

fn hashes_of(values: &ArrayRef) -> Option<Vec<u64>> {
    let mut hashes = vec![0; values.len()];
    create_hashes([values], &RandomState::with_seed(0), &mut hashes).ok()?;
    Some(hashes)
}

/// The values of a sample that has each of them so many times, and of the others, where there are `scale` times as many rows.
fn estimated(times: &[usize], scale: f64) -> f64 {
    let (mut frequent, mut rows, mut rare, mut once) = (0.0, 0.0, 0.0, 0.0);
    for &times in times {
        if times > RARE_MAX {
            frequent += 1.0;
            continue;
        }
        rows += times as f64;
        rare += 1.0;
        once += if times == 1 { 1.0 } else { 0.0 };
    }
    if rare == 0.0 {
        return frequent;
    }
    frequent + rows * rare / (rows - once + once / scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int64Array, StringViewArray};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::sync::Arc;

    fn of(values: impl Iterator<Item = i64>, rows: f64) -> f64 {
        let sample: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
        distinct_of_sample(&sample, None, rows).unwrap()
    }

    /// Rows that are picked by chance, of so many different ones.
    fn by_chance(values: i64) -> impl Iterator<Item = i64> {
        let mut dice = StdRng::seed_from_u64(3);
        (0..2_000).map(move |_| dice.random_range(0..values))
    }

    #[test]
    fn values_met_often_are_all_there_are_and_values_met_once_stand_for_more() {
        assert_eq!(of((0..1_000).map(|row| row % 60), 1e6), 60.0);
        assert_eq!(of((0..1_000).map(|row| row % 500), 1e6), 500.0);
        assert_eq!(of(0..1_000, 1e5), 1e5, "all differ");
    }

    #[test]
    fn values_of_which_the_sample_has_a_part_are_estimated() {
        for values in [300, 1_000, 5_000, 20_000] {
            let found = of(by_chance(values), 1e6) / values as f64;
            assert!((0.7..1.4).contains(&found), "{found} times the {values} that there are");
        }
    }

    #[test]
    fn beside_frequent_values_the_others_are_as_many_as_without_them() {
        let found = of((0..1_000).map(|row| if row % 2 == 0 { -1 } else { row }), 1e5);
        assert_eq!(found, 50_001.0);
    }

    #[test]
    fn values_that_stand_together_are_no_more_than_their_runs() {
        let sample: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1_000));
        let next = |row: i64| if row % 4 == 0 { -1 } else { row };
        let neighbours: ArrayRef = Arc::new(Int64Array::from_iter_values((0..1_000).map(next)));
        assert_eq!(distinct_of_sample(&sample, Some(&neighbours), 1e5), Some(25_000.0));
        // These at least are there.
        assert_eq!(distinct_of_sample(&sample, Some(&sample), 1e5), Some(1_000.0));
        assert_eq!(distinct_of_sample(&sample, Some(&sample), 0.0), Some(1_000.0));
    }

    #[test]
    fn samples_of_all_rows_have_all_values() {
        assert_eq!(of(0..1_000, 0.0), 1_000.0, "there are no other rows");
        assert_eq!(of((0..1_000).map(|row| row / 3), 1_000.0), 334.0);
        assert_eq!(of([1, 1, 2].into_iter(), 3.0), 2.0);
        assert_eq!(of(std::iter::once(7), 1.0), 1.0);
        assert_eq!(of(std::iter::empty(), 1e5), 1.0);
    }

    #[test]
    fn nulls_are_no_values_and_leave_room_for_fewer() {
        let text = |row: i64| (row % 4 == 0).then(|| format!("text {row}"));
        let sample: ArrayRef = Arc::new(StringViewArray::from_iter((0..1_000).map(text)));
        assert_eq!(distinct_of_sample(&sample, None, 1e5), Some(25_000.0));
        let sample: ArrayRef = Arc::new(Float64Array::from(vec![None::<f64>; 100]));
        assert_eq!(distinct_of_sample(&sample, None, 1e5), Some(1.0));
    }
}
