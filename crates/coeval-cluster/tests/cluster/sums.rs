// SPDX-License-Identifier: Apache-2.0
//! Loads of known sums, and readers that check them.

use crate::loading::Loading;
use crate::nodes::{Cluster, wait_until};
use crate::rows::{self, BRICKS, brick, values_of};
use coeval_cluster::{CommitWait, Load, LoadError, Node, ReadError, Snapshot};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

static NEXT_LOAD: AtomicU64 = AtomicU64::new(1);

/// Appends the rows of a load that nothing else has the number of.
pub(crate) async fn fill(load: &mut Load) -> Result<u64, LoadError> {
    let number = NEXT_LOAD.fetch_add(1, Ordering::Relaxed);
    rows::fill(load, number).await?;
    Ok(number)
}

/// Begins, fills and commits a load; gives its number once it is decided.
pub(crate) async fn load(node: &Node) -> Result<u64, LoadError> {
    let mut load = node.begin().await?;
    let number = fill(&mut load).await?;
    load.commit(CommitWait::Decided).await?;
    Ok(number)
}

/// Which loads a snapshot sees, each whole.
pub(crate) async fn seen_at(snapshot: &Snapshot) -> Result<Vec<u64>, ReadError> {
    Ok(rows::seen_at(snapshot).await?.unwrap())
}

/// Which loads a new snapshot sees.
pub(crate) async fn seen(node: &Node) -> Vec<u64> {
    seen_at(&node.snapshot().await.unwrap()).await.unwrap()
}

/// So many loads, one after the other, each begun on the next node.
pub(crate) fn loads(cluster: &Cluster, count: usize) -> Vec<u64> {
    let nodes = cluster.running();
    cluster.runtime.block_on(async {
        let mut loads = Vec::new();
        for node in nodes.iter().cycle().take(count) {
            loads.push(load(node).await.unwrap());
        }
        loads
    })
}

/// Loads and readers on nodes, until they are told to end.
pub(crate) struct Traffic {
    loading: Loading,
    ends: Arc<AtomicBool>,
    /// How often readers have read all.
    reads: Arc<AtomicUsize>,
    reading: Vec<tokio::task::JoinHandle<()>>,
}

impl Traffic {
    /// Two loads at a time and one reader on each of these nodes. Those that a node refuses, since it is gone, are left.
    pub(crate) fn start(cluster: &Cluster, nodes: &[u32]) -> Self {
        let loading = Loading::start(cluster, &[nodes, nodes].concat());
        let (ends, reads, mut reading) = (Arc::new(AtomicBool::new(false)), Arc::default(), Vec::new());
        for number in nodes {
            let (node, ends) = (cluster.node(*number).clone(), Arc::clone(&ends));
            let reads: Arc<AtomicUsize> = Arc::clone(&reads);
            reading.push(cluster.runtime.spawn(async move {
                while !ends.load(Ordering::Relaxed) {
                    let snapshot = match node.snapshot().await {
                        Ok(snapshot) => snapshot,
                        Err(ReadError::Ended(_)) => break,
                        // It has waited for that.
                        Err(_) => continue,
                    };
                    // Twice: what a snapshot sees stays what it is.
                    let (Ok(first), Ok(again)) = (seen_at(&snapshot).await, seen_at(&snapshot).await) else {
                        tokio::task::yield_now().await;
                        continue;
                    };
                    assert_eq!(first, again, "{snapshot:?} has changed");
                    reads.fetch_add(1, Ordering::Relaxed);
                    // Where all bricks are here, a reader waits for nothing; others want to run too.
                    tokio::task::yield_now().await;
                }
            }));
        }
        Self { loading, ends, reads, reading }
    }

    /// Waits until some loads more were acknowledged, and all was read once more.
    pub(crate) fn go_on(&self) {
        self.has_had(self.loading.count() + 20, self.reads.load(Ordering::Relaxed) + 1);
    }

    /// Waits until so many loads were acknowledged, and all was read so often.
    pub(crate) fn has_had(&self, loads: usize, reads: usize) {
        wait_until("loads and readers run", || {
            self.loading.count() >= loads && self.reads.load(Ordering::Relaxed) >= reads
        });
    }

    /// Ends it; gives the loads that were acknowledged, and how often readers have read all.
    pub(crate) fn stop(mut self, cluster: &Cluster) -> (Vec<u64>, usize) {
        self.ends.store(true, Ordering::Relaxed);
        let acknowledged = self.loading.stop(cluster).into_iter().map(|(_, number)| number).collect();
        let reading = std::mem::take(&mut self.reading).into_iter();
        reading.for_each(|task| cluster.runtime.block_on(task).unwrap());
        (acknowledged, self.reads.load(Ordering::Relaxed))
    }
}

/// A test that fails ends too.
impl Drop for Traffic {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// All that was acknowledged is seen on every node, everywhere the same; and all replicas of a brick have the same rows.
pub(crate) fn check(cluster: &Cluster, acknowledged: &[u64]) {
    cluster.quiet();
    let nodes = cluster.running();
    let all: Vec<Vec<u64>> = nodes.iter().map(|node| cluster.runtime.block_on(seen(node))).collect();
    for seen in &all {
        assert_eq!(seen, &all[0], "all nodes show the same");
        let lost: Vec<_> = acknowledged.iter().filter(|load| !seen.contains(load)).collect();
        assert!(lost.is_empty(), "{lost:?} were acknowledged and are not seen");
    }
    for number in 0..BRICKS {
        let holders = nodes[0].holders(brick(number)).unwrap();
        let mut contents = holders.iter().map(|holder| {
            let node = cluster.node(holder.get());
            let rows = cluster
                .runtime
                .block_on(async { node.snapshot().await.unwrap().read(brick(number)).await.unwrap() });
            let mut rows = values_of(&rows);
            rows.sort_unstable();
            rows
        });
        let first = contents.next().unwrap();
        assert!(contents.all(|other| other == first), "replicas of brick {number} on {holders:?}");
    }
}
