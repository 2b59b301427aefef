// SPDX-License-Identifier: Apache-2.0
//! Messages that come in. Each may come twice, and long after it mattered.

use super::{ClusterNode, Placement, Share};
use crate::epochs::Epoch;
use crate::epochs::cluster::load::Phase;
use crate::epochs::cluster::message::{Body, CommitTerms, Message};
use crate::epochs::cluster::record::{Effect, LogRecord};
use crate::epochs::cluster::rules::Rule;
use crate::epochs::cluster::view::{BrickAddress, CommittedEpoch, EpochKind, Incarnation, Member};

impl<R: Clone, P: Placement> ClusterNode<R, P> {
    /// Takes a message in. One for another incarnation, or of another view, has no effect but that whoever is behind
    /// comes to know it.
    pub fn receive(&mut self, message: Message<R>) {
        if message.to != self.member || !self.is_of_this_view(&message) {
            return;
        }
        self.ledger.observe(message.clock);
        let from = message.from;
        match message.body {
            Body::Begin(epoch, kind) => self.receive_begin(from, epoch, kind),
            Body::Append { epoch, number, brick, rows } => {
                self.receive_append(from, epoch, number, brick, rows)
            }
            Body::Commit(epoch, terms) => self.receive_commit(from, epoch, terms),
            Body::Cut(epoch) => self.receive_cut(from, epoch),
            Body::Decided(decided) => {
                self.note_decided(&decided);
                self.answer(from, Body::Heard(decided.epoch));
            }
            Body::Ended(epoch) => {
                self.note_ended(epoch);
                self.answer(from, Body::Heard(epoch));
            }
            Body::Meet => {
                let standing = self.ledger.standing(self.latest_safe());
                self.answer(from, Body::Met(standing, self.older_loads()));
            }
            Body::Floor(floor) => {
                self.safe.note_floor(from, floor);
                if self.has_met_all {
                    self.advance_safe();
                }
            }
            Body::Newer => {}
            answer => self.receive_answer(from, answer),
        }
    }

    /// Whether both are at the same view. If not, who is behind is told so.
    fn is_of_this_view(&mut self, message: &Message<R>) -> bool {
        let (theirs, ours) = (message.view, self.view.number());
        if theirs > ours {
            self.effects.push(Effect::Fetch(theirs));
        } else if theirs < ours && !matches!(message.body, Body::Newer) {
            self.answer(message.from, Body::Newer);
        }
        theirs == ours || !self.rules.keep(Rule::SameView)
    }

    fn receive_begin(&mut self, from: Member, epoch: Epoch, kind: EpochKind) {
        self.ledger.note_begin(epoch, from.incarnation);
        if !self.may_answer_begin(kind) {
            return; // It is asked again.
        }
        if kind == EpochKind::Delete {
            self.ledger.note_delete(epoch);
        }
        self.answer(from, Body::Begun(epoch, self.ledger.pending_for(epoch)));
    }

    fn receive_append(&mut self, from: Member, epoch: Epoch, number: u32, brick: BrickAddress, rows: R) {
        if self.ledger.has_ended(epoch) && self.rules.keep(Rule::EndedStaysEnded) {
            return;
        }
        let rules = self.rules;
        let share = self.share_of(epoch, from.incarnation);
        if share.is_cut && rules.keep(Rule::CutStaysCut) {
            return;
        }
        let is_new = share.appends.insert(number) || !rules.keep(Rule::NumberedAppends);
        if is_new {
            self.effects.push(Effect::Log(LogRecord::Append { epoch, number, brick, rows }));
        }
        self.answer(from, Body::Appended(epoch, number));
    }

    fn receive_commit(&mut self, from: Member, epoch: Epoch, terms: CommitTerms) {
        if self.ledger.has_ended(epoch) {
            return;
        }
        assert!(terms.holders.contains(&self.member), "a commit names whom it asks");
        let rules = self.rules;
        let share = self.share_of(epoch, from.incarnation);
        let has_all = share.appends.len() == terms.appends as usize || !rules.keep(Rule::CountedAppends);
        if share.is_cut || !has_all {
            self.answer(from, Body::RowsMissing(epoch));
            return;
        }
        if share.commit.as_ref() != Some(&terms) {
            share.commit = Some(terms.clone());
            self.effects.push(Effect::Log(LogRecord::Commit(epoch, terms)));
        }
        self.promise(from, Body::CommitLogged(epoch));
    }

