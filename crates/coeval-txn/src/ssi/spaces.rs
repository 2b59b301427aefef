// SPDX-License-Identifier: Apache-2.0
//! The writes of all spaces, recorded by commit and forgotten by age or when there are too many.

use std::hash::Hash;

use hashbrown::HashMap;

use super::commit_log::{Commit, CommitLog, KeyAmount};
use super::limits::SsiLimits;
use super::space_writes::{HasOut, SpaceWrites, Written};
use crate::Version;

/// One [`Spaces::forget_through`] drops at least this many keys if there are so many to drop: below a
/// millisecond.
const FORGET_STEP_MIN: usize = 4096;

/// It drops up to this many keys for each recorded since, so that a pile gets less even while commits go on.
const FORGET_PER_RECORDED: usize = 2;

/// How many spaces one call visits, in turn.
const SPACES_PER_STEP: usize = 64;

const _: () = assert!(FORGET_PER_RECORDED > 1, "forgetting must be faster than recording");

/// Who wrote what, by space.
pub(crate) struct Spaces<S, K> {
    commits: CommitLog,
    places: HashMap<S, usize>,
    writes: Vec<(S, SpaceWrites<K>)>,
    limits: SsiLimits,
    /// What a key has on the heap.
    heap_bytes_of: fn(&K) -> usize,
    /// Commits up to here were forgotten although a transaction may still ask for them.
    coarse_through: Version,
    /// The space that is next to be looked through for what can be dropped.
    sweep: usize,
    recorded_count: usize,
}

impl<S: Copy + Eq + Hash, K: Clone + Ord + Hash> Spaces<S, K> {
    pub(crate) fn new(limits: SsiLimits, heap_bytes_of: fn(&K) -> usize) -> Self {
        assert!(limits.commits_max > 0 && limits.examined_max > 0);
        Self {
            commits: CommitLog::default(),
            places: HashMap::new(),
            writes: Vec::new(),
            limits,
            heap_bytes_of,
            coarse_through: Version::ZERO,
            sweep: 0,
            recorded_count: 0,
        }
    }

    pub(crate) fn commits(&self) -> &CommitLog {
        &self.commits
    }

    pub(crate) fn limits(&self) -> SsiLimits {
        self.limits
    }

    /// For a snapshot before this version not all commits after it are known one by one.
    pub(crate) fn coarse_through(&self) -> Version {
        self.coarse_through
    }

    pub(crate) fn get(&self, space: S) -> Option<&SpaceWrites<K>> {
        self.places.get(&space).map(|place| &self.writes[*place].1)
    }

    /// How many written keys are held.
    pub(crate) fn key_count(&self) -> usize {
        self.writes.iter().map(|(_, writes)| writes.len()).sum()
    }

    /// Records a commit and what it wrote.
    pub(crate) fn record<'a>(&mut self, commit: Commit, writes: impl Iterator<Item = (S, Written<'a, K>)>)
    where
        K: 'a,
    {
        assert_eq!(commit.keys, KeyAmount::default(), "keys are counted here");
        let number = self.commits.push(commit);
        let has_out = if commit.first_out.is_some() { HasOut::Yes } else { HasOut::No };
        let mut keys = KeyAmount::default();
        let mut recent: Option<(S, usize)> = None;
        for (space, written) in writes {
            let place = match recent {
                Some((of, place)) if of == space => place,
                _ => {
                    let place = self.place_of(space);
                    self.writes[place].1.begin_commit(number, commit.order, has_out);
                    recent = Some((space, place));
                    place
                }
            };
            match written {
                Written::Key(key) => {
                    self.writes[place].1.record(number, key);
                    keys.count += 1;
                    keys.heap_bytes += (self.heap_bytes_of)(key);
                }
                Written::WholeSpace => self.writes[place].1.record_whole(number),
            }
        }
        self.commits.count_keys(keys);
        self.recorded_count += keys.count;
        while self.remembers_too_much() {
            let Some(version) = self.commits.forget_oldest_batch() else { break };
            self.coarse_through = version;
        }
    }

    fn remembers_too_much(&self) -> bool {
        let (limits, keys) = (&self.limits, self.commits.keys());
        self.commits.len() > limits.commits_max
            || keys.count > limits.keys_max
            || keys.heap_bytes > limits.key_heap_bytes_max
    }

    /// Forgets the commits at or below `oldest`: every snapshot that may still ask holds them.
    pub(crate) fn forget_through(&mut self, oldest: Version) {
        self.commits.forget_through(oldest);
        let mut limit = FORGET_STEP_MIN.max(self.recorded_count.saturating_mul(FORGET_PER_RECORDED));
        self.recorded_count = 0;
        let oldest_commit = self.commits.oldest();
        for _ in 0..SPACES_PER_STEP.min(self.writes.len()) {
            self.sweep %= self.writes.len();
            let (space, writes) = &mut self.writes[self.sweep];
            limit -= writes.forget_before(oldest_commit, limit);
            // Who began before the newest commit of a space may ask for that alone. Later nobody does, and the
            // space of a dropped table goes for good.
            if writes.is_empty() && writes.newest().version <= oldest {
                let space = *space;
                self.remove(space);
            } else if limit == 0 {
                break;
            } else {
                self.sweep += 1;
            }
        }
    }

    fn place_of(&mut self, space: S) -> usize {
        *self.places.entry(space).or_insert_with(|| {
            self.writes.push((space, SpaceWrites::new()));
            self.writes.len() - 1
        })
    }

    fn remove(&mut self, space: S) {
        let place = self.places.remove(&space).expect("each space has a place");
        self.writes.swap_remove(place);
        if let Some((moved, _)) = self.writes.get(place) {
            self.places.insert(*moved, place);
        }
        assert_eq!(self.places.len(), self.writes.len());
    }
}
