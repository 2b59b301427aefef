// SPDX-License-Identifier: Apache-2.0
//! The registry against a model, and with many threads beside a pruner.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

fn version(number: u64) -> Version {
    Version::new(number)
}

#[test]
fn the_oldest_holder_decides_and_each_holder_counts() {
    let snapshots = ActiveSnapshots::new();
    assert_eq!((snapshots.oldest(), snapshots.count()), (None, 0));
    let first = snapshots.register(|| version(5));
    let second = snapshots.register(|| version(5));
    let older = snapshots.clone().register(|| version(3));
    assert_eq!((snapshots.oldest(), snapshots.count()), (Some(version(3)), 3));
    drop(older);
    drop(first);
    assert_eq!((snapshots.oldest(), snapshots.count()), (Some(version(5)), 1));
    assert_eq!(second.version(), version(5));
    drop(second);
    assert_eq!((snapshots.oldest(), snapshots.count()), (None, 0));
}

#[test]
fn pruning_stops_at_the_published_version_even_if_all_holders_are_newer() {
    // Version 9 is applied and held by a closure, 7 is published: the next transaction may still take 7.
    let snapshots = ActiveSnapshots::new();
    let _applied = snapshots.register(|| version(9));
    assert_eq!(snapshots.oldest(), Some(version(9)));
    assert_eq!(snapshots.oldest_or(|| version(7)), version(7));
    assert_eq!(snapshots.oldest_or(|| version(12)), version(9));
}

#[test]
fn a_guard_may_end_on_another_thread_and_after_the_registry_handle() {
    let snapshots = ActiveSnapshots::new();
    let observer = snapshots.clone();
    let guard = snapshots.register(|| version(1));
    drop(snapshots);
    thread::spawn(move || drop(guard)).join().unwrap();
    assert_eq!(observer.count(), 0);
}

#[test]
fn a_panic_while_choosing_registers_nothing_and_leaves_the_registry_usable() {
    let snapshots = ActiveSnapshots::new();
    let choice = || snapshots.register(|| panic!("no world"));
    assert!(catch_unwind(AssertUnwindSafe(choice)).is_err());
    assert_eq!(snapshots.count(), 0);
    assert_eq!(snapshots.register(|| version(2)).version(), version(2));
}

#[test]
fn random_registrations_agree_with_a_counting_map() {
    for seed in 0..200 {
        let mut random = StdRng::seed_from_u64(seed);
        let snapshots = ActiveSnapshots::new();
        let (mut guards, mut model) = (Vec::new(), BTreeMap::<Version, usize>::new());
        for _ in 0..300 {
            if guards.is_empty() || random.random_bool(0.52) {
                let chosen = version(random.random_range(0..20));
                guards.push(snapshots.register(|| chosen));
                *model.entry(chosen).or_default() += 1;
            } else {
                let guard: SnapshotGuard = guards.swap_remove(random.random_range(0..guards.len()));
                let count = model.get_mut(&guard.version()).unwrap();
                *count -= 1;
                if *count == 0 {
                    model.remove(&guard.version());
                }
            }
            assert_eq!(snapshots.oldest(), model.keys().next().copied(), "seed {seed}");
            assert_eq!(snapshots.count(), guards.len(), "seed {seed}");
            let held: Vec<_> = snapshots.held.lock().versions.iter().map(|held| held.version).collect();
            assert!(held.is_sorted() && held.len() == model.len(), "seed {seed}: {held:?}");
        }
    }
}

/// Worlds are published (two versions behind the applied one) while transactions begin from either, and a
/// pruner runs. Returns how often a transaction held a version that was pruned.
fn pruned_while_held(seed: u64, choose: fn(&ActiveSnapshots, &AtomicU64) -> SnapshotGuard) -> usize {
    const LAG: u64 = 2;
    let snapshots = ActiveSnapshots::new();
    let (applied, pruned) = (AtomicU64::new(LAG), AtomicU64::new(0));
    let is_over = AtomicBool::new(false);
    let violations = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                applied.fetch_add(1, Ordering::AcqRel);
                let oldest = snapshots.oldest_or(|| version(applied.load(Ordering::Acquire) - LAG));
                pruned.fetch_max(oldest.get(), Ordering::AcqRel);
                // Lets the others go on where there is one core.
                thread::yield_now();
            }
        });
        let transactions = |thread: u64| {
            let (snapshots, applied, pruned) = (&snapshots, &applied, &pruned);
            move || {
                let mut random = StdRng::seed_from_u64(seed * 100 + thread);
                let mut held = Vec::new();
                let mut violation_count = 0;
                for _ in 0..20_000 {
                    held.push(if random.random_bool(0.3) {
                        snapshots.register(|| version(applied.load(Ordering::Acquire)))
                    } else {
                        choose(snapshots, applied)
                    });
                    let is_pruned =
                        |guard: &SnapshotGuard| guard.version().get() < pruned.load(Ordering::Acquire);
                    violation_count += held.iter().filter(|guard| is_pruned(guard)).count();
                    while held.len() > random.random_range(0..5) {
                        drop(held.swap_remove(random.random_range(0..held.len())));
                    }
                }
                violation_count
            }
        };
        let threads: Vec<_> = (0..3).map(|thread| scope.spawn(transactions(thread))).collect();
        let violations = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        is_over.store(true, Ordering::Release);
        violations
    });
    assert_eq!(snapshots.count(), 0);
    violations
}

#[test]
fn no_version_is_pruned_while_it_is_held_or_about_to_be() {
    for seed in 0..4 {
        let published = |snapshots: &ActiveSnapshots, applied: &AtomicU64| {
            snapshots.register(|| version(applied.load(Ordering::Acquire) - 2))
        };
        assert_eq!(pruned_while_held(seed, published), 0, "seed {seed}");
    }
}

#[test]
fn a_version_chosen_before_registering_may_be_pruned_and_the_stress_notices() {
    let published_too_early = |snapshots: &ActiveSnapshots, applied: &AtomicU64| {
        let chosen = version(applied.load(Ordering::Acquire) - 2);
        thread::yield_now();
        snapshots.register(|| chosen)
    };
    assert!((0..50).any(|seed| pruned_while_held(seed, published_too_early) > 0));
}
