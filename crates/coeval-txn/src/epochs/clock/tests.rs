// SPDX-License-Identifier: Apache-2.0
use std::collections::BTreeSet;

use super::*;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn epochs(numbers: &[u64]) -> Vec<Epoch> {
    numbers.iter().copied().map(Epoch::new).collect()
}

/// EC, LCE, pendingTxs: the first columns of the paper's Table I.
fn row(clock: &EpochClock) -> (u64, u64, Vec<u64>) {
    let status = clock.status();
    let pending = status.pending.iter().map(|epoch| epoch.get()).collect();
    (status.next.get(), status.latest_committed.get(), pending)
}

#[test]
fn table_one_of_the_paper_is_reproduced() {
    let clock = EpochClock::new(Stride::ALONE);
    assert_eq!(row(&clock), (1, 0, vec![]));
    let first = clock.begin();
    assert_eq!(row(&clock), (2, 0, vec![1]));
    let second = clock.begin();
    assert_eq!(row(&clock), (3, 0, vec![1, 2]));
    let third = clock.begin();
    assert_eq!(row(&clock), (4, 0, vec![1, 2, 3]));

    let dependencies = |begun: &BegunEpoch| {
        (1..begun.epoch.get()).filter(|n| !begun.snapshot.contains(Epoch::new(*n))).collect::<Vec<_>>()
    };
    assert_eq!(dependencies(&first), []);
    assert_eq!(dependencies(&second), [1]);
    assert_eq!(dependencies(&third), [1, 2]);

    clock.commit(&[first.epoch]);
    assert_eq!(row(&clock), (4, 1, vec![2, 3]));
    clock.commit(&[third.epoch]);
    assert_eq!(row(&clock), (4, 1, vec![2]), "T3 is committed, but T2 is pending below it");
    clock.commit(&[second.epoch]);
    assert_eq!(row(&clock), (4, 3, vec![]));
}

#[test]
fn a_snapshot_sees_what_is_committed_above_something_pending() {
    let clock = EpochClock::new(Stride::ALONE);
    let long_load = clock.begin().epoch;
    let mine = clock.begin().epoch;
    let committed = clock.commit(&[mine]);
    assert!(committed.contains(mine), "a session sees its own last commit");
    assert!(!committed.contains(long_load));
    assert_eq!(committed, *clock.snapshot().set());
    assert_eq!(clock.status().latest_committed, Epoch::ZERO);
}

#[test]
fn savepoint_levels_become_visible_at_once() {
    let clock = EpochClock::new(Stride::ALONE);
    let outer = clock.begin().epoch;
    let other = clock.begin().epoch;
    let inner = clock.begin().epoch;
    let before = clock.committed();
    let after = clock.commit(&[outer, inner]);
    assert!(!before.contains(outer) && !before.contains(inner));
    assert!(after.contains(outer) && after.contains(inner) && !after.contains(other));
}

#[test]
fn a_rolled_back_epoch_lets_committed_ones_above_it_count() {
    let clock = EpochClock::new(Stride::ALONE);
    let (first, second, third) = (clock.begin().epoch, clock.begin().epoch, clock.begin().epoch);
    clock.commit(&[second]);
    assert_eq!(row(&clock), (4, 0, vec![1, 3]));
    clock.roll_back(&[first]);
    assert_eq!(row(&clock), (4, 2, vec![3]));
    clock.roll_back(&[third]);
    assert_eq!(row(&clock), (4, 2, vec![]), "LCE is an epoch that was committed");
}

#[test]
fn the_safe_epoch_waits_for_readers_for_flushes_and_for_what_is_pending() {
    let clock = EpochClock::new(Stride::ALONE);
    let all = epochs(&[1, 2, 3, 4]);
    for _ in &all {
        let _ = clock.begin();
    }
    clock.commit(&all[..2]);
    let reader = clock.snapshot();
    clock.commit(&all[3..]);
    assert_eq!(clock.advance_safe(Epoch::new(1)).get(), 1, "flushed up to 1");
    assert_eq!(clock.advance_safe(Epoch::MAX).get(), 2, "3 is pending");
    clock.commit(&all[2..3]);
    assert_eq!(clock.advance_safe(Epoch::MAX).get(), 2, "a reader sees 1 and 2 only");
    drop(reader);
    assert_eq!(clock.advance_safe(Epoch::MAX).get(), 4);
    assert_eq!(clock.advance_safe(Epoch::ZERO).get(), 4, "it never moves back");
}

#[test]
#[should_panic(expected = "LSE 1 has passed the set up to 0")]
fn a_set_that_purge_has_passed_cannot_be_held() {
    let clock = EpochClock::new(Stride::ALONE);
    let old = clock.committed();
    let epoch = clock.begin().epoch;
    clock.commit(&[epoch]);
    clock.advance_safe(Epoch::MAX);
    let _ = clock.hold(|| old);
}

#[test]
#[should_panic(expected = "ends but is not pending")]
fn an_epoch_ends_once() {
    let clock = EpochClock::new(Stride::ALONE);
    let epoch = clock.begin().epoch;
    clock.commit(&[epoch]);
    clock.roll_back(&[epoch]);
}

