// SPDX-License-Identifier: Apache-2.0
//! The keeper of the views: who belongs to the cluster, and what became of the transactions of dead coordinators.
//!
//! It runs beside the primary of the row tables. Whoever has its records can be the keeper: it has no other state that
//! matters, since what was reported to it is reported again. Who comes after whom, and has which records: `succession.rs`.
//!
//! Which nodes there are, by number and address, is among its records too: `keeper/nodes.rs`.

mod nodes;

pub use nodes::{AddError, ChangeError, NodeAsk};

use std::collections::{BTreeMap, BTreeSet};

use super::message::CommitTerms;
use super::rules::{Rule, Rules};
use super::view::{
    CommittedEpoch, EpochKind, Incarnation, KeeperPlace, Member, NodeId, View, ViewChange, ViewNumber,
    ViewRecord,
};
use crate::epochs::Epoch;

/// What nodes tell the keeper. Said again with each [`resend`](super::ClusterNode::resend) until a record answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToKeeper {
    /// A new incarnation wants to belong.
    Join {
        /// Who it is.
        member: Member,
        /// The first incarnation whose records its log has: with all that any of them since then has logged.
        log_since: Incarnation,
    },
    /// The sender takes nothing more from those that the view counts as unclosed; this is what it has of theirs.
    Closed(ClosedReport),
    /// All bricks that come to the sender are there.
    Complete {
        /// Who says so.
        from: Member,
        /// In which layout.
        layout: ViewNumber,
    },
}

/// What a node has of the transactions of dead coordinators, at one view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedReport {
    /// Who reports.
    pub from: Member,
    /// At which view.
    pub view: ViewNumber,
    /// EC there: above every epoch that the node has heard of.
    pub clock: Epoch,
    /// LCE there.
    pub latest_committed: Epoch,
    /// Those above LCE that the node knows to be decided.
    pub decided: Vec<CommittedEpoch>,
    /// The commits in its log of which it knows no more.
    pub commits: Vec<(Epoch, CommitTerms)>,
}

/// What became of rows with which a load is one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsFate {
    /// They are there, and stay.
    Committed,
    /// They are not there, and will not be.
    RolledBack,
}

/// Why a node cannot be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoveError {
    /// It is not in the view.
    #[error("the node is not in the view")]
    NotLive,
    /// Nobody else would have some of the bricks. The node has to come back with its log, or others have to get copies
    /// of the bricks first.
    #[error("the node may hold the last replica of some bricks")]
    LastReplica,
}

/// The state of the keeper: what its records add up to, and what has been reported at the present view.
#[derive(Clone, Debug)]
pub struct ViewKeeper {
    view: View,
    replicas: usize,
    reports: BTreeMap<Member, ClosedReport>,
    /// What rows have said of the transactions in these.
    rows: BTreeMap<Epoch, RowsFate>,
    /// Who has all bricks that come to it in the present layout.
    complete: BTreeSet<Member>,
    /// The newest incarnation of each node that has ever belonged.
    newest: BTreeMap<NodeId, Incarnation>,
    rules: Rules,
}

impl ViewKeeper {
    /// The keeper of a new cluster of `founders`, where each brick is on `replicas` nodes (if tables differ in that, the
    /// fewest of any); and its first record.
    ///
    /// Every record has to be durable before anybody gets it; a keeper whose record could not be written is dropped.
    ///
    /// # Panics
    ///
    /// If there is no founder, or `replicas` is 0.
    #[must_use]
    pub fn found(founders: &[Member], replicas: usize) -> (Self, ViewRecord) {
        assert!(!founders.is_empty(), "a cluster has a node");
        let members: BTreeMap<_, _> =
            founders.iter().map(|member| (member.node, member.incarnation)).collect();
        let mut keeper = Self::recover(&[], replicas);
        let record = keeper.record(ViewChange::Members { placed: members.clone(), members });
        (keeper, record)
    }

    /// The keeper that goes on after these records, which are all.
    ///
    /// # Panics
    ///
    /// If `replicas` is 0, or a record is missing.
    #[must_use]
    pub fn recover(records: &[ViewRecord], replicas: usize) -> Self {
        Self::recover_with(records, replicas, Rules::ALL)
    }

    pub(super) fn recover_with(records: &[ViewRecord], replicas: usize, rules: Rules) -> Self {
        assert!(replicas >= 1, "each brick is somewhere");
        let mut keeper = Self {
            view: View::default(),
            replicas,
            reports: BTreeMap::new(),
            rows: BTreeMap::new(),
            complete: BTreeSet::new(),
            newest: BTreeMap::new(),
            rules,
        };
        records.iter().for_each(|record| keeper.follow(record));
        keeper
    }

