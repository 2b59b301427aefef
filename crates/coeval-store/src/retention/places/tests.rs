// SPDX-License-Identifier: Apache-2.0
//! Whoever lacks no more than is asked for finds it, and no more is kept than that and one place.

use super::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

fn place(log: u64, version: u64) -> Place {
    Place { log: Lsn::new(log), version: Version::new(version) }
}

fn extent(end: u64, loads: &[(u64, u64)]) -> LogExtent {
    let loads = loads.iter().map(|(version, bytes)| (Version::new(*version), *bytes)).collect();
    LogExtent { end: Lsn::new(end), loads }
}

/// A log that grows, with loads and checkpoints.
struct Grown {
    dice: SmallRng,
    /// All places between commits, the oldest first.
    all: Vec<Place>,
    /// All loads there ever were, and those whose files are there.
    loads: Vec<(u64, u64)>,
    there: Vec<(u64, u64)>,
}

impl Grown {
    fn new(seed: u64) -> Self {
        let dice = SmallRng::seed_from_u64(seed);
        Self { dice, all: vec![place(0, 0)], loads: Vec::new(), there: Vec::new() }
    }

    fn newest(&self) -> Place {
        *self.all.last().unwrap()
    }

    /// Commits, perhaps loads among them.
    fn commit(&mut self) {
        for _ in 0..self.dice.random_range(0..4) {
            let Place { log, version } = self.newest();
            let version = version.get() + 1;
            self.all.push(place(log.get() + self.dice.random_range(1..60), version));
            for _ in 0..[0, 0, 0, 0, 0, 1, 2][self.dice.random_range(0..7)] {
                let load = (version, self.dice.random_range(0..400));
                self.loads.push(load);
                self.there.push(load);
            }
        }
    }

    /// What one lacks who stands there, counted without the module.
    fn lacking(&self, place: Place) -> u64 {
        self.behind(place, &self.loads)
    }

    fn behind(&self, place: Place, loads: &[(u64, u64)]) -> u64 {
        let later = loads.iter().filter(|(version, _)| *version > place.version.get());
        self.newest().log.get() - place.log.get() + later.map(|(_, bytes)| bytes).sum::<u64>()
    }

    /// Checks what `places` keep behind a checkpoint, when they had kept what is behind `before`.
    fn check(&self, places: &Places, checkpoint: Place, before: Place, keep: u64) {
        let oldest = places.oldest().unwrap();
        for &at in self.all.iter().filter(|at| self.lacking(**at) <= keep) {
            assert!(oldest.log <= at.log || before.log > at.log, "log is gone that is asked for");
            let is_kept = oldest.version <= at.version || before.version > at.version;
            assert!(is_kept || self.loads_between(at, oldest) == 0, "a load is gone that is asked for");
        }
        if let Some(second) = places.0.get(1) {
            // Before loads went it was at its own version.
            let own = self.all.iter().find(|at| at.log == second.log).unwrap();
            assert!(self.behind(*own, &self.there) < keep, "log is kept that is not needed");
        }
        let files = self.loads_between(oldest, checkpoint);
        assert!(files <= keep, "{files} bytes of files for {keep}");
    }

    fn loads_between(&self, from: Place, to: Place) -> u64 {
        let is_between = |version: u64| version > from.version.get() && version <= to.version.get();
        self.loads.iter().filter(|(version, _)| is_between(*version)).map(|(_, bytes)| bytes).sum()
    }
}

/// Seen to fail if a place goes when what lies behind itself, rather than behind the next one, is enough; if loads do not count
/// with the log; if half of what is asked for has a load go; if none goes, or one that the checkpoint itself needs; and if of too
/// many places the oldest goes.
#[test]
fn who_lacks_no_more_than_is_asked_for_finds_it_and_little_more_is_kept() {
    let (mut forgotten, mut merged, mut files_gone) = (0, 0, 0);
    for (seed, mut keep) in (0..400).zip([0, 1, 50, 300, 2_000, 8_000].into_iter().cycle()) {
        let mut grown = Grown::new(seed);
        let mut places = Places::with_left([], place(0, 0));
        let mut checkpoints = vec![place(0, 0)];
        for _ in 0..120 {
            grown.commit();
            let checkpoint = grown.newest();
            // It is written while others commit.
            grown.commit();
            if grown.dice.random_ratio(1, 40) {
                keep = grown.dice.random_range(0..10_000);
            }
            let before = places.oldest().unwrap();
            places.note(checkpoint, keep, &extent(grown.newest().log.get(), &grown.there));
            grown.check(&places, checkpoint, before, keep);
            let oldest = places.oldest().unwrap();
            let through = oldest.version.min(checkpoint.version).get();
            let count = grown.there.len();
            grown.there.retain(|(version, _)| *version > through);
            checkpoints.push(checkpoint);
            assert!(checkpoints.iter().any(|known| known.log == oldest.log));
            assert_eq!(*places.0.back().unwrap(), checkpoint);
            assert!(places.0.len() <= PLACES_MAX && places.0.iter().is_sorted_by_key(|place| place.log));
            forgotten += u64::from(oldest.log > before.log);
            merged += u64::from(places.0.len() == PLACES_MAX);
            files_gone += u64::from(oldest.log == before.log && grown.there.len() < count);
            if grown.dice.random_ratio(1, 10) {
                // A close and an open; or a crash before the manifest was there.
                if grown.dice.random_ratio(1, 2) && checkpoints.len() > 1 {
                    checkpoints.pop();
                }
                let manifest = *checkpoints.last().unwrap();
                places = Places::with_left(places.earlier().collect::<Vec<_>>(), manifest);
                let again = places.oldest().unwrap();
                assert!(again.log <= oldest.log && again.version <= oldest.version);
                // No file has gone yet.
                grown.there = grown.loads.clone();
                grown.there.retain(|(version, _)| *version > again.version.get());
            }
        }
    }
    let all = (forgotten, merged, files_gone);
    assert!(forgotten > 1_000 && merged > 1_000 && files_gone > 1_000, "{all:?}");
}

/// With checkpoints at equal distances, what is kept beyond is bounded although few places are known.
#[test]
fn places_that_are_left_out_cost_a_seventh() {
    let keep = 100_000;
    let mut places = Places::with_left([], place(0, 0));
    let mut most = 0;
    for checkpoint in 1..5_000 {
        let end = checkpoint * 100;
        places.note(place(end, checkpoint), keep, &extent(end, &[]));
        let kept = end - places.oldest().unwrap().log.get();
        assert!(kept >= keep.min(end));
        most = most.max(kept);
    }
    assert!(most > keep && most <= keep + keep / 7, "{most}");
}

#[test]
fn a_checkpoint_that_failed_leaves_no_place_beyond_the_next_one() {
    let mut places = Places::with_left([place(10, 1), place(12, 4), place(50, 5)], place(20, 2));
    // What is noted of loads is no more than the manifest knows.
    assert_eq!(places.earlier().collect::<Vec<_>>(), [place(10, 1), place(12, 2)]);
    places.note(place(30, 3), 1_000, &extent(30, &[]));
    places.note(place(30, 3), 1_000, &extent(30, &[]));
    assert_eq!(places.earlier().collect::<Vec<_>>(), [place(10, 1), place(12, 2), place(20, 2)]);
    places.note(place(40, 4), 0, &extent(40, &[]));
    assert_eq!((places.oldest(), places.earlier().count()), (Some(place(40, 4)), 0));
}
