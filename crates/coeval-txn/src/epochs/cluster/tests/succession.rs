// SPDX-License-Identifier: Apache-2.0
//! Keepers one after the other: a story for each rule, which makes two histories without it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Everywhere, Node};
use crate::epochs::Stride;
use crate::epochs::cluster::rules::{Rule, Rules};
use crate::epochs::cluster::{
    BeginError, Effect, HolderBody, HolderRecord, Incarnation, KeeperPlace, KeeperSays, KeeperTerm, LoadFate,
    LoadOutcome, Member, NextKeeper, NodeId, RemoveError, TermKeeper, ToKeeper, ViewChange, ViewHolder,
    ViewKeeper, ViewRecord,
};

/// Nodes that hold records, by number, and what has been settled by whichever keeper.
struct Stage {
    rules: Rules,
    replicas: usize,
    holders: BTreeMap<u32, ViewHolder>,
    disks: BTreeMap<u32, Vec<HolderRecord>>,
    settled: Vec<ViewRecord>,
    /// Two keepers have settled different records.
    has_two_histories: bool,
}

fn node(number: u32) -> NodeId {
    NodeId::new(number)
}

fn place(term: u64, number: u32) -> KeeperPlace {
    KeeperPlace { term: KeeperTerm::new(term, 0), node: node(number) }
}

impl Stage {
    /// A cluster of so many nodes, each in its first life, which have its first record.
    fn new(nodes: u32, replicas: usize, rules: Rules) -> Self {
        let member = |number| Member { node: node(number), incarnation: Incarnation::new(1) };
        let founders: Vec<Member> = (1..=nodes).map(member).collect();
        let (_, first) = ViewKeeper::found(&founders, replicas);
        let (holders, disks) = (BTreeMap::new(), BTreeMap::new());
        let settled = vec![first.clone()];
        let mut stage = Self { rules, replicas, holders, disks, settled, has_two_histories: false };
        for number in 1..=nodes {
            stage.come(number, 1);
            stage.holder(number).learn(&first);
            stage.write(number);
        }
        stage
    }

    /// A node with an empty disk, since this life.
    fn come(&mut self, number: u32, life: u64) {
        let mut holder = ViewHolder::new(node(number), Incarnation::new(life));
        holder.keep_rules(self.rules);
        self.holders.insert(number, holder);
        self.disks.insert(number, Vec::new());
    }

    fn holder(&mut self, number: u32) -> &mut ViewHolder {
        self.holders.get_mut(&number).expect("there is such a node")
    }

    /// What a node holds is on its disk.
    fn write(&mut self, number: u32) {
        let records = self.holder(number).take_records();
        self.disks.get_mut(&number).expect("there is such a node").extend(records);
    }

    /// A node stops, and comes back with what is on its disk.
    fn restart(&mut self, number: u32) {
        let disk = &self.disks[&number];
        let mut holder = ViewHolder::recover(node(number), Incarnation::new(1), disk);
        holder.keep_rules(self.rules);
        self.holders.insert(number, holder);
    }

    /// A keeper asks some of the nodes, and begins.
    fn begin(&mut self, term: u64, number: u32, asked: &[u32]) -> Result<TermKeeper, BeginError> {
        let mut next = NextKeeper::new(place(term, number), self.replicas);
        next.keep_rules(self.rules);
        for asked in asked {
            let answer = self.holder(*asked).receive(&next.ask());
            self.write(*asked);
            next.receive(&answer);
        }
        next.begin()
    }

    /// A keeper has some of the nodes hold its records, in this order.
    fn hold(&mut self, keeper: &mut TermKeeper, on: &[u32]) {
        for number in on {
            let Some(said) = keeper.hold(node(*number)) else { continue };
            let answer = self.holder(*number).receive(&said);
            // Without the rule it answers first, and writes when it has the time.
            if self.holder(*number).has_to_write() {
                self.write(*number);
            }
            keeper.receive(&answer);
        }
        for (index, record) in keeper.settled().iter().enumerate() {
            match self.settled.get(index) {
                Some(before) => self.has_two_histories |= before != record,
                None => self.settled.push(record.clone()),
            }
        }
    }

