// SPDX-License-Identifier: Apache-2.0
//! A transaction at the node that coordinates it: what is asked of whom, what is unanswered, and what comes next.
//!
//! ```text
//!           all appends and Begin answered        all holders have logged
//!   Open -----------------------------> Committing ----------------> Decided      (all members hear of it: forgotten)
//!     |                                     |
//!     |  the user, or no holder is left     |  a holder has lost rows, or no holder is left
//!     +----------------> Cutting <----------+          (one without rows goes from Open to Ended: nothing has to last)
//!                           |  all holders have cut
//!                           v
//!                         Ended                                              (all members hear of it: forgotten)
//! ```
//! One that is committed together with rows elsewhere waits behind `Committing` until these are there:
//!
//! ```text
//!         all holders have logged        all before it have ended         the rows are there
//!   Committing ----------------> Prepared ----------------> Named ------------------> Decided
//!                                    |  the user: there are no rows  |
//!                                    +-----------> Cutting <---------+
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::message::{Body, CommitTerms, Pending};
use super::rules::{Rule, Rules};
use super::view::{BrickAddress, CommittedEpoch, EpochKind, Member, NodeId, View, ViewNumber};
use crate::epochs::{Epoch, EpochSet};

/// Where a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It takes appends.
    Open,
    /// Its holders are asked to log its commit.
    Committing,
    /// They have logged it, and rows elsewhere are to say whether it has committed.
    Prepared,
    /// These may name it by now.
    Named,
    /// Its holders are asked to remove its rows.
    Cutting,
    /// It has committed; the members are told.
    Decided,
    /// It is rolled back; the members are told.
    Ended,
}

impl Phase {
    fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Open, Self::Committing | Self::Cutting)
                | (Self::Open, Self::Ended)
                | (Self::Committing, Self::Decided | Self::Prepared | Self::Cutting)
                | (Self::Prepared, Self::Named | Self::Cutting)
                | (Self::Named, Self::Decided | Self::Cutting)
                | (Self::Cutting, Self::Ended)
        )
    }
}

/// What its user, or a lost replica, wants of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    None,
    /// To be ready to commit, if rows elsewhere do.
    Prepare,
    Commit,
    RollBack,
}

/// Rows on their way to the holders of a brick.
#[derive(Clone, Debug)]
struct Append<R> {
    brick: BrickAddress,
    /// `None` once all holders have them.
    rows: Option<R>,
    unanswered: BTreeSet<NodeId>,
}

