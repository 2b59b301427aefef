// SPDX-License-Identifier: Apache-2.0
//! Epochs on many nodes (AOSI IV): who asks whom, and what a transaction sees while messages are under way.
//!
//! Every message carries its sender's clock, and whoever receives it moves its own clock up to that (Lamport). Pure
//! state: the caller carries messages, in any order and with any delay, but loses none.
//!
//! ```text
//!   begin i     coordinator -> all   Begin, with the first operation; each answers with what is pending there
//!   operations  coordinator -> some  each answered
//!   commit i    coordinator -> all   after all answers; each moves LCE when all of i's dependencies have ended
//!   roll back   coordinator -> all   the rows are removed, each answers; then, again to all, Ended
//! ```
//!
//! When all have answered `Begin`, each other transaction j falls into one of the paper's five cases (IV-C): j > i,
//! committed or pending, is not seen; j < i that is pending anywhere is among the dependencies and not seen; j < i
//! that is pending nowhere is committed for good, with all its rows in place, and seen; and one that has not begun
//! gets an epoch above i, since every clock is. A transaction whose first operation reads waits for the answers
//! first (the paper's footnote): [`ClusterEpoch::snapshot`] gives nothing before.
//!
//! Two rules of ours. A transaction that rolls back stays pending everywhere until its rows are gone everywhere: a
//! reader on LCE would find them on a node that has not removed them yet. And a node moves LCE past nothing that is
//! pending there, dependency or not: a commit may overtake another one's.

use std::collections::{BTreeMap, BTreeSet};

use super::counters::EpochCounters;
use super::{Epoch, EpochSet, Stride};

/// What a node tells the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EpochRequest {
    /// A transaction has begun.
    Begin(Epoch),
    /// A transaction has committed; with what was pending when it began.
    Commit(Epoch, Vec<Epoch>),
    /// A transaction has rolled back, and its rows are gone from all nodes.
    Ended(Epoch),
    /// Any other message of the protocol (a read, an append): it brings the clock.
    Operation,
}

/// A message between nodes: its contents and its sender's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochMessage<T> {
    /// The sender's EC.
    pub clock: Epoch,
    /// What it says.
    pub body: T,
}

/// The epochs of one node of a cluster.
#[derive(Clone, Debug)]
pub struct EpochNode {
    counters: EpochCounters,
    /// The committed epochs above LCE, each with its dependencies.
    committed: BTreeMap<Epoch, Vec<Epoch>>,
    /// The epochs above LCE that have ended in one way or the other.
    ended: BTreeSet<Epoch>,
}

/// A transaction that writes, at the node that coordinates it.
#[derive(Clone, Debug)]
pub struct ClusterEpoch {
    epoch: Epoch,
    dependencies: BTreeSet<Epoch>,
    answers_missing: usize,
}

impl EpochNode {
    /// A node before its first epoch.
    #[must_use]
    pub fn new(stride: Stride) -> Self {
        Self { counters: EpochCounters::new(stride), committed: BTreeMap::new(), ended: BTreeSet::new() }
    }

    /// EC.
    #[must_use]
    pub fn next(&self) -> Epoch {
        self.counters.next()
    }

    /// LCE.
    #[must_use]
    pub fn latest_committed(&self) -> Epoch {
        self.counters.latest_committed()
    }

    /// What a read-only transaction that begins here sees, on every node: all up to LCE.
    #[must_use]
    pub fn read_only(&self) -> EpochSet {
        EpochSet::through(self.latest_committed())
    }

    /// Begins a transaction here; the message goes to the `others` (how many there are).
    #[must_use]
    pub fn begin(&mut self, others: usize) -> (ClusterEpoch, EpochMessage<EpochRequest>) {
        let (epoch, pending) = self.counters.begin();
        let transaction =
            ClusterEpoch { epoch, dependencies: pending.into_iter().collect(), answers_missing: others };
        (transaction, self.message(EpochRequest::Begin(epoch)))
    }

    /// A message from here.
    #[must_use]
    pub fn message<T>(&self, body: T) -> EpochMessage<T> {
        EpochMessage { clock: self.next(), body }
    }

