// SPDX-License-Identifier: Apache-2.0
//! What the paper says, to the letter: Table IV, and the cases of IV-B and IV-C.

use super::{BRICK, Everywhere, Node};
use crate::epochs::cluster::{Body, Effect, Incarnation, Member, Message, NodeId, ViewKeeper};
use crate::epochs::{Epoch, EpochSet, Stride};

/// `count` founders, none of which has done anything yet.
fn founders(count: u32) -> Vec<Node> {
    let member = |node| Member { node: NodeId::new(node), incarnation: Incarnation::new(1) };
    let members: Vec<Member> = (1..=count).map(member).collect();
    let (_, record) = ViewKeeper::found(&members, 1);
    let start = |member: &Member| {
        let mut node = Node::new(*member, Stride::new(member.node.get(), count), Everywhere);
        node.follow(&record);
        let _ = node.take_effects();
        node
    };
    members.iter().map(start).collect()
}

fn clocks(nodes: &[Node]) -> Vec<u64> {
    nodes.iter().map(|node| node.next_epoch().get()).collect()
}

/// What a node sends next.
fn sent(node: &mut Node) -> Vec<Message<()>> {
    let message = |effect| match effect {
        Effect::Send(message) | Effect::SendOnceLogged(message) => Some(message),
        _ => None,
    };
    node.take_effects().into_iter().filter_map(message).collect()
}

/// Delivers messages, and gives the answers.
fn deliver(nodes: &mut [Node], messages: Vec<Message<()>>) -> Vec<Message<()>> {
    let mut answers = Vec::new();
    for message in messages {
        let node = &mut nodes[message.to.node.get() as usize - 1];
        node.receive(message);
        answers.extend(sent(node));
    }
    answers
}

#[test]
fn table_four_of_the_paper_is_reproduced() {
    let mut nodes = founders(3);
    assert_eq!(clocks(&nodes), [1, 2, 3]);

    let first = nodes[0].begin().unwrap();
    assert_eq!((first.get(), clocks(&nodes)), (1, vec![4, 2, 3]), "create(n1) -> T1");

    nodes[0].append(first, BRICK, ()).unwrap();
    let append = sent(&mut nodes[0]);
    let answers = deliver(&mut nodes, append);
    assert_eq!(clocks(&nodes), [4, 5, 6], "append(T1), the answers still under way");

    assert_eq!((nodes[2].begin().unwrap().get(), clocks(&nodes)), (6, vec![4, 5, 9]), "create(n3) -> T6");
    assert_eq!(
        (nodes[1].begin().unwrap().get(), clocks(&nodes)),
        (5, vec![4, 8, 9]),
        "create(n2) -> T5, after T6"
    );
    let _ = (sent(&mut nodes[1]), sent(&mut nodes[2]));

    deliver(&mut nodes, answers);
    nodes[0].commit(first).unwrap();
    let commit = sent(&mut nodes[0]);
    let answers = deliver(&mut nodes, commit);
    let decided = deliver(&mut nodes, answers);
    assert_eq!(clocks(&nodes), [10, 8, 9], "commit(T1)");
    // Ours: one more message, by which the others know that it is decided.
    assert!(decided.iter().all(|message| matches!(message.body, Body::Decided(_))), "{decided:?}");
    assert_eq!(nodes.iter().map(|node| node.latest_committed().get()).collect::<Vec<_>>(), [1, 0, 0]);
    deliver(&mut nodes, decided);
    assert_eq!(nodes.iter().map(|node| node.latest_committed().get()).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn a_transaction_that_reads_first_waits_for_all_answers() {
    let mut nodes = founders(2);
    let transaction = nodes[0].begin().unwrap();
    assert_eq!(nodes[0].snapshot_of(transaction), None);
    let begin = sent(&mut nodes[0]);
    let answers = deliver(&mut nodes, begin);
    deliver(&mut nodes, answers);
    assert_eq!(nodes[0].snapshot_of(transaction), Some(EpochSet::none()));
}

/// The write skew of AOSI IV-B: neither of two concurrent loads sees the other. Snapshot isolation allows it.
#[test]
fn two_concurrent_loads_do_not_see_each_other() {
    let mut nodes = founders(2);
    let (one, other) = (nodes[0].begin().unwrap(), nodes[1].begin().unwrap());
    let begins = [sent(&mut nodes[0]), sent(&mut nodes[1])].concat();
    let answers = deliver(&mut nodes, begins);
    deliver(&mut nodes, answers);
    assert!(!nodes[0].snapshot_of(one).unwrap().contains(other));
    assert!(!nodes[1].snapshot_of(other).unwrap().contains(one));
}

/// The five cases of AOSI IV-C, for T11 of the second of three nodes.
#[test]
fn the_five_cases_of_the_paper_are_told_apart() {
    let mut nodes = founders(3);
    let committed = nodes[2].begin().unwrap();
    nodes[2].append(committed, BRICK, ()).unwrap();
    nodes[2].commit(committed).unwrap();
    let mut messages = sent(&mut nodes[2]);
    while !messages.iter().any(|message| matches!(message.body, Body::Decided(_))) {
        messages = deliver(&mut nodes, messages);
    }
    // Only its own node knows yet that it is decided.

    let pending = nodes[0].begin().unwrap();
    let own = nodes[1].begin().unwrap();
    let later = nodes[2].begin().unwrap();
    assert_eq!([committed, pending, own, later].map(Epoch::get), [3, 10, 11, 12]);
    let begin = sent(&mut nodes[1]);
    let answers = deliver(&mut nodes, begin);
    deliver(&mut nodes, answers);

    let snapshot = nodes[1].snapshot_of(own).unwrap();
    assert!(snapshot.contains(committed), "committed on one node, and smaller");
    assert!(!snapshot.contains(pending), "pending on one node, and smaller");
    assert!(!snapshot.contains(later), "greater, whatever becomes of it");
    assert!(nodes.iter_mut().all(|node| node.begin().unwrap() > own), "begun afterwards: greater");
}
