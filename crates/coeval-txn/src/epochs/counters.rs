// SPDX-License-Identifier: Apache-2.0
//! EC, LCE, LSE and the pending epochs as plain numbers: the rules of AOSI III-B, without locks or messages.

use std::collections::BTreeSet;

use super::{Epoch, EpochSet, Stride};

/// The counters of one node.
///
/// `EC > LCE >= LSE` after every step. Whatever is pending, or committed but not yet counted in LCE, is above
/// LCE.
#[derive(Clone, Debug)]
pub(super) struct EpochCounters {
    stride: Stride,
    /// EC: the epoch that the next transaction gets.
    next: Epoch,
    /// LCE.
    latest_committed: Epoch,
    /// LSE.
    latest_safe: Epoch,
    /// The newest committed epoch, whatever is pending below.
    newest_committed: Epoch,
    pending: BTreeSet<Epoch>,
    /// The committed epochs that something pending keeps LCE from reaching.
    committed_above: BTreeSet<Epoch>,
}

impl EpochCounters {
    /// The counters of a node before its first epoch.
    pub(super) fn new(stride: Stride) -> Self {
        Self::after(stride, Epoch::ZERO)
    }

    /// The counters of a node that finds all epochs up to `newest` ended and flushed.
    pub(super) fn after(stride: Stride, newest: Epoch) -> Self {
        let next = stride.at_or_after(Epoch::new(newest.get() + 1));
        let counters = Self {
            stride,
            next,
            latest_committed: newest,
            latest_safe: newest,
            newest_committed: newest,
            pending: BTreeSet::new(),
            committed_above: BTreeSet::new(),
        };
        counters.check();
        counters
    }

    /// Starts a transaction: its epoch, and those pending before it (the paper's `deps`).
    pub(super) fn begin(&mut self) -> (Epoch, Vec<Epoch>) {
        let epoch = self.next;
        let dependencies = self.pending.range(..epoch).copied().collect();
        self.next = self.stride.after(epoch);
        let is_new = self.pending.insert(epoch);
        assert!(is_new, "epoch {epoch} was handed out twice");
        self.check();
        (epoch, dependencies)
    }

    /// Goes on to what another process has committed: `set`, of which all up to `ended` has ended there.
    pub(super) fn follow(&mut self, set: &EpochSet, ended: Epoch) {
        assert!(self.committed_above.is_empty(), "who follows ends no epoch itself");
        assert!(ended <= set.horizon(), "the set {set} has all that ended up to {ended}");
        self.next = self.next.max(self.stride.after(set.newest()));
        self.newest_committed = self.newest_committed.max(set.newest());
        self.pending = set.except().iter().copied().collect();
        self.latest_committed = self.latest_committed.max(ended);
        self.check();
    }

    /// Ends `epoch` as committed; LCE follows as far as nothing pending is below.
    pub(super) fn commit(&mut self, epoch: Epoch) {
        self.end(epoch);
        self.committed_above.insert(epoch);
        self.newest_committed = self.newest_committed.max(epoch);
    }

    /// Ends `epoch` as rolled back, after its rows have been removed.
    pub(super) fn roll_back(&mut self, epoch: Epoch) {
        self.end(epoch);
    }

    fn end(&mut self, epoch: Epoch) {
        let was_pending = self.pending.remove(&epoch);
        assert!(was_pending, "epoch {epoch} ends but is not pending");
    }

    /// Moves LCE to the newest committed epoch that has nothing pending below and that `allows`.
    pub(super) fn advance_committed(&mut self, allows: impl Fn(Epoch) -> bool) {
        let oldest_pending = self.pending.first().copied();
        while let Some(epoch) = self.committed_above.first().copied() {
            let is_behind_pending = oldest_pending.is_some_and(|pending| pending < epoch);
            if is_behind_pending || !allows(epoch) {
                break;
            }
            self.committed_above.pop_first();
            self.latest_committed = epoch;
        }
        self.check();
    }

    /// Lamport's rule: after a message that was sent at `clock`, the node's clock is not behind it.
    pub(super) fn observe(&mut self, clock: Epoch) {
        self.next = self.next.max(self.stride.at_or_after(clock));
        self.check();
    }

    /// Moves LSE as far as `limit` and LCE allow; it never moves back.
    pub(super) fn advance_safe(&mut self, limit: Epoch) -> Epoch {
        self.latest_safe = self.latest_safe.max(limit.min(self.latest_committed));
        self.check();
        self.latest_safe
    }

    /// What has been committed, whatever is pending below.
    pub(super) fn committed(&self) -> EpochSet {
        EpochSet::through(self.newest_committed).without(self.pending.range(..self.newest_committed).copied())
    }

    pub(super) fn next(&self) -> Epoch {
        self.next
    }

    pub(super) fn latest_committed(&self) -> Epoch {
        self.latest_committed
    }

    pub(super) fn latest_safe(&self) -> Epoch {
        self.latest_safe
    }

    pub(super) fn pending(&self) -> &BTreeSet<Epoch> {
        &self.pending
    }

    fn check(&self) {
        assert!(self.next > self.latest_committed, "EC {} > LCE {}", self.next, self.latest_committed);
        assert!(self.latest_committed >= self.latest_safe, "LCE >= LSE {}", self.latest_safe);
        assert!(self.next > self.newest_committed, "EC {} > {}", self.next, self.newest_committed);
        let oldest = self.pending.first().into_iter().chain(self.committed_above.first()).min();
        assert!(oldest.is_none_or(|oldest| *oldest > self.latest_committed), "LCE has passed {oldest:?}");
        assert!(
            self.pending.last().is_none_or(|newest| *newest < self.next),
            "a pending epoch is not below EC"
        );
    }
}
