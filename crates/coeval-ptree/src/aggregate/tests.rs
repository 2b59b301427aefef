// SPDX-License-Identifier: Apache-2.0
//! Aggregates of ranges, searches by aggregate and pruning filters against loops over a model.

use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};

use rand::Rng;

use crate::model::{
    Census, Counted, Fingerprint, Model, assert_same, random, random_model, summary_of, tree_of,
};
use crate::{Max, PTree, Sum, Summary};

fn random_bound(random: &mut impl Rng) -> Bound<u32> {
    let key = random.random_range(0..1_000);
    [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded][random.random_range(0..3)]
}

#[test]
fn the_aggregate_of_any_range_is_that_of_its_entries() {
    let mut random = random(12);
    for _ in 0..2_000 {
        let size = random.random_range(0..200);
        let model = random_model(&mut random, size, 1_000);
        let tree: PTree<u32, u64, Fingerprint, 4> = tree_of(&model);
        let bounds = (random_bound(&mut random), random_bound(&mut random));
        let expected: Fingerprint = summary_of(tree.iter_range(bounds));
        assert_eq!(tree.aggregate(bounds), expected, "{bounds:?} of {model:?}");
        assert_eq!(tree.range(bounds).summary(), expected, "{bounds:?} of {model:?}");
    }
}

#[test]
fn ranges_the_wrong_way_round_have_the_aggregate_of_nothing() {
    let tree: PTree<u32, u64, Sum<u64>, 4> = (0..100).map(|key| (key, 1)).collect();
    assert_eq!(tree.aggregate((Bound::Included(50), Bound::Excluded(20))), Sum(0));
    assert!(tree.range((Bound::Included(50), Bound::Excluded(20))).is_empty());
    assert_eq!(tree.iter_range((Bound::Included(50), Bound::Excluded(20))).count(), 0);
    assert_eq!(tree.clone().into_range_iter((Bound::Included(50), Bound::Excluded(20))).count(), 0);
    assert_eq!(tree.aggregate((Bound::Excluded(20), Bound::Excluded(20))), Sum(0));
}

#[test]
fn a_search_by_aggregate_finds_the_first_entry_beyond() {
    let mut random = random(13);
    for _ in 0..500 {
        let size = random.random_range(0..200);
        let model = random_model(&mut random, size, 1_000);
        let tree: PTree<u32, u64, Sum<u64>, 4> = tree_of(&model);
        let limit = random.random_range(0..size as u64 * 1_000_000 + 1);
        let mut before = 0;
        let expected = model.iter().find_map(|(key, value)| {
            before += value;
            (before >= limit).then_some((Sum(before - value), key, value))
        });
        assert_eq!(tree.select_by(|sum| sum.0 < limit), expected);
    }
}

/// Sums of floats depend on the order of adding: a search that had turned left, where adding entry by entry stayed just
/// within, once gave up at the end of that side.
#[test]
fn a_search_by_a_sum_of_floats_finds_something_wherever_there_is_more() {
    let mut random = random(16);
    for _ in 0..500 {
        let entries = (0..200).map(|key| (key, random.random_range(0.1..1.0)));
        let tree: PTree<u32, f64, Sum<f64>, 4> = PTree::from_sorted(entries.collect());
        for end in 1..190u32 {
            // What the nodes up to a key add up to, in their own order.
            let limit = tree.aggregate(..end).0;
            let (before, key, value) = tree.select_by(|sum| sum.0 < limit).expect("ten more entries");
            assert!(key.abs_diff(end - 1) <= 1, "{key} is beside {end}");
            assert!((before.0 + value) >= limit - 0.001 && before.0 <= limit);
        }
    }
}

#[test]
fn sums_that_are_no_numbers_are_no_damage() {
    let tree: PTree<u32, f64, Sum<f64>, 4> =
        (0..50).map(|key| (key, if key == 20 { f64::NAN } else { 1.0 })).collect();
    assert_eq!(tree.check_invariants(), Ok(()));
    assert!(tree.summary().0.is_nan());
    assert!(!Summary::<u32, f64>::agrees_with(&Sum(f64::NAN), &Sum(1.0)));
}

