// SPDX-License-Identifier: Apache-2.0
//! Nodes that join while others run.

use crate::nodes::{Cluster, wait_until};
use crate::rows::{BRICKS, brick, rows_of};
use crate::sums::{Traffic, check, load, loads};
use coeval_cluster::{BrickAddress, CommitWait, Founding, JoinError, Membership, NodeId};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// How many bricks a node has.
fn bricks_on(cluster: &Cluster, number: u32) -> usize {
    let holds = |number_of: &u64| {
        let holders = cluster.node(1).holders(brick(*number_of)).unwrap();
        holders.contains(&NodeId::new(number))
    };
    (0..BRICKS).filter(holds).count()
}

#[test]
fn a_node_joins_while_loads_go_on() {
    let mut cluster = Cluster::start_patient(2, 2);
    let traffic = Traffic::start(&cluster, &[1, 2]);
    traffic.go_on();
    let joiner = cluster.joiner();
    assert_eq!(cluster.join(vec![joiner], &[1]), [3]);
    cluster.settle();
    assert!(bricks_on(&cluster, 3) > 0, "bricks have moved to it");
    traffic.go_on();
    let alone = cluster.runtime.block_on(load(cluster.node(3))).unwrap();
    let (mut acknowledged, reads) = traffic.stop(&cluster);
    acknowledged.push(alone);
    assert!(reads > 0);
    check(&cluster, &acknowledged);
}

/// Node 2 passes on what it is asked. Then all that node 3 was told is on its disk.
#[test]
fn a_node_joins_through_any_node_and_starts_again_from_what_it_was_told() {
    let mut cluster = Cluster::start(2, 2);
    let mut acknowledged = loads(&cluster, 20);
    let joiner = cluster.joiner();
    assert_eq!(cluster.join(vec![joiner], &[2]), [3]);
    cluster.settle();
    acknowledged.extend(loads(&cluster, 20));
    cluster.crash(3);
    cluster.begin(3);
    check(&cluster, &acknowledged);
    // Nobody is there who could be asked, and it starts all the same.
    (1..=3).for_each(|number| cluster.crash(number));
    cluster.begin(3);
    cluster.begin(1);
    cluster.begin(2);
    cluster.start_keeper(Founding::GoOn);
    check(&cluster, &acknowledged);
}

/// As a cluster comes to be: nobody is told more than an address.
#[test]
fn a_cluster_grows_from_one_node_and_starts_again() {
    let mut cluster = Cluster::found(2);
    let mut acknowledged = loads(&cluster, 10);
    for through in [1, 2] {
        let joiner = cluster.joiner();
        cluster.join(vec![joiner], &[through]);
        cluster.settle();
        acknowledged.extend(loads(&cluster, 10));
    }
    check(&cluster, &acknowledged);
    (1..=3).for_each(|number| cluster.crash(number));
    // The one with the keeper comes last: the others go by what they have.
    [3, 2, 1].into_iter().for_each(|number| cluster.begin(number));
    cluster.start_keeper(Founding::GoOn);
    check(&cluster, &acknowledged);
}

#[test]
fn two_nodes_join_at_once() {
    let mut cluster = Cluster::start_patient(2, 2);
    let traffic = Traffic::start(&cluster, &[1, 2]);
    traffic.go_on();
    let joiners = vec![cluster.joiner(), cluster.joiner()];
    assert_eq!(cluster.join(joiners, &[1, 2]), [3, 4]);
    cluster.settle();
    traffic.go_on();
    let (acknowledged, _) = traffic.stop(&cluster);
    check(&cluster, &acknowledged);
    let nodes = cluster.status(4).unwrap().nodes;
    assert_eq!(nodes, cluster.status(1).unwrap().nodes, "all know all");
    assert_eq!(nodes.len(), 4);
}

