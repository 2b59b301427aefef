// SPDX-License-Identifier: Apache-2.0
//! The RSS paper's experiment on two nodes (its 6.2, Figures 8 to 10): TPC-C's terminals on a primary, analytical clients on
//! a replica, and what else a replica costs and gives.
//!
//! ```text
//! SSI+RSS    terminals SERIALIZABLE | replica: SERIALIZABLE READ ONLY on safe snapshots
//! SSI+SI     the same               | replica: REPEATABLE READ; nothing of safe snapshots is logged, sent or noted
//!
//! each round, in turn       both pairs, with 0, 1, 2, 4 and so on streams of queries
//! each round behind these   commits that wait for the replica, or do not | the replica halts, then catches up
//! at the end                histories of clients on both sides
//! with servers of their own a primary that archives its log or does not, in turn | a typed log, applied in this process
//! ```
//!
//! All servers are processes of their own on this machine, which they share with the clients. A pair that is not measured is
//! idle. Ratios are of phases right behind each other, whose order alternates; their 95 % interval is beside them.

mod anomalies;
mod archiving;
mod catching_up;
mod pair;
mod throughput;
mod waiting;

use crate::chbench::populate_all;
use crate::directories::{copy_directory, removed};
use crate::engine::{Place, open};
use crate::error::BenchError;
use crate::interval::Estimate;
use crate::machine::{CpuWatch, measure_sync};
use crate::options::{Options, Workload};
use crate::progress::Progress;
use crate::report::Report;
use crate::system::System;
use coeval::{CheckpointPolicy, Durability, Isolation};
use pair::{Kind, Pair};
use std::path::{Path, PathBuf};

/// Runs everything as often as the options say, each phase for their time.
///
/// # Errors
/// If the options make no sense, a server does not start, or a statement fails that must not; conflicts are counted and
/// tried again.
pub(crate) fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    let options = &checked(options)?;
    let place = Place::new(options)?;
    let sync = measure_sync(place.path())?;
    let base = populated(place.path(), options, progress)?;
    let mut report = Report::new(Workload::Replica, options, options.warehouses);
    let cpu = CpuWatch::with_children();
    {
        progress.begin("start the servers, copy the databases", None);
        let [rss, si] = Kind::ALL.map(|kind| Pair::start(kind, &base, place.path(), options));
        let pairs = [rss?, si?];
        progress.end();
        report.name_system(System::Server(pairs[0].primary()));
        report.count("rounds", options.runs as u64);
        report.count("streams_max", options.streams as u64);
        throughput::measure(&pairs, options, progress, &mut report)?;
        waiting::measure(&pairs[0], options, progress, &mut report)?;
        catching_up::measure(&pairs[0], options, progress, &mut report)?;
        for pair in &pairs {
            anomalies::look(pair, options, progress, &mut report)?;
            pair.check(progress, &mut report)?;
        }
    }
    archiving::measure(&base, place.path(), options, progress, &mut report)?;
    catching_up::measure_typed(&base, place.path(), options, progress, &mut report)?;
    report.environment(cpu.foreign_cores(), sync);
    Ok(report)
}

fn checked(options: &Options) -> Result<Options, BenchError> {
    let refused = |message: &str| Err(BenchError::Options(message.to_owned()));
    if options.server_program.is_none() {
        return refused("replica starts servers of the program coeval, and there is none");
    }
    if options.durability != Durability::Fsync {
        return refused("replica measures commits that wait for the disk");
    }
    if options.streams == 0 {
        return refused("replica needs at least one stream of queries");
    }
    Ok(Options { isolation: Isolation::Serializable, ..options.clone() })
}

/// The directory with the population that all databases of the run begin with. One of an earlier run stays as it is.
fn populated(place: &Path, options: &Options, progress: &dyn Progress) -> Result<PathBuf, BenchError> {
    let base = place.join("base");
    let db = open(&base, options, CheckpointPolicy::default())?;
    populate_all(&db, options, progress)?;
    db.checkpoint()?;
    Ok(base)
}

/// A new directory of this name with what the base has.
fn copy_of(base: &Path, place: &Path, name: &str) -> Result<PathBuf, BenchError> {
    let copy = removed(place, name)?;
    copy_directory(base, &copy)?;
    Ok(copy)
}

/// Adds a ratio, named without its last word, and where it lies with a confidence of 95 %.
fn tell_ratio(name: &str, estimate: Estimate, report: &mut Report) {
    report.figure(format!("{name}_ratio"), estimate.mean);
    if estimate.high.is_finite() {
        report.figure(format!("{name}_low_ratio"), estimate.low);
        report.figure(format!("{name}_high_ratio"), estimate.high);
    }
}
