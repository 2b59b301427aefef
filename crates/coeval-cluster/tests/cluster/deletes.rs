// SPDX-License-Identifier: Apache-2.0
//! Deletes of bricks, beside loads and readers.

use crate::loading::Loading;
use crate::nodes::{Cluster, wait_until};
use crate::rows::{BRICKS, brick};
use crate::sums::{check, fill, load, seen, seen_at};
use coeval_cluster::{CommitWait, Delete, Epoch, EpochSet, Founding, Load, LoadError, Node, NodeId};
use std::time::Duration;

/// A delete of all bricks that is not committed yet.
async fn delete_all(node: &Node) -> Result<Delete, LoadError> {
    let mut delete = node.begin_delete().await?;
    for number in 0..BRICKS {
        delete.delete(brick(number)).await?;
    }
    Ok(delete)
}

/// A load of node 2 that is filled, and of which node 1 knows.
fn open_load(cluster: &Cluster) -> (Load, u64) {
    let (load, number) = cluster.runtime.block_on(async {
        let mut load = cluster.node(2).begin().await.unwrap();
        let number = fill(&mut load).await.unwrap();
        (load, number)
    });
    let is_known = || cluster.status(1).unwrap().pending.contains(&load.epoch());
    wait_until("node 1 knows of the load", is_known);
    (load, number)
}

fn all_see(cluster: &Cluster, expected: &[u64]) {
    check(cluster, expected);
    for node in cluster.running() {
        assert_eq!(cluster.runtime.block_on(seen(&node)), expected, "{node:?}");
    }
}

/// What was open when the delete began stays; also when purge has dropped what is deleted, and after a crash of all.
#[test]
fn a_delete_takes_what_it_sees_and_nothing_else() {
    let mut cluster = Cluster::start_patient(3, 2);
    cluster.runtime.block_on(load(cluster.node(3))).unwrap();
    let (open, number) = open_load(&cluster);
    let epoch = cluster.runtime.block_on(async {
        let delete = delete_all(cluster.node(1)).await.unwrap();
        assert!(!delete.seen().contains(open.epoch()) && open.epoch() < delete.epoch());
        let epoch = delete.epoch();
        delete.commit(CommitWait::Decided).await.unwrap();
        open.commit(CommitWait::Decided).await.unwrap();
        epoch
    });
    all_see(&cluster, &[number]);
    wait_until("what is deleted is purged", || {
        cluster.running().iter().all(|node| node.status().is_some_and(|status| status.purged >= epoch))
    });
    all_see(&cluster, &[number]);
    (1..=3).for_each(|number| cluster.crash(number));
    (1..=3).for_each(|number| cluster.begin(number));
    cluster.start_keeper(Founding::GoOn);
    all_see(&cluster, &[number]);
}

/// The load was decided after the delete had begun, and the delete does not see it: who sees the load sees the delete too.
#[test]
fn no_snapshot_has_what_an_open_delete_lacks() {
    let cluster = Cluster::start_patient(3, 2);
    let before = cluster.runtime.block_on(load(cluster.node(3))).unwrap();
    let (open, number) = open_load(&cluster);
    let epoch = open.epoch();
    let delete = cluster.runtime.block_on(async {
        let delete = delete_all(cluster.node(1)).await.unwrap();
        open.commit(CommitWait::Decided).await.unwrap();
        delete
    });
    wait_until("the load has committed everywhere", || {
        cluster
            .running()
            .iter()
            .all(|node| node.status().is_some_and(|status| status.latest_committed >= epoch))
    });
    for node in cluster.running() {
        let loads = cluster.runtime.block_on(seen(&node));
        assert!(loads.is_empty() || loads == [before], "{node:?} shows {loads:?}");
    }
    cluster.runtime.block_on(delete.commit(CommitWait::Decided)).unwrap();
    all_see(&cluster, &[number]);
}

#[test]
fn a_delete_that_is_rolled_back_or_dropped_takes_nothing() {
    let cluster = Cluster::start_patient(3, 2);
    let kept = cluster.runtime.block_on(load(cluster.node(2))).unwrap();
    cluster.runtime.block_on(async {
        delete_all(cluster.node(1)).await.unwrap().roll_back().await.unwrap();
        drop(delete_all(cluster.node(1)).await.unwrap());
    });
    all_see(&cluster, &[kept]);
}

