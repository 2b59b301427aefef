// SPDX-License-Identifier: Apache-2.0
//! A measured run: all 22 queries, one after the other, several times; the median of each counts.

use super::answers::differing_rows;
use super::files::write_parquet;
use super::load::populate;
use super::queries::{QUERY_COUNT, query};
use super::update::{UPDATED, delta_share, update_random_rows};
use crate::engine::{self, Place, open};
use crate::error::BenchError;
use crate::machine::{CpuWatch, measure_sync, resident_bytes};
use crate::options::{Options, Workload};
use crate::progress::Progress;
use crate::report::{Report, median};
use arrow::array::RecordBatch;
use coeval::{CheckpointPolicy, Database, Session};
use std::fs::File;
use std::path::Path;
use std::time::Instant;

/// Runs TPC-H as the options say.
///
/// # Errors
/// If the database refuses something, or a file cannot be written.
pub(crate) fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    if let Some(directory) = &options.write_parquet {
        return write_tables(directory, options, progress);
    }
    let place = Place::new(options)?;
    let checkpoint =
        if options.update_fraction > 0.0 { CheckpointPolicy::Manual } else { CheckpointPolicy::default() };
    let db = open(place.path(), options, checkpoint)?;
    let mut report = Report::new(Workload::Tpch, options, options.scale);
    let resident_before = resident_bytes();
    if let Some(loaded) = populate(&db, options, progress)? {
        let seconds = loaded.time.as_secs_f64();
        report.figure("load_s", seconds);
        report.figure("load_rows_per_s", loaded.rows as f64 / seconds);
        report.count("rows", loaded.rows);
        report.count("load_resident_bytes", resident_bytes().saturating_sub(resident_before));
    }
    if options.update_fraction > 0.0 {
        let updated = update_random_rows(&db, options, progress)?;
        report.count("updated_rows", updated);
        report_delta(&db, &mut report, "before")?;
    }
    let sync = measure_sync(place.path())?;
    let cpu = CpuWatch::start();
    measure(&db, options, progress, &mut report)?;
    report.environment(cpu.foreign_cores(), sync);
    if options.update_fraction > 0.0 {
        report_delta(&db, &mut report, "after")?;
    }
    Ok(report)
}

fn write_tables(directory: &Path, options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    let mut report = Report::new(Workload::Tpch, options, options.scale);
    let started = Instant::now();
    let cpu = CpuWatch::start();
    let bytes = write_parquet(directory, options.scale, progress)?;
    report.figure("write_parquet_s", started.elapsed().as_secs_f64());
    report.count("parquet_bytes", bytes);
    report.environment(cpu.foreign_cores(), measure_sync(directory)?);
    Ok(report)
}

fn report_delta(db: &Database, report: &mut Report, when: &str) -> Result<(), BenchError> {
    for table in UPDATED {
        report.figure(format!("{table}_delta_share_{when}"), delta_share(db, table)?);
    }
    Ok(())
}

/// Runs every query once to warm up and to look at its answer, then measures it.
fn measure(
    db: &Database,
    options: &Options,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let mut session = db.session();
    progress.begin("TPC-H queries", Some((QUERY_COUNT * (options.runs + 1)) as u64));
    for number in 1..=QUERY_COUNT {
        let answer = engine::query(&mut session, &query(number, options.scale))?;
        if let Some(directory) = &options.write_answers {
            write_answer(directory, number, &answer)?;
        }
        if options.scale == 1.0 {
            report.check(format!("q{number:02}_differing_rows"), differing_rows(number, &answer)?);
        }
        progress.advance(1);
    }
    let mut times_ms = vec![Vec::new(); QUERY_COUNT];
    for _ in 0..options.runs {
        for (number, times_ms) in (1..).zip(&mut times_ms) {
            times_ms.push(time_ms(&mut session, &query(number, options.scale))?);
            progress.advance(1);
        }
    }
    progress.end();
    report_times(report, &mut times_ms);
    Ok(())
}

fn time_ms(session: &mut Session, text: &str) -> Result<f64, BenchError> {
    let started = Instant::now();
    engine::query(session, text)?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

fn report_times(report: &mut Report, times_ms: &mut [Vec<f64>]) {
    let medians: Vec<f64> = times_ms.iter_mut().map(|times| median(times)).collect();
    report.figure("geomean_ms", geometric_mean(&medians));
    report.figure("total_ms", medians.iter().sum());
    for (number, median) in (1..).zip(&medians) {
        report.figure(format!("q{number:02}_ms"), *median);
    }
}

fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// Writes an answer as `q01.csv` and so on.
fn write_answer(directory: &Path, number: usize, answer: &[RecordBatch]) -> Result<(), BenchError> {
    std::fs::create_dir_all(directory).map_err(|source| BenchError::file(directory, source))?;
    let path = directory.join(format!("q{number:02}.csv"));
    let file = File::create(&path).map_err(|source| BenchError::file(&path, source))?;
    let mut writer = arrow::csv::Writer::new(file);
    answer.iter().try_for_each(|batch| writer.write(batch))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_geometric_mean_multiplies() {
        assert!((geometric_mean(&[1.0, 100.0]) - 10.0).abs() < 1e-9);
    }
}