    /// A keeper begins, and its first record is settled on all that it has asked.
    fn begin_and_hold(&mut self, term: u64, number: u32, on: &[u32]) -> Result<TermKeeper, BeginError> {
        let mut keeper = self.begin(term, number, on)?;
        self.hold(&mut keeper, on);
        // The second time they are told that it is settled.
        self.hold(&mut keeper, on);
        Ok(keeper)
    }
}

/// The keeper records something that changes no members.
fn note(keeper: &mut TermKeeper, number: u32, address: &str) {
    let address: Arc<str> = Arc::from(address);
    let noted = keeper.decide(|keeper| ((), keeper.know(node(number), &address)));
    assert!(noted.is_some(), "all before it is settled");
}

fn remove(keeper: &mut TermKeeper, number: u32) {
    let removed = keeper.decide(|keeper| match keeper.remove(node(number)) {
        Ok(record) => (Ok(()), Some(record)),
        Err(error) => (Err(error), None),
    });
    assert_eq!(removed, Some(Ok::<(), RemoveError>(())));
}

fn join(keeper: &mut TermKeeper, number: u32) {
    let incarnation = Incarnation::new(1);
    let member = Member { node: node(number), incarnation };
    let join = ToKeeper::Join { member, log_since: incarnation };
    let joined = keeper.decide(|keeper| ((), keeper.receive(&join)));
    assert!(joined.is_some(), "all before it is settled");
}

/// Three nodes. The keeper records that n3 is gone, and is the only one that has that.
fn held_by_nobody_else(rules: Rules) -> bool {
    let mut stage = Stage::new(3, 2, rules);
    let mut first = stage.begin_and_hold(1, 1, &[1, 2, 3]).unwrap();
    remove(&mut first, 3);
    stage.hold(&mut first, &[1]);
    let second = stage.begin_and_hold(2, 2, &[2, 3]).unwrap();
    assert!(second.is_settled());
    stage.has_two_histories
}

/// n2 keeps that n1 is gone to itself, begins anew among those that are left, and settles that with itself.
fn held_by_members_of_the_last_view_alone(rules: Rules) -> bool {
    let mut stage = Stage::new(3, 2, rules);
    let mut first = stage.begin_and_hold(1, 2, &[1, 2, 3]).unwrap();
    remove(&mut first, 1);
    stage.hold(&mut first, &[2]);
    assert!(!first.is_settled());
    let mut second = stage.begin(2, 2, &[2, 3]).unwrap();
    stage.hold(&mut second, &[2]);
    assert_eq!(second.is_settled(), !rules.keep(Rule::EachViewHolds));
    if let Ok(mut third) = stage.begin(3, 1, &[1, 3]) {
        stage.hold(&mut third, &[1, 3]);
    }
    stage.has_two_histories
}

/// n2 has said that it holds something, and has it no more when it starts again.
fn held_in_memory(rules: Rules) -> bool {
    let mut stage = Stage::new(3, 2, rules);
    let mut first = stage.begin_and_hold(1, 1, &[1, 2, 3]).unwrap();
    (1..=3).for_each(|number| stage.write(number));
    note(&mut first, 3, "elsewhere:1");
    stage.hold(&mut first, &[1, 2]);
    assert!(first.is_settled());
    stage.restart(2);
    stage.begin_and_hold(2, 2, &[2, 3]).unwrap();
    stage.has_two_histories
}

/// n3 has missed something, and begins by what it knows itself.
fn begun_by_one(rules: Rules) -> bool {
    let mut stage = Stage::new(3, 2, rules);
    let mut first = stage.begin_and_hold(1, 1, &[1, 2, 3]).unwrap();
    remove(&mut first, 3);
    stage.hold(&mut first, &[1, 2]);
    if let Ok(mut second) = stage.begin(2, 3, &[3]) {
        stage.hold(&mut second, &[3, 2]);
    }
    stage.has_two_histories
}

