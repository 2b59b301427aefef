// SPDX-License-Identifier: Apache-2.0
//! EC, LCE, and which epochs are pending or have ended, as one node of many knows it.
//!
//! The same rules as in one process (AOSI III-B), but each step may come twice, and news may come in any order.

use std::collections::{BTreeMap, BTreeSet};

use super::message::{Pending, Standing};
use super::readers::MindedDeletes;
use super::rules::{Rule, Rules};
use super::view::{CommittedEpoch, EpochKind, Incarnation, NodeId};
use crate::epochs::{Epoch, EpochSet, Stride};

/// The epochs of one node of a cluster. `EC > LCE` after every step; all that is pending is above LCE and below EC.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    stride: Stride,
    rules: Rules,
    /// EC: the epoch that the next transaction gets.
    next: Epoch,
    /// LCE.
    latest_committed: Epoch,
    /// What is pending, with the incarnation of its coordinator.
    pending: BTreeMap<Epoch, Incarnation>,
    /// What is decided above LCE, each with its dependencies.
    committed: BTreeMap<Epoch, CommittedEpoch>,
    /// What was rolled back above LCE.
    rolled_back: BTreeSet<Epoch>,
    /// By node, an epoch below which all of that node's have ended: its earlier incarnations are closed.
    closed_below: BTreeMap<NodeId, Epoch>,
    deletes: MindedDeletes,
}