#[test]
fn large_summaries_are_combined_by_reference() {
    /// The number of entries; counts its clones.
    struct Large(usize, Census);
    impl Clone for Large {
        fn clone(&self) -> Self {
            drop(self.1.value(0).clone());
            Large(self.0, self.1.clone())
        }
    }
    impl Summary<u32, Counted> for Large {
        fn empty() -> Self {
            Large(0, Census::default())
        }
        fn of(_: &u32, value: &Counted) -> Self {
            Large(1, value.census())
        }
        fn combine(&self, later: &Self) -> Self {
            Large(self.0 + later.0, later.1.clone())
        }
        fn agrees_with(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }
    let census = Census::default();
    let entries = (0..1_000).map(|key| (key, census.value(0))).collect();
    let mut tree: PTree<u32, Counted, Large, 4> = PTree::from_sorted(entries);
    tree.insert(2_000, census.value(0));
    tree.remove(&500);
    tree.multi_insert((0..100).map(|key| (10 * key, census.value(1))).collect(), |_, _, new| new);
    tree.check_invariants().unwrap();
    assert_eq!(census.clones(), 0);
    assert_eq!(tree.summary().0, tree.len());
}

#[test]
fn a_pruning_filter_keeps_what_a_full_one_keeps_and_looks_at_less() {
    let mut random = random(14);
    for _ in 0..200 {
        let size = random.random_range(0..300);
        let model = random_model(&mut random, size, 1_000);
        let tree: PTree<u32, u64, Max<u64>, 4> = tree_of(&model);
        let limit = random.random_range(0..1_000_000);
        let kept: Model =
            model.iter().filter(|(_, value)| **value > limit).map(|(key, value)| (*key, *value)).collect();
        assert_same(&tree.aug_filter(|max| max.0.is_some_and(|max| max > limit)), &kept);
    }
    let tree: PTree<u32, u64, Max<u64>, 8> = (0..10_000).map(|key| (key, u64::from(key == 777))).collect();
    let looks = AtomicUsize::new(0);
    let found = tree.aug_filter(|max| {
        looks.fetch_add(1, Ordering::Relaxed);
        max.0 == Some(1)
    });
    assert_eq!(found.len(), 1);
    assert!(looks.into_inner() < 100, "one path and its siblings");
}

#[test]
fn updates_in_place_keep_the_summaries_of_the_whole_path() {
    let mut tree: PTree<u32, u64, Max<u64>, 4> = (0..1_000).map(|key| (key, 0)).collect();
    for key in 0..1_000 {
        tree.insert(key, 5);
        assert_eq!(tree.summary(), Max(Some(5)));
        tree.modify(&key, |value| *value = 0);
        assert_eq!(tree.summary(), Max(Some(0)), "{key}");
    }
    tree.check_invariants().unwrap();
}

#[test]
fn a_tree_without_summaries_takes_no_memory_for_them() {
    let entries: Vec<(u64, u64)> = (0..1_000).map(|key| (key, key)).collect();
    let plain: PTree<u64, u64, (), 16> = PTree::from_sorted(entries.clone());
    let summed: PTree<u64, u64, Sum<u64>, 16> = PTree::from_sorted(entries);
    // An inner node: separator, two links of two words, two counts, and the reference count.
    let word = size_of::<usize>();
    let inner_bytes = 8 * word;
    let leaf_bytes = (16 * 2 + 2) * word;
    let shape = plain.shape();
    assert_eq!(shape.bytes, shape.inner_nodes * inner_bytes + shape.leaves * leaf_bytes);
    assert_eq!(summed.shape().bytes, shape.bytes + (shape.inner_nodes + shape.leaves) * word);
}
