// SPDX-License-Identifier: Apache-2.0
//! Stories that chance tells too rarely, each with its rule and without.

use super::{BRICK, Everywhere, Node};
use crate::epochs::cluster::rules::{Rule, Rules};
use crate::epochs::cluster::{
    Body, BrickAddress, ClusterNode, Effect, Incarnation, LogRecord, Member, Message, NodeError, NodeId,
    Placement, RowsFate, ToKeeper, ViewKeeper, ViewRecord,
};
use crate::epochs::{Epoch, Stride};

/// Nodes whose disks are fast, on a network that delivers what the story wants. Nodes are named by their numbers.
struct Stage {
    rules: Rules,
    count: u32,
    keeper: ViewKeeper,
    records: Vec<ViewRecord>,
    nodes: Vec<Node>,
    logs: Vec<Vec<LogRecord<()>>>,
    network: Vec<Message<()>>,
    to_keeper: Vec<ToKeeper>,
}

impl Stage {
    fn new(count: u32, rules: Rules) -> Self {
        let member = |node| Member { node: NodeId::new(node), incarnation: Incarnation::new(1) };
        let founders: Vec<Member> = (1..=count).map(member).collect();
        let (mut keeper, record) = ViewKeeper::found(&founders, count as usize);
        keeper.keep_rules(rules);
        let logs = vec![Vec::new(); count as usize];
        let nodes = Vec::new();
        let mut stage = Self {
            rules,
            count,
            keeper,
            records: vec![record],
            nodes,
            logs,
            network: vec![],
            to_keeper: vec![],
        };
        for founder in founders {
            stage.nodes.push(stage.start(founder));
            stage.follow(founder.node.get());
        }
        stage
    }

    fn start(&self, member: Member) -> Node {
        let log = &self.logs[member.node.get() as usize - 1];
        let mut node = Node::recover(member, Stride::new(member.node.get(), self.count), Everywhere, log);
        node.keep_rules(self.rules);
        node
    }

    fn node(&mut self, number: u32) -> &mut Node {
        &mut self.nodes[number as usize - 1]
    }

    /// Does what a node wants done.
    fn pump(&mut self, number: u32) {
        for effect in self.node(number).take_effects() {
            match effect {
                Effect::Log(record) => self.logs[number as usize - 1].push(record),
                Effect::Send(message) | Effect::SendOnceLogged(message) => self.network.push(message),
                Effect::TellKeeperOnceLogged(message) => self.to_keeper.push(message),
                Effect::Tell(_) | Effect::Fetch(_) | Effect::Copy { .. } => {}
            }
        }
    }

    /// Delivers what is under way between these nodes, and what follows from it; the rest stays under way.
    fn deliver(&mut self, among: &[u32]) {
        let is_among = |message: &Message<()>| {
            among.contains(&message.from.node.get()) && among.contains(&message.to.node.get())
        };
        while let Some(index) = self.network.iter().position(is_among) {
            let message = self.network.remove(index);
            let to = message.to.node.get();
            self.node(to).receive(message);
            self.pump(to);
        }
    }

    /// A node follows all records that there are.
    fn follow(&mut self, number: u32) {
        let followed = usize::try_from(self.node(number).view().number().get()).unwrap();
        for index in followed..self.records.len() {
            self.nodes[number as usize - 1].follow(&self.records[index]);
            self.pump(number);
        }
    }

    /// The keeper hears what it was told.
    fn tell_keeper(&mut self) {
        for message in std::mem::take(&mut self.to_keeper) {
            self.records.extend(self.keeper.receive(&message));
        }
    }

    fn remove(&mut self, number: u32) {
        let record = self.keeper.remove(NodeId::new(number)).unwrap();
        self.records.push(record);
    }

    /// A node stops and comes back; its log is all on disk.
    fn restart(&mut self, number: u32) {
        let Member { node, incarnation } = self.node(number).member();
        let member = Member { node, incarnation: Incarnation::new(incarnation.get() + 1) };
        *self.node(number) = self.start(member);
        self.follow(number);
        self.node(number).resend();
        self.pump(number);
        self.tell_keeper();
    }

