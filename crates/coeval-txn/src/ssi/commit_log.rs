// SPDX-License-Identifier: Apache-2.0
//! The commits that an active transaction may not see, in commit order.

use std::collections::VecDeque;

use crate::{CommitOrder, TransactionId, Version};

/// The place of a commit among all that were ever recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CommitNumber(u64);

/// What is remembered of a commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit {
    pub(crate) order: CommitOrder,
    pub(crate) transaction: TransactionId,
    /// The earliest transaction it had an antidependency to when it committed.
    pub(crate) first_out: Option<CommitOrder>,
    /// How many keys it wrote and what they have on the heap, as far as they have been counted.
    pub(crate) keys: KeyAmount,
}

/// Some keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyAmount {
    pub(crate) count: usize,
    pub(crate) heap_bytes: usize,
}

/// Commits in order, the oldest forgotten.
#[derive(Debug, Default)]
pub(crate) struct CommitLog {
    commits: VecDeque<Commit>,
    forgotten_count: u64,
    /// Keys written by the commits that are remembered.
    keys: KeyAmount,
    /// The last commit that had an out-edge.
    newest_with_out: Option<CommitOrder>,
}

impl CommitLog {
    /// How many commits are remembered.
    pub(crate) fn len(&self) -> usize {
        self.commits.len()
    }

    pub(crate) fn keys(&self) -> KeyAmount {
        self.keys
    }

    /// The number of the oldest commit that is remembered, or of the next one.
    pub(crate) fn oldest(&self) -> CommitNumber {
        CommitNumber(self.forgotten_count)
    }

    /// The number of the next commit.
    pub(crate) fn next(&self) -> CommitNumber {
        CommitNumber(self.forgotten_count + self.commits.len() as u64)
    }

    pub(crate) fn newest_with_out(&self) -> Option<CommitOrder> {
        self.newest_with_out
    }

    /// # Panics
    /// If the commit is forgotten: who asks has looked at [`oldest`](Self::oldest).
    pub(crate) fn get(&self, number: CommitNumber) -> &Commit {
        assert!(number >= self.oldest(), "{number:?} is forgotten");
        &self.commits[(number.0 - self.forgotten_count) as usize]
    }

    /// The numbers from this one on.
    pub(crate) fn since(
        &self,
        number: CommitNumber,
    ) -> impl DoubleEndedIterator<Item = CommitNumber> + use<> {
        (number.0..self.next().0).map(CommitNumber)
    }

    /// The first commit that is remembered and that `is_unseen` finds; as they are in order, all after it are
    /// unseen too.
    pub(crate) fn first_unseen(&self, is_unseen: impl Fn(CommitOrder) -> bool) -> CommitNumber {
        let seen_count = self.commits.partition_point(|commit| !is_unseen(commit.order));
        CommitNumber(self.forgotten_count + seen_count as u64)
    }

    pub(crate) fn push(&mut self, commit: Commit) -> CommitNumber {
        let number = self.next();
        assert!(self.commits.back().is_none_or(|last| last.order < commit.order), "commits come in order");
        self.keys.add(commit.keys);
        if commit.first_out.is_some() {
            self.newest_with_out = Some(commit.order);
        }
        self.commits.push_back(commit);
        number
    }

    /// Counts keys that the newest commit wrote.
    pub(crate) fn count_keys(&mut self, keys: KeyAmount) {
        let newest = self.commits.back_mut().expect("a commit is recorded before its keys");
        newest.keys.add(keys);
        self.keys.add(keys);
    }

    /// Forgets the commits at or below `version`.
    pub(crate) fn forget_through(&mut self, version: Version) {
        while self.commits.front().is_some_and(|commit| commit.order.version <= version) {
            self.forget_oldest();
        }
    }

    /// Forgets the oldest batch and returns its version.
    pub(crate) fn forget_oldest_batch(&mut self) -> Option<Version> {
        let version = self.commits.front()?.order.version;
        self.forget_through(version);
        Some(version)
    }

    fn forget_oldest(&mut self) {
        let commit = self.commits.pop_front().expect("the caller has looked at it");
        self.keys.count -= commit.keys.count;
        self.keys.heap_bytes -= commit.keys.heap_bytes;
        self.forgotten_count += 1;
    }
}

impl KeyAmount {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.heap_bytes += other.heap_bytes;
    }
}
