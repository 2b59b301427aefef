// SPDX-License-Identifier: Apache-2.0
//! The keeper of the views comes, goes, and comes back.

use crate::nodes::{Cluster, SILENCE, wait_until};
use crate::sums::{Traffic, check, load};
use coeval_cluster::{ChangeNodesError, Founding, NodeId, StartError};
use std::time::Duration;

#[test]
fn loads_go_on_without_a_keeper_until_a_member_goes() {
    let mut cluster = Cluster::start(3, 2);
    let traffic = Traffic::start(&cluster, &[1, 2]);
    cluster.node(1).stop_keeper();
    let alone = cluster.runtime.block_on(load(cluster.node(3))).unwrap();
    cluster.crash(3);
    std::thread::sleep(SILENCE * 2);
    let status = cluster.status(1).unwrap();
    assert_eq!(status.members.len(), 3, "views stand still");
    assert!(status.open_loads > 0, "so loads wait for who is gone");
    cluster.start_keeper(Founding::GoOn);
    cluster.goes_on_with(2);
    cluster.begin(3);
    cluster.settle();
    let (mut acknowledged, _) = traffic.stop(&cluster);
    acknowledged.push(alone);
    check(&cluster, &acknowledged);
}

/// A node that starts while the keeper is away learns the records from the others.
#[test]
fn records_are_to_be_had_from_any_node() {
    let mut cluster = Cluster::start(3, 2);
    cluster.node(1).stop_keeper();
    cluster.crash(2);
    cluster.begin(2);
    let view = cluster.status(3).unwrap().view;
    wait_until("it has followed all records", || cluster.status(2).is_some_and(|status| status.view == view));
    cluster.start_keeper(Founding::GoOn);
    check(&cluster, &[]);
}

#[test]
fn a_cluster_is_founded_once() {
    let cluster = Cluster::start(2, 1);
    let start = |founding| cluster.runtime.block_on(cluster.node(1).start_keeper(founding, 1));
    cluster.node(1).stop_keeper();
    assert!(matches!(start(Founding::Found), Err(StartError::Founded)));
    start(Founding::GoOn).unwrap();
    check(&cluster, &[]);
}

/// The keeper of node 1 runs on, and does not know that there is another one. To break it: have `Frame::Holder` of a newer keeper not reach
/// `KeeperLink::answer`. Node 1 goes on to remove and take in then, and nobody follows.
#[test]
fn the_keeper_is_where_the_newest_primary_is() {
    let mut cluster = Cluster::start(3, 2);
    let traffic = Traffic::start(&cluster, &[2, 3]);
    cluster.move_keeper(2, 2);
    let drained = cluster.runtime.block_on(cluster.node(1).drain(NodeId::new(3)));
    assert!(
        matches!(drained, Err(ChangeNodesError::Elsewhere { keeper, .. }) if keeper == NodeId::new(2)),
        "{drained:?}"
    );
    cluster.crash(1);
    wait_until("the view goes on without it", || {
        cluster.status(2).is_some_and(|status| status.members.len() == 2)
    });
    cluster.begin(1);
    cluster.settle();
    assert_eq!(cluster.status(1).unwrap().keeper, NodeId::new(2));
    let (acknowledged, _) = traffic.stop(&cluster);
    check(&cluster, &acknowledged);
}

/// All that the keeper had is on the other nodes. To break it: have `TermKeeper` settle what its own node holds.
#[test]
fn views_outlive_the_node_of_the_keeper_and_its_disk() {
    let mut cluster = Cluster::start(3, 2);
    let alone = cluster.runtime.block_on(load(cluster.node(1))).unwrap();
    cluster.crash(1);
    cluster.lose_disk(1);
    cluster.move_keeper(3, 2);
    wait_until("the view goes on without it", || {
        cluster.status(2).is_some_and(|status| status.members.len() == 2)
    });
    cluster.begin(1);
    cluster.settle();
    check(&cluster, &[alone]);
}

/// The keeper lives, and cannot have anything held by enough nodes. To break it: have `Node::change` wait as long as it takes.
#[test]
fn nobody_waits_for_ever_for_what_too_few_nodes_hold() {
    let mut cluster = Cluster::start_with(3, 2, Duration::from_secs(2));
    cluster.crash(2);
    cluster.crash(3);
    // By then it has recorded that one of them is gone, and is the only one that holds that.
    std::thread::sleep(SILENCE * 3);
    let asked = cluster.runtime.block_on(cluster.node(1).drain(NodeId::new(9)));
    assert!(matches!(asked, Err(ChangeNodesError::NotSettled { .. })), "{asked:?}");
    cluster.begin(2);
    cluster.begin(3);
    cluster.settle();
    let asked = cluster.runtime.block_on(cluster.node(1).drain(NodeId::new(9)));
    assert!(matches!(asked, Err(ChangeNodesError::Refused(_))), "{asked:?}");
    check(&cluster, &[]);
}
