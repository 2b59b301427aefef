// SPDX-License-Identifier: Apache-2.0
//! Iterators driven from both ends in every interleaving, on trees that have lost entries too.

use rand::Rng;

use crate::PTree;
use crate::model::{Model, random, random_model, tree_of};

#[test]
fn both_ends_meet_without_losing_or_repeating_an_entry() {
    let mut random = random(10);
    for size in 0..120 {
        let model = random_model(&mut random, size, 1_000);
        let tree: PTree<u32, u64, (), 4> = tree_of(&model);
        let (mut iter, mut owned, mut expected) = (tree.iter(), tree.clone().into_iter(), model.iter());
        loop {
            assert_eq!(iter.len(), expected.len());
            assert_eq!(owned.len(), expected.len());
            let (next, next_owned, next_expected) = if random.random() {
                (iter.next(), owned.next(), expected.next())
            } else {
                (iter.next_back(), owned.next_back(), expected.next_back())
            };
            assert_eq!(next, next_expected);
            assert_eq!(next_owned, next_expected.map(|(key, value)| (*key, *value)));
            if next.is_none() {
                break;
            }
        }
        assert_eq!(
            (iter.next(), iter.next_back(), owned.next(), owned.next_back()),
            (None, None, None, None)
        );
    }
}

#[test]
fn folding_from_any_point_sees_the_rest() {
    let model: Model = (0..500).map(|key| (key, 1)).collect();
    let tree: PTree<u32, u64, (), 4> = tree_of(&model);
    for (front, back) in [(0, 0), (1, 0), (0, 1), (7, 13), (250, 249), (250, 250)] {
        let mut iter = tree.iter();
        iter.by_ref().take(front).for_each(drop);
        iter.by_ref().rev().take(back).for_each(drop);
        let copy = iter.clone();
        let keys = iter.fold(Vec::new(), |mut keys, (key, _)| {
            keys.push(*key);
            keys
        });
        assert_eq!(keys, (front as u32..500 - back as u32).collect::<Vec<_>>());
        assert_eq!(copy.clone().count(), keys.len());
        assert_eq!(copy.last().map(|(key, _)| key), keys.last());
    }
}

#[test]
fn an_owned_iterator_keeps_its_version() {
    let mut tree: PTree<u32, u64> = (0..1_000).map(|key| (key, 1)).collect();
    let iter = tree.clone().into_range_iter(100..);
    tree.multi_delete(&(0..1_000).collect::<Vec<_>>());
    let reader = std::thread::spawn(move || iter.map(|(_, value)| value).sum::<u64>());
    assert_eq!(reader.join().unwrap(), 900);
}

#[test]
fn every_entry_is_visited_once_in_parallel() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let tree: PTree<u32, u64, (), 4> = (0..3_000).map(|key| (key, 1)).collect();
    let visits: Vec<AtomicU32> = (0..3_000).map(|_| AtomicU32::new(0)).collect();
    tree.par_for_each(|key, _| {
        visits[*key as usize].fetch_add(1, Ordering::Relaxed);
    });
    assert!(visits.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    assert_eq!(tree.map_reduce(|_, value| *value, |a, b| a + b, 0), 3_000);
}

#[test]
fn a_filter_that_keeps_all_shares_all() {
    let tree: PTree<u32, u64, (), 4> = (0..3_000).map(|key| (key, 1)).collect();
    assert!(tree.filter(|_, _| true).ptr_eq(&tree));
    assert!(tree.filter(|_, _| false).is_empty());
}