/// Four nodes with three replicas, and n5, of which the first keeper alone and n5 itself know. n5 begins by those who would be enough
/// of five, and are not of four.
fn begun_by_members_of_the_last_view_alone(rules: Rules) -> bool {
    let mut stage = Stage::new(4, 3, rules);
    stage.come(5, 1);
    let mut first = stage.begin_and_hold(1, 1, &[1, 2, 3, 4]).unwrap();
    stage.hold(&mut first, &[5]);
    join(&mut first, 5);
    stage.hold(&mut first, &[1, 5]);
    assert!(!first.is_settled());
    let mut second = stage.begin(2, 2, &[2, 3, 4]).unwrap();
    stage.hold(&mut second, &[2, 1]);
    assert!(second.is_settled());
    if let Ok(mut third) = stage.begin(3, 5, &[3, 4, 5]) {
        stage.hold(&mut third, &[5, 3, 4]);
    }
    stage.has_two_histories
}

/// n1 has more records than the others, none of them settled, when another keeper has gone on without them.
fn more_records_of_an_earlier_keeper(rules: Rules) -> bool {
    let mut stage = Stage::new(3, 2, rules);
    let mut first = stage.begin_and_hold(1, 1, &[1, 2, 3]).unwrap();
    note(&mut first, 3, "elsewhere:1");
    stage.hold(&mut first, &[1]);
    let mut second = stage.begin(2, 1, &[1, 3]).unwrap();
    stage.hold(&mut second, &[1]);
    assert!(!second.is_settled());
    let third = stage.begin_and_hold(3, 2, &[2, 3]).unwrap();
    assert!(third.is_settled());
    let fourth = stage.begin_and_hold(4, 3, &[1, 3]).unwrap();
    assert!(fourth.is_settled());
    stage.has_two_histories
}

/// n2 has answered the second keeper when the first one, which does not know of it, has it hold something.
fn an_old_keeper_goes_on(rules: Rules) -> bool {
    let mut stage = Stage::new(3, 2, rules);
    let mut first = stage.begin_and_hold(1, 1, &[1, 2, 3]).unwrap();
    let mut second = stage.begin(2, 2, &[2, 3]).unwrap();
    remove(&mut first, 3);
    stage.hold(&mut first, &[1, 2]);
    if rules.keep(Rule::TermsKept) {
        assert_eq!(first.superseded_by(), Some(KeeperTerm::new(2, 0)));
        assert!(first.hold(node(1)).is_none() && !first.is_settled());
    }
    stage.hold(&mut second, &[2, 3]);
    assert!(second.is_settled());
    stage.has_two_histories
}

/// n2 has lost the disk that had a record. Its next life has joined nothing yet.
fn a_lost_disk(rules: Rules) -> bool {
    let mut stage = Stage::new(3, 2, rules);
    let mut first = stage.begin_and_hold(1, 1, &[1, 2, 3]).unwrap();
    note(&mut first, 3, "elsewhere:1");
    stage.hold(&mut first, &[1, 2]);
    assert!(first.is_settled());
    stage.come(2, 2);
    if let Ok(mut second) = stage.begin(2, 3, &[2, 3]) {
        stage.hold(&mut second, &[3, 2]);
    }
    stage.has_two_histories
}

/// Two nodes with two replicas, where one is enough to hold. n1 has had the keeper, and has answered that of n2 since.
fn a_later_keeper_elsewhere(rules: Rules) -> bool {
    let mut stage = Stage::new(2, 2, rules);
    stage.begin_and_hold(1, 1, &[1, 2]).unwrap();
    let mut second = stage.begin(2, 2, &[1, 2]).unwrap();
    stage.hold(&mut second, &[2]);
    assert!(second.is_settled());
    if let Ok(mut third) = stage.begin(3, 1, &[1]) {
        stage.hold(&mut third, &[1]);
    }
    stage.has_two_histories
}

#[test]
fn there_is_one_history_and_each_rule_is_needed_for_that() {
    type Story = fn(Rules) -> bool;
    let stories: [(Rule, Story); 9] = [
        (Rule::HeldByEnough, held_by_nobody_else),
        (Rule::EachViewHolds, held_by_members_of_the_last_view_alone),
        (Rule::HeldOnDisk, held_in_memory),
        (Rule::EnoughAnswers, begun_by_one),
        (Rule::EachViewAnswers, begun_by_members_of_the_last_view_alone),
        (Rule::NewestTermFirst, more_records_of_an_earlier_keeper),
        (Rule::TermsKept, an_old_keeper_goes_on),
        (Rule::LostDiskCountsNot, a_lost_disk),
        (Rule::NoLaterElsewhere, a_later_keeper_elsewhere),
    ];
    for (rule, story) in stories {
        assert!(!story(Rules::ALL), "two histories, with all rules: {rule:?}");
        assert!(story(Rules::without(rule)), "one history, without {rule:?}");
    }
}