    fn load(&mut self, number: u32) -> Epoch {
        let epoch = self.node(number).begin().unwrap();
        self.node(number).append(epoch, BRICK, ()).unwrap();
        self.pump(number);
        epoch
    }

    fn commit(&mut self, number: u32, epoch: Epoch) {
        self.node(number).commit(epoch).unwrap();
        self.pump(number);
    }

    /// All that is under way arrives.
    fn deliver_all(&mut self) {
        self.deliver(&(1..=self.count).collect::<Vec<_>>());
    }

    /// A load that waits for the rows that it is one transaction with.
    fn prepared(&mut self, number: u32) -> Epoch {
        let epoch = self.load(number);
        self.deliver_all();
        self.node(number).prepare(epoch).unwrap();
        self.pump(number);
        self.deliver_all();
        epoch
    }

    /// The rows are there.
    fn decide(&mut self, number: u32, epoch: Epoch) {
        self.node(number).decide(epoch).unwrap();
        self.pump(number);
        self.deliver_all();
    }

    /// n1 is gone, which has prepared a load; what has become of the rows is known.
    fn lose_first(&mut self, load: Epoch, fate: RowsFate) {
        self.remove(1);
        self.follow(2);
        self.tell_keeper();
        let asked = self.keeper.asks_rows();
        assert!(asked.is_empty() || asked == [load], "{asked:?}");
        for epoch in asked {
            self.records.extend(self.keeper.note_rows(epoch, fate));
        }
        self.follow(2);
    }

    /// All nodes follow the keeper, who hears them, and all messages arrive.
    fn settle(&mut self) {
        for _ in 0..4 {
            self.tell_keeper();
            (1..=self.count).for_each(|number| self.follow(number));
            self.deliver(&(1..=self.count).collect::<Vec<_>>());
        }
    }

    /// The labels of the brick that a node's log makes.
    fn labels(&self, number: u32) -> Vec<Epoch> {
        let mut labels = Vec::new();
        for record in &self.logs[number as usize - 1] {
            match record {
                LogRecord::Append { epoch, .. } => labels.push(*epoch),
                LogRecord::Cut(epoch) => labels.retain(|label| label != epoch),
                LogRecord::Copied { ended, rows, .. } => {
                    labels.retain(|label| !ended.contains(*label));
                    labels.extend(rows.iter().map(|(epoch, ())| *epoch));
                }
                _ => {}
            }
        }
        labels.sort_unstable();
        labels
    }

    /// What n1 has of the brick comes to a node that asked for it.
    fn copy(&mut self, number: u32, labels: Vec<Epoch>) {
        let view = self.node(number).view().number();
        let rows = labels.into_iter().map(|label| (label, ())).collect();
        self.node(number).copied(view, BRICK, rows).unwrap();
        self.pump(number);
    }

    /// A node has heard from all that it has asked for bricks.
    fn end_copy(&mut self, number: u32) {
        let view = self.node(number).view().clone();
        self.node(number).resend();
        view.members().for_each(|giver| self.node(number).copied_all(view.number(), giver));
        self.pump(number);
    }
}

/// Whether a story ends well: with all rules, and without one.
pub(super) fn needs(rule: Rule, ends_well: impl Fn(Rules) -> bool + std::panic::RefUnwindSafe) {
    assert!(ends_well(Rules::ALL), "with all rules");
    // What goes wrong may be seen by an assertion of the code first.
    let without = std::panic::catch_unwind(|| ends_well(Rules::without(rule)));
    assert!(!without.unwrap_or(false), "without {rule:?}");
}

/// n3 begins 3 while n1 waits for its answer to 4, and dies. n2 had answered 4 before it heard of 3.
#[test]
fn a_snapshot_lacks_what_a_dead_coordinator_has_left_since_somebody_answered() {
    needs(Rule::AnswersOfOneView, |rules| {
        let mut stage = Stage::new(3, rules);
        let _ = stage.node(1).begin().unwrap();
        let own = stage.node(1).begin().unwrap();
        stage.pump(1);
        stage.deliver(&[1, 2]);
        let left = stage.load(3);
        assert_eq!([own, left].map(Epoch::get), [4, 3]);
        stage.deliver(&[2, 3]);
        stage.remove(3);
        stage.follow(1);
        stage.follow(2);
        stage.deliver(&[1, 2]);
        !stage.node(1).snapshot_of(own).unwrap().contains(left)
    });
}

