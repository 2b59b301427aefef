// SPDX-License-Identifier: Apache-2.0
//! Stories that chance tells too rarely, each with its rule and without.

use crate::epochs::cluster::rules::{Rule, Rules};
use crate::epochs::cluster::{
    BrickAddress, ClusterNode, Effect, Incarnation, LogRecord, Member, Message, NodeId, Placement, ToKeeper,
    ViewKeeper, ViewRecord,
};
use crate::epochs::{Epoch, Stride};

/// Every node has every brick.
#[derive(Clone, Copy)]
struct Everywhere;

impl Placement for Everywhere {
    fn holders(&self, nodes: &[NodeId], _: BrickAddress) -> Vec<NodeId> {
        nodes.to_vec()
    }
}

const BRICK: BrickAddress = BrickAddress { table: 1, brick: 1 };

type Node = ClusterNode<(), Everywhere>;

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
}

/// Whether a story ends well: with all rules, and without one.
fn needs(rule: Rule, ends_well: impl Fn(Rules) -> bool) {
    assert!(ends_well(Rules::ALL), "with all rules");
    assert!(!ends_well(Rules::without(rule)), "without {rule:?}");
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
