// SPDX-License-Identifier: Apache-2.0
//! What has been committed, what was counted, and whether they fit.
//!
//! A load of a transaction that committed with version `v` is seen in a snapshot of version `s` if `v <= s`, unless a
//! delete that is seen there covers it: one of the same brick by a transaction that began at `v` or later. Nothing
//! here knows of epochs.

use coeval_txn::Version;
use std::collections::BTreeMap;
use std::sync::Mutex;

pub(crate) const BRICKS: usize = 16;
pub(crate) const BRICK_VALUES: usize = 10;

/// Rows by brick.
pub(crate) type Counts = [u64; BRICKS];

/// What a transaction has done and not undone, in its order.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Load(Counts),
    /// Of these bricks.
    Delete([bool; BRICKS]),
}

/// What a transaction leaves, seen from outside: rows that it has not deleted itself, and bricks that it has deleted.
fn outcome(events: &[Event]) -> (Counts, [bool; BRICKS]) {
    let (mut rows, mut deleted) = (Counts::default(), [false; BRICKS]);
    for event in events {
        for brick in 0..BRICKS {
            match event {
                Event::Load(counts) => rows[brick] += counts[brick],
                Event::Delete(bricks) if bricks[brick] => {
                    rows[brick] = 0;
                    deleted[brick] = true;
                }
                Event::Delete(_) => {}
            }
        }
    }
    (rows, deleted)
}

struct Observation {
    begin: Version,
    own: Vec<Event>,
    found: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) commits: u64,
    pub(crate) loads: u64,
    pub(crate) deletes: u64,
    pub(crate) counts: u64,
}

/// Transactions of one brick, by the version that they committed with.
#[derive(Default)]
struct OfBrick {
    /// Rows that everybody sees who sees no delete among `deletes`.
    base: u64,
    loads: BTreeMap<Version, u64>,
    /// When the deleters began; several may have committed with one version.
    deletes: BTreeMap<Version, Vec<Version>>,
}

impl OfBrick {
    /// How many rows a snapshot of version `begin` has.
    fn count(&self, begin: Version) -> u64 {
        let covered = self.deletes.range(..=begin).flat_map(|(_, begins)| begins).max();
        match covered {
            None => self.base + self.loads.range(..=begin).map(|(_, rows)| rows).sum::<u64>(),
            Some(covered) => {
                let seen = self.loads.range(..=begin).filter(|(version, _)| **version > *covered);
                seen.map(|(_, rows)| rows).sum()
            }
        }
    }

    /// Forgets when what happened up to `version` did; no delete that stays began before.
    fn fold(&mut self, version: Version) {
        let later_loads = self.loads.split_off(&version.next());
        let later_deletes = self.deletes.split_off(&version.next());
        let base = self.count(version);
        *self = Self { base, loads: later_loads, deletes: later_deletes };
    }
}

/// See the module.
///
/// # Locking
/// Two leaf locks, held for moments.
#[derive(Default)]
pub(crate) struct History {
    committed: Mutex<Vec<(Version, Version, Vec<Event>)>>,
    observed: Mutex<Vec<Observation>>,
    bricks: [OfBrick; BRICKS],
    totals: Totals,
}

impl History {
    /// A transaction that began at one version has committed with the other.
    pub(crate) fn commit(&self, begin: Version, version: Version, events: Vec<Event>) {
        self.committed.lock().unwrap().push((begin, version, events));
    }

    /// A transaction that began at this version and has done this counts so many.
    pub(crate) fn observe(&self, begin: Version, own: Vec<Event>, found: Counts) {
        self.observed.lock().unwrap().push(Observation { begin, own, found });
    }

    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// Checks everything that was counted, all commits being known; every open transaction began at `oldest` or later.
    pub(crate) fn check_and_fold(&mut self, oldest: Version) {
        for (begin, version, events) in std::mem::take(self.committed.get_mut().unwrap()) {
            let (rows, deleted) = outcome(&events);
            self.totals.commits += 1;
            self.totals.loads += events.iter().filter(|event| matches!(event, Event::Load(_))).count() as u64;
            self.totals.deletes += deleted.iter().filter(|deleted| **deleted).count() as u64;
            for (brick, of_brick) in self.bricks.iter_mut().enumerate() {
                *of_brick.loads.entry(version).or_default() += rows[brick];
                if deleted[brick] {
                    of_brick.deletes.entry(version).or_default().push(begin);
                }
            }
        }
        for Observation { begin, own, found } in std::mem::take(self.observed.get_mut().unwrap()) {
            self.totals.counts += 1;
            let (rows, deleted) = outcome(&own);
            for (brick, of_brick) in self.bricks.iter().enumerate() {
                let seen = if deleted[brick] { 0 } else { of_brick.count(begin) };
                let expected = seen + rows[brick];
                assert_eq!(
                    found[brick], expected,
                    "brick {brick} in the snapshot of version {begin}, whose transaction did {own:?}"
                );
            }
        }
        // A delete of a transaction that has ended may have begun before.
        let mut folded = oldest;
        loop {
            let later = Version::new(folded.get() + 1);
            let begins = self
                .bricks
                .iter()
                .flat_map(|brick| brick.deletes.range(later..))
                .flat_map(|(_, begins)| begins);
            let least = begins.min().copied().unwrap_or(folded).min(folded);
            if least == folded {
                break;
            }
            folded = least;
        }
        self.bricks.iter_mut().for_each(|brick| brick.fold(folded));
    }
}