    /// Takes a request in. The answer carries what is pending here; only that to `Begin` is looked at.
    pub fn receive(&mut self, request: &EpochMessage<EpochRequest>) -> EpochMessage<Vec<Epoch>> {
        self.counters.observe(request.clock);
        match &request.body {
            EpochRequest::Begin(epoch) => self.counters.begin_elsewhere(*epoch),
            EpochRequest::Commit(epoch, dependencies) => self.committed(*epoch, dependencies.clone()),
            EpochRequest::Ended(epoch) => self.rolled_back(*epoch),
            EpochRequest::Operation => {}
        }
        self.message(self.counters.pending().iter().copied().collect())
    }

    /// Takes an answer in, of whatever request: it brings the clock.
    pub fn receive_answer<T>(&mut self, answer: &EpochMessage<T>) {
        self.counters.observe(answer.clock);
    }

    /// Commits a transaction that began here; the message goes to the others.
    ///
    /// # Panics
    ///
    /// If an answer to its `Begin` is missing: what it depends on is not known yet.
    #[must_use]
    pub fn commit(&mut self, transaction: &ClusterEpoch) -> EpochMessage<EpochRequest> {
        assert_eq!(transaction.answers_missing, 0, "a transaction commits when all nodes have answered");
        let dependencies: Vec<Epoch> = transaction.dependencies.iter().copied().collect();
        self.committed(transaction.epoch, dependencies.clone());
        self.message(EpochRequest::Commit(transaction.epoch, dependencies))
    }

    /// Ends a transaction that began here as rolled back, after all nodes have removed its rows; the message goes to
    /// the others.
    ///
    /// # Panics
    ///
    /// If an answer to its `Begin` is missing.
    #[must_use]
    pub fn end_rolled_back(&mut self, transaction: &ClusterEpoch) -> EpochMessage<EpochRequest> {
        assert_eq!(transaction.answers_missing, 0, "a transaction ends when all nodes have answered");
        self.rolled_back(transaction.epoch);
        self.message(EpochRequest::Ended(transaction.epoch))
    }

    fn committed(&mut self, epoch: Epoch, dependencies: Vec<Epoch>) {
        self.counters.commit(epoch);
        self.committed.insert(epoch, dependencies);
        self.ended.insert(epoch);
        self.advance();
    }

    fn rolled_back(&mut self, epoch: Epoch) {
        self.counters.roll_back(epoch);
        self.ended.insert(epoch);
        self.advance();
    }

    /// Moves LCE as far as dependencies and pending epochs allow.
    fn advance(&mut self) {
        let (committed, ended, before) = (&self.committed, &self.ended, self.latest_committed());
        let has_ended = |epoch: &Epoch| *epoch <= before || ended.contains(epoch);
        self.counters.advance_committed(|epoch| committed[&epoch].iter().all(has_ended));
        let above = Epoch::new(self.latest_committed().get() + 1);
        self.committed = self.committed.split_off(&above);
        self.ended = self.ended.split_off(&above);
    }
}

impl ClusterEpoch {
    /// The label of the transaction's rows.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Takes in what another node answered to the transaction's `Begin`.
    ///
    /// # Panics
    ///
    /// If all nodes have answered already.
    pub fn add_pending(&mut self, answer: &EpochMessage<Vec<Epoch>>) {
        self.answers_missing = self.answers_missing.checked_sub(1).expect("each node answers once");
        self.dependencies.extend(answer.body.iter().filter(|epoch| **epoch < self.epoch));
    }

    /// What the transaction sees besides its own rows; `None` until all nodes have answered.
    #[must_use]
    pub fn snapshot(&self) -> Option<EpochSet> {
        (self.answers_missing == 0).then(|| self.known_snapshot())
    }

    /// What the transaction would see by the answers so far.
    fn known_snapshot(&self) -> EpochSet {
        EpochSet::below(self.epoch).without(self.dependencies.iter().copied())
    }
}

#[cfg(test)]
mod tests;