impl<R> Append<R> {
    /// Forgets the rows if nobody needs them again.
    fn forget_rows(&mut self) {
        if self.unanswered.is_empty() {
            self.rows = None;
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Load<R> {
    epoch: Epoch,
    kind: EpochKind,
    /// LCE of its node at its begin: it sees everything up to it.
    floor: Epoch,
    /// The view at its begin: where its rows go.
    started: Arc<View>,
    phase: Phase,
    wish: Wish,
    /// The members that have not answered its begin at the present view, while that matters.
    begin_unanswered: BTreeSet<NodeId>,
    pending: BTreeSet<Epoch>,
    committed: BTreeSet<Epoch>,
    ended_through: Epoch,
    dependencies: Option<Arc<[Epoch]>>,
    appends: Vec<Append<R>>,
    /// How many of them somebody has not answered.
    open_appends: usize,
    /// How many there were when those were asked again last that are not new.
    old_appends: usize,
    bricks: BTreeMap<BrickAddress, Vec<NodeId>>,
    /// How many appends each holder was sent.
    counts: BTreeMap<NodeId, u32>,
    /// Who has not answered what the phase asks.
    unanswered: BTreeSet<NodeId>,
}

impl<R: Clone> Load<R> {
    /// A transaction that begins at `view`.
    pub(super) fn new(epoch: Epoch, kind: EpochKind, floor: Epoch, view: &Arc<View>) -> Self {
        Self {
            epoch,
            kind,
            floor,
            started: Arc::clone(view),
            phase: Phase::Open,
            wish: Wish::None,
            begin_unanswered: view.members().map(|member| member.node).collect(),
            pending: BTreeSet::new(),
            committed: BTreeSet::new(),
            ended_through: Epoch::ZERO,
            dependencies: None,
            appends: Vec::new(),
            open_appends: 0,
            old_appends: 0,
            bricks: BTreeMap::new(),
            counts: BTreeMap::new(),
            unanswered: BTreeSet::new(),
        }
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(super) fn kind(&self) -> EpochKind {
        self.kind
    }

    /// An epoch up to which it sees everything.
    pub(super) fn floor(&self) -> Epoch {
        self.floor
    }

    /// The view in which it began.
    pub(super) fn started(&self) -> &View {
        &self.started
    }

    /// The layout in which it began: what tells who its holders are.
    pub(super) fn layout(&self) -> ViewNumber {
        self.started.layout()
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether the user may still append.
    pub(super) fn is_open(&self) -> bool {
        self.phase == Phase::Open && self.wish == Wish::None
    }

    /// Whether it is a delete whose user may still go on with it.
    pub(super) fn is_open_delete(&self) -> bool {
        self.kind == EpochKind::Delete && self.is_open()
    }

    /// Whether all members have heard of its end.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Decided | Phase::Ended) && self.unanswered.is_empty()
    }

    /// Whether its user wanted it committed, and it has come to that.
    pub(super) fn has_committed(&self) -> bool {
        self.has_outcome() && matches!(self.wish, Wish::Prepare | Wish::Commit)
    }

    /// Whether its user may still have it rolled back.
    pub(super) fn may_roll_back(&self) -> bool {
        self.is_open() || (self.wish == Wish::Prepare && !self.has_outcome())
    }

    /// Whether it waits for rows that are to say whether it has committed.
    pub(super) fn waits_for_rows(&self) -> bool {
        matches!(self.phase, Phase::Prepared | Phase::Named) && self.wish == Wish::Prepare
    }

    /// Whether rows may be there that name it.
    pub(super) fn is_named(&self) -> bool {
        self.phase == Phase::Named
    }

    /// Whether its user has been told how it ended.
    pub(super) fn has_outcome(&self) -> bool {
        matches!(self.phase, Phase::Decided | Phase::Ended)
    }

    /// What the transaction sees besides its own rows, once that is known.
    pub(super) fn snapshot(&self) -> Option<EpochSet> {
        let dependencies = self.dependencies.as_ref()?;
        Some(EpochSet::below(self.epoch).without(dependencies.iter().copied()))
    }

    /// What the others are told of its commit.
    ///
    /// # Panics
    ///
    /// If its dependencies are not known yet.
    pub(super) fn decided(&self) -> CommittedEpoch {
        let dependencies =
            self.dependencies.as_ref().expect("a commit follows all answers to Begin").to_vec();
        CommittedEpoch { epoch: self.epoch, kind: self.kind, dependencies }
    }

    /// Takes in what `node` answered to the begin.
    pub(super) fn note_begun(&mut self, node: NodeId, known: &Pending, view: &View, rules: Rules) {
        if self.dependencies.is_some() || !self.begin_unanswered.remove(&node) {
            return;
        }
        self.pending.extend(known.pending.iter().filter(|epoch| **epoch < self.epoch));
        self.committed.extend(&known.committed);
        self.ended_through = self.ended_through.max(known.latest_committed);
        self.fix_snapshot(view, rules);
    }

    /// Fixes what the transaction depends on, when all have answered: what is pending somewhere, and has not ended for
    /// all that anybody knows.
    ///
    /// A delete waits for a view in which all earlier lives are closed. Otherwise somebody who is out of the view and does
    /// not know may have shown what a dead coordinator decided, and the delete would not see that.
    fn fix_snapshot(&mut self, view: &View, rules: Rules) {
        let waits = self.kind == EpochKind::Delete
            && !view.unclosed().is_empty()
            && rules.keep(Rule::DeletesWaitForClosing);
        if self.begin_unanswered.is_empty() && self.dependencies.is_none() && !waits {
            let minds = rules.keep(Rule::EndedIsNoDependency);
            let is_open =
                |epoch: &&Epoch| !minds || (**epoch > self.ended_through && !self.committed.contains(epoch));
            self.dependencies = Some(self.pending.iter().filter(is_open).copied().collect());
        }
    }

    /// Adds rows for a brick that is on `holders` at the transaction's first view; gives the requests. Without a holder
    /// that is left, the transaction is lost.
    pub(super) fn append(
        &mut self,
        brick: BrickAddress,
        rows: R,
        holders: impl FnOnce(&View) -> Vec<NodeId>,
        view: &View,
    ) -> Vec<(NodeId, Body<R>)> {
        assert!(self.is_open(), "an open transaction takes appends");
        let started = Arc::clone(&self.started);
        let nodes = self.bricks.entry(brick).or_insert_with(|| holders(&started));
        nodes.retain(|node| live_holder(&started, view, *node).is_some());
        if nodes.is_empty() {
            self.doom();
        }
        assert!(self.appends.len() < u32::MAX as usize, "a transaction has fewer than 2^32 appends");
        let unanswered: BTreeSet<NodeId> = self.bricks[&brick].iter().copied().collect();
        for node in &unanswered {
            *self.counts.entry(*node).or_default() += 1;
        }
        self.open_appends += usize::from(!unanswered.is_empty());
        self.appends.push(Append { brick, rows: Some(rows), unanswered });
        self.appends_unanswered(self.appends.len() - 1..self.appends.len())
    }

    /// Takes in that `node` has the append of this number.
    pub(super) fn note_appended(&mut self, node: NodeId, number: u32) {
        let Some(append) = self.appends.get_mut(number as usize) else { return };
        if append.unanswered.remove(&node) && append.unanswered.is_empty() {
            append.forget_rows();
            self.open_appends -= 1;
        }
    }

    /// How many of its appends somebody has not answered.
    pub(super) fn unanswered_appends(&self) -> usize {
        self.open_appends
    }

    /// The user wants it committed.
    pub(super) fn commit(&mut self) {
        assert!(self.is_open(), "an open transaction commits");
        self.wish = Wish::Commit;
    }

    /// The user wants it to be ready to commit together with rows that are elsewhere.
    pub(super) fn prepare(&mut self) {
        assert!(self.is_open(), "an open transaction is prepared");
        self.kind = EpochKind::LoadWithRows;
        self.wish = Wish::Prepare;
    }

    /// Rows may name it from here on: all before it has ended.
    pub(super) fn name(&mut self) {
        assert!(self.waits_for_rows(), "rows name what waits for them");
        if self.phase == Phase::Prepared {
            self.become_phase(Phase::Named);
        }
    }

    /// The rows are there.
    pub(super) fn decide(&mut self) {
        assert!(self.is_named() && self.waits_for_rows(), "rows that are there have named it");
        self.wish = Wish::Commit;
    }

    /// It cannot commit, or its user does not want it to.
    pub(super) fn doom(&mut self) {
        self.wish = Wish::RollBack;
    }

    /// Takes in an answer of `node` to what `phase` asks.
    pub(super) fn note_answer(&mut self, phase: Phase, node: NodeId) {
        if self.phase == phase {
            self.unanswered.remove(&node);
        }
    }

    /// Takes in that `node` has heard of the end.
    pub(super) fn note_heard(&mut self, node: NodeId) {
        if matches!(self.phase, Phase::Decided | Phase::Ended) {
            self.unanswered.remove(&node);
        }
    }

    /// Goes on to another view: those that are gone are asked no more, and what must be of one view is asked again.
    pub(super) fn enter(&mut self, view: &View, rules: Rules) {
        if self.dependencies.is_none() {
            let members = view.members().map(|member| member.node);
            if rules.keep(Rule::AnswersOfOneView) {
                self.begin_unanswered = members.collect();
            } else {
                let members: BTreeSet<NodeId> = members.collect();
                self.begin_unanswered.retain(|node| members.contains(node));
                self.fix_snapshot(view, rules);
            }
        }
        let started = Arc::clone(&self.started);
        let is_left = |node: &NodeId| live_holder(&started, view, *node).is_some();
        self.counts.retain(|node, _| is_left(node));
        for append in &mut self.appends {
            append.unanswered.retain(is_left);
            append.forget_rows();
        }
        self.open_appends = self.appends.iter().filter(|append| !append.unanswered.is_empty()).count();
        let mut is_lost = false;
        for holders in self.bricks.values_mut() {
            holders.retain(is_left);
            is_lost |= holders.is_empty();
        }
        match self.phase {
            Phase::Open | Phase::Committing if is_lost => self.doom(),
            // The commit names who is asked, so it is logged anew.
            Phase::Committing => self.unanswered = self.holders(),
            Phase::Cutting => self.unanswered.retain(is_left),
            Phase::Decided | Phase::Ended => self.unanswered.retain(|node| view.member(*node).is_some()),
            // Whoever was asked has logged it, as with what is decided.
            Phase::Open | Phase::Prepared | Phase::Named => {}
        }
    }

    fn holders(&self) -> BTreeSet<NodeId> {
        self.counts.keys().copied().collect()
    }

    /// Moves to the next phase if what it waits for is there.
    pub(super) fn advance(&mut self, view: &View, own: NodeId, rules: Rules) -> Option<Phase> {
        let others = || view.members().map(|member| member.node).filter(|node| *node != own).collect();
        let is_ready = self.dependencies.is_some() && self.open_appends == 0;
        let is_answered = self.unanswered.is_empty()
            || (!rules.keep(Rule::DecidedBeforeShown) && self.unanswered.len() < self.counts.len());
        let (next, unanswered) = match (self.phase, self.wish) {
            (phase, Wish::RollBack) if phase.may_become(Phase::Cutting) => {
                let asked = if rules.keep(Rule::CutBeforeEnded) { self.holders() } else { BTreeSet::new() };
                (Phase::Cutting, asked)
            }
            // A log that has no rows of it may not remember its number either: nobody's LCE may rest on it.
            (Phase::Open, Wish::Commit | Wish::Prepare)
                if self.appends.is_empty() && rules.keep(Rule::RowsForLatest) =>
            {
                (Phase::Ended, others())
            }
            (Phase::Open, Wish::Commit | Wish::Prepare) if is_ready => (Phase::Committing, self.holders()),
            (Phase::Committing, Wish::Prepare) if is_answered => (Phase::Prepared, BTreeSet::new()),
            (Phase::Committing | Phase::Named, Wish::Commit) if is_answered => (Phase::Decided, others()),
            (Phase::Cutting, _) if self.unanswered.is_empty() => (Phase::Ended, others()),
            _ => return None,
        };
        self.become_phase(next);
        self.unanswered = unanswered;
        Some(next)
    }

    fn become_phase(&mut self, next: Phase) {
        assert!(self.phase.may_become(next), "{:?} does not become {next:?}", self.phase);
        self.phase = next;
    }

    /// All that is asked and not answered.
    pub(super) fn requests(&self, view: &View) -> Vec<(NodeId, Body<R>)> {
        self.requests_up_to(self.appends.len(), view)
    }

    /// As [`requests`](Self::requests), without the appends that have come since this was asked last.
    pub(super) fn old_requests(&mut self, view: &View) -> Vec<(NodeId, Body<R>)> {
        let old = std::mem::replace(&mut self.old_appends, self.appends.len());
        self.requests_up_to(old, view)
    }

    fn requests_up_to(&self, appends: usize, view: &View) -> Vec<(NodeId, Body<R>)> {
        let mut requests = Vec::new();
        if self.dependencies.is_none() && matches!(self.phase, Phase::Open) {
            requests
                .extend(self.begin_unanswered.iter().map(|node| (*node, Body::Begin(self.epoch, self.kind))));
        }
        if self.phase == Phase::Open {
            requests.extend(self.appends_unanswered(0..appends));
        }
        let member = |node: &NodeId| live_holder(&self.started, view, *node);
        let holders: Arc<[Member]> = self.counts.keys().filter_map(member).collect();
        requests.extend(self.unanswered.iter().filter_map(|node| {
            let body = match self.phase {
                Phase::Open | Phase::Prepared | Phase::Named => return None,
                Phase::Committing => Body::Commit(self.epoch, self.terms(*node, &holders)),
                Phase::Cutting => Body::Cut(self.epoch),
                Phase::Decided => Body::Decided(self.decided()),
                Phase::Ended => Body::Ended(self.epoch),
            };
            Some((*node, body))
        }));
        requests
    }

    fn terms(&self, node: NodeId, holders: &Arc<[Member]>) -> CommitTerms {
        assert_eq!(self.phase, Phase::Committing, "only a commit has terms");
        assert!(holders.iter().any(|holder| holder.node == node), "a commit names whom it asks");
        let dependencies = self.dependencies.clone().unwrap_or_default();
        CommitTerms {
            kind: self.kind,
            appends: self.counts[&node],
            dependencies,
            holders: Arc::clone(holders),
        }
    }

    fn appends_unanswered(&self, range: std::ops::Range<usize>) -> Vec<(NodeId, Body<R>)> {
        let mut requests = Vec::new();
        for index in range {
            let Append { brick, rows: Some(rows), unanswered } = &self.appends[index] else { continue };
            let number = u32::try_from(index).expect("a transaction has fewer than 2^32 appends");
            let body = Body::Append { epoch: self.epoch, number, brick: *brick, rows: rows.clone() };
            requests.extend(unanswered.iter().map(|node| (*node, body.clone())));
        }
        requests
    }
}

/// The life in which a holder of the transaction's first view still answers for its rows: the same, or one that came
/// back with its log.
fn live_holder(started: &View, view: &View, node: NodeId) -> Option<Member> {
    let member = view.member(node)?;
    (started.has(member) || view.is_placed(node)).then_some(member)
}