/// n1 forgets that it has given out 1, since it left no rows. n2, which is out of the view, must not have LCE there.
#[test]
fn a_number_that_left_no_rows_may_come_again() {
    needs(Rule::RowsForLatest, |rules| {
        let mut stage = Stage::new(2, rules);
        let empty = stage.node(1).begin().unwrap();
        stage.commit(1, empty);
        stage.pump(1);
        stage.deliver(&[1, 2]);
        stage.remove(2);
        stage.logs[0].clear();
        stage.logs[0].push(LogRecord::Started(Incarnation::new(1)));
        stage.restart(1);
        stage.follow(1);
        stage.tell_keeper();
        stage.follow(1);
        let again = stage.node(1).begin().unwrap();
        stage.restart(2);
        assert_eq!(again, empty);
        stage.node(2).latest_committed() < again
    });
}

/// n1 gives out 1 again, which only n2 knew of. n2 comes back while the second 1 is open, and takes it for what it is.
#[test]
fn a_number_that_was_given_out_again_is_not_taken_for_the_one_that_ended() {
    needs(Rule::ForgetWhenAway, |rules| {
        let mut stage = Stage::new(2, rules);
        let lost = stage.load(1);
        stage.network.retain(|message| message.to.node != NodeId::new(1));
        stage.deliver(&[1, 2]);
        stage.remove(2);
        stage.restart(1);
        stage.follow(1);
        stage.tell_keeper();
        stage.follow(1);
        stage.network.clear();
        let again = stage.load(1);
        assert_eq!(again, lost);
        stage.restart(2);
        stage.follow(1);
        stage.follow(2);
        stage.commit(1, again);
        stage.deliver(&[1, 2]);
        stage.node(2).latest_committed() == again
    });
}

/// n2 decides 2 and tells n3 alone, which leaves the view and does not know. A declared reader on n3 sees 2 and cannot
/// see a delete on n1; so the delete has to see 2.
#[test]
fn a_delete_sees_what_somebody_out_of_the_view_may_show() {
    needs(Rule::DeletesWaitForClosing, |rules| {
        let mut stage = Stage::new(3, rules);
        let load = stage.load(2);
        stage.deliver(&[1, 2, 3]);
        stage.commit(2, load);
        let is_news =
            |message: &Message<()>| matches!(message.body, crate::epochs::cluster::Body::Decided(_));
        while !stage.network.iter().any(is_news) {
            let message = stage.network.remove(0);
            let to = message.to.node.get();
            stage.node(to).receive(message);
            stage.pump(to);
        }
        stage.deliver(&[2, 3]);
        assert_eq!(stage.node(3).declared_read_only().unwrap().1.newest(), load);

        stage.remove(3);
        stage.remove(2);
        stage.follow(1);
        let delete = stage.node(1).begin_delete().unwrap();
        stage.pump(1);
        let early = stage.node(1).snapshot_of(delete);
        stage.tell_keeper();
        stage.follow(1);
        early.or(stage.node(1).snapshot_of(delete)).unwrap().contains(load)
    });
}

/// n2 comes back without the last records of its log, which told that 1 has ended. LSE of n1 is there already.
#[test]
fn who_comes_back_shows_nothing_below_the_others_latest_safe_epoch() {
    needs(Rule::MeetBeforeReading, |rules| {
        let mut stage = Stage::new(2, rules);
        let load = stage.load(1);
        stage.commit(1, load);
        stage.deliver(&[1, 2]);
        for number in [1, 2] {
            stage.node(number).flushed(load);
            stage.node(number).resend();
            stage.pump(number);
        }
        stage.deliver(&[1, 2]);
        assert_eq!(stage.node(1).latest_safe(), load);

        stage.logs[1].retain(|record| !matches!(record, LogRecord::Latest(_) | LogRecord::Safe(_)));
        stage.restart(2);
        stage.follow(1);
        stage.follow(2);
        let shown = stage.node(2).read_only().map(|(_, set)| set.newest());
        shown.is_err() || shown.unwrap() >= load
    });
}

