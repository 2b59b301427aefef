// SPDX-License-Identifier: Apache-2.0
//! The search for what a transaction read and others have overwritten since its snapshot.

use std::hash::Hash;

use super::commit_log::{CommitLog, CommitNumber};
use super::conflict::{Counterpart, Place};
use super::read_set::{ReadSet, SpaceReads};
use super::rules::Rules;
use super::space_writes::{Position, SpaceWrites};
use super::spaces::Spaces;
use crate::{CommitOrder, Version};

/// Whether the transaction that searches wrote something: the source rule asks less of one that did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    Nothing,
    Something,
}

/// An antidependency to a commit.
pub(crate) struct OutEdge<'a, S, K> {
    /// The commit; `None` if it is one of those that are not known one by one.
    commit: Option<CommitNumber>,
    space: Option<S>,
    /// The space and entry of the key, if it is known.
    key: Option<(&'a SpaceWrites<K>, Position)>,
}

impl<S: Copy, K> Clone for OutEdge<'_, S, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Copy, K> Copy for OutEdge<'_, S, K> {}

/// What the search found.
pub(crate) struct OutEdges<'a, S, K> {
    commits: &'a CommitLog,
    rules: &'a Rules,
    begin: Version,
    writes: Writes,
    /// The first commit that is remembered and not in the snapshot.
    from: CommitNumber,
    /// Steps that are left before answers become coarse.
    examinable_count: usize,
    /// The earliest commit found.
    first: Option<OutEdge<'a, S, K>>,
    /// A commit that makes this transaction the source of a dangerous structure.
    source: Option<OutEdge<'a, S, K>>,
}

/// What became of a look at some writes.
enum Look {
    Complete,
    /// There was too much to look at.
    Abandoned,
}

impl<'a, S: Copy + Eq + Hash, K: Clone + Ord + Hash> OutEdges<'a, S, K> {
    /// Searches. Cost: see `space_writes.rs`; at most [`examined_max`](super::SsiLimits::examined_max) steps
    /// beyond a look-up for each read.
    pub(crate) fn search(
        spaces: &'a Spaces<S, K>,
        rules: &'a Rules,
        begin: Version,
        writes: Writes,
        reads: &ReadSet<S, K>,
    ) -> Self {
        let commits = spaces.commits();
        let mut edges = Self {
            commits,
            rules,
            begin,
            writes,
            from: commits.first_unseen(|commit| (rules.is_unseen)(commit, begin)),
            examinable_count: spaces.limits().examined_max,
            first: None,
            source: None,
        };
        if reads.reads_everything() {
            edges.of_everything(spaces);
        }
        for reads in reads.spaces() {
            let Some(writes) = spaces.get(reads.space) else { continue };
            if !(rules.is_unseen)(writes.newest(), begin) {
                continue;
            }
            let is_remembered = begin >= spaces.coarse_through();
            if !is_remembered || matches!(edges.of_space(writes, reads), Look::Abandoned) {
                edges.meet_unknown(Some(reads.space), writes.newest_with_out());
            }
        }
        edges
    }

    /// The earliest commit that the transaction has an antidependency to. A commit that is not known one by
    /// one counts as the first that there can be.
    pub(crate) fn first_out(&self) -> Option<CommitOrder> {
        self.first.as_ref().map(|edge| match edge.commit {
            Some(commit) => self.commits.get(commit).order,
            None => CommitOrder { version: self.begin.next(), position: 0 },
        })
    }

