// SPDX-License-Identifier: Apache-2.0
//! Which nodes there are: numbers, nodes that are drained, nodes that are out for good.

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::epochs::cluster::{
    AddError, BrickAddress, ChangeError, Incarnation, Member, NodeAsk, NodeId, Placement, StartId, ToKeeper,
    ViewKeeper, ViewRecord,
};

/// A keeper and what it has recorded.
struct Kept {
    keeper: ViewKeeper,
    records: Vec<ViewRecord>,
    replicas: usize,
}

fn member(node: u32, life: u64) -> Member {
    Member { node: NodeId::new(node), incarnation: Incarnation::new(life) }
}

fn ask(start: u64, node: Option<u32>, address: &str) -> NodeAsk {
    let start = StartId::new(NonZeroU64::new(start).unwrap());
    NodeAsk { start, node: node.map(NodeId::new), address: Arc::from(address) }
}

impl Kept {
    fn found(nodes: u32, replicas: usize) -> Self {
        let founders: Vec<Member> = (1..=nodes).map(|node| member(node, 1)).collect();
        let (keeper, record) = ViewKeeper::found(&founders, replicas);
        Self { keeper, records: vec![record], replicas }
    }

    fn add(&mut self, ask: &NodeAsk, stride: u32) -> Result<u32, AddError> {
        let (node, record) = self.keeper.add(ask, stride)?;
        self.records.extend(record);
        Ok(node.get())
    }

    fn tell(&mut self, told: &ToKeeper) {
        self.records.extend(self.keeper.receive(told));
    }

    fn join(&mut self, node: u32, life: u64) {
        let member = member(node, life);
        self.tell(&ToKeeper::Join { member, log_since: member.incarnation });
    }

    /// All live nodes have what comes to them.
    fn complete(&mut self) {
        let (members, layout): (Vec<Member>, _) =
            (self.keeper.view().members().collect(), self.keeper.view().layout());
        members.into_iter().for_each(|from| self.tell(&ToKeeper::Complete { from, layout }));
    }

    fn drain(&mut self, node: u32) -> Result<bool, ChangeError> {
        let record = self.keeper.drain(NodeId::new(node))?;
        self.records.extend(record.clone());
        Ok(record.is_some())
    }

    fn remove(&mut self, node: u32) -> Result<bool, ChangeError> {
        let record = self.keeper.remove_for_good(NodeId::new(node))?;
        self.records.extend(record.clone());
        Ok(record.is_some())
    }

    /// A node does not answer, and the view goes on without it.
    fn lose(&mut self, node: u32) {
        let record = self.keeper.remove(NodeId::new(node)).unwrap();
        self.records.push(record);
    }

    fn placed(&self) -> Vec<u32> {
        self.keeper.view().placed().keys().map(|node| node.get()).collect()
    }

    /// The keeper dies, and another one goes on after its records.
    fn replace(&mut self) {
        let before = self.keeper.view().clone();
        self.keeper = ViewKeeper::recover(&self.records, self.replicas);
        assert_eq!(*self.keeper.view(), before, "all is in the records");
    }
}

/// The holders of a brick are all nodes.
struct All;

impl Placement for All {
    fn holders(&self, nodes: &[NodeId], _: BrickAddress) -> Vec<NodeId> {
        nodes.to_vec()
    }
}

const BRICK: BrickAddress = BrickAddress { table: 1, brick: 1 };

fn numbers(nodes: &[NodeId]) -> Vec<u32> {
    nodes.iter().map(|node| node.get()).collect()
}

#[test]
fn numbers_are_given_once_in_order_and_up_to_the_stride() {
    let mut kept = Kept::found(2, 2);
    assert_eq!(kept.add(&ask(7, None, "a:1"), 4), Ok(3));
    assert_eq!(kept.add(&ask(8, None, "b:1"), 4), Ok(4));
    // The answer was lost: the same node asks again, and a keeper that has taken over knows it.
    assert_eq!(kept.add(&ask(7, None, "a:1"), 4), Ok(3));
    kept.replace();
    let recorded = kept.records.len();
    assert_eq!(kept.add(&ask(8, None, "b:1"), 4), Ok(4));
    assert_eq!(kept.records.len(), recorded, "what was recorded is not recorded again");
    assert_eq!(kept.add(&ask(9, None, "c:1"), 4), Err(AddError::NoNumberLeft(4)));
    // A number is not free because its node is out of the view, or out for good.
    kept.lose(2);
    assert_eq!(kept.add(&ask(9, None, "c:1"), 4), Err(AddError::NoNumberLeft(4)));
    assert_eq!(kept.add(&ask(9, None, "c:1"), 5), Ok(5));
}

#[test]
fn a_node_that_starts_again_has_its_number_and_may_be_elsewhere() {
    let mut kept = Kept::found(1, 1);
    assert_eq!(kept.add(&ask(7, None, "a:1"), 8), Ok(2));
    assert_eq!(kept.add(&ask(7, Some(2), "b:1"), 8), Ok(2));
    kept.replace();
    assert_eq!(&*kept.keeper.view().known()[&NodeId::new(2)].address, "b:1");
    assert_eq!(kept.add(&ask(8, Some(2), "b:1"), 8), Err(AddError::OtherNode(NodeId::new(2))));
    assert_eq!(kept.add(&ask(8, Some(5), "b:1"), 8), Err(AddError::Unknown(NodeId::new(5))));
    // One that was told its number, and asks for the first time.
    assert_eq!(kept.add(&ask(9, Some(1), "c:1"), 8), Ok(1));
    assert_eq!(kept.add(&ask(8, Some(1), "c:1"), 8), Err(AddError::OtherNode(NodeId::new(1))));
}

