// SPDX-License-Identifier: Apache-2.0
//! Threads that would break a rule by write skew, and readers that would see it broken.

use super::Fixture;
use crate::error::StoreError;
use crate::id_value::{key, row};
use crate::range::{Direction, KeyRange};
use crate::transaction::{AccessMode, Transaction};
use coeval_txn::Isolation;
use coeval_txn::ssi::SessionFloor;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const PAIRS: i32 = 3;
const WRITERS: u64 = 4;
const TRANSACTIONS: usize = 1_500;

/// Of each pair of items at least one is to be there (on call): whoever removes one looks for the other. A third
/// kind of transaction brings both back.
fn change_pair(fixture: &Fixture, tx: &mut Transaction, random: &mut StdRng) -> Result<(), StoreError> {
    let items = fixture.items.id;
    let pair = 100 * random.random_range(1..=PAIRS);
    let (one, other) = if random.random() { (pair, pair + 1) } else { (pair + 1, pair) };
    if random.random_ratio(1, 3) {
        for id in [one, other] {
            if tx.get(items, &key(id))?.is_none() {
                tx.insert(items, row(&fixture.items, id, id))?;
            }
        }
        return Ok(());
    }
    let other_is_there = match random.random_range(0..3) {
        0 => tx.get(items, &key(other))?.is_some(),
        1 => tx.scan(items, &KeyRange::point(key(other)), Direction::Forward)?.next().is_some(),
        _ => {
            let mut entries =
                tx.scan_index(items, fixture.items.indexes[0].id, &KeyRange::all(), Direction::Forward)?;
            entries.any(|entry| entry.is_ok_and(|entry| entry.primary_key == key(other)))
        }
    };
    if other_is_there {
        tx.delete(items, &key(one))?;
    }
    Ok(())
}

fn is_broken(fixture: &Fixture, tx: &Transaction) -> bool {
    let is_there = |id| tx.get(fixture.items.id, &key(id)).unwrap().is_some();
    (1..=PAIRS).any(|pair| !is_there(100 * pair) && !is_there(100 * pair + 1))
}

/// How often the rule was seen broken by committed state, by readers of the current world and of safe snapshots.
fn broken(isolation: Isolation) -> (usize, usize) {
    let fixture = Fixture::new();
    fixture.commit(Isolation::Snapshot, |tx| {
        for id in (1..=PAIRS).flat_map(|pair| [100 * pair, 100 * pair + 1]) {
            tx.insert(fixture.items.id, row(&fixture.items, id, id))?;
        }
        Ok(())
    });
    let (broken, commits) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let fixture = &fixture;
        let writers: Vec<_> = (0..WRITERS)
            .map(|seed| {
                let (commits, broken) = (&commits, &broken);
                scope.spawn(move || {
                    let random = &mut StdRng::seed_from_u64(seed);
                    for _ in 0..TRANSACTIONS {
                        let mut tx = fixture.begin(isolation);
                        let changed = change_pair(fixture, &mut tx, random);
                        std::thread::yield_now();
                        if changed.is_ok() && tx.commit().is_ok() {
                            commits.fetch_add(1, Ordering::Relaxed);
                        }
                        let reader = fixture.store.begin(isolation, AccessMode::ReadOnly);
                        let saw = is_broken(fixture, &reader);
                        if reader.commit().is_ok() && saw {
                            broken.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                })
            })
            .collect();
        let (is_over, broken) = (&is_over, &broken);
        scope.spawn(move || {
            let mut floor = SessionFloor::default();
            while !is_over.load(Ordering::Relaxed) {
                if let Some(safe) = fixture.store.begin_safe(&floor) {
                    floor.note_safe_snapshot(safe.begin_version());
                    if isolation == Isolation::Serializable && is_broken(fixture, &safe) {
                        broken.fetch_add(1, Ordering::Relaxed);
                    }
                    safe.commit().expect("nobody refuses a reader of a safe snapshot");
                }
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    (broken.into_inner(), commits.into_inner())
}

#[test]
fn no_reader_ever_sees_a_rule_broken_that_every_transaction_keeps() {
    let (broken, commits) = broken(Isolation::Serializable);
    assert_eq!(broken, 0);
    assert!(commits > TRANSACTIONS, "only {commits} transactions got through");
}

#[test]
fn on_snapshots_the_same_transactions_break_it() {
    assert!(broken(Isolation::Snapshot).0 > 0);
}
