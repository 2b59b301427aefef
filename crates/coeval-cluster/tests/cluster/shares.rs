// SPDX-License-Identifier: Apache-2.0
//! What of the bricks each node has, asked on any node.

use crate::nodes::{Cluster, wait_until};
use crate::rows::{BRICKS, ROWS, brick, rows_of};
use crate::sums::loads;
use coeval_cluster::{BrickAddress, CommitWait, Founding, Node, NodeId, NodeShare};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

const THREE: NodeId = NodeId::new(3);
/// As long as anybody who runs needs.
const PATIENCE: Duration = Duration::from_secs(10);

fn shares(cluster: &Cluster, node: &Node) -> BTreeMap<NodeId, NodeShare> {
    cluster.runtime.block_on(node.shares(PATIENCE))
}

/// To break it: count all bricks of which something is there, or those of the ring over all nodes that are known.
#[test]
fn every_node_tells_of_all_what_they_have() {
    const LOADS: usize = 30;
    for replicas in [1, 2] {
        let cluster = Cluster::start_patient(3, replicas);
        loads(&cluster, LOADS);
        cluster.quiet();
        for node in cluster.running() {
            let shares = shares(&cluster, &node);
            let sum = |of: fn(&NodeShare) -> u64| shares.values().map(of).sum::<u64>();
            assert_eq!(sum(|share| share.rows), ROWS * (LOADS * replicas) as u64, "{shares:?}");
            assert_eq!(shares.len(), 3);
            for (number, share) in &shares {
                let holds = |place: &u64| node.holders(brick(*place)).unwrap().contains(number);
                assert_eq!(share.bricks, (0..BRICKS).filter(holds).count() as u64, "{shares:?}");
                assert_eq!((share.to_come, share.bytes > 0), (Some(0), share.bricks > 0), "{shares:?}");
            }
        }
    }
}

/// To break it: wait for all answers. It takes twenty seconds then, until the call is given up.
#[test]
fn who_says_nothing_is_left_out() {
    let cluster = Cluster::start_patient(3, 2);
    loads(&cluster, 10);
    // Without it nobody is taken for gone.
    cluster.node(1).stop_keeper();
    cluster.proxy(3).stall();
    let begun = Instant::now();
    let shares = cluster.runtime.block_on(cluster.node(1).shares(Duration::from_secs(3)));
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    assert!(!shares.contains_key(&THREE) && shares.len() == 2, "{shares:?}");
    cluster.proxy(3).go_on();
    cluster.start_keeper(Founding::GoOn);
    cluster.settle();
    wait_until("it answers again", || self::shares(&cluster, cluster.node(1)).contains_key(&THREE));
}

/// To break it: leave out what has arrived, or count it as served.
#[test]
fn bricks_on_their_way_are_told_until_they_have_come() {
    let mut cluster = Cluster::start_patient(2, 2);
    loads(&cluster, 10);
    // What takes a while to come.
    cluster.runtime.block_on(async {
        let mut load = cluster.node(1).begin().await.unwrap();
        for number in 0..BRICKS {
            let brick = BrickAddress { table: 2, brick: number };
            load.append(brick, rows_of(brick, &[(0, 0); 8 << 10])).await.unwrap();
        }
        load.commit(CommitWait::Decided).await.unwrap();
    });
    cluster.copied_bytes_a_second = NonZeroU64::new(250_000);
    let joiner = cluster.joiner();
    cluster.join(vec![joiner], &[1]);
    let mut seen = BTreeSet::new();
    wait_until("all bricks have come", || {
        // Before that all are where they belonged without it.
        let has_come = cluster.status(2).is_some_and(|status| status.placed.contains_key(&THREE));
        if let Some(share) = shares(&cluster, cluster.node(2)).get(&THREE) {
            seen.extend(share.to_come.map(|to_come| (to_come, share.bricks)));
        }
        has_come
    });
    cluster.settle();
    let in_the_end = shares(&cluster, cluster.node(2))[&THREE];
    assert!(in_the_end.bricks > 0 && in_the_end.to_come == Some(0), "{in_the_end:?}");
    assert!(seen.iter().any(|(to_come, _)| *to_come > 0), "{seen:?}");
    assert!(seen.iter().all(|(to_come, bricks)| to_come + bricks == in_the_end.bricks), "{seen:?}");
}
