// SPDX-License-Identifier: Apache-2.0
//! Starts, and the views: what a node makes of its own log, and of the keeper's records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{ClusterNode, Placement, Share};
use crate::epochs::cluster::ledger::Ledger;
use crate::epochs::cluster::load::Load;
use crate::epochs::cluster::readers::SafeEpochs;
use crate::epochs::cluster::record::{Effect, LoadFate, LogRecord};
use crate::epochs::cluster::rules::{Rule, Rules};
use crate::epochs::cluster::view::{
    CommittedEpoch, Incarnation, Member, NodeId, View, ViewChange, ViewNumber, ViewRecord, WholeView,
};
use crate::epochs::{Epoch, Stride};

impl<R: Clone, P: Placement> ClusterNode<R, P> {
    /// A node that starts with the `records` of its log, as far as they are on disk, in a new incarnation. The caller has
    /// it follow all records of the keeper from the first on.
    ///
    /// Transactions whose end the log does not tell are pending, until others or the keeper's records tell.
    ///
    /// # Panics
    ///
    /// If the log has records of this or a later incarnation, or is not the beginning of what a node has logged.
    #[must_use]
    pub fn recover<'a>(
        member: Member,
        stride: Stride,
        placement: P,
        records: impl IntoIterator<Item = &'a LogRecord<R>>,
    ) -> Self
    where
        R: 'a,
    {
        let rules = Rules::ALL;
        let mut node = Self {
            member,
            log_since: member.incarnation,
            placement,
            rules,
            view: Arc::new(View::default()),
            ledger: Ledger::new(stride, rules),
            loads: BTreeMap::new(),
            shares: BTreeMap::new(),
            unmet: BTreeSet::new(),
            has_met_all: false,
            incoming: None,
            safe: SafeEpochs::default(),
            has_left: false,
            effects: Vec::new(),
        };
        records.into_iter().for_each(|record| node.replay(record));
        node.effects.push(Effect::Log(LogRecord::Started(member.incarnation)));
        node
    }

    #[cfg(test)]
    pub(in super::super) fn keep_rules(&mut self, rules: Rules) {
        self.rules = rules;
        self.ledger.keep_rules(rules);
    }

    fn replay(&mut self, record: &LogRecord<R>) {
        match record {
            LogRecord::Started(incarnation) => {
                assert!(*incarnation < self.member.incarnation, "the incarnations of a node grow");
                self.log_since = self.log_since.min(*incarnation);
            }
            LogRecord::Began(epoch, incarnation) => {
                self.ledger.note_begin(*epoch, *incarnation);
                self.shares.insert(*epoch, Share::default());
            }
            LogRecord::Append { epoch, number, .. } => {
                self.logged_share(*epoch).appends.insert(*number);
            }
            LogRecord::Commit(epoch, terms) => self.logged_share(*epoch).commit = Some(terms.clone()),
            LogRecord::Cut(epoch) => self.logged_share(*epoch).is_cut = true,
            LogRecord::Copied { .. } => {}
            LogRecord::Forgotten => {
                self.shares.clear();
                self.ledger.forget();
            }
            LogRecord::Safe(epoch) => self.safe.learn(*epoch),
            LogRecord::Latest(epoch) => {
                self.ledger.learn_latest(*epoch);
                self.shares.retain(|pending, _| pending > epoch);
            }
        }
    }

    fn logged_share(&mut self, epoch: Epoch) -> &mut Share {
        self.shares
            .get_mut(&epoch)
            .expect("what is logged of a transaction follows that it began and precedes its end")
    }

    /// Goes on to the view that the keeper's next record leads to; or, at the start, to that of one that stands for many.
    ///
    /// # Panics
    ///
    /// If a record is left out, or comes twice.
    pub fn follow(&mut self, record: &ViewRecord) {
        let mut view = View::clone(&self.view);
        view.follow(record);
        let was_member = self.view.has(self.member);
        assert!(!(self.has_left && view.has(self.member)), "a life that has left does not come back");
        let is_whole = matches!(record.change, ViewChange::Whole(_));
        let is_first = self.view.number() == ViewNumber::default() && !is_whole;
        self.view = Arc::new(view);
        if let ViewChange::Outcomes { nodes, latest, through, committed } = &record.change {
            self.learn_latest(*latest);
            self.close(nodes, *through, committed);
        }
        if let ViewChange::Whole(whole) = &record.change {
            self.learn_outcomes(whole);
        }
        if let Some(keeper) = record.change.keeper()
            && keeper.node != self.member.node
        {
            // Deletes are where the keeper is. One that is about to commit is known there, and waited for.
            self.loads.values_mut().filter(|load| load.is_open_delete()).for_each(Load::doom);
        }
        match (was_member, self.view.has(self.member)) {
            (true, true) => self.enter(),
            (true, false) => self.leave(),
            (false, true) if is_first => self.has_met_all = true, // Nobody knows of any epoch yet.
            (false, true) => {
                if !self.view.is_placed(self.member.node) && self.rules.keep(Rule::ForgetWhenAway) {
                    self.forget_pending();
                }
                self.enter();
            }
            (false, false) => {
                let is_over = |whole: &WholeView| {
                    let newest = whole.newest.get(&self.member.node);
                    newest.is_some_and(|newest| *newest >= self.member.incarnation)
                };
                if matches!(&record.change, ViewChange::Whole(whole) if is_over(whole)) {
                    self.leave();
                }
            }
        }
    }

    /// What the outcomes among many records say. Whatever is not above the newest LCE has ended; of the rest those that are listed have
    /// committed, and others of closed lives are rolled back.
    fn learn_outcomes(&mut self, whole: &WholeView) {
        self.learn_latest(whole.latest);
        if self.rules.keep(Rule::OutcomesStay) {
            whole.committed.values().for_each(|decided| self.note_decided(decided));
        }
        for (node, (life, through)) in &whole.closed {
            self.close(&BTreeMap::from([(*node, *life)]), *through, &[]);
        }
    }

    /// Forgets what the log has of transactions that had not ended when this node left the view. Others know how they
    /// ended, or nobody does; then their numbers may have been given out again. The log tells the next life, which may
    /// have its place.
    fn forget_pending(&mut self) {
        let left: Vec<Epoch> = self.shares.keys().copied().collect();
        left.into_iter().for_each(|epoch| self.cut(epoch));
        if self.rules.keep(Rule::ForgetForGood) {
            self.effects.push(Effect::Log(LogRecord::Forgotten));
        }
        self.shares.clear();
        self.ledger.forget();
    }

    /// Ends what dead coordinators have left.
    fn close(&mut self, nodes: &BTreeMap<NodeId, Incarnation>, through: Epoch, committed: &[CommittedEpoch]) {
        for decided in committed {
            self.note_decided(decided);
        }
        let before = self.latest_committed();
        for (node, incarnation) in nodes {
            for epoch in self.ledger.pending_of(*node, *incarnation) {
                self.cut(epoch);
                self.shares.remove(&epoch);
            }
            self.ledger.close(*node, *incarnation, through);
        }
        self.log_latest(before);
    }

    /// Goes on with all that is under way, in the view's terms.
    fn enter(&mut self) {
        self.unmet.clear();
        self.expect_bricks();
        if !self.has_met_all || self.incoming.is_some() {
            self.unmet.extend(self.view.members().filter(|member| *member != self.member));
            self.look_whether_all_are_met();
        }
        let (view, rules) = (Arc::clone(&self.view), self.rules);
        let epochs: Vec<Epoch> = self.loads.keys().copied().collect();
        for epoch in epochs {
            let pending = self.ledger.pending_for(epoch);
            let kind = self.loads.get(&epoch).map(Load::kind);
            let may_answer = kind.is_some_and(|kind| self.may_answer_begin(kind));
            if let Some(load) = self.loads.get_mut(&epoch) {
                load.enter(&view, rules);
                // Else it asks itself, as it asks others.
                if may_answer {
                    load.note_begun(self.member.node, &pending, &view, rules);
                }
            }
            self.advance(epoch);
        }
        self.resend();
    }

    /// The view goes on without this incarnation: its transactions are others' to end.
    fn leave(&mut self) {
        let open: Vec<Epoch> =
            self.loads.values().filter(|load| !load.has_outcome()).map(|load| load.epoch()).collect();
        open.into_iter().for_each(|epoch| self.tell(epoch, LoadFate::Unknown));
        self.loads.clear();
        self.has_left = true;
    }

    /// The first incarnation whose records the log has.
    #[must_use]
    pub fn log_since(&self) -> Incarnation {
        self.log_since
    }
}
