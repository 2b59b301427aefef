// SPDX-License-Identifier: Apache-2.0
//! The keeper of the views comes, goes, and comes back.

use crate::nodes::{Cluster, SILENCE, wait_until};
use crate::sums::{Traffic, check, load};
use coeval_cluster::{Founding, StartError};

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
fn a_cluster_is_founded_once_and_not_by_a_lost_log() {
    let cluster = Cluster::start(2, 1);
    let start = |founding, directory: &std::path::Path| {
        cluster.runtime.block_on(cluster.node(1).start_keeper(founding, directory))
    };
    cluster.node(1).stop_keeper();
    assert!(matches!(start(Founding::Found, &cluster.directory(1)), Err(StartError::Founded)));
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(start(Founding::GoOn, empty.path()), Err(StartError::NotFounded)));
    start(Founding::GoOn, &cluster.directory(1)).unwrap();
    check(&cluster, &[]);
}
