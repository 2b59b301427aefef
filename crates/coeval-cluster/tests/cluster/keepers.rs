// SPDX-License-Identifier: Apache-2.0
//! The keeper of the views comes, goes, and comes back.

use crate::nodes::{Cluster, SILENCE, wait_until};
use crate::sums::{Traffic, check, load, loads, seen};
use coeval_cluster::{ChangeNodesError, Founding, NodeId, RecoverError, StartError};
use std::time::Duration;

#[test]
fn loads_go_on_without_a_keeper_until_a_member_goes() {
    let mut cluster = Cluster::start(3, 2);
    let traffic = Traffic::start(&cluster, &[1, 2]);
    cluster.node(1).stop_keeper();
    let alone = cluster.runtime.block_on(load(cluster.node(3))).unwrap();
    cluster.crash(3);
    std::thread::sleep(SILENCE * 2);
    assert_eq!(cluster.status(1).unwrap().members.len(), 3, "views stand still");
    wait_until("loads wait for who is gone", || cluster.status(1).unwrap().open_loads > 0);
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

/// What becomes of the cluster when nodes are lost for good, as whoever runs it says to the keeper beside node 2.
fn recover(cluster: &Cluster, lost: &[u32]) -> Result<(), ChangeNodesError> {
    let lost = lost.iter().copied().map(NodeId::new).collect();
    cluster.runtime.block_on(cluster.node(2).recover(lost))
}

/// The machine of the primary is lost, after it has gone on alone for a while; and is back after all. To break it: have `Engine::receive` look
/// at nobody who is given up, and `hear_alive` at no term: the first node stays then, with a load that the other one does not have.
#[test]
fn the_node_that_is_left_goes_on_and_the_one_that_was_lost_is_refused() {
    let mut cluster = Cluster::start(2, 2);
    let before = loads(&cluster, 10);
    cluster.crash(2);
    cluster.goes_on_with(1);
    let given_up = cluster.runtime.block_on(load(cluster.node(1))).unwrap();
    cluster.crash(1);
    cluster.begin(2);
    let nobody = recover(&cluster, &[1]);
    assert_eq!(nobody, Err(ChangeNodesError::NoKeeper), "a keeper is beside the primary");
    cluster.runtime.block_on(cluster.node(2).start_keeper(Founding::GoOn, 2)).unwrap();
    let refused = |error| Err(ChangeNodesError::NotRecovered(error));
    wait_until("it has heard itself", || {
        recover(&cluster, &[2]) == refused(RecoverError::Lives(NodeId::new(2)))
    });
    assert_eq!(recover(&cluster, &[7]), refused(RecoverError::Unknown(NodeId::new(7))));
    recover(&cluster, &[1]).unwrap();
    recover(&cluster, &[1]).unwrap();
    assert_eq!(recover(&cluster, &[2]), refused(RecoverError::Begun));
    cluster.settle();
    let status = cluster.status(2).unwrap();
    assert!(status.removed.contains(&NodeId::new(1)) && status.keeper == NodeId::new(2));
    let mut acknowledged = before;
    acknowledged.push(cluster.runtime.block_on(load(cluster.node(2))).unwrap());
    check(&cluster, &acknowledged);
    let shown = cluster.runtime.block_on(seen(cluster.node(2)));
    assert!(!shown.contains(&given_up), "it was decided where nobody else was");
    // It has views that nobody else has, and is told so.
    cluster.begin(1);
    let ended = cluster
        .runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(20), cluster.node(1).ended()).await });
    assert!(matches!(ended, Ok(StartError::Removed(node)) if node == NodeId::new(1)), "{ended:?}");
    cluster.crash(1);
    let joiner = cluster.joiner();
    assert_eq!(cluster.join(vec![joiner], &[2]), [3]);
    check(&cluster, &acknowledged);
}

/// Three nodes, of which two are to answer. To break it: have `NextKeeper::begin_without` take `Rule::HearsAllLeft` for broken.
#[test]
fn nobody_goes_on_before_all_others_have_answered() {
    let mut cluster = Cluster::start(3, 2);
    let before = loads(&cluster, 10);
    (1..=3).for_each(|number| cluster.crash(number));
    cluster.begin(2);
    cluster.runtime.block_on(cluster.node(2).start_keeper(Founding::GoOn, 2)).unwrap();
    let refused = |error| Err(ChangeNodesError::NotRecovered(error));
    wait_until("the third node may have seen more", || {
        recover(&cluster, &[1]) == refused(RecoverError::Unheard(vec![NodeId::new(3)]))
    });
    assert_eq!(recover(&cluster, &[1, 3]), refused(RecoverError::LastReplica));
    cluster.begin(3);
    wait_until("the view goes on without the first one", || {
        cluster.status(2).is_some_and(|status| status.members.len() == 2)
    });
    cluster.settle();
    check(&cluster, &before);
}

/// Four nodes with three replicas. The only other one that is left has answered, and is gone before it holds anything. To break it: have
/// `Node::recover` wait as long as it takes, or `Keeping::recover` tell who asks again that nothing has to be given up.
#[test]
fn nobody_waits_for_ever_for_those_that_are_left() {
    let mut cluster = Cluster::start_with(4, 3, Duration::from_secs(2));
    let before = loads(&cluster, 10);
    (1..=4).for_each(|number| cluster.crash(number));
    cluster.begin(2);
    cluster.begin(4);
    cluster.runtime.block_on(cluster.node(2).start_keeper(Founding::GoOn, 2)).unwrap();
    let third = RecoverError::Unheard(vec![NodeId::new(3)]);
    wait_until("the fourth node has answered", || {
        recover(&cluster, &[1]) == Err(ChangeNodesError::NotRecovered(third.clone()))
    });
    cluster.crash(4);
    for _ in 0..2 {
        let asked = recover(&cluster, &[1, 3]);
        assert!(matches!(asked, Err(ChangeNodesError::NotSettled { .. })), "{asked:?}");
    }
    cluster.begin(4);
    cluster.settle();
    assert_eq!(recover(&cluster, &[1, 3]), Ok(()));
    check(&cluster, &before);
}

/// The keeper lives, and cannot have anything held by enough nodes. To break it: have `Node::change` wait as long as it takes.
#[test]
fn nobody_waits_for_ever_for_what_too_few_nodes_hold() {
    let mut cluster = Cluster::start_with(3, 2, Duration::from_secs(2));
    cluster.crash(2);
    cluster.crash(3);
    // Once it has recorded that one of them is gone, it is the only one that holds that.
    wait_until("nothing is settled any more", || {
        let asked = cluster.runtime.block_on(cluster.node(1).drain(NodeId::new(9)));
        matches!(asked, Err(ChangeNodesError::NotSettled { .. }))
    });
    cluster.begin(2);
    cluster.begin(3);
    cluster.settle();
    let asked = cluster.runtime.block_on(cluster.node(1).drain(NodeId::new(9)));
    assert!(matches!(asked, Err(ChangeNodesError::Refused(_))), "{asked:?}");
    check(&cluster, &[]);
}