#[test]
fn deletes_run_on_one_node_and_one_after_the_other() {
    let cluster = Cluster::start_patient(3, 2);
    cluster.runtime.block_on(async {
        let refused = cluster.node(2).begin_delete().await.map(|delete| delete.epoch());
        let elsewhere = LoadError::NotPrimary { keeper: NodeId::new(1), address: Some(cluster.address(1)) };
        assert_eq!(refused, Err(elsewhere));
        let first = delete_all(cluster.node(1)).await.unwrap();
        let epoch = first.epoch();
        let node = cluster.node(1).clone();
        let second = tokio::spawn(async move { delete_all(&node).await });
        tokio::time::sleep(Duration::from_millis(150)).await;
        assert!(!second.is_finished(), "the second waits");
        first.commit(CommitWait::Decided).await.unwrap();
        let second = second.await.unwrap().unwrap();
        assert!(second.seen().contains(epoch));
        second.commit(CommitWait::Decided).await.unwrap();
    });
    check(&cluster, &[]);
}

/// While one of the holders was away its bricks were deleted, and loaded again.
#[test]
fn a_node_that_was_away_does_not_bring_back_what_was_deleted() {
    let mut cluster = Cluster::start(3, 2);
    cluster.runtime.block_on(load(cluster.node(3))).unwrap();
    cluster.crash(3);
    cluster.goes_on_with(2);
    let kept = cluster.runtime.block_on(async {
        let delete = delete_all(cluster.node(1)).await.unwrap();
        delete.commit(CommitWait::Decided).await.unwrap();
        load(cluster.node(2)).await.unwrap()
    });
    cluster.begin(3);
    cluster.settle();
    all_see(&cluster, &[kept]);
}

/// What a snapshot has: its epochs, and the loads that are read by it.
type Read = (EpochSet, Vec<u64>);

/// Reads on all nodes, as long as something lasts; once in any case.
fn read_while(cluster: &Cluster, reads: &mut Vec<Read>, lasts: impl Fn() -> bool) {
    loop {
        for node in cluster.running() {
            let read = cluster.runtime.block_on(async {
                let snapshot = node.snapshot().await.unwrap();
                (snapshot.epochs().clone(), seen_at(&snapshot).await.unwrap())
            });
            reads.push(read);
        }
        if !lasts() {
            return;
        }
    }
}

/// Beside loads from all nodes: each snapshot has just what its epochs say, and there is a serial order of all.
#[test]
fn deletes_beside_loads_add_up_in_every_snapshot() {
    let cluster = Cluster::start_patient(3, 2);
    let mut loading = Loading::start(&cluster, &[1, 2, 3]);
    let (mut deletes, mut reads): (Vec<(Epoch, EpochSet)>, Vec<Read>) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        let count = loading.count();
        read_while(&cluster, &mut reads, || loading.count() < count + 10);
        let node = cluster.node(1).clone();
        let deleting = cluster.runtime.spawn(async move {
            let delete = delete_all(&node).await.unwrap();
            tokio::time::sleep(Duration::from_millis(30)).await;
            let deleted = (delete.epoch(), delete.seen().clone());
            delete.commit(CommitWait::Decided).await.unwrap();
            deleted
        });
        read_while(&cluster, &mut reads, || !deleting.is_finished());
        deletes.push(cluster.runtime.block_on(deleting).unwrap());
    }
    let acknowledged = loading.stop(&cluster);
    assert!(acknowledged.len() >= 80 && reads.len() > 24, "{} loads", acknowledged.len());
    for (epochs, seen) in &reads {
        let (with, without): (Vec<_>, Vec<_>) =
            deletes.iter().partition(|(delete, _)| epochs.contains(*delete));
        for (label, number) in &acknowledged {
            let is_in = epochs.contains(*label);
            let is_deleted = with.iter().any(|(_, seen)| seen.contains(*label));
            assert_eq!(seen.contains(number), is_in && !is_deleted, "load {label} in {epochs}");
            let circle = without.iter().find(|(_, seen)| is_in && !seen.contains(*label));
            assert_eq!(circle, None, "{epochs} has load {label}");
        }
    }
    let is_kept = |label: Epoch| !deletes.iter().any(|(_, seen)| seen.contains(label));
    let kept = acknowledged.iter().filter(|(label, _)| is_kept(*label));
    let mut kept: Vec<u64> = kept.map(|(_, number)| *number).collect();
    kept.sort_unstable();
    all_see(&cluster, &kept);
}