/// n1 gives n2 the brick before 3 appends to it; what was given arrives when 3 is decided, and n2 has its rows already.
#[test]
fn a_copy_that_is_late_takes_nothing_away() {
    needs(Rule::CopyWhatHadEnded, |rules| {
        let mut stage = Stage::new(2, rules);
        let load = stage.load(1);
        stage.commit(1, load);
        stage.settle();
        stage.remove(2);
        stage.settle();
        stage.restart(2);
        stage.settle();
        let given = stage.labels(1);
        let later = stage.load(1);
        stage.settle();
        stage.commit(1, later);
        stage.settle();
        assert_eq!(stage.node(2).latest_committed(), later);
        stage.copy(2, given);
        stage.labels(2) == [load, later]
    });
}

/// n1 has shown 1 and promised not to go below. n2, which had answered the delete 3 before it heard of 1, tells so when
/// n4 has died. The delete will hear of 1 from n1 itself; a reader of n1 below 1 would be below LSE soon.
#[test]
fn what_others_have_answered_to_a_delete_does_not_move_back_who_has_met_all() {
    needs(Rule::OwnAnswerToDeletes, |rules| {
        let mut stage = Stage::new(4, rules);
        let load = stage.load(1);
        stage.deliver(&[1, 2, 3, 4]);
        stage.commit(1, load);
        while stage.node(1).latest_committed() < load {
            let message = stage.network.remove(0);
            let to = message.to.node.get();
            stage.node(to).receive(message);
            stage.pump(to);
        }
        let delete = stage.node(3).begin_delete().unwrap();
        stage.pump(3);
        stage.deliver(&[2, 3]);
        stage.network.retain(|message| message.from.node != NodeId::new(3));
        stage.node(1).flushed(load);
        stage.node(1).resend();
        stage.pump(1);
        stage.deliver(&[1, 2]);
        stage.deliver(&[1, 3]);

        stage.remove(4);
        (1..=3).for_each(|number| stage.follow(number));
        stage.deliver(&[1, 2]);
        let (_, shown) = stage.node(1).declared_read_only().unwrap();
        stage.settle();
        assert!(stage.node(3).snapshot_of(delete).unwrap().contains(load));
        stage.node(3).append(delete, BRICK, ()).unwrap();
        stage.commit(3, delete);
        stage.settle();
        for number in [2, 3] {
            stage.node(number).flushed(delete);
            stage.node(number).resend();
            stage.pump(number);
        }
        stage.settle();
        let view = stage.node(1).view().number();
        assert_eq!(stage.node(2).latest_committed(), delete);
        stage.node(2).may_read(view, BRICK, &shown).is_ok()
    });
}

/// n3 gives out a number again that only n2 had logged, which was away. n2 comes back, forgets, gets the brick, and
/// stops once more: its next life keeps the place, and must not take the second one for the first, which was closed. A
/// smaller epoch of n1 is open, so LCE in n2's log does not tell.
#[test]
fn what_was_forgotten_stays_forgotten() {
    needs(Rule::ForgetForGood, |rules| {
        let mut stage = Stage::new(3, rules);
        (0..20).for_each(|_| {
            stage.node(3).begin().unwrap();
        });
        stage.pump(3);
        stage.network.clear();
        let lost = stage.load(3);
        stage.network.retain(|message| message.to.node == NodeId::new(2));
        stage.deliver(&[2, 3]);
        stage.network.clear();
        stage.remove(2);
        stage.follow(1);
        stage.restart(3);
        for _ in 0..3 {
            stage.follow(1);
            stage.follow(3);
            stage.tell_keeper();
        }
        stage.deliver(&[1, 3]);
        let mut again = stage.node(3).begin().unwrap();
        while again < lost {
            stage.node(3).roll_back(again).unwrap();
            again = stage.node(3).begin().unwrap();
        }
        assert_eq!(again, lost);
        stage.node(3).append(again, BRICK, ()).unwrap();
        stage.pump(3);
        stage.network.clear();

        stage.restart(2);
        (1..=3).for_each(|number| stage.follow(number));
        let older = stage.load(1);
        assert!(older < again);
        stage.settle();
        stage.commit(3, again);
        stage.settle();
        assert!(stage.node(1).latest_committed() < older);
        stage.node(2).resend();
        let given = stage.labels(1);
        stage.copy(2, given);
        (1..=3).for_each(|number| stage.end_copy(number));
        stage.settle();
        assert!(!stage.node(1).view().is_moving());

        stage.restart(2);
        stage.settle();
        stage.commit(1, older);
        stage.settle();
        assert_eq!(stage.node(1).latest_committed(), again);
        stage.node(2).latest_committed() == again
    });
}

