// SPDX-License-Identifier: Apache-2.0
//! Pieces on nodes in one process, with real sockets between them.

use super::*;
use crate::driver::loopback::start_on_loopback_with;
use crate::driver::{CommitWait, Node, TABLE, loopback_tables, row_of, start_on_loopback};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tokio::runtime::{Handle, Runtime};

const BRICKS: u64 = 16;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

/// Gives for each brick how many rows there are, a byte each. The order `wait` makes nothing, ever; `ask` has node 3 count.
#[derive(Debug, Default)]
struct Counting {
    /// Pieces that nobody has dropped.
    open: Arc<AtomicUsize>,
}

struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl PieceRunner for Counting {
    fn run(&self, piece: Piece) -> BoxStream<'static, Result<Bytes, String>> {
        let Piece { bricks, order, rows } = piece;
        self.open.fetch_add(1, Ordering::SeqCst);
        let open = Open(Arc::clone(&self.open));
        if order == "wait" {
            let pending = stream::pending();
            return pending
                .map(move |never| {
                    let _held = &open;
                    never
                })
                .boxed();
        }
        if order == "ask" {
            let order = PieceOrder { table: rows.table(), bricks, order: Bytes::new() };
            let counts = rows.run(NodeId::new(3), order).map_err(|error| error.to_string());
            return counts
                .map(move |count| {
                    let _held = &open;
                    count
                })
                .boxed();
        }
        let counts = bricks.into_iter().map(move |brick| {
            let _held = &open;
            let brick = BrickAddress { table: rows.table(), brick };
            let rows = rows.rows(brick).map_err(|error| error.to_string())?;
            Ok(Bytes::from(vec![u8::try_from(rows.count()).unwrap()]))
        });
        stream::iter(counts).boxed()
    }
}

async fn started(replicas: usize, directory: &Path, open: &Arc<AtomicUsize>) -> Vec<Node> {
    let runner: Arc<dyn PieceRunner> = Arc::new(Counting { open: Arc::clone(open) });
    let run_pieces = |options: &mut crate::NodeOptions| options.runner = Some(Arc::clone(&runner));
    start_on_loopback_with(3, replicas, directory, &Handle::current(), run_pieces).await.unwrap()
}

/// A row in each brick.
async fn load(node: &Node) {
    let tables = loopback_tables().unwrap();
    let mut load = node.begin().await.unwrap();
    for brick in 0..BRICKS {
        let (brick, row) = row_of(&tables, brick, 7).unwrap();
        load.append(brick, row).await.unwrap();
    }
    load.commit(CommitWait::Decided).await.unwrap();
}

async fn run(snapshot: &Arc<Snapshot>, at: PlacedBricks, order: &'static str) -> Result<u64, ReadError> {
    let order = PieceOrder { table: TABLE, bricks: at.bricks, order: Bytes::from_static(order.as_bytes()) };
    let parts: Vec<Bytes> = snapshot.run(at.node, order).try_collect().await?;
    Ok(parts.iter().flatten().map(|count| u64::from(*count)).sum())
}

/// To break it: read with a snapshot of all that is there in `PieceRows::rows`, or place bricks on whoever comes first.
#[test]
fn each_brick_is_read_where_it_is_at_the_snapshot_of_who_asks() {
    let (runtime, directory, open) = (runtime(), tempfile::tempdir().unwrap(), Arc::default());
    runtime.block_on(async {
        let nodes = started(1, directory.path(), &open).await;
        load(&nodes[0]).await;
        let snapshot = Arc::new(nodes[0].snapshot().await.unwrap());
        load(&nodes[1]).await;
        let bricks = snapshot.bricks(TABLE).await.unwrap();
        let placed = snapshot.place(TABLE, &bricks, &[]);
        assert_eq!(placed.iter().map(|at| at.bricks.len() as u64).sum::<u64>(), BRICKS);
        let mut elsewhere = 0;
        for at in placed.into_iter().filter(|at| at.node != snapshot.node()) {
            let count = at.bricks.len() as u64;
            elsewhere += count;
            assert_eq!(run(&snapshot, at, "").await, Ok(count), "the load behind the snapshot is not in it");
        }
        assert!(elsewhere > 0, "all bricks are on the first of three nodes");
        // Bricks that it does not have are no empty ones.
        let wrong = PlacedBricks { node: NodeId::new(2), bricks };
        assert!(matches!(run(&snapshot, wrong, "").await, Err(ReadError::NotRun { .. })));
        for node in nodes {
            node.stop().await;
        }
    });
}