    fn receive_cut(&mut self, from: Member, epoch: Epoch) {
        if self.ledger.has_ended(epoch) {
            return;
        }
        let _ = self.share_of(epoch, from.incarnation);
        self.cut(epoch);
        self.promise(from, Body::CutLogged(epoch));
    }

    /// What is here of a transaction that has not ended, which this incarnation of its node coordinates.
    fn share_of(&mut self, epoch: Epoch, incarnation: Incarnation) -> &mut Share {
        self.ledger.note_begin(epoch, incarnation);
        self.shares.entry(epoch).or_insert_with(|| {
            self.effects.push(Effect::Log(LogRecord::Began(epoch, incarnation)));
            Share::default()
        })
    }

    /// Removes what is here of the rows of a transaction, for good.
    pub(super) fn cut(&mut self, epoch: Epoch) {
        if let Some(share) = self.shares.get_mut(&epoch).filter(|share| !share.is_cut) {
            share.is_cut = true;
            self.effects.push(Effect::Log(LogRecord::Cut(epoch)));
        }
    }

    fn receive_answer(&mut self, from: Member, answer: Body<R>) {
        let node = from.node;
        if let Body::Met(standing, older) = &answer {
            let before = self.latest_committed();
            // All later begins of deletes are answered here, and the floor that was promised goes by these answers.
            if !self.has_met_all || !self.rules.keep(Rule::OwnAnswerToDeletes) {
                self.ledger.learn_deletes(standing);
            }
            self.ledger.learn(standing);
            self.safe.learn(standing.latest_safe);
            self.forget_ended();
            self.log_latest(before);
            self.wait_for(older);
            self.note_met(from);
            return;
        }
        let (Body::Begun(epoch, _)
        | Body::Appended(epoch, _)
        | Body::CommitLogged(epoch)
        | Body::RowsMissing(epoch)
        | Body::CutLogged(epoch)
        | Body::Heard(epoch)) = answer
        else {
            return;
        };
        let Some(load) = self.loads.get_mut(&epoch) else { return };
        match answer {
            Body::Begun(_, known) => load.note_begun(node, &known, &self.view, self.rules),
            Body::Appended(_, number) => load.note_appended(node, number),
            Body::CommitLogged(_) => load.note_answer(Phase::Committing, node),
            Body::RowsMissing(_) if load.phase() == Phase::Committing => load.doom(),
            Body::CutLogged(_) => load.note_answer(Phase::Cutting, node),
            Body::Heard(_) => load.note_heard(node),
            _ => {}
        }
        self.advance(epoch);
    }

    /// Notes that somebody has told all that it knows.
    fn note_met(&mut self, from: Member) {
        self.unmet.remove(&from);
        self.look_whether_all_are_met();
        self.go_on_moving();
    }

    /// While a dead coordinator's transactions are open, one of them may be a delete that nobody left knows of.
    pub(super) fn look_whether_all_are_met(&mut self) {
        self.has_met_all |= self.unmet.is_empty() && self.view.unclosed().is_empty();
    }

    /// Notes that everything up to `latest` has ended.
    pub(super) fn learn_latest(&mut self, latest: Epoch) {
        let before = self.latest_committed();
        self.ledger.learn_latest(latest);
        self.forget_ended();
        self.log_latest(before);
    }

    pub(super) fn note_decided(&mut self, decided: &CommittedEpoch) {
        let before = self.latest_committed();
        self.ledger.commit(decided);
        self.forget_ended();
        self.log_latest(before);
    }

    pub(super) fn note_ended(&mut self, epoch: Epoch) {
        let before = self.latest_committed();
        self.ledger.roll_back(epoch);
        self.forget_ended();
        self.log_latest(before);
    }

    /// Forgets what was here of transactions that have ended; the rows of those that left no commit here go.
    ///
    /// A node that serves the brick has none such: a decided transaction has its commit on all holders, and one that is
    /// rolled back was cut. They are left on a node that was away.
    fn forget_ended(&mut self) {
        let ended: Vec<Epoch> =
            self.shares.keys().copied().filter(|epoch| self.ledger.has_ended(*epoch)).collect();
        for epoch in ended {
            if self.shares[&epoch].commit.is_none() {
                self.cut(epoch);
            }
            self.shares.remove(&epoch);
        }
    }

    fn answer(&mut self, to: Member, body: Body<R>) {
        let message = self.envelope(to, body);
        self.effects.push(Effect::Send(message));
    }
}