/// Two nodes, to which readers come with ages of rows, and two loads that are decided and in files everywhere.
fn two_loads(rules: Rules) -> (Stage, Epoch, Epoch) {
    let mut stage = Stage::new(2, rules);
    (1..=2).for_each(|number| stage.node(number).expect_ages());
    let [first, second] = [(); 2].map(|()| {
        let load = stage.load(1);
        stage.settle();
        stage.commit(1, load);
        stage.settle();
        load
    });
    for number in [1, 2] {
        stage.node(number).flushed(second);
    }
    (stage, first, second)
}

/// Both nodes say how old the rows are that somebody may still read there.
fn note_oldest_age(stage: &mut Stage, age: Epoch) {
    for number in [1, 2] {
        stage.node(number).note_oldest_age(age);
        stage.node(number).resend();
        stage.pump(number);
    }
    stage.settle();
}

/// Rows that can still be read name the first load and not the second one.
#[test]
fn what_rows_name_is_kept_as_long_as_somebody_may_read_them() {
    needs(Rule::SafeWaitsForAges, |rules| {
        let (mut stage, first, _) = two_loads(rules);
        note_oldest_age(&mut stage, first);
        let view = stage.node(1).view().number();
        let shown = stage.node(2).read_only_at(first);
        shown.is_ok_and(|(_, seen)| stage.node(1).may_read(view, BRICK, &seen).is_ok())
    });
}

#[test]
fn rows_that_nobody_can_read_any_more_hold_nothing_back() {
    let (mut stage, first, second) = two_loads(Rules::ALL);
    stage.node(1).resend();
    assert_eq!(stage.node(1).latest_safe(), Epoch::ZERO, "nobody has said how old they are");
    note_oldest_age(&mut stage, second);
    assert_eq!(stage.node(1).latest_safe(), second);
    // Somebody errs, and is told so.
    assert_eq!(stage.node(1).read_only_at(first), Err(NodeError::BelowSafe));
}

/// n3 dies with a load open. n1 knows that it is rolled back and shows a later one, which rows name then. n2 has not followed that
/// record yet, and has the rows.
#[test]
fn what_rows_name_is_shown_by_who_knows_that_it_has_ended() {
    needs(Rule::AgesThatHaveEnded, |rules| {
        let mut stage = Stage::new(3, rules);
        let left = stage.load(3);
        stage.deliver(&[1, 2, 3]);
        let later = stage.load(1);
        stage.deliver(&[1, 2, 3]);
        stage.commit(1, later);
        stage.deliver(&[1, 2, 3]);
        stage.remove(3);
        (1..=2).for_each(|number| stage.follow(number));
        stage.tell_keeper();
        stage.follow(1);
        assert!(left < later && stage.node(1).latest_committed() == later);
        let shown = stage.node(2).read_only_at(later);
        shown.is_err() || !stage.labels(2).contains(&left)
    });
}

