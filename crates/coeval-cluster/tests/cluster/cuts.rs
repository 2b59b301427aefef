// SPDX-License-Identifier: Apache-2.0
//! A node that is cut off and comes back.

use crate::nodes::{Cluster, Waits, wait_until};
use crate::sums::{Traffic, check, load};
use coeval_txn::cluster::NodeId;
use std::time::Duration;

fn is_member(cluster: &Cluster, asked: u32, node: u32) -> bool {
    let status = cluster.status(asked);
    status.is_some_and(|status| status.members.iter().any(|member| member.node == NodeId::new(node)))
}

/// Nothing reaches node 3, and what it says reaches all. The others go on without it; it learns so and comes back with all.
#[test]
fn a_node_that_nothing_reaches_leaves_the_view_and_comes_back() {
    let cluster = Cluster::start(3, 2);
    let life = cluster.status(3).unwrap().member;
    let traffic = Traffic::start(&cluster, &[1, 2, 3]);
    traffic.go_on();
    cluster.proxy(3).stall();
    wait_until("the view goes on without it", || !is_member(&cluster, 1, 3) && !is_member(&cluster, 2, 3));
    let alone = cluster.runtime.block_on(load(cluster.node(2))).unwrap();
    cluster.proxy(3).go_on();
    cluster.proxy(3).cut();
    cluster.settle();
    traffic.go_on();
    let (mut acknowledged, reads) = traffic.stop(&cluster);
    acknowledged.push(alone);
    assert!(reads > 0);
    assert!(cluster.status(3).unwrap().member > life, "it has begun another life");
    check(&cluster, &acknowledged);
}

/// Connections are cut now and then: messages are lost and asked for again, and nobody leaves the view.
#[test]
fn cut_connections_lose_nothing() {
    let cluster = Cluster::start_waiting(3, 2, Waits::long().asking_again_soon());
    let view = cluster.status(1).unwrap().view;
    let traffic = Traffic::start(&cluster, &[1, 2, 3]);
    for round in 0..12 {
        std::thread::sleep(Duration::from_millis(60));
        traffic.has_had(round as usize + 1, 0);
        cluster.proxy(round % 3 + 1).cut();
    }
    traffic.go_on();
    let (acknowledged, _) = traffic.stop(&cluster);
    check(&cluster, &acknowledged);
    assert_eq!(cluster.status(1).unwrap().view, view, "nobody was silent");
}