/// To break it: read with a snapshot of all that is there in `PieceRows::run`.
#[test]
fn a_piece_asks_other_nodes_at_the_snapshot_of_who_has_asked_for_it() {
    let (runtime, directory, open) = (runtime(), tempfile::tempdir().unwrap(), Arc::default());
    runtime.block_on(async {
        let nodes = started(1, directory.path(), &open).await;
        load(&nodes[0]).await;
        let snapshot = Arc::new(nodes[0].snapshot().await.unwrap());
        load(&nodes[1]).await;
        let bricks = snapshot.bricks(TABLE).await.unwrap();
        let placed = snapshot.place(TABLE, &bricks, &[]);
        let third = placed.into_iter().find(|at| at.node == NodeId::new(3)).unwrap();
        let count = third.bricks.len() as u64;
        let by_second = PlacedBricks { node: NodeId::new(2), ..third };
        assert_eq!(run(&snapshot, by_second, "ask").await, Ok(count));
        for node in nodes {
            node.stop().await;
        }
    });
}

/// To break it: do not look at `without`.
#[test]
fn bricks_are_placed_on_other_replicas_once_one_has_failed() {
    let (runtime, directory, open) = (runtime(), tempfile::tempdir().unwrap(), Arc::default());
    runtime.block_on(async {
        let nodes = started(2, directory.path(), &open).await;
        load(&nodes[0]).await;
        let snapshot = Arc::new(nodes[0].snapshot().await.unwrap());
        let bricks: Vec<u64> = (0..BRICKS).collect();
        let total = |placed: &[PlacedBricks]| placed.iter().map(|at| at.bricks.len() as u64).sum::<u64>();
        let (second, third) = (NodeId::new(2), NodeId::new(3));
        let placed = snapshot.place(TABLE, &bricks, &[second]);
        assert_eq!(total(&placed), BRICKS, "each has two replicas");
        assert!(placed.iter().all(|at| at.node != second));
        assert!(total(&snapshot.place(TABLE, &bricks, &[second, third])) < BRICKS);
        for node in nodes {
            node.stop().await;
        }
    });
}

/// To break it: let `Incoming::run` go on when nobody listens.
#[test]
fn a_piece_that_nobody_listens_to_is_dropped() {
    let (runtime, directory, open) = (runtime(), tempfile::tempdir().unwrap(), Arc::default());
    runtime.block_on(async {
        let nodes = started(1, directory.path(), &open).await;
        let snapshot = Arc::new(nodes[0].snapshot().await.unwrap());
        let order = PieceOrder { table: TABLE, bricks: Vec::new(), order: Bytes::from_static(b"wait") };
        let mut parts = snapshot.run(NodeId::new(2), order);
        let listening = tokio::time::timeout(SIGN_OF_LIFE * 2, parts.next());
        assert!(listening.await.is_err(), "it runs, and says so, and makes nothing");
        let begun = Instant::now();
        while open.load(Ordering::SeqCst) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(30), "it does not begin");
            sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(open.load(Ordering::SeqCst), 1);
        drop(parts);
        let begun = Instant::now();
        while open.load(Ordering::SeqCst) > 0 {
            assert!(begun.elapsed() < Duration::from_secs(30), "it goes on");
            sleep(Duration::from_millis(5)).await;
        }
        for node in nodes {
            node.stop().await;
        }
    });
}

/// To break it: run nothing in place of `NotNow`.
#[test]
fn a_node_that_runs_no_pieces_says_so() {
    let (runtime, directory) = (runtime(), tempfile::tempdir().unwrap());
    runtime.block_on(async {
        let nodes = start_on_loopback(2, 1, directory.path(), &Handle::current()).await.unwrap();
        let snapshot = Arc::new(nodes[0].snapshot().await.unwrap());
        let at = PlacedBricks { node: NodeId::new(2), bricks: Vec::new() };
        assert!(matches!(run(&snapshot, at, "").await, Err(ReadError::NotRun { .. })));
        for node in nodes {
            node.stop().await;
        }
    });
}

/// To break it: take an answer that is cut for one that has ended.
#[test]
fn a_node_that_goes_has_not_done_its_piece() {
    let (runtime, directory, open) = (runtime(), tempfile::tempdir().unwrap(), Arc::default());
    runtime.block_on(async {
        let mut nodes = started(2, directory.path(), &open).await;
        let snapshot = Arc::new(nodes[0].snapshot().await.unwrap());
        let order = PieceOrder { table: TABLE, bricks: Vec::new(), order: Bytes::from_static(b"wait") };
        let mut parts = snapshot.run(NodeId::new(2), order);
        assert!(tokio::time::timeout(SIGN_OF_LIFE * 2, parts.next()).await.is_err());
        nodes.remove(1).stop().await;
        let last = tokio::time::timeout(Duration::from_secs(30), parts.next()).await.unwrap();
        assert!(matches!(last, Some(Err(ReadError::NotRun { .. }))), "{last:?}");
        for node in nodes {
            node.stop().await;
        }
    });
}
