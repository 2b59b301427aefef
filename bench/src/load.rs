// SPDX-License-Identifier: Apache-2.0
//! Bulk load: TPC-H's tables from Parquet files into tables with primary keys, durable when the clock stops.

use crate::engine::{Place, open, query_number};
use crate::error::BenchError;
use crate::machine::{CpuWatch, measure_sync, resident_bytes};
use crate::options::{Options, Workload};
use crate::progress::Progress;
use crate::report::Report;
use crate::tpch::{TABLES, populate, read_parquet, write_parquet};
use arrow::array::RecordBatch;
use coeval::CheckpointPolicy;
use std::path::Path;
use tempfile::TempDir;

/// Runs the load as the options say; the files are made first if the options name none.
///
/// # Errors
/// If a file or the database refuses something.
pub(crate) fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    let mut made: Option<TempDir> = None;
    let mut options = options.clone();
    let files = match &options.read_parquet {
        Some(directory) => directory.clone(),
        None => {
            let parent = std::env::temp_dir();
            let directory = made
                .insert(tempfile::tempdir_in(&parent).map_err(|source| BenchError::file(parent, source))?);
            write_parquet(directory.path(), options.scale, progress)?;
            directory.path().to_owned()
        }
    };
    options.read_parquet = Some(files.clone());
    let (arrow_bytes, file_rows) = arrow_size(&files)?;
    let place = Place::new(&options)?;
    let db = open(place.path(), &options, CheckpointPolicy::default())?;
    let sync = measure_sync(place.path())?;
    let mut report = Report::new(Workload::Load, &options, options.scale);
    let resident_before = resident_bytes();
    let cpu = CpuWatch::start();
    let loaded = populate(&db, &options, progress)?.ok_or_else(|| {
        BenchError::Options("the directory is loaded already; choose an empty one".to_owned())
    })?;
    report.environment(cpu.foreign_cores(), sync);
    let resident = resident_bytes().saturating_sub(resident_before);
    let seconds = loaded.time.as_secs_f64();
    report.figure("load_s", seconds);
    report.figure("rows_per_s", loaded.rows as f64 / seconds);
    report.count("rows", loaded.rows);
    report.count("arrow_bytes", arrow_bytes);
    report.count("resident_bytes", resident);
    report.figure("resident_to_arrow_ratio", resident as f64 / arrow_bytes as f64);
    let mut session = db.session();
    let mut found = 0;
    for table in TABLES {
        found += query_number(&mut session, &format!("SELECT count(*) FROM {}", table.name))?.unsigned_abs();
    }
    report.check("lost_rows", file_rows.abs_diff(found));
    Ok(report)
}

/// The size of all tables as Arrow batches in memory, and their rows; one batch is in memory at a time.
fn arrow_size(directory: &Path) -> Result<(u64, u64), BenchError> {
    let (mut bytes, mut rows) = (0, 0);
    for table in TABLES {
        for batch in read_parquet(directory, table)? {
            let batch: RecordBatch = batch?;
            bytes += batch.get_array_memory_size() as u64;
            rows += batch.num_rows() as u64;
        }
    }
    Ok((bytes, rows))
}
