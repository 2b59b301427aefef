// SPDX-License-Identifier: Apache-2.0
//! Keepers one after the other: a story for each rule, which makes two histories without it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Everywhere, Node};
use crate::epochs::cluster::rules::{Rule, Rules};
use crate::epochs::cluster::{
    BeginError, CommitTerms, CommittedEpoch, Effect, EpochKind, HolderBody, HolderRecord, Incarnation,
    KeeperPlace, KeeperSays, KeeperTerm, LoadFate, LoadOutcome, LogRecord, Member, NextKeeper, NodeId,
    RecoverError, RemoveError, TermKeeper, ToKeeper, ViewChange, ViewHolder, ViewKeeper, ViewNumber,
    ViewRecord, WholeView, count_through,
};
use crate::epochs::{Epoch, Stride};

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
        self.ask(term, number, asked).begin()
    }

    /// A keeper asks some of the nodes, and begins without others.
    fn begin_without(
        &mut self,
        lost: &[u32],
        (term, number): (u64, u32),
        asked: &[u32],
    ) -> Result<TermKeeper, RecoverError> {
        let lost: BTreeSet<NodeId> = lost.iter().copied().map(node).collect();
        self.ask(term, number, asked).begin_without(&lost)
    }

    fn ask(&mut self, term: u64, number: u32, asked: &[u32]) -> NextKeeper {
        let mut next = NextKeeper::new(place(term, number), self.replicas);
        next.keep_rules(self.rules);
        for asked in asked {
            let answer = self.holder(*asked).receive(&next.ask());
            self.write(*asked);
            next.receive(&answer);
        }
        next
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
        for record in keeper.settled() {
            let through = count_through(&self.settled, record.number);
            let is_same = match (&record.change, self.settled.get(..through)) {
                (ViewChange::Whole(_), Some(before)) => WholeView::of(before).as_ref() == Some(record),
                (_, Some(before)) => before.last() == Some(record),
                (_, None) => {
                    self.settled.push(record.clone());
                    true
                }
            };
            self.has_two_histories |= !is_same;
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
    begun_by_some_of_five(rules, |_| ())
}

/// The same; something happens when n5 has joined, and another keeper has not begun.
fn begun_by_some_of_five(rules: Rules, meanwhile: impl FnOnce(&mut Stage)) -> bool {
    let mut stage = Stage::new(4, 3, rules);
    stage.come(5, 1);
    let mut first = stage.begin_and_hold(1, 1, &[1, 2, 3, 4]).unwrap();
    stage.hold(&mut first, &[5]);
    join(&mut first, 5);
    stage.hold(&mut first, &[1, 5]);
    assert!(!first.is_settled());
    meanwhile(&mut stage);
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
    // n3 holds that, and is not told that it is settled.
    let mut third = stage.begin(3, 2, &[2, 3]).unwrap();
    stage.hold(&mut third, &[2, 3]);
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

/// Three nodes. n3 has what n1 has had settled last, and lives, but does not answer just then.
fn begun_without_one_that_lives(rules: Rules) -> bool {
    let mut stage = Stage::new(3, 2, rules);
    let mut first = stage.begin_and_hold(1, 1, &[1, 2, 3]).unwrap();
    note(&mut first, 2, "elsewhere:1");
    stage.hold(&mut first, &[1, 3]);
    assert!(first.is_settled());
    match stage.begin_without(&[1], (2, 2), &[2]) {
        Ok(mut second) => stage.hold(&mut second, &[2, 3]),
        Err(error) => assert_eq!(error, RecoverError::Unheard(vec![node(3)])),
    }
    stage.has_two_histories
}

/// Two nodes. n1 has gone on without n2, and is back after n2 has begun without it. Whether it has half of each list then.
fn a_lost_node_is_back(rules: Rules) -> bool {
    let mut stage = Stage::new(2, 2, rules);
    let mut first = stage.begin_and_hold(1, 1, &[1, 2]).unwrap();
    remove(&mut first, 2);
    stage.hold(&mut first, &[1]);
    stage.hold(&mut first, &[1]);
    assert!(first.is_settled());
    let own = stage.holder(1).settled().to_vec();
    let mut second = stage.begin_without(&[1], (2, 2), &[2]).unwrap();
    stage.hold(&mut second, &[2]);
    stage.hold(&mut second, &[2]);
    assert!(second.is_settled());
    // Twice: it tells first how much it takes for settled, and is told then what comes behind.
    for _ in 0..2 {
        note(&mut second, 2, "b:1");
        stage.hold(&mut second, &[2, 1]);
        note(&mut second, 2, "c:1");
        stage.hold(&mut second, &[2, 1]);
    }
    let held = stage.holder(1).settled();
    !held.starts_with(&own) || held.len() > own.len()
}

/// As [`begun_by_members_of_the_last_view_alone`], where n5 has one record stand for all that it holds.
fn folded_before_it_is_settled(rules: Rules) -> bool {
    begun_by_some_of_five(rules, |stage| stage.holder(5).fold(0))
}

/// n2 has died behind a commit that n1 has logged, and the keeper has recorded that it stands. n1 is back, and follows one record for all.
fn outcomes_are_forgotten(rules: Rules) -> bool {
    let member = |number| Member { node: node(number), incarnation: Incarnation::new(1) };
    let (own, other) = (member(1), member(2));
    let epoch = Epoch::new(2);
    let holders = [own, other].into();
    let terms = CommitTerms { kind: EpochKind::Load, appends: 0, dependencies: [].into(), holders };
    let log = [
        LogRecord::Started(own.incarnation),
        LogRecord::Began(epoch, other.incarnation),
        LogRecord::Commit(epoch, terms),
    ];
    let lives = |members: &[Member]| -> BTreeMap<NodeId, Incarnation> {
        members.iter().map(|member| (member.node, member.incarnation)).collect()
    };
    let (placed, members) = (lives(&[own, other]), lives(&[own]));
    let committed = CommittedEpoch { epoch, kind: EpochKind::Load, dependencies: Vec::new() };
    let changes = [
        ViewChange::Members { members: lives(&[own, other]), placed: lives(&[own, other]) },
        ViewChange::Keeper(place(1, 1)),
        ViewChange::Members { members, placed },
        ViewChange::Outcomes {
            nodes: lives(&[other]),
            latest: Epoch::ZERO,
            through: Epoch::new(4),
            committed: vec![committed],
        },
    ];
    let numbered = (1..).map(ViewNumber::new).zip(changes);
    let records: Vec<ViewRecord> = numbered.map(|(number, change)| ViewRecord { number, change }).collect();
    let begun = || {
        let again = Member { incarnation: Incarnation::new(2), ..own };
        let mut node = Node::recover(again, Stride::new(1, 2), Everywhere, &log);
        node.keep_rules(rules);
        node
    };
    let mut by_each = begun();
    records.iter().for_each(|record| by_each.follow(record));
    assert_eq!(by_each.latest_committed(), epoch);
    let mut by_one = begun();
    by_one.follow(&WholeView::of(&records).unwrap());
    assert_eq!(by_one.view(), by_each.view());
    by_one.latest_committed() != epoch
}

#[test]
fn there_is_one_history_and_each_rule_is_needed_for_that() {
    type Story = fn(Rules) -> bool;
    let stories: [(Rule, Story); 13] = [
        (Rule::HeldByEnough, held_by_nobody_else),
        (Rule::EachViewHolds, held_by_members_of_the_last_view_alone),
        (Rule::HeldOnDisk, held_in_memory),
        (Rule::EnoughAnswers, begun_by_one),
        (Rule::EachViewAnswers, begun_by_members_of_the_last_view_alone),
        (Rule::NewestTermFirst, more_records_of_an_earlier_keeper),
        (Rule::TermsKept, an_old_keeper_goes_on),
        (Rule::LostDiskCountsNot, a_lost_disk),
        (Rule::NoLaterElsewhere, a_later_keeper_elsewhere),
        (Rule::HearsAllLeft, begun_without_one_that_lives),
        (Rule::OneListOfViews, a_lost_node_is_back),
        (Rule::OnlySettledIsFolded, folded_before_it_is_settled),
        (Rule::OutcomesStay, outcomes_are_forgotten),
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

/// To break it: have `View::follow` leave out who is lost; `TermKeeper::is_held_in` wait for them; or `NextKeeper::begin_without` not
/// look at bricks.
#[test]
fn who_is_left_goes_on_without_the_lost() {
    let mut stage = Stage::new(2, 2, Rules::ALL);
    let mut first = stage.begin_and_hold(1, 1, &[1, 2]).unwrap();
    note(&mut first, 1, "a:1");
    stage.hold(&mut first, &[1, 2]);
    assert!(matches!(stage.begin(2, 2, &[2]), Err(BeginError::TooFew { heard: 1, needed: 2, .. })));
    let refused = |stage: &mut Stage, lost: &[u32]| stage.begin_without(lost, (3, 2), &[2]).err();
    assert_eq!(refused(&mut stage, &[2]), Some(RecoverError::Lives(node(2))));
    assert_eq!(refused(&mut stage, &[7]), Some(RecoverError::Unknown(node(7))));
    let mut second = stage.begin_without(&[1], (3, 2), &[2]).unwrap();
    assert!(!second.is_settled());
    stage.hold(&mut second, &[2]);
    assert!(second.is_settled());
    let view = second.view();
    assert_eq!(view.members().map(|member| member.node).collect::<Vec<_>>(), [node(2)]);
    assert!(view.removed().contains(&node(1)) && view.given_up().contains(&node(1)));
    assert_eq!((view.recovered(), view.keeper()), (KeeperTerm::new(3, 0), Some(place(3, 2))));
    assert!(view.known().contains_key(&node(1)), "what it held is there");
    // The next one needs nobody who is lost.
    stage.restart(2);
    assert!(stage.begin_and_hold(4, 2, &[2]).unwrap().is_settled());
    assert!(!stage.has_two_histories);
}

/// To break it: have `NextKeeper::begin_without` not look at bricks.
#[test]
fn nobody_goes_on_without_all_replicas_of_a_brick() {
    let mut stage = Stage::new(3, 2, Rules::ALL);
    stage.begin_and_hold(1, 1, &[1, 2, 3]).unwrap();
    let lost = stage.begin_without(&[1, 3], (2, 2), &[2]).err();
    assert_eq!(lost, Some(RecoverError::LastReplica));
}

/// To break it: have `NextKeeper::begin_without` not look for the node beside it. That may go by other views, and never holds the first record
/// then, which nobody else is asked to hold before.
#[test]
fn nobody_goes_on_without_having_heard_its_own_node() {
    let mut stage = Stage::new(3, 3, Rules::ALL);
    let mut first = stage.begin_and_hold(1, 1, &[1, 2, 3]).unwrap();
    remove(&mut first, 2);
    stage.hold(&mut first, &[1, 3]);
    stage.hold(&mut first, &[1, 3]);
    let unheard = stage.begin_without(&[1], (2, 2), &[3]).err();
    assert_eq!(unheard, Some(RecoverError::Unheard(vec![node(2)])));
    assert!(stage.begin_without(&[1], (3, 2), &[3, 2]).is_ok());
}

/// To break it: have `NextKeeper::begin_without` look whether somebody has answered, and not with which disk.
#[test]
fn who_has_lost_its_disk_may_be_said_to_be_lost() {
    let mut stage = Stage::new(2, 2, Rules::ALL);
    stage.begin_and_hold(1, 1, &[1, 2]).unwrap();
    stage.come(1, 2);
    assert!(stage.begin(2, 2, &[1, 2]).is_err());
    assert!(stage.begin_without(&[1], (3, 2), &[1, 2]).is_ok());
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
    // Each has its bricks.
    for number in 1..=3 {
        let complete = ToKeeper::Complete { from: member(number), layout: keeper.view().layout() };
        records.extend(keeper.receive(&complete));
    }
    assert_eq!(keeper.view().placed().len(), 3);
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

/// To break it: have `ViewHolder::hold` count what it takes from the first record, or `TermKeeper::hold` send what is behind a number of records.
#[test]
fn one_record_stands_for_many_wherever_they_are_held() {
    let mut stage = Stage::new(3, 2, Rules::ALL);
    let mut first = stage.begin_and_hold(1, 1, &[1, 2, 3]).unwrap();
    for round in 0..3 {
        note(&mut first, 2, &format!("b:{round}"));
        // n3 is away.
        stage.hold(&mut first, &[1, 2]);
    }
    stage.hold(&mut first, &[1, 2]);
    let settled = stage.holder(2).settled().to_vec();
    stage.holder(2).fold(1);
    assert_eq!((stage.holder(2).held(), settled.len()), (2, 5));
    assert_eq!(WholeView::of(stage.holder(2).settled()), WholeView::of(&settled));
    // All that it has is on its disk, and nothing else.
    let log = stage.holder(2).take_all_records();
    stage.disks.insert(2, log);
    stage.restart(2);
    let mut second = stage.begin_and_hold(2, 2, &[2, 3]).unwrap();
    assert!(second.is_settled());
    stage.hold(&mut second, &[1]);
    stage.hold(&mut second, &[1]);
    let views: Vec<_> = (1..=3).map(|number| WholeView::of(stage.holder(number).settled())).collect();
    assert!(views.iter().all(|view| *view == WholeView::of(second.settled())));
    let said = stage.holder(2).receive(&KeeperSays::Ask(place(1, 1)));
    assert_eq!(said.body, HolderBody::Newer(KeeperTerm::new(2, 0)));
    // Who has followed others learns it as well.
    stage.come(4, 1);
    let whole = WholeView::of(second.settled()).unwrap();
    stage.holder(4).learn(&whole);
    assert_eq!(stage.holder(4).settled(), [whole]);
    assert!(!stage.has_two_histories);
}

/// To break it: have `NextKeeper::begin_without` not look for the founder. The others may have followed more with the older program than they
/// hold with this one.
#[test]
fn nobody_goes_on_without_the_founder_of_a_cluster_that_is_older_than_terms() {
    let mut stage = older_than_terms();
    let lost = stage.begin_without(&[1], (1, 2), &[2, 3]).err();
    assert_eq!(lost, Some(RecoverError::Founder(node(1))));
    let unheard = stage.begin_without(&[3], (2, 2), &[2]).err();
    assert_eq!(unheard, Some(RecoverError::Unheard(vec![node(1)])));
    // Others may be lost.
    let mut begun = stage.begin_without(&[3], (3, 2), &[1, 2]).unwrap();
    stage.hold(&mut begun, &[2, 1]);
    assert!(begun.is_settled() && begun.view().given_up().contains(&node(3)));
    // Once a keeper has begun with this program, the founder is as any other.
    let mut stage = older_than_terms();
    stage.begin_and_hold(1, 1, &[1, 2, 3]).unwrap();
    assert!(stage.begin_without(&[1], (2, 2), &[2, 3]).is_ok());
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
