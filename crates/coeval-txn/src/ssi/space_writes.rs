// SPDX-License-Identifier: Apache-2.0
//! Who wrote what in one space, for the commits that an active transaction may not see.
//!
//! # Why
//!
//! A reader asks for the *earliest* writer after its snapshot and for all of those that had an out-edge, of a
//! key, a range or the space. One log in commit order answers all three, and is forgotten from its old end.
//!
//! ```text
//! entries  (commit 7, a) <-- (commit 8, b)    (commit 9, a) ...      in commit order
//!               ^------------older---------------'  ^
//! index                                    a -------'                the newest entry of each key
//! commits  7, 8, 9 ...                                               each once, for reads of the space
//! ```
//!
//! # Cost
//!
//! To record a write: one hash lookup and a push. To look for a key: one hash lookup and a step for each write
//! of it since the snapshot. A range: a step for each write of the space since the snapshot. The whole space: a
//! binary search. To forget: one hash lookup for each entry.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash};

use hashbrown::hash_table::Entry as TableEntry;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::commit_log::CommitNumber;
use crate::CommitOrder;

/// Below this many entries memory is never given back: a few pages are not worth the moves.
const SHRINK_CAPACITY_MIN: usize = 1024;

/// The log shrinks when it fills no more than this part of its memory...
const SHRINK_AT_FRACTION: usize = 8;

/// ... to this multiple of what it needs, so that a shrink is paid by as many removals.
const SHRINK_TO_FACTOR: usize = 2;

const _: () = assert!(SHRINK_TO_FACTOR * 2 <= SHRINK_AT_FRACTION, "a shrink must free half of the memory");

/// A write as certification sees it.
#[derive(Debug, PartialEq, Eq)]
pub enum Written<'a, K> {
    /// A key was inserted, replaced or deleted. An index entry that goes and one that comes are a key each.
    Key(&'a K),
    /// The space changed as a whole (TRUNCATE, a bulk load): it meets every read of it.
    WholeSpace,
}

impl<K> Clone for Written<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Written<'_, K> {}

/// The writes of one space.
pub(crate) struct SpaceWrites<K> {
    /// Seeded at random, so that nobody can choose keys that all fall into one place.
    hasher: DefaultHashBuilder,
    entries: VecDeque<Entry<K>>,
    forgotten_count: u64,
    index: HashTable<Indexed>,
    /// The commits that wrote here, each once.
    commits: VecDeque<CommitNumber>,
    /// Those of them that wrote the space as a whole.
    whole: VecDeque<CommitNumber>,
    newest: CommitOrder,
    /// The last commit here that had an out-edge.
    newest_with_out: CommitOrder,
}

/// A key that a commit wrote.
struct Entry<K> {
    key: K,
    hash: u32,
    commit: CommitNumber,
    /// The entry before this one of the same key, which may be forgotten.
    older: Option<Position>,
}

/// The place of an entry among all that were ever recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position(u64);

#[derive(Clone, Copy)]
struct Indexed {
    hash: u32,
    position: Position,
}

/// A hash as the index wants it: it takes the place from the low bits and a tag from the highest seven.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

impl<K: Clone + Eq + Hash> SpaceWrites<K> {
    pub(crate) fn new() -> Self {
        Self {
            hasher: DefaultHashBuilder::default(),
            entries: VecDeque::new(),
            forgotten_count: 0,
            index: HashTable::new(),
            commits: VecDeque::new(),
            whole: VecDeque::new(),
            newest: CommitOrder::default(),
            newest_with_out: CommitOrder::default(),
        }
    }

    /// The last commit that wrote here, forgotten or not.
    pub(crate) fn newest(&self) -> CommitOrder {
        self.newest
    }

    /// The last commit that wrote here and had an out-edge, forgotten or not.
    pub(crate) fn newest_with_out(&self) -> CommitOrder {
        self.newest_with_out
    }

    /// How many keys are in the log.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The key of an entry.
    pub(crate) fn key(&self, position: Position) -> &K {
        &self.entries[self.offset(position)].key
    }

    /// Notes that a commit wrote here; its keys follow.
    pub(crate) fn begin_commit(&mut self, commit: CommitNumber, order: CommitOrder, has_out: HasOut) {
        assert!(self.newest <= order, "commits are recorded in order");
        self.newest = order;
        if has_out == HasOut::Yes {
            self.newest_with_out = order;
        }
        if self.commits.back() != Some(&commit) {
            self.commits.push_back(commit);
        }
    }

    /// Records that the commit that was begun wrote the space as a whole.
    pub(crate) fn record_whole(&mut self, commit: CommitNumber) {
        assert_eq!(self.commits.back(), Some(&commit), "a commit is begun before it writes");
        if self.whole.back() != Some(&commit) {
            self.whole.push_back(commit);
        }
    }

