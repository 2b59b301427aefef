// SPDX-License-Identifier: Apache-2.0
//! A history of clients that append to lists and read them, recorded, written to a file if asked, and judged.

use crate::engine::{Place, open};
use crate::error::BenchError;
use crate::histories::{Anomaly, History, Levels, anomalies, record_on};
use crate::machine::{CpuWatch, measure_sync};
use crate::options::{Options, Workload};
use crate::progress::Progress;
use crate::report::Report;
use coeval::CheckpointPolicy;
use std::time::Instant;

/// Records as many transactions of as many clients as the options say, at their level, and looks for anomalies.
///
/// # Errors
/// If the database refuses what it must not, or the file cannot be written.
pub(crate) fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    if options.threads == 0 || options.transactions == 0 {
        return Err(BenchError::Options(
            "list-append needs at least one client and one transaction".to_owned(),
        ));
    }
    let place = Place::new(options)?;
    let db = open(place.path(), options, CheckpointPolicy::default())?;
    let sync = measure_sync(place.path())?;
    let mut report = Report::new(Workload::ListAppend, options, options.transactions);
    progress.begin("record", None);
    let (cpu, started) = (CpuWatch::start(), Instant::now());
    let (levels, transactions) = (Levels::of(options.isolation), options.transactions as usize);
    let is_over = || progress.is_cancelled();
    let history = record_on(&db, levels, options.threads, transactions, options.seed, &is_over)?;
    let seconds = started.elapsed().as_secs_f64();
    let foreign = cpu.foreign_cores();
    progress.end();
    if let Some(path) = &options.out {
        std::fs::write(path, history.to_edn()).map_err(|source| BenchError::file(path, source))?;
    }
    progress.begin("check", None);
    judge(&history, options, &mut report);
    progress.end();
    report.figure("transactions_per_s", history.committed() as f64 / seconds);
    report.environment(foreign, sync);
    Ok(report)
}

fn judge(history: &History, options: &Options, report: &mut Report) {
    let (all, committed) = (history.transactions.len(), history.committed());
    report.count("transactions", all as u64);
    report.count("committed", committed as u64);
    report.figure("abort_percent", 100.0 * (all - committed) as f64 / all.max(1) as f64);
    let found = anomalies(history);
    let allowed: Vec<&str> =
        found.keys().filter(|one| one.is_allowed(options.isolation)).map(|one| one.name()).collect();
    report.note("allowed_anomalies", allowed.join(" "));
    for anomaly in Anomaly::ALL {
        if !anomaly.is_allowed(options.isolation) {
            report.check(anomaly.name(), u64::from(found.contains_key(&anomaly)));
        }
    }
}