impl Ledger {
    /// A node that knows of no epoch yet.
    pub(super) fn new(stride: Stride, rules: Rules) -> Self {
        Self {
            stride,
            rules,
            next: stride.first(),
            latest_committed: Epoch::ZERO,
            pending: BTreeMap::new(),
            committed: BTreeMap::new(),
            rolled_back: BTreeSet::new(),
            closed_below: BTreeMap::new(),
            deletes: MindedDeletes::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn keep_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    pub(super) fn next(&self) -> Epoch {
        self.next
    }

    pub(super) fn latest_committed(&self) -> Epoch {
        self.latest_committed
    }

    pub(super) fn pending(&self) -> impl Iterator<Item = Epoch> + '_ {
        self.pending.keys().copied()
    }

    pub(super) fn is_pending(&self, epoch: Epoch) -> bool {
        self.pending.contains_key(&epoch)
    }

    /// Whether the node knows that the transaction is over, in whichever way.
    pub(super) fn has_ended(&self, epoch: Epoch) -> bool {
        let is_closed = |below: &Epoch| epoch < *below;
        epoch <= self.latest_committed
            || self.committed.contains_key(&epoch)
            || self.rolled_back.contains(&epoch)
            || (self.closed_below.get(&self.node_of(epoch)).is_some_and(is_closed) && !self.is_pending(epoch))
    }

    /// Everything up to LCE, and what is decided above it.
    pub(super) fn ended(&self) -> EpochSet {
        let committed: Vec<Epoch> = self.committed.keys().copied().collect();
        EpochSet::through(self.latest_committed).with(&committed)
    }

    /// The node that hands out `epoch`.
    pub(super) fn node_of(&self, epoch: Epoch) -> NodeId {
        NodeId::new(self.stride.node_of(epoch))
    }

    /// Lamport's rule: after a message that was sent at `clock`, the node's clock is not behind it.
    pub(super) fn observe(&mut self, clock: Epoch) {
        if self.rules.keep(Rule::Clocks) {
            self.move_clock(clock);
        }
    }

    fn move_clock(&mut self, clock: Epoch) {
        self.next = self.next.max(self.stride.at_or_after(clock));
    }

    /// Starts a transaction here, in this incarnation.
    pub(super) fn begin(&mut self, incarnation: Incarnation) -> Epoch {
        let epoch = self.next;
        self.next = self.stride.after(epoch);
        assert!(epoch > self.latest_committed, "what has not begun is above LCE");
        let before = self.pending.insert(epoch, incarnation);
        assert!(before.is_none(), "epoch {epoch} was handed out twice");
        epoch
    }

    /// Notes a transaction, of whichever node, unless it has ended.
    pub(super) fn note_begin(&mut self, epoch: Epoch, incarnation: Incarnation) {
        if !self.has_ended(epoch) || !self.rules.keep(Rule::EndedStaysEnded) {
            self.move_clock_past(epoch);
            self.pending.insert(epoch, incarnation);
        }
    }

    fn move_clock_past(&mut self, epoch: Epoch) {
        self.observe(Epoch::new(epoch.get() + 1));
    }

    /// Notes that a transaction is decided.
    pub(super) fn commit(&mut self, decided: &CommittedEpoch) {
        let epoch = decided.epoch;
        let is_older = |dependency: &Epoch| *dependency < epoch;
        assert!(decided.dependencies.iter().all(is_older), "{epoch} depends on what is older");
        self.pending.remove(&epoch);
        if epoch > self.latest_committed && !self.rolled_back.contains(&epoch) {
            self.move_clock_past(epoch);
            self.committed.insert(epoch, decided.clone());
            self.note_decided_delete(decided);
        }
        self.advance();
    }

    fn note_decided_delete(&mut self, decided: &CommittedEpoch) {
        if decided.kind != EpochKind::Delete {
            return;
        }
        if self.rules.keep(Rule::ReadersStayBelowDeletes) {
            self.deletes.note_decided(decided);
        } else {
            self.deletes.forget(decided.epoch);
        }
    }

    /// Notes that a delete has begun: it will see all up to LCE, and declared readers get no more until it ends.
    pub(super) fn note_delete(&mut self, epoch: Epoch) {
        if self.is_pending(epoch) && self.rules.keep(Rule::DeletesHoldReaders) && !self.deletes.has(epoch) {
            self.deletes.note(epoch, self.latest_committed);
        }
    }

    /// The newest epoch up to which a declared reader may see everything.
    pub(super) fn newest_safe(&self) -> Epoch {
        self.deletes.newest_safe(self.latest_committed)
    }

    /// Up to which epoch a declared reader may see everything once this pending transaction is decided; nothing if that is without it.
    pub(super) fn newest_safe_with(&self, decided: &CommittedEpoch) -> Option<Epoch> {
        if self.pending.keys().next() != Some(&decided.epoch) {
            return None;
        }
        let mut with = self.clone();
        with.commit(decided);
        assert!(with.latest_committed >= self.latest_committed, "LCE does not move back");
        Some(with.newest_safe()).filter(|newest| *newest >= decided.epoch)
    }

    /// Notes that a transaction is rolled back and its rows are gone.
    pub(super) fn roll_back(&mut self, epoch: Epoch) {
        let is_news = self.pending.remove(&epoch).is_some() || !self.has_ended(epoch);
        if is_news && epoch > self.latest_committed {
            self.move_clock_past(epoch);
            self.rolled_back.insert(epoch);
        }
        self.deletes.forget(epoch);
        self.advance();
    }

    /// Notes that all epochs of `node` up to this incarnation have ended; those that were pending are rolled back. All
    /// below `through` are of these incarnations, and so are all that any live node has heard of.
    pub(super) fn close(&mut self, node: NodeId, incarnation: Incarnation, through: Epoch) {
        self.move_clock(through);
        assert!(self.next >= through, "what is closed is below EC");
        let below = self.closed_below.entry(node).or_default();
        *below = through.max(*below);
        for epoch in self.pending_of(node, incarnation) {
            self.roll_back(epoch);
        }
        let (stride, latest, committed) = (self.stride, self.latest_committed, &self.committed);
        self.deletes.forget_all(|delete| {
            let is_its_own = stride.node_of(delete) == node.get() && delete < through;
            is_its_own && delete > latest && !committed.contains_key(&delete)
        });
        self.advance();
    }

    /// What is pending of `node`, up to this incarnation.
    pub(super) fn pending_of(&self, node: NodeId, incarnation: Incarnation) -> Vec<Epoch> {
        let is_its_own =
            |(epoch, life): &(&Epoch, &Incarnation)| **life <= incarnation && self.node_of(**epoch) == node;
        self.pending.iter().filter(is_its_own).map(|(epoch, _)| *epoch).collect()
    }

    /// Forgets all but LCE and what is known to be committed or closed.
    pub(super) fn forget(&mut self) {
        self.pending.clear();
        self.rolled_back.clear();
    }

    /// Whether a delete besides this one has begun and not ended, for all that is known.
    pub(super) fn knows_other_deletes(&self, epoch: Epoch) -> bool {
        let deletes = self.deletes.list();
        deletes.iter().any(|(delete, _)| *delete != epoch && self.is_pending(*delete))
    }

    /// Takes over which deletes another node minds.
    pub(super) fn learn_deletes(&mut self, standing: &Standing) {
        for (delete, through) in &standing.deletes {
            if !self.rolled_back.contains(delete) {
                self.deletes.note(*delete, *through);
            }
        }
    }

    /// Takes over what another node knows to have ended.
    pub(super) fn learn(&mut self, standing: &Standing) {
        self.learn_latest(standing.latest_committed);
        standing.rolled_back.iter().for_each(|epoch| self.roll_back(*epoch));
        standing.committed.iter().for_each(|decided| self.commit(decided));
    }

    /// Notes that everything up to `latest` has ended somewhere, so everywhere.
    pub(super) fn learn_latest(&mut self, latest: Epoch) {
        if latest <= self.latest_committed {
            return;
        }
        self.move_clock_past(latest);
        self.latest_committed = latest;
        self.pending.retain(|epoch, _| *epoch > latest);
        self.committed.retain(|epoch, _| *epoch > latest);
        self.rolled_back.retain(|epoch| *epoch > latest);
        self.advance();
    }

    /// Moves LCE to the newest decided epoch with nothing pending below whose dependencies have ended.
    fn advance(&mut self) {
        while let Some((epoch, decided)) = self.committed.first_key_value() {
            let is_behind = self.pending.keys().next().is_some_and(|pending| pending < epoch);
            let waits = self.rules.keep(Rule::Dependencies)
                && decided.dependencies.iter().any(|dependency| !self.has_ended(*dependency));
            if is_behind || waits {
                break;
            }
            self.latest_committed = *epoch;
            self.committed.pop_first();
        }
        self.rolled_back.retain(|epoch| *epoch > self.latest_committed);
        self.deletes.forget_seen(self.latest_committed);
        self.check();
    }

    /// What somebody who begins has to know.
    pub(super) fn pending_for(&self, epoch: Epoch) -> Pending {
        let lists = self.rules.keep(Rule::PendingLists);
        Pending {
            pending: self.pending.range(..epoch).map(|(epoch, _)| *epoch).filter(|_| lists).collect(),
            latest_committed: self.latest_committed,
            committed: self.committed.keys().copied().collect(),
        }
    }

    /// What somebody who was away has to know.
    pub(super) fn standing(&self, latest_safe: Epoch) -> Standing {
        Standing {
            latest_committed: self.latest_committed,
            committed: self.committed.values().cloned().collect(),
            rolled_back: self.rolled_back.iter().copied().collect(),
            deletes: self.deletes.list(),
            latest_safe,
        }
    }

    fn check(&self) {
        if !self.rules.keep(Rule::Clocks) {
            return;
        }
        assert!(self.next > self.latest_committed, "EC {} > LCE {}", self.next, self.latest_committed);
        let oldest = self.pending.keys().next().into_iter().chain(self.committed.keys().next()).min();
        assert!(oldest.is_none_or(|oldest| *oldest > self.latest_committed), "LCE has passed {oldest:?}");
        assert!(
            self.pending.keys().next_back().is_none_or(|newest| *newest < self.next),
            "what is pending is below EC"
        );
    }
}
