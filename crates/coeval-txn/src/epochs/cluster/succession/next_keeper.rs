// SPDX-License-Identifier: Apache-2.0
//! [`NextKeeper`]: a keeper that wants to begin, and asks what those before it have recorded.

use std::collections::{BTreeMap, BTreeSet};

use super::message::{HolderBody, HolderSays, KeeperSays};
use super::quorums::{answers_needed, holders_needed};
use super::term_keeper::TermKeeper;
use super::term_of;
use crate::epochs::cluster::rules::{Rule, Rules};
use crate::epochs::cluster::view::{
    Incarnation, KeeperPlace, KeeperTerm, Member, NodeId, View, ViewChange, ViewNumber, ViewRecord,
    count_through,
};

/// Why a keeper does not begin yet, or not any more. Nothing was recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BeginError {
    /// A newer one has asked, or has begun.
    #[error("there is a newer keeper, of {0}")]
    Superseded(KeeperTerm),
    /// Too few have told what they hold. Those that the last view has and that have not are named; some of them may hold nothing,
    /// since they have lost their disks.
    #[error(
        "{heard} members of view {} have told which views they have, and {needed} have to{}",
        view.get(),
        who_has_not(unheard)
    )]
    TooFew {
        /// Of which view.
        view: ViewNumber,
        /// How many have.
        heard: usize,
        /// How many have to.
        needed: usize,
        /// Who has not.
        unheard: Vec<NodeId>,
    },
}

/// Why a keeper does not begin without nodes that are said to be lost. Nothing was recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// It does not begin, whoever is lost.
    #[error(transparent)]
    Begin(#[from] BeginError),
    /// A keeper has begun by all those that it needs: a lost node is removed there as any other.
    #[error("the keeper of views has begun, so nothing has to be given up")]
    Begun,
    /// There is no node of that number.
    #[error("there is no {0} in the cluster")]
    Unknown(NodeId),
    /// It is not lost: it has told what it holds.
    #[error("{0} has answered, so it is not lost")]
    Lives(NodeId),
    /// Of these members nothing was heard, and nobody has said that they are lost.
    #[error("{} {} not said to be lost, and {} not answered yet", listed(.0), is_or_are(.0), has_or_have(.0))]
    Unheard(Vec<NodeId>),
    /// As many nodes with bricks are lost as each brick has replicas.
    #[error("some bricks were on no other nodes than those that are lost")]
    LastReplica,
    /// It has founded the cluster, which is older than terms, and no keeper has begun since. What the others hold may lack views by which
    /// they have gone themselves.
    #[error(
        "{0} has made the cluster, and until a keeper has begun with this program nobody else is known to have all views"
    )]
    Founder(NodeId),
}

fn listed(nodes: &[NodeId]) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn is_or_are(nodes: &[NodeId]) -> &'static str {
    if nodes.len() == 1 { "is" } else { "are" }
}

fn has_or_have(nodes: &[NodeId]) -> &'static str {
    if nodes.len() == 1 { "has" } else { "have" }
}

fn who_has_not(nodes: &[NodeId]) -> String {
    if nodes.is_empty() { String::new() } else { format!("; not yet: {}", listed(nodes)) }
}

/// Nobody who has records has told so.
fn nobody() -> BeginError {
    BeginError::TooFew { view: ViewNumber::default(), heard: 0, needed: 1, unheard: Vec::new() }
}

/// The node that has founded the cluster of a list without keepers, if it was one. Clusters that are older than terms have such lists of
/// many records: their keeper was there, and nobody else was asked to hold anything, so without it nobody knows all of them.
fn founder_of(records: &[ViewRecord]) -> Option<Member> {
    let first = records.first().filter(|_| term_of(records) == KeeperTerm::default())?;
    let mut view = View::default();
    view.follow(first);
    let mut founders = view.members();
    let founder = founders.next()?;
    founders.next().is_none().then_some(founder)
}

/// What a node has told.
#[derive(Clone, Debug)]
struct Answer {
    log_since: Incarnation,
    elsewhere: KeeperTerm,
    settled: ViewNumber,
    records: Vec<ViewRecord>,
}

/// A keeper that wants to begin. It is dropped when it has begun, or there is a newer one.
#[derive(Clone, Debug)]
pub struct NextKeeper {
    place: KeeperPlace,
    replicas: usize,
    answers: BTreeMap<NodeId, Answer>,
    newer: Option<KeeperTerm>,
    rules: Rules,
}