    /// The edge to that commit.
    pub(crate) fn first(&self) -> Option<OutEdge<'a, S, K>> {
        self.first
    }

    /// An edge that makes the transaction the source of a dangerous structure.
    pub(crate) fn source(&self) -> Option<OutEdge<'a, S, K>> {
        self.source
    }

    /// The commit at the end of an edge.
    pub(crate) fn counterpart(&self, edge: OutEdge<'_, S, K>) -> Counterpart {
        edge.commit.map_or(Counterpart::Unknown, |number| {
            let commit = self.commits.get(number);
            Counterpart::Writer { transaction: commit.transaction, order: commit.order }
        })
    }

    /// The first out-edge of the commit at the end of an edge, as far as it is known.
    pub(crate) fn first_out_of(&self, edge: OutEdge<'_, S, K>) -> Option<CommitOrder> {
        edge.commit.and_then(|number| self.commits.get(number).first_out)
    }

    /// What was read and overwritten.
    pub(crate) fn place(&self, edge: OutEdge<'_, S, K>) -> Place<S, K> {
        let key = edge.key.map(|(writes, position)| writes.key(position).clone());
        Place { space: edge.space, key }
    }

    /// The edges from reads of one space.
    fn of_space(&mut self, writes: &'a SpaceWrites<K>, reads: &SpaceReads<S, K>) -> Look {
        let space = Some(reads.space);
        if reads.is_whole {
            let first = writes.first_since(self.from);
            return self.of_commits(first, writes.commits_since(self.from), writes.newest_with_out(), space);
        }
        for commit in writes.whole_since(self.from) {
            if !self.meet(OutEdge { commit: Some(commit), space, key: None }) {
                return Look::Abandoned;
            }
        }
        for key in &reads.keys {
            for (commit, position) in writes.of_key(key, self.from) {
                let key = Some((writes, position));
                if !self.meet(OutEdge { commit: Some(commit), space, key }) {
                    return Look::Abandoned;
                }
            }
        }
        if reads.ranges.is_empty() {
            return Look::Complete;
        }
        for (commit, position, key) in writes.since(self.from) {
            let key = reads.ranges.contains(key).then_some((writes, position));
            let is_met = key.is_none() || self.meet(OutEdge { commit: Some(commit), space, key });
            if !is_met || !self.examine() {
                return Look::Abandoned;
            }
        }
        Look::Complete
    }

    /// The edges to commits of which all are met, the newest first, and the first of which is known.
    fn of_commits(
        &mut self,
        first: Option<CommitNumber>,
        commits: impl Iterator<Item = CommitNumber>,
        newest_with_out: CommitOrder,
        space: Option<S>,
    ) -> Look {
        let Some(first) = first else { return Look::Complete };
        if !self.meet(OutEdge { commit: Some(first), space, key: None }) {
            return Look::Abandoned;
        }
        if !(self.rules.is_unseen)(newest_with_out, self.begin) {
            return Look::Complete;
        }
        for commit in commits {
            if !self.meet(OutEdge { commit: Some(commit), space, key: None }) {
                return Look::Abandoned;
            }
            if self.source.is_some() {
                break;
            }
        }
        Look::Complete
    }

    /// The edges of a transaction that read more spaces than are held one by one.
    fn of_everything(&mut self, spaces: &Spaces<S, K>) {
        let commits = self.commits;
        let newest_with_out = commits.newest_with_out().unwrap_or_default();
        let is_remembered = self.begin >= spaces.coarse_through();
        let first = commits.since(self.from).next();
        let all = commits.since(self.from).rev();
        if !is_remembered || matches!(self.of_commits(first, all, newest_with_out, None), Look::Abandoned) {
            self.meet_unknown(None, newest_with_out);
        }
    }

    /// Takes in that somebody overwrote what was read, and that nobody looks who.
    fn meet_unknown(&mut self, space: Option<S>, newest_with_out: CommitOrder) {
        let edge = OutEdge { commit: None, space, key: None };
        self.first = Some(edge);
        if (self.rules.is_unseen)(newest_with_out, self.begin) {
            self.source.get_or_insert(edge);
        }
    }

    /// Takes a commit in that overwrote something that was read; returns whether there is time for more.
    fn meet(&mut self, edge: OutEdge<'a, S, K>) -> bool {
        let number = edge.commit.expect("a commit that is met is known");
        let commit = self.commits.get(number);
        let is_first = self.first.is_none_or(|first| match first.commit {
            Some(first) => (self.rules.is_earlier)(commit.order, self.commits.get(first).order),
            None => false,
        });
        if is_first {
            self.first = Some(edge);
        }
        let is_source = commit.first_out.is_some_and(|first_out| match self.writes {
            Writes::Something => (self.rules.is_source)(first_out),
            Writes::Nothing => (self.rules.is_reading_source)(first_out, self.begin),
        });
        if is_source {
            self.source.get_or_insert(edge);
        }
        self.examine()
    }

    /// Whether one more write may be looked at.
    fn examine(&mut self) -> bool {
        self.examinable_count = self.examinable_count.saturating_sub(1);
        self.examinable_count > 0
    }
}
