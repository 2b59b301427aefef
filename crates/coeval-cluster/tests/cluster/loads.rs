// SPDX-License-Identifier: Apache-2.0
//! Loads from every node, while all are there.

use crate::nodes::Cluster;
use crate::rows::{ROWS, brick, rows_of};
use crate::sums::{Traffic, check, fill, load, seen};
use bytes::Bytes;
use coeval_cluster::{BrickAddress, CommitWait, Committed, LoadError, ReadError};
use std::time::Duration;

fn loads_add_up(nodes: u32, replicas: usize) {
    let cluster = Cluster::start(nodes, replicas);
    let all: Vec<u32> = (1..=nodes).collect();
    let traffic = Traffic::start(&cluster, &all);
    std::thread::sleep(Duration::from_millis(700));
    let (acknowledged, reads) = traffic.stop(&cluster);
    assert!(acknowledged.len() > 20 && reads > 5, "{} loads, {reads} reads", acknowledged.len());
    check(&cluster, &acknowledged);
    for number in all {
        let status = cluster.status(number).unwrap();
        assert_eq!((status.waiting_for_disk, status.messages.refused), (0, 0));
    }
}

#[test]
fn loads_from_three_nodes_add_up_in_every_snapshot() {
    loads_add_up(3, 2);
}

#[test]
fn loads_from_five_nodes_add_up_in_every_snapshot() {
    loads_add_up(5, 3);
}

#[test]
fn what_is_rolled_back_or_dropped_is_seen_nowhere() {
    let cluster = Cluster::start(3, 2);
    let node = cluster.node(2);
    let kept = cluster.runtime.block_on(async {
        let mut rolled_back = node.begin().await.unwrap();
        fill(&mut rolled_back).await.unwrap();
        rolled_back.roll_back().await.unwrap();
        let mut dropped = node.begin().await.unwrap();
        fill(&mut dropped).await.unwrap();
        drop(dropped);
        let empty = node.begin().await.unwrap();
        assert_eq!(empty.commit(CommitWait::Decided).await, Ok(Committed::Decided));
        load(node).await.unwrap()
    });
    check(&cluster, &[kept]);
    for node in cluster.running() {
        assert_eq!(cluster.runtime.block_on(seen(&node)), [kept]);
    }
}

#[test]
fn a_local_commit_returns_at_once_and_commits_all_the_same() {
    let cluster = Cluster::start(3, 2);
    let number = cluster.runtime.block_on(async {
        let mut load = cluster.node(3).begin().await.unwrap();
        let number = fill(&mut load).await.unwrap();
        assert_eq!(load.commit(CommitWait::Local).await, Ok(Committed::UnderWay));
        number
    });
    check(&cluster, &[number]);
}

#[test]
fn whoever_gives_up_waiting_for_a_commit_has_it_all_the_same() {
    let cluster = Cluster::start(3, 2);
    let number = cluster.runtime.block_on(async {
        let mut load = cluster.node(1).begin().await.unwrap();
        let number = fill(&mut load).await.unwrap();
        tokio::select! {
            biased;
            _ = load.commit(CommitWait::Decided) => panic!("a commit takes a moment"),
            () = async {} => {}
        }
        number
    });
    check(&cluster, &[number]);
}

#[test]
fn rows_that_are_too_many_for_a_message_are_refused_and_the_load_goes_on() {
    let cluster = Cluster::start(2, 1);
    let number = cluster.runtime.block_on(async {
        let mut load = cluster.node(1).begin().await.unwrap();
        let refused = load.append(brick(0), Bytes::from(vec![0; 16 << 20])).await;
        assert!(matches!(refused, Err(LoadError::TooLong { .. })), "{refused:?}");
        let number = fill(&mut load).await.unwrap();
        load.commit(CommitWait::Decided).await.unwrap();
        number
    });
    check(&cluster, &[number]);
}

/// A row is where its dimensions say; and what is no rows at all is not sent either.
#[test]
fn what_is_no_rows_of_the_brick_is_refused_and_the_load_goes_on() {
    let cluster = Cluster::start(2, 1);
    let number = cluster.runtime.block_on(async {
        let mut load = cluster.node(1).begin().await.unwrap();
        let unknown = BrickAddress { table: 9, brick: 0 };
        let rows = rows_of(brick(1), &[(0, 0)]);
        for (at, rows) in [(brick(0), rows.clone()), (brick(1), rows.slice(1..)), (unknown, rows)] {
            let refused = load.append(at, rows).await;
            assert!(matches!(refused, Err(LoadError::Refused(_))), "{refused:?}");
        }
        let snapshot = cluster.node(1).snapshot().await.unwrap();
        assert_eq!(snapshot.read(unknown).await.unwrap_err(), ReadError::NoTable(9));
        let number = fill(&mut load).await.unwrap();
        load.commit(CommitWait::Decided).await.unwrap();
        number
    });
    check(&cluster, &[number]);
}

/// Nobody takes what is sent to the holder: the appends wait, and the memory for them is bounded.
#[test]
fn a_slow_holder_slows_its_loads() {
    let cluster = Cluster::start(2, 2);
    cluster.proxy(2).set_delay_ms(20);
    cluster.runtime.block_on(async {
        let mut load = cluster.node(1).begin().await.unwrap();
        let begun = std::time::Instant::now();
        // The window is 64.
        for number in 0..130 {
            load.append(brick(number), rows_of(brick(number), &[(0, 0); 60])).await.unwrap();
        }
        assert!(begun.elapsed() > Duration::from_millis(20), "appends beyond the window waited");
        load.roll_back().await.unwrap();
    });
    cluster.proxy(2).set_delay_ms(0);
    check(&cluster, &[]);
}

#[test]
fn one_sync_of_the_log_is_for_many() {
    let cluster = Cluster::start(1, 1);
    let before = cluster.status(1).unwrap().syncs;
    let loads = cluster.runtime.block_on(async {
        let loads: Vec<_> = (0..200)
            .map(|_| {
                let node = cluster.node(1).clone();
                tokio::spawn(async move { load(&node).await.unwrap() })
            })
            .collect();
        let mut numbers = Vec::new();
        for load in loads {
            numbers.push(load.await.unwrap());
        }
        numbers
    });
    let syncs = cluster.status(1).unwrap().syncs - before;
    assert!(syncs < 200, "{syncs} syncs for 200 loads of {ROWS} rows");
    check(&cluster, &loads);
}
