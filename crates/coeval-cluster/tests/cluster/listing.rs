// SPDX-License-Identifier: Apache-2.0
//! Which bricks a table has, asked on any node; and tables that are gone for good.

use crate::nodes::Cluster;
use crate::rows::{BRICKS, brick, rows_of, values_of};
use crate::sums::{loads, seen_at};
use coeval_cluster::{BrickAddress, CommitWait, Founding, LoadError, Node, ReadError, RowsRefused};

/// The table of the loads.
fn table() -> u64 {
    brick(0).table
}

fn all() -> Vec<u64> {
    (0..BRICKS).collect()
}

async fn listed(node: &Node) -> Vec<u64> {
    node.snapshot().await.unwrap().bricks(table()).await.unwrap()
}

/// Each node has a part. To break it: ask nobody else.
#[test]
fn every_node_knows_of_all_bricks() {
    for replicas in [1, 2] {
        let cluster = Cluster::start_patient(3, replicas);
        loads(&cluster, 30);
        for node in cluster.running() {
            assert_eq!(cluster.runtime.block_on(listed(&node)), all(), "{node:?} with {replicas} replicas");
            let snapshot = cluster.runtime.block_on(node.snapshot()).unwrap();
            let unknown = cluster.runtime.block_on(snapshot.bricks(9));
            assert_eq!(unknown, Err(ReadError::NoTable(9)));
        }
    }
}

/// With two replicas, two of three have all. To break it: wait for all who are asked. It takes until the third one is out of the
/// view then.
#[test]
fn a_node_that_says_nothing_is_not_waited_for() {
    let cluster = Cluster::start_patient(3, 2);
    loads(&cluster, 30);
    let view = cluster.status(1).unwrap().view;
    cluster.proxy(3).stall();
    let (first, second) = (cluster.node(1), cluster.node(2));
    cluster.runtime.block_on(async {
        assert_eq!(listed(first).await, all());
        assert_eq!(listed(second).await, all());
    });
    assert_eq!(cluster.status(1).unwrap().view, view, "it is a member still");
    cluster.proxy(3).go_on();
}

/// A node dies, then that with the keeper does and comes back: whoever is there says what there is. To break it: ask those who were
/// members when the snapshot was taken.
#[test]
fn all_bricks_are_listed_while_nodes_go_and_come() {
    let mut cluster = Cluster::start(3, 3);
    loads(&cluster, 30);
    cluster.crash(3);
    assert_eq!(cluster.runtime.block_on(listed(cluster.node(2))), all());
    cluster.goes_on_with(2);
    cluster.crash(1);
    cluster.begin(1);
    cluster.start_keeper(Founding::GoOn);
    cluster.goes_on_with(2);
    assert_eq!(cluster.runtime.block_on(listed(cluster.node(1))), all());
    cluster.begin(3);
    cluster.settle();
    assert_eq!(cluster.runtime.block_on(listed(cluster.node(3))), all());
}

/// A delete reads what it deletes: that and no more. To break it: give the reader a snapshot of its own, which may see what came later.
#[test]
fn a_delete_reads_what_it_sees() {
    let cluster = Cluster::start_patient(3, 2);
    let before = loads(&cluster, 30);
    cluster.runtime.block_on(async {
        let delete = cluster.node(1).begin_delete().await.unwrap();
        let snapshot = delete.snapshot();
        assert_eq!(snapshot.epochs(), delete.seen());
        let mut seen = seen_at(&snapshot).await.unwrap();
        let mut expected = before.clone();
        seen.sort_unstable();
        expected.sort_unstable();
        assert_eq!(seen, expected);
        assert_eq!(snapshot.bricks(table()).await.unwrap(), all());
        delete.roll_back().await.unwrap();
    });
}

/// The nodes of this process share what is declared, so all of them are told at once. To break it: refuse what comes of a table that
/// is gone; the commit waits for ever then.
#[test]
fn a_load_under_way_ends_whose_table_is_gone() {
    let cluster = Cluster::start_patient(3, 2);
    let tables = crate::rows::tables();
    // No other test has this table.
    let gone = BrickAddress { table: 9, brick: 1 };
    tables.declare(gone.table, crate::rows::schema()).unwrap();
    cluster.runtime.block_on(async {
        let node = cluster.node(2);
        let mut load = node.begin().await.unwrap();
        let rows = rows_of(gone, &[(1, 2)]);
        load.append(gone, rows.clone()).await.unwrap();
        let snapshot = node.snapshot().await.unwrap();
        assert!(values_of(&snapshot.read(gone).await.unwrap()).is_empty());
        tables.forget(gone.table);
        let refused = load.append(gone, rows).await;
        assert_eq!(refused, Err(LoadError::Refused(RowsRefused::NoTable(gone.table))));
        load.commit(CommitWait::Decided).await.unwrap();
        assert_eq!(snapshot.read(gone).await.map(drop), Err(ReadError::NoTable(gone.table)));
        assert_eq!(snapshot.bricks(gone.table).await, Err(ReadError::NoTable(gone.table)));
    });
    let numbers = loads(&cluster, 3);
    crate::sums::check(&cluster, &numbers);
}
