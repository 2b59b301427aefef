// SPDX-License-Identifier: Apache-2.0
//! [`RecentKeys`] against a model, with its structure checked after each step.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

fn mark(version: u64) -> Mark {
    Mark { version: Version::new(version), transaction: TransactionId::new(version * 10) }
}

impl<K: Clone + Eq + Hash> RecentKeys<K> {
    /// Index, entries and ages name the same keys; ages are sorted; links agree in both directions.
    fn check(&self) {
        assert_eq!(self.index.len(), self.entries.len());
        let (mut next, mut previous, mut count) = (self.oldest, None, 0);
        let mut latest = Version::ZERO;
        while let Some(place) = next {
            let entry = &self.entries[place.index()];
            assert_eq!(entry.older, previous);
            assert_eq!(entry.hash, KeyHash::of(&self.hasher, &entry.key));
            assert!(latest <= entry.marks.latest(), "the ages are sorted");
            assert!(self.index.find(entry.hash.spread(), |indexed| indexed.place == place).is_some());
            latest = entry.marks.latest();
            (previous, next) = (next, entry.newer);
            count += 1;
        }
        assert_eq!(self.newest, previous);
        assert_eq!(count, self.entries.len());
    }
}

/// Random records and prunes on both; `limit` bounds each prune.
fn compare_with_model(seed: u64, limit: usize) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut keys = RecentKeys::new(|_| 0);
    let mut model: BTreeMap<u16, [u64; 3]> = BTreeMap::new();
    let (mut version, mut pruned) = (1, 0);
    for _ in 0..400 {
        match random.random_range(0..8) {
            0 => version += 1,
            1 => {
                pruned = random.random_range(pruned..=version);
                keys.forget_through(Version::new(pruned), limit);
            }
            _ => {
                let key = random.random_range(0..60_u16);
                let access = Access::ALL[random.random_range(0..Access::ALL.len())];
                keys.record(&key, access, mark(version));
                model.entry(key).or_default()[access.index()] = version;
            }
        }
        keys.check();
        if limit == usize::MAX {
            let expected = model.values().filter(|versions| versions.iter().any(|version| *version > pruned));
            let remembered = keys.entries.iter().filter(|entry| entry.marks.latest() > Version::new(pruned));
            assert_eq!(remembered.count(), expected.count(), "seed {seed}");
        }
        for begin in pruned..=version {
            let changed =
                model.iter().filter(|(_, versions)| versions.iter().any(|version| *version > begin));
            let mut since: Vec<u16> = keys.since(Version::new(begin)).copied().collect();
            since.sort_unstable();
            assert_eq!(since, changed.map(|(key, _)| *key).collect::<Vec<_>>(), "seed {seed}, begin {begin}");
        }
        for (key, versions) in &model {
            for begin in pruned..=version {
                for mine in Access::ALL {
                    let found =
                        keys.find(key).and_then(|marks| marks.conflict_after(Version::new(begin), mine));
                    let is_expected = Access::ALL
                        .into_iter()
                        .any(|other| versions[other.index()] > begin && mine.conflicts_with(other));
                    assert_eq!(
                        found.is_some(),
                        is_expected,
                        "seed {seed}, key {key}, begin {begin}, {mine:?}"
                    );
                    if let Some((other, found)) = found {
                        assert_eq!(found, mark(versions[other.index()]));
                    }
                }
            }
        }
    }
}

#[test]
fn marks_after_the_pruned_version_are_those_of_the_model() {
    for seed in 0..40 {
        compare_with_model(seed, usize::MAX);
        compare_with_model(seed, 1 + seed as usize % 5);
    }
}

#[test]
fn forgetting_takes_the_oldest_first_and_stops_at_the_limit() {
    let mut keys = RecentKeys::new(|_| 0);
    for version in 1..=10 {
        keys.record(&version, Access::Update, mark(version));
    }
    keys.record(&1, Access::Reference, mark(10));
    keys.forget_through(Version::new(9), 3);
    keys.check();
    assert_eq!(keys.len(), 7);
    assert!(keys.find(&1).is_some(), "touched again by a commit that is kept");
    assert!(keys.find(&4).is_none());
    keys.forget_through(Version::new(9), usize::MAX);
    assert_eq!(keys.len(), 2);
    keys.forget_through(Version::new(10), usize::MAX);
    keys.check();
    assert_eq!(keys.len(), 0);
}

#[test]
fn memory_is_given_back_when_most_keys_are_forgotten() {
    let mut keys = RecentKeys::new(|_| 0);
    let count = 100_000;
    for version in 1..=count {
        keys.record(&version, Access::Update, mark(version));
    }
    let full = keys.entries.capacity();
    keys.forget_through(Version::new(count - 100), usize::MAX);
    keys.check();
    assert_eq!(keys.len(), 100);
    assert!(keys.entries.capacity() < full / SHRINK_AT_FRACTION, "{}", keys.entries.capacity());
    assert!(keys.index.capacity() < full / SHRINK_AT_FRACTION, "{}", keys.index.capacity());
    assert!(keys.find(&count).is_some());
}

#[test]
#[should_panic(expected = "commits are recorded in ascending order")]
fn a_record_out_of_order_is_noticed() {
    let mut keys = RecentKeys::new(|_| 0);
    keys.record(&'a', Access::Update, mark(2));
    keys.record(&'a', Access::Identity, mark(1));
}