    #[cfg(test)]
    pub(super) fn keep_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// The present view.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The first record of a keeper that goes on after those of another one.
    pub(super) fn begin_term(&mut self, place: KeeperPlace) -> ViewRecord {
        self.record(ViewChange::Keeper(place))
    }

    /// That of one that goes on without nodes that are lost for good.
    pub(super) fn begin_term_without(&mut self, keeper: KeeperPlace, lost: BTreeSet<NodeId>) -> ViewRecord {
        self.record(ViewChange::Recovered { keeper, lost })
    }

    /// Removes a node that does not answer. It may be alive: it is out of the view whether it knows or not.
    ///
    /// # Errors
    ///
    /// If it is not live, or some brick could be left without a replica: then views stand still until a node comes back.
    pub fn remove(&mut self, node: NodeId) -> Result<ViewRecord, RemoveError> {
        if self.view.member(node).is_none() {
            return Err(RemoveError::NotLive);
        }
        if !self.may_lose(node) {
            return Err(RemoveError::LastReplica);
        }
        let mut members = self.members();
        members.remove(&node);
        Ok(self.record(ViewChange::Members { members, placed: self.view.placed().clone() }))
    }

    /// Takes in what a node says. Gives the record that answers it, if it is time for one.
    #[must_use]
    pub fn receive(&mut self, message: &ToKeeper) -> Option<ViewRecord> {
        match message {
            ToKeeper::Join { member, log_since } => self.join(*member, *log_since),
            ToKeeper::Closed(report) => self.closed(report),
            ToKeeper::Complete { from, layout } => self.complete(*from, *layout),
        }
    }

    fn join(&mut self, member: Member, log_since: Incarnation) -> Option<ViewRecord> {
        let Member { node, incarnation } = member;
        if self.newest.get(&node).is_some_and(|newest| incarnation <= *newest) {
            return None; // A message of an earlier start, or one that came twice.
        }
        if self.view.removed().contains(&node) && self.rules.keep(Rule::RemovedStaysOut) {
            return None;
        }
        let mut placed = self.view.placed().clone();
        if let Some(before) = self.view.member(node) {
            let has_its_log = before.incarnation >= log_since || !self.rules.keep(Rule::ReturnWithLog);
            if self.view.is_placed(node) && has_its_log {
                // Nothing was decided without its log, so it has all that is decided.
                placed.insert(node, incarnation);
            } else if !self.may_lose(node) {
                return None;
            }
        }
        let mut members = self.members();
        members.insert(node, incarnation);
        Some(self.record(ViewChange::Members { members, placed }))
    }

    /// Whether enough replicas of every brick are left when `node` has none.
    fn may_lose(&self, node: NodeId) -> bool {
        let copies = self.replicas.min(self.view.placed().len());
        let lost = self.view.lost() + usize::from(self.view.is_placed(node));
        lost < copies || !self.view.is_placed(node) || !self.rules.keep(Rule::EnoughReplicas)
    }

    /// Places bricks on all that are live and not drained, when each has told that it has those that come to it.
    fn complete(&mut self, from: Member, layout: ViewNumber) -> Option<ViewRecord> {
        if !self.view.is_moving() || layout != self.view.layout() {
            return None;
        }
        self.complete.insert(from);
        let is_complete = self.view.members().all(|member| self.complete.contains(&member));
        if !is_complete || !self.view.unclosed().is_empty() {
            return None;
        }
        let members = self.members();
        let wanted = self.view.wanted().map(|(node, life)| (*node, *life)).collect();
        let placed = if self.rules.keep(Rule::DrainedLosesPlace) { wanted } else { members.clone() };
        Some(self.record(ViewChange::Members { placed, members }))
    }

    fn closed(&mut self, report: &ClosedReport) -> Option<ViewRecord> {
        let is_present = report.view == self.view.number() && self.view.has(report.from);
        if !is_present || self.view.unclosed().is_empty() {
            return None;
        }
        self.reports.insert(report.from, report.clone());
        self.close()
    }

    /// Whether all that is to be known of the transactions of dead coordinators was reported.
    fn has_all_reports(&self) -> bool {
        let is_complete = self.view.members().all(|member| self.reports.contains_key(&member));
        !self.reports.is_empty() && (is_complete || !self.rules.keep(Rule::CloseBeforeOutcome))
    }

    /// The transactions of dead coordinators that have committed if rows have, of which nobody has told it yet what became of these.
    #[must_use]
    pub fn asks_rows(&self) -> Vec<Epoch> {
        if self.view.unclosed().is_empty() || !self.has_all_reports() {
            return Vec::new();
        }
        self.of_rows().into_iter().filter(|epoch| !self.rows.contains_key(epoch)).collect()
    }

