// SPDX-License-Identifier: Apache-2.0
//! Seeded samples of larger histories.
//!
//! With `COEVAL_ENUMERATE=full` in the environment twelve and a half million of them.

use std::time::Instant;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::enumeration::{Counts, is_full};
use super::history::Items;
use super::pipeline::{Event, Pipeline, Role, Setup, Spec, Style};
use super::replica::Replicas;

/// A history of up to twelve transactions, with every kind of event.
pub(super) fn sample(random: &mut StdRng, item_count: u32) -> (Vec<Spec>, Vec<Event>) {
    let transaction_count = random.random_range(4..=12);
    let mut specs: Vec<Spec> = (0..transaction_count).map(|_| random_spec(random, item_count)).collect();
    if random.random_bool(0.5) {
        specs.iter_mut().for_each(|spec| spec.is_old = false);
    }
    let mut waiting: Vec<usize> = (0..transaction_count).collect();
    let (mut events, mut active) = (Vec::new(), Vec::<usize>::new());
    let activity_max = random.random_range(2..=5);
    while !(waiting.is_empty() && active.is_empty()) {
        match random.random_range(0..20) {
            0..7 if active.len() < activity_max => {
                let Some(index) = waiting.pop() else { continue };
                let is_applied = random.random_bool(0.3);
                events.push(if is_applied { Event::BeginApplied(index) } else { Event::Begin(index) });
                active.push(index);
            }
            7..13 if !active.is_empty() => {
                let index = active.swap_remove(random.random_range(0..active.len()));
                let is_given_up = random.random_bool(0.05);
                events.push(if is_given_up { Event::Rollback(index) } else { Event::Commit(index) });
            }
            13 if !active.is_empty() => {
                events.push(Event::Refresh(active[random.random_range(0..active.len())]));
            }
            14..17 => events.push(Event::Close),
            17.. => events.push(Event::Publish { lag: random.random_range(0..3) }),
            _ => {}
        }
    }
    events.extend([Event::Close, Event::Publish { lag: 0 }]);
    (specs, events)
}

fn random_spec(random: &mut StdRng, item_count: u32) -> Spec {
    let few = |random: &mut StdRng, most: u32| {
        let count = random.random_range(0..=most);
        (0..count).fold(0, |mask: Items, _| mask | 1 << random.random_range(0..item_count))
    };
    let (reads, late_reads, writes) = (few(random, 3), few(random, 1), few(random, 2));
    let role = match random.random_range(0..10) {
        0 => Role::Blind,
        1 | 2 => Role::Reader,
        _ => Role::Serializable,
    };
    let writes = if role == Role::Reader { 0 } else { writes };
    let style = if random.random_bool(0.5) { Style::Keys } else { Style::Ranges };
    Spec { reads, late_reads, writes, role, is_old: random.random_bool(0.2), style }
}

pub(super) fn check(count: u64, setup: &Setup, seed: u64) -> Counts {
    let start = Instant::now();
    let mut counts = Counts::default();
    for number in 0..count {
        let random = &mut StdRng::seed_from_u64(seed + number);
        let (specs, events) = sample(random, setup.item_count);
        let pipeline = Pipeline::run(setup, &specs, &events, start);
        let violation = pipeline.violation();
        assert_eq!(violation, None, "seed {}: {specs:?}, {events:?}", seed + number);
        let by_replica = Replicas::Some(16).violation(&pipeline, number, &mut counts.replicas);
        assert!(by_replica.is_none(), "seed {}: {by_replica:?}, {specs:?}, {events:?}", seed + number);
        counts.add(&pipeline);
    }
    counts
}

/// Checks histories over so many items; a hundred times as many in the full enumeration.
fn check_samples(setup: &Setup, what: &str) -> Counts {
    let start = Instant::now();
    let count = if is_full() { 2_500_000 } else { 25_000 };
    let counts = check(count, setup, 1 << 40);
    counts.print(&format!("up to 12 transactions, {} items{what}", setup.item_count), start);
    counts
}

#[test]
fn sampled_histories_over_three_items_are_right() {
    let counts = check_samples(&Setup::new(3), "");
    assert!(counts.refused.iter().all(|count| *count > 0), "every rule refuses somebody: {counts:?}");
}

#[test]
fn sampled_histories_over_four_items_are_right() {
    check_samples(&Setup::new(4), "");
}

#[test]
fn sampled_histories_over_six_items_are_right() {
    check_samples(&Setup::new(6), "");
}

#[test]
fn sampled_histories_over_ten_items_are_right() {
    check_samples(&Setup::new(10), "");
}

#[test]
fn sampled_histories_are_right_when_memory_is_short() {
    let counts = check_samples(&Setup::coarse(6), ", coarse");
    assert!(counts.needless_count() > 0, "coarse answers refuse needlessly");
}