#[test]
fn a_set_from_elsewhere_is_held_only_if_it_can_be_a_snapshot_of_this_clock() {
    let clock = EpochClock::new(Stride::ALONE);
    let first = clock.begin().epoch;
    let second = clock.begin().epoch;
    let whole = EpochSet::through(second);
    assert!(clock.try_hold(&whole).is_none(), "both are pending");
    clock.commit(&[second]);
    assert!(clock.try_hold(&whole).is_none(), "the first is pending");
    assert!(clock.try_hold(&whole.clone().without([first])).is_some());
    clock.commit(&[first]);
    let held = clock.try_hold(&whole).expect("all is committed");
    assert!(clock.try_hold(&EpochSet::through(Epoch::new(3))).is_none(), "3 has not been handed out");
    assert_eq!(clock.advance_safe(second), second);
    assert!(clock.try_hold(&EpochSet::through(first)).is_none(), "LSE has passed it");
    drop(held);
}

#[test]
fn a_recovered_clock_goes_on_above_what_it_found() {
    let clock = EpochClock::recovered(Stride::new(2, 3), Epoch::new(9));
    assert_eq!(row(&clock), (11, 9, vec![]));
    assert_eq!(clock.committed(), EpochSet::through(Epoch::new(9)));
    assert_eq!(clock.begin().epoch.get(), 11);
    clock.observe(Epoch::new(20));
    assert_eq!(clock.begin().epoch.get(), 20);
    assert_eq!(clock.begin().epoch.get(), 23);
}

/// What the counters are defined to be, computed from the whole history.
#[derive(Default)]
struct Model {
    begun: BTreeSet<Epoch>,
    committed: BTreeSet<Epoch>,
    rolled_back: BTreeSet<Epoch>,
}

impl Model {
    fn pending(&self) -> Vec<Epoch> {
        let ended = |epoch: &&Epoch| !self.committed.contains(epoch) && !self.rolled_back.contains(epoch);
        self.begun.iter().filter(ended).copied().collect()
    }

    fn latest_committed(&self) -> Epoch {
        let oldest_pending = self.pending().first().copied().unwrap_or(Epoch::MAX);
        self.committed.range(..oldest_pending).last().copied().unwrap_or_default()
    }
}

#[test]
fn random_histories_agree_with_the_definitions() {
    for seed in 0..200 {
        let mut random = StdRng::seed_from_u64(seed);
        let clock = EpochClock::new(Stride::new(random.random_range(1..=3), 3));
        let mut model = Model::default();
        let mut readers: Vec<(HeldEpochs, BTreeSet<Epoch>)> = Vec::new();
        for _ in 0..120 {
            let pending = model.pending();
            match random.random_range(0..8) {
                0..=2 => {
                    let begun = clock.begin();
                    assert!(
                        model
                            .begun
                            .iter()
                            .all(|epoch| { begun.snapshot.contains(*epoch) != pending.contains(epoch) })
                    );
                    model.begun.insert(begun.epoch);
                }
                3 | 4 if !pending.is_empty() => {
                    let epoch = pending[random.random_range(0..pending.len())];
                    model.committed.insert(epoch);
                    let set = clock.commit(&[epoch]);
                    let seen = model.begun.iter().filter(|epoch| set.contains(**epoch));
                    let seen: BTreeSet<Epoch> =
                        seen.copied().filter(|e| !model.rolled_back.contains(e)).collect();
                    assert_eq!(seen, model.committed, "seed {seed}");
                }
                5 if !pending.is_empty() => {
                    let epoch = pending[random.random_range(0..pending.len())];
                    model.rolled_back.insert(epoch);
                    clock.roll_back(&[epoch]);
                }
                6 => readers.push((clock.snapshot(), model.committed.clone())),
                _ if !readers.is_empty() => {
                    let index = random.random_range(0..readers.len());
                    drop(readers.swap_remove(index));
                }
                _ => clock.observe(Epoch::new(clock.status().next.get() + random.random_range(0..9))),
            }
            let safe = clock.advance_safe(Epoch::MAX);
            assert_eq!(clock.status().latest_committed, model.latest_committed(), "seed {seed}");
            assert_eq!(clock.status().pending, model.pending(), "seed {seed}");
            let below_safe = model.committed.range(..=safe);
            assert!(
                below_safe
                    .into_iter()
                    .all(|epoch| readers.iter().all(|(held, _)| held.set().contains(*epoch)))
            );
            for (held, committed) in &readers {
                assert!(model.committed.iter().all(|e| held.set().contains(*e) == committed.contains(e)));
            }
        }
    }
}

#[test]
fn who_follows_purges_no_further_than_it_is_told_and_never_past_what_is_held_there() {
    let clock = EpochClock::new(Stride::ALONE);
    // 2 and 4 were pending when 5 committed.
    let first = EpochSet::through(Epoch::new(5)).without(epochs(&[2, 4]));
    let old = clock.follow(&first, Epoch::new(1));
    assert_eq!(row(&clock), (6, 1, vec![2, 4]));
    assert_eq!(clock.advance_safe(Epoch::MAX), Epoch::new(1));
    // 2 was rolled back, 6 has committed; there all up to 3 has ended.
    let second = first.with(&epochs(&[6])).filled_through(Epoch::new(3));
    assert_eq!(second, EpochSet::through(Epoch::new(6)).without(epochs(&[4])));
    let new = clock.follow(&second, Epoch::new(3));
    assert_eq!(row(&clock), (7, 3, vec![4]));
    assert!(clock.try_hold(&second).is_some(), "what is shown is a snapshot of the clock");
    assert_eq!(clock.advance_safe(Epoch::MAX), Epoch::new(1), "held back by who reads the old one");
    drop(old);
    assert_eq!(clock.advance_safe(Epoch::new(2)), Epoch::new(2), "no further than what is flushed");
    assert_eq!(clock.advance_safe(Epoch::MAX), Epoch::new(3), "nor than it was told");
    drop(new);
    assert_eq!(clock.advance_safe(Epoch::MAX), Epoch::new(3));
}
