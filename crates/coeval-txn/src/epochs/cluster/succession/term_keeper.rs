// SPDX-License-Identifier: Apache-2.0
//! [`TermKeeper`]: a keeper that has begun, and has its records held before they are used.

use std::collections::{BTreeMap, BTreeSet};

use super::message::{HolderBody, HolderSays, KeeperSays};
use super::quorums::holders_needed;
use crate::epochs::cluster::keeper::ViewKeeper;
use crate::epochs::cluster::rules::{Rule, Rules};
use crate::epochs::cluster::view::{
    Incarnation, KeeperPlace, KeeperTerm, Member, NodeId, View, ViewNumber, ViewRecord, count_through,
    fold_records,
};

/// So many records stay as they are, for nodes that lack some of the last; for those before them one stands, if they are many.
const RECORDS_KEPT: usize = 1_024;

/// What a node holds of this keeper's records.
#[derive(Clone, Copy, Debug, Default)]
struct Holding {
    log_since: Incarnation,
    through: ViewNumber,
    settled: ViewNumber,
}

/// A keeper in its term. It decides one thing at a time: what it has recorded last has to be settled before. A newer one ends it.
#[derive(Clone, Debug)]
pub struct TermKeeper {
    place: KeeperPlace,
    replicas: usize,
    keeper: ViewKeeper,
    records: Vec<ViewRecord>,
    /// The view that the settled ones of these lead to.
    view: View,
    holders: BTreeMap<NodeId, Holding>,
    /// The nodes without which it has begun: they hold nothing of its records.
    lost: BTreeSet<NodeId>,
    newer: Option<KeeperTerm>,
    rules: Rules,
}

impl TermKeeper {
    /// The keeper that goes on after these records, so many of which are settled, without the nodes that are lost.
    pub(super) fn begin(
        (place, replicas): (KeeperPlace, usize),
        mut records: Vec<ViewRecord>,
        settled: usize,
        lost: BTreeSet<NodeId>,
        rules: Rules,
    ) -> Self {
        assert!(settled <= records.len(), "what is settled is among what is known");
        let mut keeper = ViewKeeper::recover_with(&records, replicas, rules);
        let mut view = View::default();
        records[..settled].iter().for_each(|record| view.follow(record));
        records.push(if lost.is_empty() {
            keeper.begin_term(place)
        } else {
            keeper.begin_term_without(place, lost.clone())
        });
        let holders = BTreeMap::new();
        Self { place, replicas, keeper, records, view, holders, lost, newer: None, rules }
    }

    /// Which one it is.
    #[must_use]
    pub fn place(&self) -> KeeperPlace {
        self.place
    }

    /// The newest keeper that some node has answered, if that is a later one: then this one has ended.
    #[must_use]
    pub fn superseded_by(&self) -> Option<KeeperTerm> {
        self.newer
    }

    /// The newest settled view.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// All settled records, of which the first may stand for many: what nodes may follow.
    #[must_use]
    pub fn settled(&self) -> &[ViewRecord] {
        &self.records[..count_through(&self.records, self.view.number())]
    }

    /// Whether all that was recorded is settled.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.view.number() == self.last()
    }

    /// Has the keeper decide something; gives what it says about it. What it records is to be held and settled before anybody is told
    /// that it is so. Nothing, and nothing happens, if what was recorded last is not settled yet, or there is a newer keeper.
    ///
    /// # Panics
    /// If `act` has the keeper decide something, and does not give the record of it.
    pub fn decide<T>(&mut self, act: impl FnOnce(&mut ViewKeeper) -> (T, Option<ViewRecord>)) -> Option<T> {
        if !self.is_settled() || self.newer.is_some() {
            return None;
        }
        let (said, record) = act(&mut self.keeper);
        self.records.extend(record);
        assert_eq!(self.keeper.view().number(), self.last(), "what the keeper records is written");
        Some(said)
    }

    /// What a node is to be told by now, again and again; nothing if there is a newer keeper, or the node beside this one, which
    /// is told first, does not hold all yet. Cost: a copy of what the node does not know to be settled.
    #[must_use]
    pub fn hold(&self, node: NodeId) -> Option<KeeperSays> {
        if self.newer.is_some() || (node != self.place.node && !self.holds_all(self.place.node)) {
            return None;
        }
        let after = self.holders.get(&node).map(|holding| holding.settled).unwrap_or_default();
        let known = count_through(&self.records, after);
        let records = self.records.get(known..).unwrap_or_default().to_vec();
        let recoveries = self.keeper.view().recoveries().clone();
        let (keeper, settled) = (self.place, self.view.number());
        Some(KeeperSays::Hold { keeper, after, recoveries, records, settled })
    }

    /// Whether a node holds all records and knows that all are settled: then it need not be told anything.
    #[must_use]
    pub fn knows_all(&self, node: NodeId) -> bool {
        let knows = |holding: &Holding| holding.settled == self.last();
        self.holds_all(node) && self.holders.get(&node).is_some_and(knows)
    }

    /// Takes in what a node says. More may be settled then.
    pub fn receive(&mut self, said: &HolderSays) {
        if said.to != self.place.term {
            return;
        }
        match said.body {
            HolderBody::Holds { through, settled } => {
                let holding = self.holders.entry(said.from).or_default();
                if said.log_since > holding.log_since {
                    *holding = Holding { log_since: said.log_since, ..Holding::default() };
                }
                if said.log_since == holding.log_since {
                    // What was on disk stays there. What it knows to be settled it may have forgotten.
                    holding.through = holding.through.max(through);
                    holding.settled = settled;
                }
                self.settle();
            }
            HolderBody::Newer(term) => self.newer = self.newer.max(Some(term)),
            HolderBody::Has { .. } => {}
        }
    }

    /// Moves on to the last record, if that and all before it are held by enough.
    fn settle(&mut self) {
        if !self.holds_all(self.place.node) {
            return;
        }
        let mut view = self.view.clone();
        for record in &self.records[count_through(&self.records, view.number())..] {
            let counts = record.number == self.last() || self.rules.keep(Rule::EachViewHolds);
            if counts && !self.is_held_in(&view) {
                return;
            }
            view.follow(record);
        }
        self.view = view;
        assert!(self.view.number() <= self.last(), "what is settled was recorded");
        if self.records.len() >= 2 * RECORDS_KEPT {
            fold_records(&mut self.records, RECORDS_KEPT);
        }
    }

    /// Whether enough members of a view hold all.
    fn is_held_in(&self, view: &View) -> bool {
        let is_whole = |member: &Member| {
            let holding = self.holders.get(&member.node);
            let has_its_disk = holding.is_some_and(|holding| holding.log_since <= member.incarnation);
            has_its_disk || !self.rules.keep(Rule::LostDiskCountsNot)
        };
        let holds = |member: &Member| self.holds_all(member.node) && is_whole(member);
        let left = view.members().filter(|member| !self.lost.contains(&member.node)).count();
        let needed = holders_needed(view.members().count(), self.replicas).min(left);
        view.members().filter(holds).count() >= needed || !self.rules.keep(Rule::HeldByEnough)
    }

    fn holds_all(&self, node: NodeId) -> bool {
        self.holders.get(&node).is_some_and(|holding| holding.through == self.last())
    }

    /// The last record, settled or not.
    #[must_use]
    pub fn last(&self) -> ViewNumber {
        self.records.last().map(|record| record.number).unwrap_or_default()
    }
}
