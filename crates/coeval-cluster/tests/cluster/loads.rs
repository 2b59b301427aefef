// SPDX-License-Identifier: Apache-2.0
//! Loads from every node, while all are there.

use crate::nodes::Cluster;
use crate::rows::{BRICKS, ROWS, batch_in_all_bricks, brick, rows_of, schema, values_of};
use crate::sums::{Traffic, check, fill, load, seen};
use arrow::compute::concat_batches;
use bytes::Bytes;
use coeval_brick::{BrickTable, Shards};
use coeval_cluster::{
    BrickAddress, CommitWait, Committed, CounterValues, Founding, LoadError, NodeId, ReadError,
};
use std::iter::repeat_n;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

fn loads_add_up(nodes: u32, replicas: usize) {
    let cluster = Cluster::start_patient(nodes, replicas);
    let all: Vec<u32> = (1..=nodes).collect();
    let traffic = Traffic::start(&cluster, &all);
    std::thread::sleep(Duration::from_millis(700));
    traffic.has_had(20, 5);
    let (acknowledged, _) = traffic.stop(&cluster);
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
    let cluster = Cluster::start_patient(3, 2);
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
    let cluster = Cluster::start_patient(3, 2);
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
    let cluster = Cluster::start_patient(3, 2);
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
    let cluster = Cluster::start_patient(2, 1);
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
    let cluster = Cluster::start_patient(2, 1);
    let number = cluster.runtime.block_on(async {
        let mut load = cluster.node(1).begin().await.unwrap();
        let unknown = BrickAddress { table: 9, brick: 0 };
        let rows = rows_of(brick(1), &[(0, 0)]);
        let table = BrickTable::new(schema(), Arc::new(Shards::start(1, 1).unwrap()));
        let mut several = Vec::new();
        table.route(&batch_in_all_bricks(0, 0), 0).unwrap().load.encode(&mut several);
        let cut = rows.slice(1..);
        let refused =
            [(brick(0), rows.clone()), (brick(1), cut), (unknown, rows), (brick(1), Bytes::from(several))];
        for (at, rows) in refused {
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
    let cluster = Cluster::start_patient(2, 2);
    cluster.proxy(2).set_delay_ms(20);
    cluster.runtime.block_on(async {
        let mut load = cluster.node(1).begin().await.unwrap();
        let begun = std::time::Instant::now();
        // The window is 64, or as many as are 64 KiB: each has one KiB.
        for number in 0..130 {
            load.append(brick(number), rows_of(brick(number), &[(0, 0); 60])).await.unwrap();
        }
        assert!(begun.elapsed() > Duration::from_millis(20), "appends beyond the window waited");
        load.roll_back().await.unwrap();
    });
    cluster.proxy(2).set_delay_ms(0);
    check(&cluster, &[]);
}

/// Small batches are small appends, and many. To break it: leave out the window in bytes.
#[test]
fn small_appends_wait_for_no_answer_until_they_are_many() {
    const BATCHES: u64 = 200;
    let cluster = Cluster::start_patient(2, 2);
    cluster.runtime.block_on(async {
        let mut load = cluster.node(1).begin().await.unwrap();
        // Without it nobody is taken for gone: who waits for an answer waits until it comes.
        cluster.node(1).stop_keeper();
        cluster.proxy(2).stall();
        let appended = timeout(Duration::from_secs(15), async {
            for number in 0..BATCHES {
                load.append_rows(brick(0).table, &batch_in_all_bricks(number, 7)).await.unwrap();
            }
        });
        assert!(appended.await.is_ok(), "some of {BATCHES} appends wait for an answer");
        cluster.proxy(2).go_on();
        load.roll_back().await.unwrap();
    });
    cluster.start_keeper(Founding::GoOn);
    check(&cluster, &[]);
}

/// What a node has sent to another one: messages of a kind, and all frames.
fn sent(cluster: &Cluster, from: u32, to: u32, kind: &str) -> (u64, u64, CounterValues) {
    let status = cluster.status(from).unwrap();
    let messages = status.messages.named().find(|(name, _)| *name == kind).unwrap().1;
    let peer = status.transport.peers.into_iter().find(|peer| peer.node == NodeId::new(to)).unwrap();
    (messages.sent, messages.sent_bytes, peer.counters)
}

/// All bricks are on the same nodes here. To break it: append the rows of each brick by themselves.
#[test]
fn rows_of_a_batch_for_the_same_nodes_are_one_append() {
    const BATCHES: u64 = 40;
    let cluster = Cluster::start_patient(2, 2);
    let before = [sent(&cluster, 1, 2, "append"), sent(&cluster, 2, 1, "appended")];
    let numbers: Vec<u64> = cluster.runtime.block_on(async {
        let mut load = cluster.node(1).begin().await.unwrap();
        for number in 0..BATCHES {
            load.append_rows(brick(0).table, &batch_in_all_bricks(number, 7)).await.unwrap();
        }
        load.roll_back().await.unwrap();
        let mut load = cluster.node(2).begin().await.unwrap();
        load.append_rows(brick(0).table, &batch_in_all_bricks(3, 7)).await.unwrap();
        let epoch = load.epoch();
        load.commit(CommitWait::Decided).await.unwrap();
        // That the one before has ended may still be on its way.
        let snapshot = loop {
            let snapshot = cluster.node(2).snapshot().await.unwrap();
            if snapshot.epochs().contains(epoch) {
                break snapshot;
            }
            sleep(Duration::from_millis(1)).await;
        };
        let mut numbers = Vec::new();
        for number in 0..BRICKS {
            let rows = values_of(&snapshot.read(brick(number)).await.unwrap());
            numbers.extend(rows.into_iter().map(|(load, _)| load));
        }
        numbers
    });
    assert_eq!(numbers, [3; BRICKS as usize], "each brick has its row, and none that was rolled back");
    let after = [sent(&cluster, 1, 2, "append"), sent(&cluster, 2, 1, "appended")];
    for (after, before) in after.into_iter().zip(before) {
        let messages = after.0 - before.0;
        // What was asked again is more.
        assert!((BATCHES..BATCHES * BRICKS / 2).contains(&messages), "{messages} messages");
    }
}

/// A large batch is several appends to a node. To break it: send each message in a frame of its own.
#[test]
fn appends_of_a_batch_go_together_and_so_do_their_answers() {
    const BATCHES: u64 = 10;
    /// So many that those of each brick are an append of their own.
    const ROWS_OF_BRICK: usize = 5_000;
    let cluster = Cluster::start_patient(2, 2);
    let before = [sent(&cluster, 1, 2, "append"), sent(&cluster, 2, 1, "appended")];
    cluster.runtime.block_on(async {
        let mut load = cluster.node(1).begin().await.unwrap();
        for number in 0..BATCHES {
            let rows = batch_in_all_bricks(number, 7);
            let many = concat_batches(&rows.schema(), repeat_n(&rows, ROWS_OF_BRICK)).unwrap();
            load.append_rows(brick(0).table, &many).await.unwrap();
        }
        load.roll_back().await.unwrap();
    });
    let after = [sent(&cluster, 1, 2, "append"), sent(&cluster, 2, 1, "appended")];
    for (after, before) in after.into_iter().zip(before) {
        let (messages, bytes) = (after.0 - before.0, after.1 - before.1);
        let frames = after.2.frames_sent - before.2.frames_sent;
        // What was asked again is more.
        assert!(messages >= BATCHES * BRICKS, "{messages} messages");
        assert!(frames < messages * 3 / 4, "{frames} frames with {messages} messages");
        let frame_bytes = after.2.frame_bytes_sent - before.2.frame_bytes_sent;
        assert!(bytes < frame_bytes, "{bytes} bytes of messages in frames of {frame_bytes}");
    }
    check(&cluster, &[]);
}

#[test]
fn one_sync_of_the_log_is_for_many() {
    let cluster = Cluster::start_patient(1, 1);
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