    /// Records a key that the commit that was begun wrote.
    #[inline]
    pub(crate) fn record(&mut self, commit: CommitNumber, key: &K) {
        let hash = (self.hasher.hash_one(key) >> 32) as u32;
        let position = Position(self.forgotten_count + self.entries.len() as u64);
        let (entries, first) = (&self.entries, self.forgotten_count);
        let entry_at = |position: Position| &entries[(position.0 - first) as usize];
        let is_key = |indexed: &Indexed| indexed.hash == hash && entry_at(indexed.position).key == *key;
        let older = match self.index.entry(spread(hash), is_key, |indexed| spread(indexed.hash)) {
            TableEntry::Occupied(mut occupied) => {
                let older = std::mem::replace(&mut occupied.get_mut().position, position);
                if entry_at(older).commit == commit {
                    // Written twice by one transaction: the entry that stands serves for both.
                    occupied.get_mut().position = older;
                    return;
                }
                Some(older)
            }
            TableEntry::Vacant(vacant) => {
                vacant.insert(Indexed { hash, position });
                None
            }
        };
        self.entries.push_back(Entry { key: key.clone(), hash, commit, older });
    }

    /// The commits from `from` on that wrote this key, the newest first.
    #[inline]
    pub(crate) fn of_key(
        &self,
        key: &K,
        from: CommitNumber,
    ) -> impl Iterator<Item = (CommitNumber, Position)> {
        let hash = (self.hasher.hash_one(key) >> 32) as u32;
        let is_key = |indexed: &Indexed| {
            indexed.hash == hash && self.entries[self.offset(indexed.position)].key == *key
        };
        let newest = self.index.find(spread(hash), is_key).map(|indexed| indexed.position);
        let is_known = |position: &Position| position.0 >= self.forgotten_count;
        let older = move |position: &Position| self.entries[self.offset(*position)].older.filter(is_known);
        std::iter::successors(newest, older)
            .map(|position| (self.entries[self.offset(position)].commit, position))
            .take_while(move |(commit, _)| *commit >= from)
    }

    /// All writes of keys from `from` on, the newest first.
    pub(crate) fn since(&self, from: CommitNumber) -> impl Iterator<Item = (CommitNumber, Position, &K)> {
        let entries = self.entries.iter().enumerate().rev();
        entries
            .take_while(move |(_, entry)| entry.commit >= from)
            .map(|(offset, entry)| (entry.commit, Position(self.forgotten_count + offset as u64), &entry.key))
    }

    /// The first commit from `from` on that wrote anything here.
    pub(crate) fn first_since(&self, from: CommitNumber) -> Option<CommitNumber> {
        self.commits.get(self.commits.partition_point(|commit| *commit < from)).copied()
    }

    /// The commits from `from` on that wrote anything here, the newest first.
    pub(crate) fn commits_since(&self, from: CommitNumber) -> impl Iterator<Item = CommitNumber> {
        self.commits.iter().rev().copied().take_while(move |commit| *commit >= from)
    }

    /// The commits from `from` on that wrote the space as a whole, the newest first.
    pub(crate) fn whole_since(&self, from: CommitNumber) -> impl Iterator<Item = CommitNumber> {
        self.whole.iter().rev().copied().take_while(move |commit| *commit >= from)
    }

    /// Drops what belongs to commits before `oldest`, at most `limit` keys; returns how many.
    pub(crate) fn forget_before(&mut self, oldest: CommitNumber, limit: usize) -> usize {
        for commits in [&mut self.commits, &mut self.whole] {
            while commits.front().is_some_and(|commit| *commit < oldest) {
                commits.pop_front();
            }
        }
        let mut count = 0;
        while count < limit && self.entries.front().is_some_and(|entry| entry.commit < oldest) {
            let entry = self.entries.pop_front().expect("there is a front");
            let position = Position(self.forgotten_count);
            let is_newest = |indexed: &Indexed| indexed.position == position;
            if let Ok(indexed) = self.index.find_entry(spread(entry.hash), is_newest) {
                indexed.remove();
            }
            self.forgotten_count += 1;
            count += 1;
        }
        assert!(self.index.len() <= self.entries.len(), "the index names entries that are there");
        self.shrink();
        count
    }

    /// Gives memory back when most of it is free.
    fn shrink(&mut self) {
        let capacity = self.entries.capacity();
        if capacity > SHRINK_CAPACITY_MIN && self.entries.len() <= capacity / SHRINK_AT_FRACTION {
            let wanted = self.entries.len() * SHRINK_TO_FACTOR;
            self.entries.shrink_to(wanted);
            self.index.shrink_to(wanted, |indexed| spread(indexed.hash));
        }
    }

    /// Whether nothing is remembered here.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.commits.is_empty() && self.whole.is_empty()
    }

    fn offset(&self, position: Position) -> usize {
        (position.0 - self.forgotten_count) as usize
    }
}

/// Whether a commit had an out-edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HasOut {
    No,
    Yes,
}