#[test]
fn what_was_told_of_a_node_does_not_take_away_by_what_it_is_known() {
    let mut kept = Kept::found(1, 1);
    assert!(kept.keeper.know(NodeId::new(1), &Arc::from("a:1")).is_some());
    assert!(kept.keeper.know(NodeId::new(1), &Arc::from("a:1")).is_none());
    let (node, _) = kept.keeper.add(&ask(7, None, "b:1"), 8).unwrap();
    assert!(kept.keeper.know(node, &Arc::from("c:1")).is_some());
    assert_eq!(kept.keeper.add(&ask(7, None, "c:1"), 8), Ok((node, None)));
}

#[test]
fn a_drained_node_serves_until_the_others_have_its_bricks() {
    let mut kept = Kept::found(3, 2);
    assert_eq!(kept.drain(3), Ok(true));
    assert_eq!(kept.drain(3), Ok(false), "it is drained already");
    let view = kept.keeper.view().clone();
    assert!(view.is_moving() && view.is_placed(NodeId::new(3)));
    assert_eq!(numbers(&view.serving(&All, BRICK)), [1, 2, 3]);
    assert_eq!(view.layout(), view.number(), "loads of before end before bricks are copied");
    kept.complete();
    assert_eq!(kept.placed(), [1, 2]);
    let view = kept.keeper.view();
    assert!(!view.is_moving() && view.member(NodeId::new(3)).is_some());
    assert!(view.receiving(&All, BRICK).is_empty(), "nothing comes to it any more");
    // Who comes meanwhile gets bricks, and it does not.
    kept.join(4, 1);
    assert_eq!(numbers(&kept.keeper.view().receiving(&All, BRICK)), [4]);
    kept.complete();
    assert_eq!(kept.placed(), [1, 2, 4]);
    // It may be stopped: nobody else is needed for that.
    kept.lose(3);
    kept.replace();
    assert!(kept.keeper.view().drained().contains(&NodeId::new(3)), "also when it starts again");
}

#[test]
fn a_node_that_was_removed_stays_out_and_its_number_is_used_up() {
    let mut kept = Kept::found(3, 2);
    assert_eq!(kept.remove(3), Ok(true));
    assert_eq!(kept.remove(3), Ok(false), "it is removed already");
    let gone = NodeId::new(3);
    assert!(kept.keeper.view().unclosed().contains_key(&gone), "what it has left is closed as of any other");
    kept.replace();
    kept.join(3, 2);
    assert!(kept.keeper.view().member(gone).is_none());
    assert_eq!(kept.add(&ask(7, Some(3), "a:1"), 8), Err(AddError::Removed(gone)));
    assert_eq!(kept.add(&ask(7, None, "a:1"), 8), Ok(4));
    assert_eq!(kept.drain(3), Err(ChangeError::Removed(gone)));
}

#[test]
fn neither_leaves_fewer_nodes_than_replicas() {
    let too_few = |node, left| ChangeError::TooFew { node: NodeId::new(node), left, replicas: 2 };
    let mut kept = Kept::found(3, 2);
    assert_eq!(kept.drain(1), Ok(true));
    assert_eq!(kept.drain(2), Err(too_few(2, 1)));
    assert_eq!(kept.remove(2), Err(too_few(2, 1)));
    // The drained one is none of those that are left, so it may go once its bricks are elsewhere.
    kept.complete();
    assert_eq!(kept.remove(1), Ok(true));
    assert_eq!(kept.remove(9), Err(ChangeError::Unknown(NodeId::new(9))));
    let mut kept = Kept::found(3, 2);
    kept.lose(3);
    assert_eq!(kept.drain(3), Err(ChangeError::NotLive(NodeId::new(3))));
    // Its bricks are on one node each until others have copies: a second one may not go.
    let mut kept = Kept::found(4, 2);
    kept.lose(4);
    assert_eq!(kept.remove(3), Err(ChangeError::LastReplica(NodeId::new(3))));
    assert_eq!(kept.remove(4), Ok(true), "without its bricks nobody misses it");
}

/// n2 and n3 are to have the bricks of n1, and die before they have them.
#[test]
fn bricks_stay_on_a_drained_node_if_no_other_is_left() {
    let mut kept = Kept::found(1, 2);
    kept.join(2, 1);
    kept.join(3, 1);
    assert_eq!(kept.drain(1), Ok(true));
    assert_eq!(numbers(&kept.keeper.view().receiving(&All, BRICK)), [2, 3]);
    kept.lose(2);
    kept.lose(3);
    let view = kept.keeper.view();
    assert!(!view.is_moving());
    assert_eq!(numbers(&view.serving(&All, BRICK)), [1]);
    kept.join(2, 2);
    assert!(kept.keeper.view().is_moving(), "as soon as somebody else is there, they go there");
}
