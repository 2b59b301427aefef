// SPDX-License-Identifier: Apache-2.0
//! All replicas of a brick have the same rows, at any snapshot of any node.

use crate::nodes::Cluster;
use crate::rows::{BRICKS, ROWS, brick, rows_of};
use crate::sums::{Traffic, check, loads};
use coeval_cluster::{BrickAddress, BrickSum, CommitWait, ReadError, Snapshot};
use std::collections::BTreeMap;

/// What all replicas of all bricks have, if they agree.
async fn agreed(snapshot: &Snapshot) -> Result<BTreeMap<u64, BrickSum>, ReadError> {
    let mut sums = BTreeMap::new();
    for number in 0..BRICKS {
        // On a busy machine a node may be taken for gone, and a brick have one replica for a while.
        let found = snapshot.replicas(brick(number)).await?;
        let first = *found.values().next().unwrap();
        assert!(found.values().all(|other| *other == first), "brick {number}: {found:?}");
        sums.insert(number, first);
    }
    Ok(sums)
}

/// To break it: ask the holders for what they have, in place of what the snapshot sees; or leave out a row of what `Incoming` gives.
#[test]
fn replicas_agree_while_loads_go_on_and_a_row_more_is_seen() {
    let cluster = Cluster::start_patient(3, 2);
    let traffic = Traffic::start(&cluster, &[1, 2, 3]);
    for number in [1, 2, 3] {
        traffic.go_on();
        let sums = cluster.runtime.block_on(async {
            let snapshot = cluster.node(number).snapshot().await.unwrap();
            let first = agreed(&snapshot).await.unwrap();
            assert_eq!(first, agreed(&snapshot).await.unwrap(), "what a snapshot sees stays what it is");
            first
        });
        let rows: u64 = sums.values().map(|sum| sum.rows).sum();
        assert!(rows > 0 && rows.is_multiple_of(ROWS), "{rows} rows");
    }
    let (acknowledged, _) = traffic.stop(&cluster);
    check(&cluster, &acknowledged);
    let sums = |number: u32| {
        cluster.runtime.block_on(async {
            let snapshot = cluster.node(number).snapshot().await.unwrap();
            assert_eq!(snapshot.replicas(brick(0)).await.unwrap().len(), 2, "both are asked");
            agreed(&snapshot).await.unwrap()
        })
    };
    let before = sums(1);
    assert_eq!((&before, &before), (&sums(2), &sums(3)), "every node finds the same");
    // A load with a single row, which nobody else has the number of.
    cluster.runtime.block_on(async {
        let mut load = cluster.node(2).begin().await.unwrap();
        load.append(brick(0), rows_of(brick(0), &[(u64::MAX >> 1, 7)])).await.unwrap();
        load.commit(CommitWait::Decided).await.unwrap();
    });
    cluster.quiet();
    let after = sums(3);
    assert_eq!(after[&0].rows, before[&0].rows + 1);
    assert_ne!(after[&0].sum, before[&0].sum);
    assert!((1..BRICKS).all(|number| after[&number] == before[&number]));
}

/// To break it: give what the others have said as soon as one of them says nothing.
#[test]
fn who_is_gone_is_left_out_once_it_has_no_bricks() {
    let mut cluster = Cluster::start(3, 2);
    loads(&cluster, 6);
    cluster.crash(3);
    let unknown = BrickAddress { table: 77, brick: 0 };
    cluster.runtime.block_on(async {
        let snapshot = cluster.node(1).snapshot().await.unwrap();
        assert_eq!(snapshot.replicas(unknown).await, Err(ReadError::NoTable(77)));
        for number in 0..BRICKS {
            let found = snapshot.replicas(brick(number)).await.unwrap();
            assert!(!found.is_empty() && found.keys().all(|node| node.get() != 3), "{found:?}");
        }
    });
}