/// To break it: have `resend_old` ask all again. Or nothing, then what was lost stays lost.
#[test]
fn rows_that_were_just_sent_are_not_sent_again_by_the_clock() {
    let mut stage = Stage::new(2, Rules::ALL);
    let _load = stage.load(1);
    let sent_again = |stage: &mut Stage| {
        stage.network.clear();
        stage.node(1).resend_old();
        stage.pump(1);
        let is_append = |message: &&Message<()>| matches!(message.body, Body::Append { .. });
        stage.network.iter().filter(is_append).count()
    };
    assert_eq!(sent_again(&mut stage), 0);
    assert_eq!(sent_again(&mut stage), 2, "to each holder");
    stage.deliver(&[1, 2]);
    assert_eq!(sent_again(&mut stage), 0, "all have answered");
}

/// Bricks are on one node each, by turns.
struct ByTurns;

impl Placement for ByTurns {
    fn holders(&self, nodes: &[NodeId], brick: BrickAddress) -> Vec<NodeId> {
        vec![nodes[brick.brick as usize % nodes.len()]]
    }
}

/// To break it: have `places_of` give the holders of one brick for all. Rows would be added together that belong to different nodes.
#[test]
fn a_transaction_says_where_rows_of_each_brick_go() {
    let member = |node| Member { node: NodeId::new(node), incarnation: Incarnation::new(1) };
    let (_, record) = ViewKeeper::found(&[member(1), member(2)], 1);
    let mut node = ClusterNode::<(), ByTurns>::new(member(1), Stride::new(1, 2), ByTurns);
    node.follow(&record);
    let epoch = node.begin().unwrap();
    let bricks: Vec<BrickAddress> = (0..4).map(|brick| BrickAddress { table: 1, brick }).collect();
    let places = node.places_of(epoch, bricks.iter().copied()).unwrap();
    assert_eq!(places, [1, 2, 1, 2].map(|node| [NodeId::new(node)]));
    for (brick, places) in bricks.into_iter().zip(places) {
        drop(node.take_effects());
        node.append(epoch, brick, ()).unwrap();
        let asked = node.take_effects().into_iter().filter_map(|effect| match effect {
            Effect::Send(Message { to, body: Body::Append { .. }, .. }) => Some(to.node),
            _ => None,
        });
        assert_eq!(asked.collect::<Vec<NodeId>>(), places);
    }
    node.roll_back(epoch).unwrap();
    assert_eq!(node.places_of(epoch, []), Err(NodeError::Over));
}

/// To break it: have `places_of` go by the view that the node is in by now. Rows would be added together that go to different nodes.
#[test]
fn rows_go_to_the_same_nodes_as_long_as_their_transaction_is_open() {
    let member = |node| Member { node: NodeId::new(node), incarnation: Incarnation::new(1) };
    let (mut keeper, record) = ViewKeeper::found(&[member(1), member(2)], 1);
    let mut node = ClusterNode::<(), ByTurns>::new(member(1), Stride::new(1, 3), ByTurns);
    node.follow(&record);
    let epoch = node.begin().unwrap();
    let bricks: Vec<BrickAddress> = (0..4).map(|brick| BrickAddress { table: 1, brick }).collect();
    let places = node.places_of(epoch, bricks.iter().copied()).unwrap();
    let join = ToKeeper::Join { member: member(3), log_since: Incarnation::new(1) };
    node.follow(&keeper.receive(&join).unwrap());
    assert_eq!(node.places_of(epoch, bricks.iter().copied()), Ok(places.clone()));
    let later = node.begin().unwrap();
    assert_ne!(node.places_of(later, bricks.iter().copied()), Ok(places), "some bricks are on their way");
}

/// More rows may come of what has not ended.
#[test]
fn files_of_what_has_not_ended_do_not_count() {
    let mut stage = Stage::new(1, Rules::ALL);
    stage.node(1).flushed(Epoch::new(100));
    let load = stage.load(1);
    stage.settle();
    stage.commit(1, load);
    stage.settle();
    stage.node(1).resend();
    assert_eq!(stage.node(1).latest_committed(), load);
    assert_eq!(stage.node(1).latest_safe(), Epoch::ZERO);
}

/// n1 dies when all have logged its load. The rows that are one transaction with it are not there, and will not come.
#[test]
fn a_load_is_rolled_back_without_the_rows_that_it_is_one_transaction_with() {
    needs(Rule::RowsDecide, |rules| {
        let mut stage = Stage::new(2, rules);
        let load = stage.prepared(1);
        stage.lose_first(load, RowsFate::RolledBack);
        !stage.labels(2).contains(&load)
    });
}

