// SPDX-License-Identifier: Apache-2.0
//! What a small load costs on many nodes: time and messages.
//!
//! The nodes are in one process, on addresses of the loopback, with real sockets between them; durability is off, so no disk
//! is in it. Each load is begun on the next node and appends one row to one brick; the time is from the begin to the decision.

use crate::driver::{
    CommitWait, LoadError, Node, ReadError, TABLE, loopback_tables, row_of, start_on_loopback,
};
use crate::start_error::StartError;
use coeval_txn::cluster::BrickAddress;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// Bricks that the loads go to in turn.
const BRICKS: u64 = 64;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct LoadFigureOptions {
    /// How many nodes there are.
    pub nodes: u32,
    /// On how many each brick is.
    pub replicas: usize,
    /// How many loads are measured.
    pub loads: usize,
    /// How many go before, unmeasured.
    pub warm_up: usize,
}

impl Default for LoadFigureOptions {
    fn default() -> Self {
        Self { nodes: 5, replicas: 2, loads: 2_000, warm_up: 200 }
    }
}

/// What small loads cost, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct LoadFigure {
    /// Half of the loads take no longer, from begin to decision.
    pub p50: Duration,
    /// All but one of a hundred take no longer.
    pub p99: Duration,
    /// Messages between nodes for each load: requests, answers, and those that tell of the decision and that it was heard.
    pub messages_per_load: f64,
    /// Those among them that the decision waited for or was told by: without the answers that tell that it was heard.
    pub messages_without_heard: f64,
    /// Loads that some node does not show in the end; there is none.
    pub not_seen: u64,
}

impl LoadFigure {
    /// [`LoadFigure::p50`] in milliseconds.
    #[must_use]
    pub fn p50_ms(&self) -> f64 {
        self.p50.as_secs_f64() * 1e3
    }

    /// [`LoadFigure::p99`] in milliseconds.
    #[must_use]
    pub fn p99_ms(&self) -> f64 {
        self.p99.as_secs_f64() * 1e3
    }
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadFigureError {
    /// A node has not started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A load has not committed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// What was loaded cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Measures small loads on nodes that keep their logs under `directory`, which is the caller's to remove.
///
/// # Errors
/// If a node does not start, a load does not commit, or nobody gives its rows. What has started ends.
///
/// # Panics
/// If there is no node, or no load to measure.
pub async fn measure_small_loads(
    options: LoadFigureOptions,
    directory: &Path,
    runtime: &Handle,
) -> Result<LoadFigure, LoadFigureError> {
    assert!(options.nodes > 0 && options.loads > 0, "something is measured");
    let nodes = start_on_loopback(options.nodes, options.replicas, directory, runtime).await?;
    let measured = measure(options, &nodes).await;
    for node in &nodes {
        node.stop().await;
    }
    measured
}

async fn measure(options: LoadFigureOptions, nodes: &[Node]) -> Result<LoadFigure, LoadFigureError> {
    let tables = loopback_tables().map_err(StartError::Threads)?;
    let mut times = Vec::with_capacity(options.loads);
    let mut before = (0, 0);
    for number in 0..options.warm_up + options.loads {
        if number == options.warm_up {
            before = counted(nodes);
        }
        let begun = Instant::now();
        let mut load = nodes[number % nodes.len()].begin().await?;
        let (brick, row) = row_of(&tables, number as u64 % BRICKS, 7).map_err(LoadError::Refused)?;
        load.append(brick, row).await?;
        load.commit(CommitWait::Decided).await?;
        if number >= options.warm_up {
            times.push(begun.elapsed());
        }
    }
    // A node that shows a load was told of its decision, and has said so.
    let not_seen = not_seen((options.warm_up + options.loads) as u64, nodes).await?;
    let after = counted(nodes);
    times.sort_unstable();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
    let per_load = |before: u64, after: u64| (after - before) as f64 / options.loads as f64;
    Ok(LoadFigure {
        p50: at(50),
        p99: at(99),
        messages_per_load: per_load(before.0, after.0),
        messages_without_heard: per_load(before.0 - before.1, after.0 - after.1),
        not_seen,
    })
}

/// How many of so many loads are missing on the node that shows the fewest, once all have been told of the decisions.
async fn not_seen(loads: u64, nodes: &[Node]) -> Result<u64, ReadError> {
    let mut missing = 0;
    for node in nodes {
        let begun = Instant::now();
        let mut of_node = loads.abs_diff(seen(node).await?);
        while of_node > 0 && begun.elapsed() < Duration::from_secs(5) {
            tokio::time::sleep(Duration::from_millis(20)).await;
            of_node = loads.abs_diff(seen(node).await?);
        }
        missing = missing.max(of_node);
    }
    Ok(missing)
}

/// The loads that a node shows: each has one row.
async fn seen(node: &Node) -> Result<u64, ReadError> {
    let (snapshot, mut seen) = (node.snapshot().await?, 0);
    for brick in 0..BRICKS {
        seen += snapshot.read(BrickAddress { table: TABLE, brick }).await?.count() as u64;
    }
    Ok(seen)
}

/// What all nodes have sent for loads, and how much of that tells that a decision was heard.
fn counted(nodes: &[Node]) -> (u64, u64) {
    let mut counted = (0, 0);
    for status in nodes.iter().filter_map(Node::status) {
        counted.0 += status.messages.sent_for_loads();
        let heard = status.messages.named().filter(|(name, _)| *name == "heard");
        counted.1 += heard.map(|(_, counts)| counts.sent).sum::<u64>();
    }
    counted
}
