// SPDX-License-Identifier: Apache-2.0
//! How fast rows come in: by Arrow appends and COPY (Figure 10), stage by stage (Figure 5), and beside dashboards.

use super::dashboards;
use super::{LOAD_ROWS, TRANSACTION_ROWS, Target};
use crate::engine::{Place, open};
use crate::error::BenchError;
use crate::histogram::Histogram;
use crate::machine::{CpuWatch, measure_sync};
use crate::options::{Options, Workload};
use crate::progress::Progress;
use crate::report::Report;
use arrow::array::RecordBatch;
use coeval::{CheckpointPolicy, Database, Isolation, Session};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Loads of which the stages are measured.
const STAGED_LOADS: usize = 400;

/// Rows per second by Arrow appends and by COPY, alone and beside dashboards, and what a load's stages take.
///
/// # Errors
/// If the database refuses something, or a file cannot be written.
pub(crate) fn ingest(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    let place = Place::new(options)?;
    let db = open(place.path(), options, CheckpointPolicy::Manual)?;
    let sync = measure_sync(place.path())?;
    let mut report = Report::new(Workload::AosiIngest, options, options.rows);
    let mut session = db.session();
    let cpu = CpuWatch::start();
    let narrow = Target { name: "narrow", columns: 1, bricks: 100 };
    let wide = Target { name: "wide", columns: 20, bricks: 100 };
    for (target, rows) in [(&narrow, options.rows), (&wide, options.rows / 20)] {
        target.create(&mut session)?;
        let (rows, seconds) = target.fill(&db, options.seed, rows, LOAD_ROWS, progress)?;
        target.check(&mut session, rows, &mut report)?;
        let per_second = rows as f64 / seconds;
        report.figure(format!("{}_append_rows_per_s", target.name), per_second);
        report
            .figure(format!("{}_append_bytes_per_s", target.name), per_second * 8.0 * target.columns as f64);
    }
    let files = beside(place.path())?;
    copy(&mut session, files.path(), &wide, &mut report, progress)?;
    stages(&db, files.path(), &wide, options, &mut report, progress)?;
    dashboards::beside(&db, &wide, options, &mut report, progress)?;
    report.environment(cpu.foreign_cores(), sync);
    Ok(report)
}

/// A directory for files on the disk of the database, which takes none but its own into its directory. It goes with what is given.
fn beside(database: &Path) -> Result<TempDir, BenchError> {
    let named = database.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = named.unwrap_or_else(|| Path::new("."));
    tempfile::tempdir_in(parent).map_err(|error| BenchError::file(parent, error))
}

/// COPY of a table to CSV and back into another, by a file in the directory.
fn copy(
    session: &mut Session,
    directory: &Path,
    source: &Target,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<(), BenchError> {
    let path = directory.join("wide.csv");
    let name = path.display().to_string().replace('\'', "''");
    let target = Target { name: "copied", ..*source };
    target.create(session)?;
    progress.begin("copy", None);
    let rows = session.execute(&format!("COPY {} TO '{name}' (FORMAT csv)", source.name))?;
    let bytes = std::fs::metadata(&path).map_err(|error| BenchError::file(&path, error))?.len();
    let started = Instant::now();
    session.execute(&format!("COPY {} FROM '{name}' (FORMAT csv)", target.name))?;
    let seconds = started.elapsed().as_secs_f64();
    progress.end();
    target.check(session, rows, report)?;
    report.count("copy_rows", rows);
    report.figure("copy_rows_per_s", rows as f64 / seconds);
    report.figure("copy_bytes_per_s", bytes as f64 / seconds);
    Ok(())
}

/// What the stages of a load of 5,000 rows of 20 columns take, one client loading: Figure 5. *Parse* is what a COPY of the
/// rows as CSV takes beyond an append of the same rows as a batch, *route* and *flush* are stages of that append.
fn stages(
    db: &Database,
    directory: &Path,
    source: &Target,
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<(), BenchError> {
    let mut session = db.session();
    let (parsed, staged) = (Target { name: "parsed", ..*source }, Target { name: "staged", ..*source });
    let batch = staged.batch(&mut StdRng::seed_from_u64(options.seed), TRANSACTION_ROWS)?;
    for target in [&parsed, &staged] {
        target.create(&mut session)?;
        // The first rows of a table make its bricks, which is not what is measured.
        db.append(target.name, &batch)?;
    }
    let path = directory.join("load.csv");
    let name = path.display().to_string().replace('\'', "''");
    session.execute(&format!("COPY {} TO '{name}' (FORMAT csv)", parsed.name))?;
    let copy = format!("COPY {} FROM '{name}' (FORMAT csv)", parsed.name);
    let loads = options.runs.clamp(1, STAGED_LOADS);
    progress.begin("stages of a load", Some(loads as u64));
    let mut times: [Histogram; 4] = Default::default();
    for _ in 0..loads {
        let appended = append_by_stages(db, staged.name, &batch)?;
        let started = Instant::now();
        session.execute(&copy)?;
        let copied = started.elapsed();
        let parse = copied.saturating_sub(appended.iter().sum());
        for (times, time) in times.iter_mut().zip([parse].into_iter().chain(appended)) {
            times.record_duration(time);
        }
        progress.advance(1);
    }
    progress.end();
    for (stage, times) in ["parse", "route", "flush", "commit"].iter().zip(&times) {
        for percent in [50_u8, 90, 99] {
            let micros = times.percentile(f64::from(percent)) as f64 / 1e3;
            report.figure(format!("load_{stage}_p{percent}_us"), micros);
        }
    }
    let _ = std::fs::remove_file(path);
    Ok(())
}

/// Appends a batch in a transaction of its own. The times of routing it, of waiting until the shards have flushed it, and
/// of committing it.
fn append_by_stages(db: &Database, table: &str, batch: &RecordBatch) -> Result<[Duration; 3], BenchError> {
    let table = db.table(table)?;
    let mut transaction = db.store().begin_applied(Isolation::Snapshot);
    let started = Instant::now();
    transaction.append(table.id(), batch, 0).map_err(coeval::Error::from)?;
    let routed = started.elapsed();
    // Reading own rows waits for the shards.
    transaction.brick_view(table.id(), |all| all).map_err(coeval::Error::from)?;
    let flushed = started.elapsed();
    transaction.commit().map_err(coeval::Error::from)?;
    Ok([routed, flushed - routed, started.elapsed() - flushed])
}
