// SPDX-License-Identifier: Apache-2.0
//! Readers that come with the age of their rows.

use crate::nodes::{Cluster, wait_until};
use crate::sums::{load, seen_at};
use coeval_cluster::{Epoch, Founding, ReadError};

/// Two nodes to which readers come with ages.
fn start() -> Cluster {
    let mut cluster = Cluster::start(2, 2);
    (1..=2).for_each(|number| cluster.crash(number));
    cluster.expects_ages = true;
    (1..=2).for_each(|number| cluster.begin(number));
    cluster.start_keeper(Founding::GoOn);
    cluster.settle();
    cluster
}

/// The newest age that a node could give rows now.
fn age(cluster: &Cluster, number: u32) -> Epoch {
    let snapshot = cluster.runtime.block_on(cluster.node(number).snapshot()).unwrap();
    snapshot.epochs().newest()
}

fn seen(cluster: &Cluster, number: u32, age: Epoch) -> Result<Vec<u64>, ReadError> {
    cluster.runtime.block_on(async { seen_at(&cluster.node(number).snapshot_at(age).await?).await })
}

/// To break it: leave `expects_ages` out of the options. LSE passes the first load then, and nobody sees it alone any more.
#[test]
fn an_age_is_to_be_had_on_every_node_while_rows_may_name_it() {
    let cluster = start();
    let first = cluster.runtime.block_on(load(cluster.node(1))).unwrap();
    let named = age(&cluster, 1);
    // This one need not have heard of it yet, and waits for that.
    assert_eq!(seen(&cluster, 2, named), Ok(vec![first]));
    let second = cluster.runtime.block_on(load(cluster.node(2))).unwrap();
    cluster.running().iter().for_each(|node| node.note_oldest_age(named));
    wait_until("it is safe up to there", || {
        cluster.running().iter().all(|node| node.status().is_some_and(|status| status.latest_safe == named))
    });
    for number in [1, 2] {
        assert_eq!(seen(&cluster, number, named), Ok(vec![first]));
    }
    let newest = age(&cluster, 2);
    assert_eq!(seen(&cluster, 1, newest), Ok(vec![first, second]));
    cluster.running().iter().for_each(|node| node.note_oldest_age(newest));
    wait_until("it is safe up to the newest", || {
        cluster.running().iter().all(|node| node.status().is_some_and(|status| status.latest_safe == newest))
    });
    assert_eq!(seen(&cluster, 1, named), Err(ReadError::BelowSafe));
    assert_eq!(seen(&cluster, 2, newest), Ok(vec![first, second]));
}

/// To break it: have `ClusterNode::read_only_at` give what its node does not know to have ended.
#[test]
fn an_age_that_a_node_has_not_reached_is_waited_for() {
    let cluster = start();
    let mut open = cluster.runtime.block_on(cluster.node(2).begin()).unwrap();
    cluster.runtime.block_on(crate::sums::fill(&mut open)).unwrap();
    let not_yet = open.epoch();
    let (node, runtime) = (cluster.node(1).clone(), cluster.runtime.handle().clone());
    let waiting =
        runtime.spawn(async move { node.snapshot_at(not_yet).await.map(|seen| seen.epochs().newest()) });
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(!waiting.is_finished());
    cluster.runtime.block_on(open.commit(coeval_cluster::CommitWait::Decided)).unwrap();
    assert_eq!(cluster.runtime.block_on(waiting).unwrap(), Ok(not_yet));
}