/// To break it: have `ViewHolder::hold` keep what is longer, whatever term it is of.
#[test]
fn what_was_settled_is_found_and_what_was_not_makes_room() {
    let mut stage = Stage::new(3, 2, Rules::ALL);
    let mut first = stage.begin_and_hold(1, 1, &[1, 2, 3]).unwrap();
    note(&mut first, 2, "b:1");
    stage.hold(&mut first, &[1, 2]);
    assert!(first.is_settled());
    note(&mut first, 3, "c:1");
    stage.hold(&mut first, &[1]);
    assert!(!first.is_settled());
    // n1 is away. Its last record is not found, and need not be.
    let mut second = stage.begin_and_hold(2, 3, &[2, 3]).unwrap();
    assert!(second.is_settled());
    let known = |keeper: &TermKeeper, number| keeper.view().known().contains_key(&node(number));
    assert!(known(&second, 2) && !known(&second, 3));
    assert_eq!(second.view().keeper(), Some(place(2, 3)));
    // When it is back it holds what the others do.
    stage.hold(&mut second, &[1]);
    stage.hold(&mut second, &[1]);
    assert_eq!(stage.holder(1).settled(), second.settled());
    assert!(second.knows_all(node(1)) && !second.knows_all(node(4)));
    assert!(!stage.has_two_histories);
}

/// To break it: have `NextKeeper::check` ask for enough answers in any case.
#[test]
fn the_node_of_the_last_keeper_is_enough_where_one_holds() {
    let mut stage = Stage::new(2, 2, Rules::ALL);
    let mut first = stage.begin_and_hold(1, 1, &[1, 2]).unwrap();
    remove(&mut first, 2);
    stage.hold(&mut first, &[1]);
    assert!(first.is_settled(), "a node that is left goes on by itself");
    stage.restart(1);
    assert!(matches!(stage.begin(2, 2, &[2]), Err(BeginError::TooFew { heard: 1, needed: 2, .. })));
    let again = stage.begin_and_hold(3, 1, &[1]).unwrap();
    assert!(again.is_settled());
    assert!(!stage.has_two_histories);
}

/// To break it: have `NextKeeper::begin` go on without records.
#[test]
fn nobody_begins_who_has_heard_of_no_record() {
    let mut stage = Stage::new(1, 1, Rules::ALL);
    stage.come(2, 1);
    assert!(matches!(stage.begin(1, 2, &[2]), Err(BeginError::TooFew { .. })));
    assert!(stage.begin(2, 2, &[1, 2]).is_ok());
}

/// To break it: have `ViewHolder::learn` not look for keepers.
#[test]
fn who_has_learned_of_a_keeper_answers_none_before_it() {
    let mut stage = Stage::new(3, 2, Rules::ALL);
    let second = stage.begin_and_hold(2, 1, &[1, 2]).unwrap();
    for record in second.settled() {
        stage.holder(3).learn(record);
    }
    assert_eq!(stage.holder(3).settled(), second.settled());
    let said = stage.holder(3).receive(&KeeperSays::Ask(place(1, 3)));
    assert_eq!(said.body, HolderBody::Newer(KeeperTerm::new(2, 0)));
    assert_eq!(stage.begin(1, 3, &[3]).err(), Some(BeginError::Superseded(KeeperTerm::new(2, 0))));
}