/// The same, but the rows are there.
#[test]
fn a_load_is_committed_with_the_rows_that_it_is_one_transaction_with() {
    let mut stage = Stage::new(2, Rules::ALL);
    let load = stage.prepared(1);
    assert_eq!(stage.node(1).name(load), Ok(Some(load)));
    stage.lose_first(load, RowsFate::Committed);
    assert_eq!(stage.node(2).latest_committed(), load);
    assert_eq!(stage.labels(2), [load]);
    assert_eq!(stage.node(1).decide(load), Ok(()), "n1 does not know that it is out of the view");
}

/// n2 has a load open. Rows that name one of n1, which began behind that, would have all their readers wait for n2.
#[test]
fn rows_name_a_load_when_all_before_it_has_ended() {
    needs(Rule::NamedBehindAll, |rules| {
        let mut stage = Stage::new(2, rules);
        let older = stage.load(2);
        stage.deliver_all();
        let load = stage.prepared(1);
        assert!(older < load);
        let early = stage.node(1).name(load).unwrap();
        if early.is_none() {
            stage.commit(2, older);
            stage.deliver_all();
            assert_eq!(stage.node(1).name(load), Ok(Some(load)));
        }
        stage.decide(1, load);
        stage.node(2).read_only_at(load).is_ok()
    });
}

/// A delete begins when rows may have named a load, so that readers who have these rows see the load and not the delete: it sees the
/// load.
#[test]
fn a_delete_sees_a_load_that_rows_have_named() {
    needs(Rule::DeletesWaitForRows, |rules| {
        let mut stage = Stage::new(2, rules);
        let load = stage.prepared(1);
        assert_eq!(stage.node(1).name(load), Ok(Some(load)));
        let delete = stage.node(1).begin_delete().unwrap();
        stage.pump(1);
        stage.deliver_all();
        let early = stage.node(1).snapshot_of(delete);
        stage.decide(1, load);
        stage.node(1).resend();
        stage.pump(1);
        stage.deliver_all();
        early.or(stage.node(1).snapshot_of(delete)).unwrap().contains(load)
    });
}

/// A delete does not see a load that began before it and is open. Readers with the load have the delete, too: so rows name that.
#[test]
fn rows_name_the_delete_that_does_not_see_their_load() {
    let mut stage = Stage::new(2, Rules::ALL);
    let load = stage.load(1);
    stage.deliver_all();
    let delete = stage.node(1).begin_delete().unwrap();
    stage.pump(1);
    stage.deliver_all();
    stage.node(1).prepare(load).unwrap();
    stage.pump(1);
    stage.deliver_all();
    assert_eq!(stage.node(1).name(load), Ok(None), "the delete is open");
    stage.node(1).append(delete, BRICK, ()).unwrap();
    stage.pump(1);
    stage.deliver_all();
    stage.commit(1, delete);
    stage.deliver_all();
    assert_eq!(stage.node(1).name(load), Ok(Some(delete)));
    stage.decide(1, load);
    assert_eq!([1, 2].map(|number| stage.node(number).newest_shown()), [delete; 2]);
    assert!(stage.node(2).read_only_at(delete).is_ok());
}

/// What is not named yet, or is, may be rolled back as long as its rows are not there; behind that it is over.
#[test]
fn a_load_is_rolled_back_when_its_rows_fail() {
    for names in [false, true] {
        let mut stage = Stage::new(2, Rules::ALL);
        let load = stage.prepared(1);
        if names {
            assert_eq!(stage.node(1).name(load), Ok(Some(load)));
        }
        stage.node(1).roll_back(load).unwrap();
        stage.pump(1);
        stage.deliver_all();
        assert!([1, 2].iter().all(|number| stage.labels(*number).is_empty()));
        assert_eq!(stage.node(1).name(load), Err(NodeError::Over));
        assert_eq!(stage.node(1).decide(load), Err(NodeError::Over));
    }
}
