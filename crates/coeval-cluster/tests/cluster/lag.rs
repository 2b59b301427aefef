// SPDX-License-Identifier: Apache-2.0
//! How far what readers see is behind what has been decided.

use crate::loading::Loading;
use crate::nodes::{Cluster, wait_until};
use crate::sums::check;
use coeval_cluster::{Node, NodeId, Snapshot};
use std::time::Duration;
use tokio::time::timeout;

/// A new snapshot of a node. It waits for no load and for no other node: one that does gets none in this time where a load does not end.
fn snapshot(cluster: &Cluster, node: &Node) -> Snapshot {
    let given = cluster.runtime.block_on(async { timeout(Duration::from_secs(15), node.snapshot()).await });
    given.expect("a snapshot is given at once").unwrap()
}

/// Waits until all that is acknowledged by now is in a new snapshot of each of these nodes. Loads go on meanwhile: where each
/// snapshot lacks what the loads of its time wait for, this never comes.
fn follow(loading: &Loading, cluster: &Cluster, nodes: &[Node]) {
    let acknowledged = loading.acknowledged();
    for node in nodes {
        wait_until("a snapshot has what was decided", || {
            let snapshot = snapshot(cluster, node);
            acknowledged.iter().all(|(epoch, _)| snapshot.epochs().contains(*epoch))
        });
    }
}

/// With loads from all nodes that never cease, no node falls behind.
#[test]
fn snapshots_follow_what_is_decided() {
    let cluster = Cluster::start_patient(3, 2);
    let mut loading = Loading::start(&cluster, &[1, 2, 3, 1, 2, 3]);
    for _ in 0..20 {
        let count = loading.count();
        wait_until("loads run", || loading.count() >= count + 5);
        follow(&loading, &cluster, &cluster.running());
    }
    let acknowledged: Vec<u64> = loading.stop(&cluster).iter().map(|(_, number)| *number).collect();
    check(&cluster, &acknowledged);
}

/// A node is stalled: what it has under way holds LCE until the view is without it. Meanwhile the others give
/// snapshots at once, and then these go on. When it comes back, it follows too.
#[test]
fn a_stalled_node_holds_snapshots_until_the_view_is_without_it() {
    let cluster = Cluster::start(3, 2);
    let mut loading = Loading::start(&cluster, &[1, 2, 3]);
    wait_until("loads run", || loading.count() > 10);
    cluster.proxy(3).stall();
    let others = [cluster.node(1).clone(), cluster.node(2).clone()];
    let is_member =
        |node: &Node| node.status().unwrap().members.iter().any(|member| member.node == NodeId::new(3));
    wait_until("the view is without it", || {
        others.iter().for_each(|node| drop(snapshot(&cluster, node)));
        !others.iter().any(is_member)
    });
    let latest = || others.each_ref().map(|node| node.status().unwrap().latest_committed);
    let before = latest();
    wait_until("snapshots go on", || latest().iter().zip(before).all(|(now, before)| *now > before));
    follow(&loading, &cluster, &others);
    cluster.proxy(3).go_on();
    cluster.proxy(3).cut();
    cluster.settle();
    follow(&loading, &cluster, &cluster.running());
    let acknowledged: Vec<u64> = loading.stop(&cluster).iter().map(|(_, number)| *number).collect();
    check(&cluster, &acknowledged);
}
