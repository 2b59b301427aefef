// SPDX-License-Identifier: Apache-2.0
//! Passes against the same loops over a model, and that results do not depend on grain or threads.

use std::sync::Mutex;

use rand::Rng;
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};

use crate::model::{Fingerprint, Model, assert_same, random, random_model, summary_of, tree_of};
use crate::{Grain, PTree, Summary};

const GRAINS: [Grain; 3] = [Grain::entries(0), Grain::SCAN, Grain::entries(1_000_000)];

#[test]
fn every_pass_equals_the_loop_over_the_model() {
    let mut random = random(11);
    for _ in 0..100 {
        let size = random.random_range(0..300);
        let model = random_model(&mut random, size, 1_000);
        let tree: PTree<u32, u64, Fingerprint, 6> = tree_of(&model);
        for grain in GRAINS {
            let scan = tree.scan(grain);
            // Fingerprints of runs depend on the order.
            let whole: Fingerprint = summary_of(&model);
            let mapped = scan.map_reduce(Fingerprint::of, |a, b| a.combine(&b), Fingerprint::empty());
            assert_eq!(mapped, whole);
            let folded = scan.semi_map_reduce(
                Fingerprint::empty(),
                |sum, key, value| sum.combine(&Fingerprint::of(key, value)),
                |a, b| a.combine(&b),
            );
            assert_eq!(folded, whole);
            let visits = Mutex::new(Vec::new());
            scan.foreach_index(|index, key, value| visits.lock().unwrap().push((index, *key, *value)));
            let mut visits = visits.into_inner().unwrap();
            visits.sort_unstable();
            assert!(
                visits.into_iter().eq(model.iter().enumerate().map(|(at, (key, value))| (at, *key, *value)))
            );
            let mut slice = vec![(0, 0); tree.len()];
            scan.collect_into(&mut slice, |key, value| (*key, *value));
            assert!(slice.into_iter().eq(model.iter().map(|(key, value)| (*key, *value))));
            let odd: Model =
                model.iter().filter(|(_, value)| *value % 2 == 1).map(|(k, v)| (*k, *v)).collect();
            assert_same(&scan.filter(|_, value| value % 2 == 1), &odd);
            let summed: PTree<u32, u64, Fingerprint, 6> =
                scan.map_values(|key, value| u64::from(*key) + value);
            let sums: Model = model.iter().map(|(key, value)| (*key, u64::from(*key) + value)).collect();
            assert_same(&summed, &sums);
        }
    }
}

#[test]
fn a_sum_of_floats_is_the_same_on_any_number_of_threads() {
    let tree: PTree<u32, f64> = (0..50_000u32).map(|key| (key, 1.0 / f64::from(key + 1))).collect();
    let sum = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| tree.map_reduce(|_, value| *value, |a, b| a + b, 0.0))
    };
    assert_eq!(sum(1).to_bits(), sum(4).to_bits());
}

#[test]
fn a_filter_that_keeps_everything_copies_nothing() {
    let tree: PTree<u32, u32> = (0..1_000).map(|key| (key, key)).collect();
    assert!(tree.filter(|_, _| true).ptr_eq(&tree));
    assert!(tree.filter(|_, _| false).is_empty());
}

#[test]
#[should_panic(expected = "exactly as many elements")]
fn a_slice_of_another_length_is_refused() {
    let tree: PTree<u32, u32> = (0..10).map(|key| (key, key)).collect();
    tree.collect_into(&mut [0; 9], |key, _| *key);
}

#[test]
fn parallel_iteration_is_in_order_from_both_ends_and_anywhere() {
    let model = random_model(&mut random(15), 500, 5_000);
    let tree: PTree<u32, u64, (), 4> = tree_of(&model);
    let collected: Vec<(u32, u64)> = tree.par_iter().map(|(key, value)| (*key, *value)).collect();
    assert!(collected.into_iter().eq(model.clone()));
    let middle: Vec<u32> = tree.par_iter().skip(100).take(200).rev().map(|(key, _)| *key).collect();
    assert!(middle.into_iter().eq(model.keys().skip(100).take(200).rev().copied()));
    assert_eq!(tree.into_par_iter().map(|(_, value)| *value).sum::<u64>(), model.values().sum());
    assert_eq!(PTree::<u32, u64, (), 4>::default().par_iter().count(), 0);
}