/// To break it: have `TermKeeper::decide` not look whether all is settled.
#[test]
fn a_keeper_decides_one_thing_at_a_time() {
    let mut stage = Stage::new(3, 2, Rules::ALL);
    let mut keeper = stage.begin(1, 1, &[1, 2, 3]).unwrap();
    assert_eq!(keeper.decide(|_| ((), None)), None, "its first record is not settled yet");
    assert!(keeper.hold(node(2)).is_none(), "the node beside it comes first");
    stage.hold(&mut keeper, &[1, 2]);
    remove(&mut keeper, 3);
    assert_eq!(keeper.decide(|_| ((), None)), None);
    assert_eq!(keeper.view().members().count(), 3);
    stage.hold(&mut keeper, &[1, 2]);
    assert_eq!(keeper.view().members().count(), 2);
    assert_eq!(keeper.decide(|_| ((), None)), Some(()));
}

/// To break it: have `ClusterNode::follow` doom no delete.
#[test]
fn an_open_delete_ends_when_the_keeper_is_elsewhere() {
    for (keeper, ends) in [(1, false), (2, true)] {
        let member = |number| Member { node: node(number), incarnation: Incarnation::new(1) };
        let (_, first) = ViewKeeper::found(&[member(1), member(2)], 1);
        let mut own = Node::new(member(1), Stride::new(1, 2), Everywhere);
        own.follow(&first);
        let delete = own.begin_delete().unwrap();
        assert!(!own.knows_other_deletes(delete));
        let _ = own.take_effects();
        let change = ViewChange::Keeper(place(1, keeper));
        own.follow(&ViewRecord { number: first.number.next(), change });
        let rolled_back = LoadOutcome { epoch: delete, fate: LoadFate::RolledBack };
        let is_told =
            |effect: &Effect<()>| matches!(effect, Effect::Tell(outcome) if *outcome == rolled_back);
        assert_eq!(own.take_effects().iter().any(is_told), ends);
    }
}

/// Three nodes of a cluster that is older than terms. The keeper was on n1, which has founded it; the others have followed its records, and
/// have held nothing, since their first lives.
fn older_than_terms() -> Stage {
    let member = |number| Member { node: node(number), incarnation: Incarnation::new(1) };
    let (mut keeper, first) = ViewKeeper::found(&[member(1)], 2);
    let mut records = vec![first];
    for number in [2, 3] {
        let join = ToKeeper::Join { member: member(number), log_since: Incarnation::new(1) };
        records.extend(keeper.receive(&join));
    }
    let mut stage = Stage::new(1, 2, Rules::ALL);
    (2..=3).for_each(|number| stage.come(number, 1));
    for number in 1..=3 {
        records.iter().for_each(|record| stage.holder(number).learn(record));
    }
    stage
}

/// To break it: have `NextKeeper::check` not look for the founder, or not at whom that has answered.
#[test]
fn a_cluster_that_is_older_than_terms_goes_on_by_its_founder() {
    let mut stage = older_than_terms();
    let refused = stage.begin(1, 2, &[2, 3]).err();
    assert!(
        matches!(&refused, Some(BeginError::TooFew { heard: 2, needed: 3, unheard, .. }) if *unheard == [node(1)]),
        "nobody but the founder is known to have all: {refused:?}"
    );
    let said = refused.map(|refused| refused.to_string()).unwrap_or_default();
    assert!(said.ends_with(&format!("not yet: {}", node(1))), "{said}");
    let begun = stage.begin(2, 1, &[1]).unwrap();
    assert_eq!(begun.view().members().count(), 3);
    // One elsewhere has asked the founder meanwhile, and may have begun.
    assert!(stage.begin(3, 2, &[1, 2, 3]).is_ok());
    assert!(stage.begin(4, 1, &[1]).is_err());
}

/// To break it: have the nodes come in a life behind that which the view has (`stage.come(number, 2)`), as if they had lost their disks.
#[test]
fn what_the_first_keeper_with_a_term_records_is_held_by_the_others() {
    let mut stage = older_than_terms();
    let mut first = stage.begin_and_hold(1, 1, &[1, 2]).unwrap();
    assert!(first.is_settled(), "its first record");
    note(&mut first, 2, "b:1");
    stage.hold(&mut first, &[1, 2]);
    assert!(first.is_settled());
    // The founder is away, and not needed any more.
    let second = stage.begin_and_hold(2, 3, &[2, 3]).unwrap();
    assert!(second.is_settled() && second.view().known().contains_key(&node(2)));
    assert!(!stage.has_two_histories);
}
