// SPDX-License-Identifier: Apache-2.0
//! Which commits a read safe snapshot holds (Shioi et al., Algorithm 1 and Theorem 4.10).
//!
//! ```text
//! safe snapshot at boundary b = every commit of versions <= b
//!                             + every U beyond b with first_out(U).version <= b
//! ```
//!
//! So the safe world is the boundary's world with the write sets of those U applied in commit order. `Ssi`
//! says what the first out-edge of a commit is, [`Boundary`](super::Boundary) where the boundary is. A replica has
//! both from the log: [`FollowedSnapshots`](super::FollowedSnapshots).
//!
//! Cost: a push for each commit with an out-edge, which few have; when the boundary moves, a look at those
//! that are still beyond it. Nothing depends on the size of the database.
//!
//! # Memory
//! While an idle writer holds the boundary, commits come on top and none goes below it. Those that can never be
//! members are forgotten ([`SafeSnapshots::review`]). One that still can was under way when some transaction began
//! that is still active: so there are at most as many as pairs of transactions that were active at once, however long
//! the idle one lasts.

use std::collections::VecDeque;

use super::rules::Rules;
use crate::{CommitOrder, TransactionId, Version};

/// The commits that safe snapshots may hold from beyond their boundary.
///
/// `W` is a write set, or what finds it again.
#[derive(Debug)]
pub struct SafeSnapshots<W> {
    boundary: Version,
    /// Commits beyond the boundary that have an out-edge, in commit order.
    obscure: VecDeque<Member<W>>,
    /// When there are as many, look for those that can never become members.
    review_at: usize,
    /// What those keep that were noted since the last look.
    unreviewed_bytes: usize,
    rules: Rules,
}

/// A commit beyond the boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<W> {
    /// Its place among the commits.
    pub order: CommitOrder,
    /// Its name.
    pub transaction: TransactionId,
    /// The earliest commit that it has an antidependency to.
    pub first_out: CommitOrder,
    /// What it wrote.
    pub writes: W,
}

/// What a safe snapshot holds: all of `boundary`, and what these wrote, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SafeSnapshot<W> {
    /// The version whose world it is made from.
    pub boundary: Version,
    /// The commits beyond it, in commit order.
    pub members: Vec<Member<W>>,
}

/// With fewer obscure commits than this it is not worth looking for useless ones, unless they keep much.
const REVIEW_MIN: usize = 64;

/// With so many bytes more it is worth it, however few they are.
const REVIEW_BYTES: usize = 64 << 20;

impl<W: Clone> SafeSnapshots<W> {
    /// With the boundary at the version that was recovered.
    #[must_use]
    pub fn new(boundary: Version) -> Self {
        Self::with_rules(boundary, Rules::ALL_RIGHT)
    }

    pub(crate) fn with_rules(boundary: Version, rules: Rules) -> Self {
        Self { boundary, obscure: VecDeque::new(), review_at: REVIEW_MIN, unreviewed_bytes: 0, rules }
    }

    /// Notes a commit that has an out-edge; others need not be noted.
    ///
    /// # Panics
    /// If it is not later than those noted, or if its first out-edge lies at or below the boundary: the safe
    /// snapshot of a boundary is final, so nobody may join it who commits after the boundary came there.
    pub fn note_commit(&mut self, commit: Member<W>) {
        assert!(commit.order.version > self.boundary, "{} is not beyond the boundary", commit.order);
        assert!(
            !(self.rules.is_member)(commit.first_out, self.boundary),
            "{} would change the safe snapshot of {}",
            commit.order,
            self.boundary
        );
        assert!(self.obscure.back().is_none_or(|last| last.order < commit.order), "commits come in order");
        self.obscure.push_back(commit);
    }

    /// Counts what the write set of a noted commit keeps in memory, for [`review`](Self::review).
    pub fn note_bytes(&mut self, bytes: usize) {
        self.unreviewed_bytes = self.unreviewed_bytes.saturating_add(bytes);
    }