impl NextKeeper {
    /// The keeper of a term that no other keeper has or has had, of a cluster where each brick is on `replicas` nodes.
    ///
    /// # Panics
    ///
    /// If `replicas` is 0.
    #[must_use]
    pub fn new(place: KeeperPlace, replicas: usize) -> Self {
        assert!(replicas >= 1, "each brick is somewhere");
        Self { place, replicas, answers: BTreeMap::new(), newer: None, rules: Rules::ALL }
    }

    #[cfg(test)]
    pub(in super::super) fn keep_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// What all nodes are to be asked whose addresses are known, that beside this keeper among them.
    #[must_use]
    pub fn ask(&self) -> KeeperSays {
        KeeperSays::Ask(self.place)
    }

    /// Takes in what a node says.
    pub fn receive(&mut self, said: &HolderSays) {
        if said.to != self.place.term {
            return;
        }
        match &said.body {
            HolderBody::Has { elsewhere, settled, records } => {
                let is_older =
                    self.answers.get(&said.from).is_some_and(|answer| answer.log_since > said.log_since);
                if !is_older {
                    let answer = Answer {
                        log_since: said.log_since,
                        elsewhere: *elsewhere,
                        settled: *settled,
                        records: records.clone(),
                    };
                    self.answers.insert(said.from, answer);
                }
            }
            HolderBody::Newer(term) => self.newer = self.newer.max(Some(*term)),
            HolderBody::Holds { .. } => {}
        }
    }

    /// Begins, if enough have answered. Its first record is written, and not held by anybody yet. Cost: a look at each record.
    ///
    /// # Errors
    ///
    /// If too few have answered, or there is a newer keeper.
    pub fn begin(&self) -> Result<TermKeeper, BeginError> {
        let best = self.best()?;
        let settled = self.settled_of(best);
        let (last, founder) = (self.node_of_last(best), founder_of(best));
        let mut view = View::default();
        for record in best {
            if view.number() >= settled && self.rules.keep(Rule::EachViewAnswers) {
                self.check(&view, (last, founder))?;
            }
            view.follow(record);
        }
        self.check(&view, (last, founder))?;
        Ok(self.begin_behind(best, settled, BTreeSet::new()))
    }

    /// Begins without nodes of which somebody says that they are lost for good. Its first record has them be out; it is not held by
    /// anybody yet. What only they have seen of views is given up, and with it the loads that were decided in these. Cost: a look at
    /// each record.
    ///
    /// # Errors
    ///
    /// If one of them has answered, a member that is not lost or the own node has not, some bricks would be lost too, or there is a newer keeper. And if one
    /// of them is the founder whose answer [`begin`](Self::begin) would need.
    pub fn begin_without(&self, lost: &BTreeSet<NodeId>) -> Result<TermKeeper, RecoverError> {
        let best = self.best()?;
        let settled = self.settled_of(best);
        let (mut view, mut needed) = (View::default(), BTreeSet::new());
        for record in best {
            if view.number() >= settled {
                needed.extend(view.members());
            }
            view.follow(record);
        }
        needed.extend(view.members());
        let founder = founder_of(best);
        needed.extend(founder);
        // One that has lost its disk since does not know what it has seen.
        let has_answered = |member: &Member| {
            self.answers.get(&member.node).is_some_and(|answer| answer.log_since <= member.incarnation)
        };
        for node in lost {
            let is_there = view.known().contains_key(node) || view.removed().contains(node);
            if !is_there && !needed.iter().any(|member| member.node == *node) {
                return Err(RecoverError::Unknown(*node));
            }
            let has_told = self.answers.contains_key(node)
                && needed.iter().filter(|member| member.node == *node).all(has_answered);
            if has_told || *node == self.place.node {
                return Err(RecoverError::Lives(*node));
            }
        }
        // It holds the first record before all others do, so it has to go by the same list.
        if !self.answers.contains_key(&self.place.node) {
            return Err(RecoverError::Unheard(vec![self.place.node]));
        }
        let unheard = needed.iter().filter(|member| !lost.contains(&member.node) && !has_answered(member));
        let unheard: BTreeSet<NodeId> = unheard.map(|member| member.node).collect();
        if !unheard.is_empty() && self.rules.keep(Rule::HearsAllLeft) {
            return Err(RecoverError::Unheard(unheard.into_iter().collect()));
        }
        let is_left = |node: &&NodeId| view.is_placed(**node) && !lost.contains(*node);
        let (placed, left) = (view.placed().len(), view.placed().keys().filter(is_left).count());
        if placed - left >= self.replicas.min(placed) {
            return Err(RecoverError::LastReplica);
        }
        if let Some(founder) = founder.filter(|founder| lost.contains(&founder.node)) {
            return Err(RecoverError::Founder(founder.node));
        }
        Ok(self.begin_behind(best, settled, lost.clone()))
    }

