// SPDX-License-Identifier: Apache-2.0
//! How far what readers see is behind what has been decided.

use crate::loading::Loading;
use crate::nodes::{Cluster, SILENCE, wait_until};
use crate::sums::check;
use coeval_cluster::{Node, NodeId};
use std::time::{Duration, Instant};

/// What was acknowledged this long ago is in every new snapshot, if no node is silent. It is for a slow machine: what is told of
/// a decision takes a message, and what it may wait for is a load that began earlier.
const LAG_MAX: Duration = Duration::from_secs(1);

/// For how long something has been acknowledged that a new snapshot of a node does not see.
fn lag(loading: &Loading, cluster: &Cluster, node: &Node) -> Duration {
    let acknowledged = loading.acknowledged();
    let asked = Instant::now();
    let snapshot = cluster.runtime.block_on(node.snapshot()).unwrap();
    assert!(asked.elapsed() < SILENCE / 2, "a snapshot waits for no load and for no other node");
    let unseen = acknowledged.iter().filter(|(_, epoch, _)| !snapshot.epochs().contains(*epoch));
    unseen.map(|(when, ..)| asked.duration_since(*when)).max().unwrap_or_default()
}

/// With loads from all nodes that never cease, no node falls behind.
#[test]
fn snapshots_follow_what_is_decided() {
    let cluster = Cluster::start(3, 2);
    let mut loading = Loading::start(&cluster, &[1, 2, 3, 1, 2, 3]);
    let (begun, mut most) = (Instant::now(), Duration::ZERO);
    while begun.elapsed() < 2 * LAG_MAX {
        for node in cluster.running() {
            most = most.max(lag(&loading, &cluster, &node));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(most < LAG_MAX, "a snapshot lacked what was decided {most:?} before");
    let acknowledged: Vec<u64> = loading.stop(&cluster).iter().map(|(.., number)| *number).collect();
    assert!(acknowledged.len() > 50, "{} loads", acknowledged.len());
    check(&cluster, &acknowledged);
}

/// A node is stalled: what it has under way holds LCE until the view is without it. Meanwhile the others give snapshots at once,
/// and then these go on. When it comes back, it follows too.
#[test]
fn a_stalled_node_holds_snapshots_until_the_view_is_without_it() {
    let cluster = Cluster::start(3, 2);
    let mut loading = Loading::start(&cluster, &[1, 2, 3]);
    wait_until("loads run", || loading.count() > 10);
    cluster.proxy(3).stall();
    let stalled = Instant::now();
    let others = [cluster.node(1).clone(), cluster.node(2).clone()];
    let latest = || others.each_ref().map(|node| node.status().unwrap().latest_committed);
    let is_without =
        |node: &Node| node.status().unwrap().members.iter().all(|member| member.node != NodeId::new(3));
    wait_until("the view is without it", || {
        for node in &others {
            let _ = lag(&loading, &cluster, node);
        }
        others.iter().all(is_without)
    });
    let (left, before) = (stalled.elapsed(), latest());
    assert!(left < 3 * SILENCE, "the view went on after {left:?}");
    wait_until("snapshots go on", || latest().iter().zip(before).all(|(now, before)| *now > before));
    let went_on = stalled.elapsed();
    assert!(went_on < left + LAG_MAX, "they went on after {went_on:?}");
    let until = Instant::now() + LAG_MAX / 2;
    while Instant::now() < until {
        for node in &others {
            let behind = lag(&loading, &cluster, node);
            assert!(behind < LAG_MAX, "{node:?} lacks what was decided {behind:?} before");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    cluster.proxy(3).go_on();
    cluster.proxy(3).cut();
    cluster.settle();
    wait_until("it has what was decided", || lag(&loading, &cluster, cluster.node(3)) < LAG_MAX);
    let acknowledged: Vec<u64> = loading.stop(&cluster).iter().map(|(.., number)| *number).collect();
    check(&cluster, &acknowledged);
}