    /// Takes the boundary to `boundary` and returns what the safe snapshot holds there.
    ///
    /// Cost: a step for each commit with an out-edge that was beyond the boundary before.
    ///
    /// # Panics
    /// If the boundary would move back.
    #[must_use]
    pub fn advance(&mut self, boundary: Version) -> SafeSnapshot<W> {
        assert!(boundary >= self.boundary, "the boundary moves from {} to {boundary}", self.boundary);
        self.boundary = boundary;
        while self.obscure.front().is_some_and(|commit| commit.order.version <= boundary) {
            self.obscure.pop_front();
        }
        let members = self.obscure.iter().filter(|commit| (self.rules.is_member)(commit.first_out, boundary));
        SafeSnapshot { boundary, members: members.cloned().collect() }
    }

    /// Forgets commits that can never be members, if there are many or they keep much: those for which the boundary cannot come
    /// to rest between their first out-edge and themselves. `may_rest_in` is
    /// [`Boundary::may_rest_in`](super::Boundary::may_rest_in), and of no concern to commits beyond `published`, the
    /// lowest version at which somebody may still begin. Call it after each batch.
    ///
    /// Cost: amortized one question for each commit noted, and one for each there is with every 64 MiB noted.
    pub fn review(&mut self, published: Version, may_rest_in: impl Fn(Version, Version) -> bool) {
        if self.obscure.len() >= self.review_at || self.unreviewed_bytes >= REVIEW_BYTES {
            self.forget_unreachable(published, may_rest_in);
            self.review_at = REVIEW_MIN.max(self.obscure.len() * 2);
            self.unreviewed_bytes = 0;
        }
    }

    pub(crate) fn forget_unreachable(
        &mut self,
        published: Version,
        may_rest_in: impl Fn(Version, Version) -> bool,
    ) {
        self.obscure.retain(|commit| {
            let (first, end) = (commit.first_out.version, commit.order.version);
            assert!(first <= end, "a first out-edge leads to an earlier commit");
            end > published || may_rest_in(first, end)
        });
    }

    /// Where the boundary is.
    #[must_use]
    pub fn boundary(&self) -> Version {
        self.boundary
    }

    /// How many commits beyond the boundary have an out-edge.
    #[must_use]
    pub fn obscure_count(&self) -> usize {
        self.obscure.len()
    }
}

impl<W> SafeSnapshot<W> {
    /// Whether it holds this commit.
    #[must_use]
    pub fn holds(&self, commit: CommitOrder) -> bool {
        commit.version <= self.boundary || self.members.iter().any(|member| member.order == commit)
    }
}

/// What a session must find in every snapshot it reads: its own last commit, and what it has seen before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionFloor {
    commit: CommitOrder,
    snapshot: Version,
}

impl SessionFloor {
    /// Notes a commit of the session.
    ///
    /// # Panics
    /// If it is not later than the one before.
    pub fn note_commit(&mut self, commit: CommitOrder) {
        assert!(commit > self.commit, "a session's commits come in order");
        self.commit = commit;
    }

    /// Notes the version of a world that the session has read.
    pub fn note_snapshot(&mut self, version: Version) {
        self.snapshot = self.snapshot.max(version);
    }

    /// Notes a safe snapshot that the session has read. What it holds, every later one does.
    pub fn note_safe_snapshot(&mut self, boundary: Version) {
        self.note_snapshot(boundary);
    }

    /// Whether a declared read-only transaction of this session may read the safe snapshot; if not, it runs on
    /// the current world as an SSI reader.
    #[must_use]
    pub fn admits<W>(&self, safe: &SafeSnapshot<W>) -> bool {
        self.snapshot <= safe.boundary && safe.holds(self.commit)
    }
}

/// `DEFERRABLE`: wait until the boundary has reached the version that was current at BEGIN, then read the safe
/// snapshot of the boundary, not that version itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deferral(Version);

impl Deferral {
    /// For a transaction that begins while `current` is published.
    #[must_use]
    pub fn until(current: Version) -> Self {
        Self(current)
    }

    /// The version that the boundary is to reach.
    #[must_use]
    pub fn version(self) -> Version {
        self.0
    }

    /// Whether the wait is over.
    #[must_use]
    pub fn is_over(self, boundary: Version) -> bool {
        boundary >= self.0
    }
}
