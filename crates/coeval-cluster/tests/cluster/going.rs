// SPDX-License-Identifier: Apache-2.0
//! Nodes that are drained, and nodes that are out for good.

use crate::nodes::{Cluster, wait_until};
use crate::rows::{BRICKS, brick};
use crate::sums::{Traffic, check, loads};
use coeval_cluster::{ChangeError, ChangeNodesError, JoinError, NodeId, StartError};
use std::time::Duration;

const ONE: NodeId = NodeId::new(1);
const TWO: NodeId = NodeId::new(2);
const THREE: NodeId = NodeId::new(3);

fn drain(cluster: &Cluster, number: u32, node: NodeId) -> Result<(), ChangeNodesError> {
    cluster.runtime.block_on(cluster.node(number).drain(node))
}

fn remove(cluster: &Cluster, number: u32, node: NodeId) -> Result<(), ChangeNodesError> {
    cluster.runtime.block_on(cluster.node(number).remove(node))
}

/// Waits until a node has ended, and says why.
fn end_of(cluster: &Cluster, number: u32) -> StartError {
    let ended = cluster.runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(20), cluster.node(number).ended()).await
    });
    ended.unwrap()
}

fn too_few(node: NodeId) -> ChangeNodesError {
    ChangeNodesError::Refused(ChangeError::TooFew { node, left: 1, replicas: 2 })
}

#[test]
fn a_drained_node_has_no_bricks_and_may_be_stopped() {
    let mut cluster = Cluster::start(3, 2);
    let before = loads(&cluster, 20);
    let traffic = Traffic::start(&cluster, &[1, 2]);
    traffic.go_on();
    let elsewhere = drain(&cluster, 2, THREE).unwrap_err();
    assert!(elsewhere.to_string().contains(&cluster.address(1).to_string()), "{elsewhere}");
    drain(&cluster, 1, THREE).unwrap();
    drain(&cluster, 1, THREE).unwrap();
    for number in 1..=3 {
        wait_until("its bricks are elsewhere", || {
            let status = cluster.status(number).unwrap();
            status.drained.contains(&THREE) && !status.is_moving && !status.placed.contains_key(&THREE)
        });
    }
    let holders = |number| cluster.node(1).holders(brick(number)).unwrap();
    assert!((0..BRICKS).all(|number| holders(number) == [ONE, TWO] || holders(number) == [TWO, ONE]));
    traffic.go_on();
    assert_eq!(drain(&cluster, 1, TWO), Err(too_few(TWO)));
    cluster.crash(3);
    cluster.goes_on_with(2);
    let (mut acknowledged, _) = traffic.stop(&cluster);
    acknowledged.extend(before);
    check(&cluster, &acknowledged);
    let gone = drain(&cluster, 1, THREE);
    assert_eq!(gone, Err(ChangeNodesError::Refused(ChangeError::NotLive(THREE))));
}

#[test]
fn a_node_that_was_removed_is_told_so_when_it_comes_back() {
    let mut cluster = Cluster::start(3, 2);
    let before = loads(&cluster, 30);
    cluster.crash(3);
    cluster.goes_on_with(2);
    cluster.settle();
    assert_eq!(remove(&cluster, 1, ONE), Err(ChangeNodesError::HasKeeper(ONE)));
    assert_eq!(remove(&cluster, 1, TWO), Err(too_few(TWO)));
    remove(&cluster, 1, THREE).unwrap();
    remove(&cluster, 1, THREE).unwrap();
    // Nodes hear of it a moment later.
    wait_until("the others know that it is out", || {
        [1, 2].into_iter().all(|number| cluster.status(number).unwrap().removed.contains(&THREE))
    });
    let view = cluster.status(1).unwrap().view;
    cluster.begin(3);
    let end = end_of(&cluster, 3);
    assert!(matches!(end, StartError::Removed(THREE)), "{end}");
    let serves = cluster.runtime.block_on(cluster.node(3).serves());
    assert!(matches!(serves, Err(StartError::Removed(THREE))), "{serves:?}");
    cluster.crash(3);
    assert_eq!(cluster.status(1).unwrap().view, view, "nobody else has noticed");
    check(&cluster, &before);
    // Another one gets another number.
    let joiner = cluster.joiner();
    assert_eq!(cluster.join(vec![joiner], &[2]), [4]);
    check(&cluster, &before);
}

#[test]
fn a_node_that_lives_is_told_that_it_was_removed() {
    let mut cluster = Cluster::start(2, 2);
    let joiner = cluster.joiner();
    cluster.join(vec![joiner], &[1]);
    cluster.settle();
    let before = loads(&cluster, 30);
    let traffic = Traffic::start(&cluster, &[1, 2]);
    remove(&cluster, 1, THREE).unwrap();
    let end = end_of(&cluster, 3);
    assert!(matches!(end, StartError::Removed(THREE)), "{end}");
    cluster.crash(3);
    cluster.settle();
    traffic.go_on();
    let (mut acknowledged, _) = traffic.stop(&cluster);
    acknowledged.extend(before);
    check(&cluster, &acknowledged);
    // It asks again, and whoever it asks says so.
    let again = cluster.begin_again(3);
    assert!(matches!(again, Err(JoinError::Removed(THREE))), "{again:?}");
    assert!(!cluster.status(2).unwrap().nodes.contains_key(&THREE));
}