/// The keeper has given a number, and whoever asked has not heard it. It asks again, and no number is lost.
#[test]
fn a_number_is_not_lost_with_the_answer() {
    let mut cluster = Cluster::start(2, 1);
    let mut joiner = cluster.joiner();
    let timeouts = joiner.options.timeouts;
    // The question takes as long as the delay, and the answer too, which is more than both of these.
    joiner.options.timeouts.connect = Duration::from_millis(100);
    joiner.options.timeouts.call = Duration::from_millis(60);
    cluster.proxy(1).set_delay_ms(120);
    let seeds = [cluster.address(1)];
    let asked = cluster.runtime.block_on(joiner.ask(&seeds, Duration::ZERO));
    assert!(matches!(asked, Err(JoinError::Unanswered { .. })), "{asked:?}");
    let given = NodeId::new(3);
    wait_until("the number is given", || cluster.status(1).unwrap().nodes.contains_key(&given));
    cluster.proxy(1).set_delay_ms(0);
    joiner.options.timeouts = timeouts;
    let other = cluster.joiner();
    assert_eq!(cluster.join(vec![joiner], &[1]), [3]);
    assert_eq!(cluster.join(vec![other], &[3]), [4], "and the new one may be asked too");
    check(&cluster, &[]);
}

/// Node 3 writes down that there is a node 4, though it is told so long after it has joined.
#[test]
fn a_node_remembers_who_came_after_it() {
    let mut cluster = Cluster::start_patient(2, 1);
    let joiner = cluster.joiner();
    cluster.join(vec![joiner], &[1]);
    cluster.settle();
    let joiner = cluster.joiner();
    cluster.join(vec![joiner], &[1]);
    let directory = cluster.directory(3);
    wait_until("it has written it down", || {
        // Whoever looks while it is written may be refused.
        let written = Membership::read(&directory).ok().flatten();
        written.is_some_and(|written| written.address_of(NodeId::new(4)) == Some(&cluster.address(4)))
    });
    check(&cluster, &[]);
}

#[test]
fn bricks_come_at_a_pace_while_loads_go_on() {
    const RATE: u64 = 250_000;
    let mut cluster = Cluster::start_patient(2, 2);
    let mut acknowledged = loads(&cluster, 10);
    // What takes a while to come: no sums are in it.
    cluster.runtime.block_on(async {
        let mut load = cluster.node(1).begin().await.unwrap();
        for number in 0..BRICKS {
            let brick = BrickAddress { table: 2, brick: number };
            load.append(brick, rows_of(brick, &[(0, 0); 8 << 10])).await.unwrap();
        }
        load.commit(CommitWait::Decided).await.unwrap();
    });
    cluster.copied_bytes_a_second = NonZeroU64::new(RATE);
    let traffic = Traffic::start(&cluster, &[1, 2]);
    let (joiner, begun) = (cluster.joiner(), Instant::now());
    cluster.join(vec![joiner], &[1]);
    traffic.go_on();
    cluster.settle();
    let copied = cluster.status(3).unwrap().copied_bytes;
    let least = Duration::from_millis(copied * 1_000 / RATE);
    // Of what came for a view that is over nobody waits for the last part.
    assert!(copied > 0 && begun.elapsed() > least / 2, "{copied} bytes after {:?}", begun.elapsed());
    let (more, _) = traffic.stop(&cluster);
    acknowledged.extend(more);
    check(&cluster, &acknowledged);
}

/// It tells the others where it is now when it starts; those that were away then learn it too.
#[test]
fn a_node_comes_back_at_another_address() {
    let mut cluster = Cluster::start(2, 2);
    let joiner = cluster.joiner();
    cluster.join(vec![joiner], &[1]);
    cluster.settle();
    let mut acknowledged = loads(&cluster, 20);
    let before = cluster.address(3);
    cluster.crash(3);
    cluster.move_away(3);
    assert_ne!(cluster.address(3), before);
    cluster.begin(3);
    cluster.settle();
    acknowledged.extend(loads(&cluster, 20));
    check(&cluster, &acknowledged);
    for number in 1..=3 {
        let nodes = cluster.status(number).unwrap().nodes;
        assert_eq!(nodes[&NodeId::new(3)], cluster.address(3), "as n{number} knows it");
    }
    // Who starts with an old list hears of it from the keeper's records.
    cluster.crash(2);
    cluster.begin(2);
    cluster.settle();
    assert_eq!(cluster.status(2).unwrap().nodes[&NodeId::new(3)], cluster.address(3));
    check(&cluster, &acknowledged);
}
