// SPDX-License-Identifier: Apache-2.0
//! What the protocol of epochs costs a load by itself: the time from its begin to its decision, and messages.
//!
//! Five nodes in this process, with sockets of the loopback between them and durability off, take loads of one row in turn, one
//! after the other. Their bricks are on one node each, then on two, as often as the options say; medians count. No SQL takes
//! part, and no server.

use crate::error::BenchError;
use crate::options::{Options, Population};
use crate::progress::Progress;
use crate::report::{Report, median};
use coeval_cluster::{LoadFigure, LoadFigureOptions, measure_small_loads};
use tokio::runtime::{Builder, Runtime};

/// How many nodes there are.
const NODES: u32 = 5;
/// Names of figures begin so, by how many replicas there are.
const WAYS: [(usize, &str); 2] = [(1, "protocol_one_replica_"), (2, "protocol_")];

/// Measures small loads with one replica and with two, by turns.
///
/// # Errors
/// If a node does not start, or a load does not commit.
pub(super) fn measure(
    options: &Options,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let threads = options.threads.max(1);
    let runtime = Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(BenchError::Client)?;
    let mut found: [Vec<LoadFigure>; 2] = Default::default();
    for round in 1..=options.runs.max(1) {
        for ((replicas, _), found) in WAYS.into_iter().zip(&mut found) {
            let phase = format!("round {round}, the protocol alone, bricks on {replicas} of {NODES} nodes");
            progress.begin(&phase, None);
            found.push(one_cluster(replicas, options, &runtime)?);
            progress.end();
        }
    }
    report.note("protocol_durability", "none");
    for ((_, prefix), found) in WAYS.into_iter().zip(&found) {
        tell(prefix, found, report);
    }
    Ok(())
}

/// One cluster, which is gone when this returns.
fn one_cluster(replicas: usize, options: &Options, runtime: &Runtime) -> Result<LoadFigure, BenchError> {
    let usual = LoadFigureOptions { nodes: NODES, replicas, ..LoadFigureOptions::default() };
    let told = match options.population {
        Population::Full => usual,
        Population::Tiny => LoadFigureOptions { loads: 50, warm_up: 10, ..usual },
    };
    let of_directory = |source| BenchError::file(std::env::temp_dir(), source);
    let directory = tempfile::Builder::new().prefix("coeval-bench-").tempdir().map_err(of_directory)?;
    Ok(runtime.block_on(measure_small_loads(told, directory.path(), runtime.handle()))?)
}

fn tell(prefix: &str, found: &[LoadFigure], report: &mut Report) {
    let of = |value: fn(&LoadFigure) -> f64| median(&mut found.iter().map(value).collect::<Vec<_>>());
    report.figure(format!("{prefix}commit_p50_ms"), of(LoadFigure::p50_ms));
    report.figure(format!("{prefix}commit_p99_ms"), of(LoadFigure::p99_ms));
    report.figure(format!("{prefix}messages_per_load"), of(|found| found.messages_per_load));
    let without_heard = of(|found| found.messages_without_heard);
    report.figure(format!("{prefix}messages_without_heard_per_load"), without_heard);
    report.check(format!("{prefix}loads_not_seen"), found.iter().map(|found| found.not_seen).sum());
}