    fn begin_behind(&self, best: &[ViewRecord], settled: ViewNumber, lost: BTreeSet<NodeId>) -> TermKeeper {
        let settled = count_through(best, settled);
        TermKeeper::begin((self.place, self.replicas), best.to_vec(), settled, lost, self.rules)
    }

    /// The best list of those that nodes have told.
    fn best(&self) -> Result<&[ViewRecord], BeginError> {
        if let Some(newer) = self.newer {
            return Err(BeginError::Superseded(newer));
        }
        let by_term = self.rules.keep(Rule::NewestTermFirst);
        let rank = |answer: &&Answer| {
            let term = if by_term { term_of(&answer.records) } else { KeeperTerm::default() };
            (term, answer.records.last().map(|record| record.number))
        };
        let best = self.answers.values().max_by_key(rank).map(|answer| answer.records.as_slice());
        let best = best.filter(|records| !records.is_empty()).ok_or_else(nobody)?;
        if term_of(best) >= self.place.term {
            return Err(BeginError::Superseded(term_of(best)));
        }
        Ok(best)
    }

    /// Up to which view a list is settled, for all that those know who have so much of it. A node without which somebody has begun may know
    /// other views to be settled. What one record stands for is settled.
    fn settled_of(&self, best: &[ViewRecord]) -> ViewNumber {
        let of_best = |answer: &&Answer| {
            let own = answer.records.get(..count_through(&answer.records, answer.settled));
            let there = best.get(..count_through(best, answer.settled));
            // Of two lists of one term, all up to there is the same.
            own.zip(there).is_some_and(|(own, there)| term_of(own) == term_of(there))
        };
        let known = self.answers.values().filter(of_best).map(|answer| answer.settled).max();
        let is_whole = |first: &&ViewRecord| matches!(first.change, ViewChange::Whole(_));
        let folded = best.first().filter(is_whole).map(|first| first.number);
        known.max(folded).unwrap_or_default()
    }

    /// The node of the last keeper, if that has answered, with all that this keeper has recorded there, and has answered no later
    /// keeper elsewhere before.
    fn node_of_last(&self, best: &[ViewRecord]) -> Option<NodeId> {
        let mut view = View::default();
        best.iter().for_each(|record| view.follow(record));
        let last = view.keeper()?;
        let answer = self.answers.get(&last.node)?;
        let is_last = term_of(&answer.records) == last.term;
        let has_stayed = answer.elsewhere <= last.term || !self.rules.keep(Rule::NoLaterElsewhere);
        (is_last && has_stayed).then_some(last.node)
    }

    /// Whether enough members of a view have answered, and the founder among them if the list has no keeper.
    fn check(
        &self,
        view: &View,
        (last, founder): (Option<NodeId>, Option<Member>),
    ) -> Result<(), BeginError> {
        let members = view.members().count();
        let has_answered = |member: &Member| {
            let is_whole = |answer: &Answer| answer.log_since <= member.incarnation;
            let counts_not = self.rules.keep(Rule::LostDiskCountsNot);
            self.answers.get(&member.node).is_some_and(|answer| is_whole(answer) || !counts_not)
        };
        let heard = view.members().filter(has_answered).count();
        let needed = answers_needed(members, self.replicas);
        let has_last = last.and_then(|node| view.member(node)).is_some_and(|member| has_answered(&member));
        let is_enough = match founder {
            None => heard >= needed || (has_last && holders_needed(members, self.replicas) == 1),
            Some(founder) => {
                let answer = self.answers.get(&founder.node);
                let answer = answer.filter(|answer| answer.log_since <= founder.incarnation);
                // Whoever has begun elsewhere had to ask it too. So if it has answered nobody there, nobody has.
                answer.is_some_and(|answer| heard >= needed || answer.elsewhere == KeeperTerm::default())
            }
        };
        if is_enough || !self.rules.keep(Rule::EnoughAnswers) {
            return Ok(());
        }
        // With enough heard it is the founder that has not told.
        let needed = needed.max(heard + 1);
        let unheard = view.members().filter(|member| !has_answered(member)).map(|member| member.node);
        Err(BeginError::TooFew { view: view.number(), heard, needed, unheard: unheard.collect() })
    }
}
