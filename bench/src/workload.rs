// SPDX-License-Identifier: Apache-2.0
//! Which module runs which workload.

use crate::error::BenchError;
use crate::options::{Options, Workload};
use crate::progress::Progress;
use crate::report::Report;
use crate::{
    aosi, chbench, cluster, connections, get, list_append, load, priority, recovery, replica, rss, sharing,
    tique, tpcc, tpch, ycsb,
};

/// Runs a workload and returns what it found. `progress` is told what happens meanwhile.
///
/// A report with violations is no error: it says that the database did wrong, see [`Report::violations`].
/// A database in a directory of the options' stays there; a temporary one is removed.
///
/// # Errors
/// If the options make no sense, the directory holds something else, or the database refuses what it must not.
/// What had been loaded or committed until then is still in a directory of the options'.
pub fn run(workload: Workload, options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    if !(options.seconds > 0.0 && options.seconds.is_finite()) {
        return Err(BenchError::Options("a run takes more than 0 seconds".to_owned()));
    }
    if !(0.0..=1.0).contains(&options.update_fraction) {
        return Err(BenchError::Options("the share of updated rows lies between 0 and 1".to_owned()));
    }
    let is_served = matches!(
        workload,
        Workload::Tpcc | Workload::Chbench | Workload::Ycsb | Workload::Sharing | Workload::Connections
    );
    if options.url.is_some() && !is_served {
        let name = workload.name();
        return Err(BenchError::Options(format!("{name} runs on an embedded database, not on a server")));
    }
    match workload {
        Workload::Tpcc => tpcc::run(options, progress),
        Workload::Tpch => tpch::run(options, progress),
        Workload::Chbench => chbench::run(options, progress),
        Workload::Ycsb => ycsb::run(options, progress),
        Workload::Get => get::run(options, progress),
        Workload::Load => load::run(options, progress),
        Workload::ListAppend => list_append::run(options, progress),
        Workload::Priority => priority::run(options, progress),
        Workload::Rss => rss::run(options, progress),
        Workload::Sharing => sharing::run(options, progress),
        Workload::Recovery => recovery::run(options, progress),
        Workload::Tique => tique::run(options, progress),
        Workload::Connections => connections::run(options, progress),
        Workload::Replica => replica::run(options, progress),
        Workload::Cluster => cluster::run(options, progress),
        Workload::AosiMemory => aosi::memory(options, progress),
        Workload::AosiLatency => aosi::latency(options, progress),
        Workload::AosiIngest => aosi::ingest(options, progress),
        Workload::AosiScan => aosi::scan(options, progress),
    }
}
