// SPDX-License-Identifier: Apache-2.0
//! The command line of the demo.

use super::{at_least_one, directory_alone, durability, positive};
use clap::Args;
use clap::builder::TypedValueParser;
use coeval::Durability;
use coeval_bench::Population;
use std::path::PathBuf;

/// Run transactions and analytics on the same live data and check every snapshot
///
/// Opens an embedded database in a directory, loads CH-benCHmark data (TPC-C's nine tables, and suppliers, nations and
/// regions), runs TPC-C's five transactions from several threads while the 22 analytical queries run against read-only
/// snapshots, checks TPC-C's consistency conditions inside every snapshot, and ends with a table.
///
/// With --ingest: sources load events into a brick table at an even rate while dashboards read them in safe snapshots and
/// check that no load is there by half and no count goes backwards.
///
/// With --replicas: a primary under TPC-C whose commits wait for any one of the replicas, which answer the queries at
/// SERIALIZABLE; kill -9 of the primary in the middle, and promotion of a replica. At the end everything that was acknowledged is
/// looked for, all nodes are checked, and the age of the safe snapshots is drawn.
///
/// With --cluster: a brick table that is spread over several servers, with loads and dashboards on all of them, whose counts have to
/// add up; kill -9 of one in the middle, which comes back. At the end all nodes have to count everything that was acknowledged.
///
/// Stop it with Ctrl-C, or kill it in the middle: opened again, every acknowledged commit is there.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  coeval demo
  coeval demo --ingest
  coeval demo --replicas 2
  coeval demo --cluster 3
  coeval demo --dir my-demo --warehouses 4 --threads 8 --seconds 120
  coeval demo --dir my-demo         once more: goes on with the data that is there")]
pub(crate) struct DemoArguments {
    /// The database directory; goes on with what an earlier demo left there [default: coeval-demo in the system's
    /// directory for temporary files]
    #[arg(long, value_name = "DIR", value_parser = directory_alone(OPENED_AGAIN))]
    pub(crate) dir: Option<PathBuf>,
    /// How much data to load: about 600,000 rows for each warehouse [default: 1, or what is there]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) warehouses: Option<u32>,
    /// A firehose into a brick table beside dashboards, instead of transactions beside queries
    #[arg(long, conflicts_with = "warehouses")]
    pub(crate) ingest: bool,
    /// A primary and so many replicas, each a server of its own: transactions on the primary, serializable queries on the replicas; in
    /// the middle the primary is killed, and a replica promoted
    #[arg(long, value_name = "N", value_parser = replicas(), conflicts_with = "ingest")]
    pub(crate) replicas: Option<usize>,
    /// So many servers with a brick table that is spread over them: loads and dashboards on all; in the middle one is killed, and
    /// brought back
    #[arg(long, value_name = "N", value_parser = cluster_nodes(), conflicts_with_all = ["ingest", "replicas", "warehouses"])]
    pub(crate) cluster: Option<usize>,
    /// With --ingest: how many rows a second all sources have together
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate: u64,
    /// Threads that run transactions; with --ingest, sources
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = at_least_one)]
    pub(crate) threads: usize,
    /// Threads that run analytical queries; with --ingest, dashboards; with --replicas, for each replica
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) streams: usize,
    /// How long to run once the data is loaded
    #[arg(long, value_name = "N", default_value_t = 40.0, value_parser = positive)]
    pub(crate) seconds: f64,
    /// Remove what an earlier demo left in the directory and load anew
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Whether each commit waits for the disk (fsync) or not (none)
    #[arg(long, default_value = "fsync", value_parser = durability())]
    pub(crate) durability: Durability,
    /// A small fraction of the data, for tests
    #[arg(long, hide = true)]
    pub(crate) tiny: bool,
}

/// What to do instead of a demo in memory.
const OPENED_AGAIN: &str = "the demo is to be opened again, also behind a crash: without --dir it is among the system's temporary files";

impl DemoArguments {
    /// Full size, unless a test asked for less.
    pub(crate) fn population(&self) -> Population {
        if self.tiny { Population::Tiny } else { Population::Full }
    }
}

/// More would only share the same processors.
fn replicas() -> impl TypedValueParser<Value = usize> {
    clap::value_parser!(u64).range(1..=8).map(|count| count as usize)
}

/// Each brick is on two.
fn cluster_nodes() -> impl TypedValueParser<Value = usize> {
    clap::value_parser!(u64).range(2..=8).map(|count| count as usize)
}