    /// Takes in what became of the rows of such a transaction: it is so for good. Gives the record with the outcomes, if that was the
    /// last that was not known.
    ///
    /// # Panics
    ///
    /// If something else was said before.
    #[must_use]
    pub fn note_rows(&mut self, epoch: Epoch, fate: RowsFate) -> Option<ViewRecord> {
        let before = self.rows.insert(epoch, fate);
        assert!(before.is_none_or(|before| before == fate), "what has become of rows stays so");
        self.close()
    }

    /// What rows elsewhere have to decide: all holders that are left have logged it, and nobody who is left knows more.
    fn of_rows(&self) -> Vec<Epoch> {
        if !self.rules.keep(Rule::RowsDecide) {
            return Vec::new();
        }
        let latest = self.reports.values().map(|report| report.latest_committed).max().unwrap_or_default();
        let decided: BTreeSet<Epoch> = self.decided().map(|decided| decided.epoch).collect();
        let is_open = |committed: &CommittedEpoch| {
            let CommittedEpoch { epoch, kind, .. } = committed;
            *kind == EpochKind::LoadWithRows && *epoch > latest && !decided.contains(epoch)
        };
        let open = self.committed().into_values().filter(is_open);
        open.map(|committed| committed.epoch).collect()
    }

    /// Records the outcomes, if all is known.
    fn close(&mut self) -> Option<ViewRecord> {
        if self.view.unclosed().is_empty() || !self.has_all_reports() || !self.asks_rows().is_empty() {
            return None;
        }
        let through = self.reports.values().map(|report| report.clock).max()?;
        let latest = self.reports.values().map(|report| report.latest_committed).max()?;
        let nodes = self.view.unclosed().clone();
        let mut committed = self.committed().split_off(&Epoch::new(latest.get() + 1));
        for epoch in self.of_rows() {
            if self.rows.get(&epoch) == Some(&RowsFate::RolledBack) {
                committed.remove(&epoch);
            }
        }
        let committed = committed.into_values().collect();
        Some(self.record(ViewChange::Outcomes { nodes, latest, through, committed }))
    }

    /// The transactions that somebody knows to be decided, and those whose commit all their surviving holders have logged.
    ///
    /// Those that were decided are among them: all holders of that view had logged it, and forget it only once they know
    /// that it is decided. And of each of them all rows are there on all survivors: it was logged after them.
    fn committed(&self) -> BTreeMap<Epoch, CommittedEpoch> {
        let mut committed: BTreeMap<_, _> =
            self.decided().map(|decided| (decided.epoch, decided.clone())).collect();
        for report in self.reports.values() {
            for (epoch, terms) in report.commits.iter().filter(|(_, terms)| self.survives(report.from, terms))
            {
                let has_logged = |member: &Member| {
                    let commits = self.reports.get(member).map(|report| &report.commits);
                    commits.is_some_and(|commits| commits.iter().any(|(other, _)| other == epoch))
                };
                let survivors = self.view.members().filter(|member| self.survives(*member, terms));
                if !self.rules.keep(Rule::AllHoldersCommit)
                    || survivors.into_iter().all(|member| has_logged(&member))
                {
                    let dependencies = terms.dependencies.to_vec();
                    committed
                        .insert(*epoch, CommittedEpoch { epoch: *epoch, kind: terms.kind, dependencies });
                }
            }
        }
        committed
    }

    /// The transactions that somebody knows to be decided.
    fn decided(&self) -> impl Iterator<Item = &CommittedEpoch> {
        self.reports.values().flat_map(|report| &report.decided)
    }

    /// Whether a live member still answers for its part of a transaction: it is the same life, or it has all of an
    /// earlier one's.
    fn survives(&self, member: Member, terms: &CommitTerms) -> bool {
        let is_holder = |holder: &Member| holder.node == member.node;
        terms.holders.contains(&member)
            || (self.view.is_placed(member.node) && terms.holders.iter().any(is_holder))
    }

    fn members(&self) -> BTreeMap<NodeId, Incarnation> {
        self.view.members().map(|member| (member.node, member.incarnation)).collect()
    }

    fn record(&mut self, change: ViewChange) -> ViewRecord {
        let record = ViewRecord { number: self.view.number().next(), change };
        self.follow(&record);
        record
    }

    fn follow(&mut self, record: &ViewRecord) {
        self.view.follow(record);
        if let ViewChange::Whole(whole) = &record.change {
            self.newest.clone_from(&whole.newest);
        }
        self.reports.clear();
        if matches!(record.change, ViewChange::Outcomes { .. }) {
            self.rows.clear();
        }
        if self.view.layout() == record.number {
            self.complete.clear();
        }
        let members: Vec<Member> = self.view.members().collect();
        self.newest.extend(members.iter().map(|member| (member.node, member.incarnation)));
    }
}
