// SPDX-License-Identifier: Apache-2.0
//! Nodes that are dropped without notice, and started again from their logs, or without.

use crate::nodes::{Cluster, SILENCE, wait_until};
use crate::rows::rows_of;
use crate::sums::{Traffic, check, load, loads, seen};
use coeval_cluster::{BrickAddress, CommitWait, Founding};
use std::num::NonZeroU64;
use std::time::Duration;

#[test]
fn a_node_that_comes_back_at_once_keeps_its_place() {
    let mut cluster = Cluster::start(3, 2);
    let traffic = Traffic::start(&cluster, &[1, 2]);
    traffic.go_on();
    cluster.crash(3);
    cluster.begin(3);
    cluster.settle();
    let (acknowledged, _) = traffic.stop(&cluster);
    check(&cluster, &acknowledged);
}

#[test]
fn a_node_that_was_away_gets_what_it_missed() {
    let mut cluster = Cluster::start(3, 2);
    let traffic = Traffic::start(&cluster, &[1, 2, 3]);
    traffic.go_on();
    cluster.crash(3);
    cluster.goes_on_with(2);
    let alone = cluster.runtime.block_on(load(cluster.node(1))).unwrap();
    std::thread::sleep(SILENCE / 4);
    cluster.begin(3);
    cluster.settle();
    let (mut acknowledged, _) = traffic.stop(&cluster);
    acknowledged.push(alone);
    check(&cluster, &acknowledged);
}

#[test]
fn a_node_that_has_lost_its_disk_gets_its_bricks_from_others() {
    let mut cluster = Cluster::start(3, 2);
    let before = loads(&cluster, 30);
    cluster.crash(2);
    cluster.lose_disk(2);
    cluster.begin(2);
    cluster.settle();
    check(&cluster, &before);
    // Now the others may go, one after the other: what node 2 has is all there is of its bricks.
    cluster.crash(3);
    cluster.goes_on_with(2);
    assert_eq!(cluster.runtime.block_on(seen(cluster.node(2))), before);
}

/// While bricks come slowly to node 3, loads go on and LSE moves. If rows from before and after what the copy counts were given
/// one label meanwhile, the copy would leave them out.
#[test]
fn purge_waits_for_copies() {
    let mut cluster = Cluster::start(3, 2);
    let before = loads(&cluster, 30);
    // What takes a while to come: no sums are in it.
    cluster.runtime.block_on(async {
        let mut load = cluster.node(1).begin().await.unwrap();
        for number in 0..8 {
            let brick = BrickAddress { table: 2, brick: number };
            load.append(brick, rows_of(brick, &[(0, 0); 8 << 10])).await.unwrap();
        }
        load.commit(CommitWait::Decided).await.unwrap();
    });
    cluster.crash(3);
    cluster.lose_disk(3);
    let traffic = Traffic::start(&cluster, &[1, 2]);
    cluster.proxy(1).set_delay_ms(15);
    cluster.proxy(2).set_delay_ms(15);
    // For longer than a thread may get no core: who looks has to see it.
    cluster.copied_bytes_a_second = NonZeroU64::new(200_000);
    cluster.begin(3);
    let (mut moving, mut waited) = (None, 0);
    wait_until("its bricks have come", || {
        let status = cluster.status(1).unwrap();
        if !status.is_moving {
            return moving.is_some();
        }
        let now = (status.view, status.purged);
        if moving.is_some_and(|(view, _)| view == status.view) {
            assert_eq!(moving, Some(now), "nothing is purged while bricks are on their way");
            waited += usize::from(status.latest_safe > status.purged);
        }
        moving = Some(now);
        false
    });
    assert!(waited > 0, "something could have been purged meanwhile");
    cluster.settle();
    cluster.proxy(1).set_delay_ms(0);
    cluster.proxy(2).set_delay_ms(0);
    let (mut acknowledged, _) = traffic.stop(&cluster);
    acknowledged.extend(before);
    check(&cluster, &acknowledged);
}

/// All nodes crash at once: what was acknowledged was on disk.
#[test]
fn what_was_acknowledged_survives_a_crash_of_all() {
    let mut cluster = Cluster::start(3, 2);
    let mut acknowledged = Vec::new();
    for _ in 0..3 {
        let traffic = Traffic::start(&cluster, &[1, 2, 3]);
        traffic.go_on();
        for number in 1..=3 {
            cluster.crash(number);
        }
        let (loads, _) = traffic.stop(&cluster);
        assert!(!loads.is_empty());
        acknowledged.extend(loads);
        for number in 1..=3 {
            cluster.begin(number);
        }
        cluster.start_keeper(Founding::GoOn);
        check(&cluster, &acknowledged);
    }
}

/// What a restart reads is the rows and what has not ended, however much was loaded. All nodes crash, so nobody gives anything.
#[test]
fn a_log_gets_shorter_and_nothing_is_lost_by_that() {
    let mut cluster = Cluster::start(2, 2);
    let acknowledged = loads(&cluster, 400);
    cluster.quiet();
    let logs = |cluster: &Cluster, number| {
        let files = std::fs::read_dir(cluster.directory(number)).unwrap();
        let files = files.map(|file| file.unwrap());
        // One may go while we look.
        let files = files.filter_map(|file| Some((file.file_name(), file.metadata().ok()?.len())));
        let is_log = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("epochs-");
        files.filter(|(name, _)| is_log(name)).collect::<Vec<_>>()
    };
    for number in [1, 2] {
        wait_until("all but a little of the log is gone", || {
            let logs = logs(&cluster, number);
            logs.len() == 1 && logs[0].0 != "epochs-1.log" && logs[0].1 < 4_096
        });
    }
    (1..=2).for_each(|number| cluster.crash(number));
    (1..=2).for_each(|number| cluster.begin(number));
    cluster.start_keeper(Founding::GoOn);
    check(&cluster, &acknowledged);
}

/// The last replicas would go with the second node, so it is not removed: loads wait, and go on when it is back.
#[test]
fn the_last_replica_is_waited_for() {
    let mut cluster = Cluster::start(2, 1);
    let before = cluster.runtime.block_on(load(cluster.node(1))).unwrap();
    cluster.crash(2);
    std::thread::sleep(SILENCE * 2);
    assert_eq!(cluster.status(1).unwrap().members.len(), 2);
    let node = cluster.node(1).clone();
    let waiting = cluster.runtime.spawn(async move { load(&node).await });
    std::thread::sleep(Duration::from_millis(200));
    assert!(!waiting.is_finished(), "nothing is decided without a member");
    cluster.begin(2);
    let after = cluster.runtime.block_on(waiting).unwrap().unwrap();
    check(&cluster, &[before, after]);
}
