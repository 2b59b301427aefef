// SPDX-License-Identifier: Apache-2.0
//! AOSI's experiments on brick tables: what epochs take of memory and of a query's time, how fast rows come in, how fast they
//! are read.
//!
//! A table has a dimension of 64-bit integers, uniformly at random, and metrics of eight bytes. Clients append Arrow
//! batches that were made before the clock runs, the same few again and again.

mod curve;
mod dashboards;
mod ingest;
mod latency;

use crate::engine::query_number;
use crate::error::BenchError;
use crate::machine::{CpuWatch, measure_sync};
use crate::options::{Options, Workload};
use crate::progress::Progress;
use crate::report::{Report, median};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use coeval::{Database, Durability, Session};
use curve::{Sample, draw};
pub(crate) use ingest::ingest;
pub(crate) use latency::latency;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Clients that append at once, as in the paper.
const CLIENTS: usize = 4;
/// Different batches of a client.
const CLIENT_BATCHES: usize = 16;
/// Values of the dimension.
const KEYS: i64 = 1_600;
/// Rows of a transaction where their number is the paper's.
const TRANSACTION_ROWS: usize = 5_000;
/// Rows of a transaction where ingestion alone is measured.
const LOAD_ROWS: usize = 65_536;
/// A table of 40 columns has one in so many rows of that of one column: ten million of a hundred million.
const WIDE_SHARE: u64 = 10;
/// How long it is between two looks at what a table takes.
const BETWEEN_SAMPLES: Duration = Duration::from_millis(100);
/// How long purge is waited for.
const PURGE_PATIENCE: Duration = Duration::from_secs(20);

/// A table to be filled.
struct Target {
    name: &'static str,
    /// How many columns, the dimension included.
    columns: usize,
    /// How many bricks the dimension is cut into.
    bricks: i64,
}

impl Target {
    fn create(&self, session: &mut Session) -> Result<(), BenchError> {
        let metrics: String = (1..self.columns).map(|metric| format!(", m{metric} bigint")).collect();
        let (name, size) = (self.name, KEYS / self.bricks);
        session.execute(&format!(
            "CREATE TABLE {name} (key bigint{metrics}) USING brick \
             PARTITION BY (key CARDINALITY {KEYS} RANGE SIZE {size})"
        ))?;
        Ok(())
    }

    fn batch(&self, random: &mut StdRng, rows: usize) -> Result<RecordBatch, BenchError> {
        let mut column = |limit: i64| -> ArrayRef {
            Arc::new((0..rows).map(|_| random.random_range(0..limit)).collect::<Int64Array>())
        };
        let mut columns = vec![("key".to_owned(), column(KEYS))];
        columns.extend((1..self.columns).map(|metric| (format!("m{metric}"), column(1_000_000))));
        Ok(RecordBatch::try_from_iter(columns)?)
    }

    /// Appends `rows` rows, a few more so that transactions are whole; how many they were and how long it took.
    fn fill(
        &self,
        db: &Database,
        seed: u64,
        rows: u64,
        transaction_rows: usize,
        progress: &dyn Progress,
    ) -> Result<(u64, f64), BenchError> {
        let mut random = StdRng::seed_from_u64(seed);
        let mut batches = || -> Result<Vec<RecordBatch>, BenchError> {
            (0..CLIENT_BATCHES).map(|_| self.batch(&mut random, transaction_rows)).collect()
        };
        let clients = (0..CLIENTS).map(|_| batches()).collect::<Result<Vec<_>, _>>()?;
        let loads = rows.div_ceil((transaction_rows * CLIENTS) as u64) as usize;
        let total = (loads * CLIENTS * transaction_rows) as u64;
        progress.begin(&format!("append to {}", self.name), Some(total));
        let started = Instant::now();
        std::thread::scope(|scope| {
            let client = |batches: Vec<RecordBatch>| {
                scope.spawn(move || {
                    for load in 0..loads {
                        let rows = db.append(self.name, &batches[load % CLIENT_BATCHES])?;
                        progress.advance(rows);
                    }
                    Ok::<(), BenchError>(())
                })
            };
            let clients: Vec<_> = clients.into_iter().map(client).collect();
            clients.into_iter().try_for_each(|client| client.join().expect("a client does not panic"))
        })?;
        let seconds = started.elapsed().as_secs_f64();
        progress.end();
        Ok((total, seconds))
    }

    /// Notes whether the table has as many rows as were appended.
    fn check(&self, session: &mut Session, rows: u64, report: &mut Report) -> Result<(), BenchError> {
        let found = query_number(session, &format!("SELECT count(*) FROM {}", self.name))?;
        report.check(format!("{}_rows_missing", self.name), rows.abs_diff(found.unsigned_abs()));
        Ok(())
    }
}

/// What epochs vectors take beside the values: Figures 6 and 7.
///
/// # Errors
/// If the database refuses something.
pub(crate) fn memory(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    let sync = measure_sync(&std::env::temp_dir())?;
    let mut report = Report::new(Workload::AosiMemory, options, options.rows);
    let cpu = CpuWatch::start();
    for (prefix, columns, rows) in [("", 1, options.rows), ("wide_", 40, options.rows / WIDE_SHARE)] {
        let db = Database::options().durability(Durability::None).in_memory()?;
        let target = Target { name: "events", columns, bricks: 100 };
        let mut session = db.session();
        target.create(&mut session)?;
        // A snapshot is held from its first read on, and keeps purge away until the peak was looked at. It has some rows:
        // one without any is not concerned by what purge does.
        let (rows_before, _) = target.fill(&db, options.seed, 1, TRANSACTION_ROWS, progress)?;
        let mut holder = db.session();
        holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
        let held =
            |holder: &mut Session| Ok::<_, BenchError>(count(holder, target.name)?.abs_diff(rows_before));
        report.check(format!("{prefix}rows_before"), held(&mut holder)?);
        let begun = Instant::now();
        let (filled, mut samples) = watched(&db, &target, begun, || {
            target.fill(&db, options.seed, rows, TRANSACTION_ROWS, progress)
        })?;
        let (loaded, seconds) = filled;
        let peak_bytes = epochs_bytes(&mut session)?;
        let rows = loaded + rows_before;
        report.check(format!("{prefix}rows_in_held_snapshot"), held(&mut holder)?);
        holder.execute("COMMIT")?;
        let data_bytes = (rows * 8 * columns as u64) as f64;
        target.check(&mut session, rows, &mut report)?;
        report.figure(format!("{prefix}rows_per_s"), loaded as f64 / seconds);
        report.count(format!("{prefix}epochs_peak_bytes"), peak_bytes);
        report.figure(format!("{prefix}epochs_overhead_peak_ratio"), peak_bytes as f64 / data_bytes);
        let purged_bytes = purged(&db, &mut session)?;
        report.count(format!("{prefix}epochs_after_purge_bytes"), purged_bytes);
        report.figure(format!("{prefix}epochs_overhead_after_purge_ratio"), purged_bytes as f64 / data_bytes);
        report.figure(format!("{prefix}timestamps_ratio"), 16.0 / (8 * columns) as f64);
        target.check(&mut session, rows, &mut report)?;
        if let Some(path) = options.out.as_ref().filter(|_| columns == 1) {
            let seconds = begun.elapsed().as_secs_f64();
            samples.push(Sample { seconds, rows, epochs_bytes: purged_bytes });
            draw(&samples, path)?;
        }
    }
    report.environment(cpu.foreign_cores(), sync);
    Ok(report)
}

/// Does `work`, and looks from time to time what the table and its epochs vectors take.
fn watched<T>(
    db: &Database,
    target: &Target,
    begun: Instant,
    work: impl FnOnce() -> Result<T, BenchError>,
) -> Result<(T, Vec<Sample>), BenchError> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let (mut session, mut samples) = (db.session(), Vec::new());
            loop {
                // The last look comes behind the work.
                let is_last = is_over.load(Ordering::Acquire);
                let seconds = begun.elapsed().as_secs_f64();
                let (rows, epochs_bytes) = (count(&mut session, target.name)?, epochs_bytes(&mut session)?);
                samples.push(Sample { seconds, rows, epochs_bytes });
                if is_last {
                    return Ok::<_, BenchError>(samples);
                }
                std::thread::sleep(BETWEEN_SAMPLES);
            }
        });
        let done = work();
        is_over.store(true, Ordering::Release);
        let samples = watcher.join().expect("the watcher does not panic")?;
        Ok((done?, samples))
    })
}

fn count(session: &mut Session, table: &str) -> Result<u64, BenchError> {
    Ok(query_number(session, &format!("SELECT count(*) FROM {table}"))?.unsigned_abs())
}

fn epochs_bytes(session: &mut Session) -> Result<u64, BenchError> {
    let bytes = query_number(session, "SELECT CAST(sum(epochs_bytes) AS bigint) FROM coeval_bricks")?;
    Ok(bytes.unsigned_abs())
}

/// What epochs vectors take once purge has merged them.
fn purged(db: &Database, session: &mut Session) -> Result<u64, BenchError> {
    let started = Instant::now();
    let mut least = epochs_bytes(session)?;
    while started.elapsed() < PURGE_PATIENCE {
        db.checkpoint()?;
        std::thread::sleep(Duration::from_millis(100));
        let bytes = epochs_bytes(session)?;
        if bytes == least && started.elapsed() > Duration::from_secs(2) {
            break;
        }
        least = least.min(bytes);
    }
    Ok(least)
}

/// Scans and aggregates, with and without ranges that are left out.
///
/// # Errors
/// If the database refuses something, or the file of the options cannot be written.
pub(crate) fn scan(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    let sync = measure_sync(&std::env::temp_dir())?;
    let mut report = Report::new(Workload::AosiScan, options, options.rows);
    let db = Database::options().durability(Durability::None).in_memory()?;
    let mut session = db.session();
    let target = Target { name: "facts", columns: 3, bricks: 16 };
    target.create(&mut session)?;
    let (rows, _) = target.fill(&db, options.seed, options.rows, LOAD_ROWS, progress)?;
    target.check(&mut session, rows, &mut report)?;
    if let Some(directory) = &options.write_parquet {
        let path = directory.join("facts.parquet").display().to_string().replace('\'', "''");
        session.execute(&format!("COPY facts TO '{path}' (FORMAT parquet)"))?;
    }
    let cpu = CpuWatch::start();
    progress.begin("query", Some(options.runs as u64));
    let queries = [
        ("group_by", "SELECT key, sum(m1) FROM facts GROUP BY key"),
        ("filtered_sum", "SELECT sum(m1) FROM facts WHERE m2 < 500000"),
        ("pruned_sum", "SELECT sum(m1) FROM facts WHERE key BETWEEN 300 AND 399 AND m2 < 500000"),
    ];
    // Beside another system the answers are compared: a number, or how many rows there are.
    for (name, sql) in queries {
        let batches = session.query(sql)?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let answer = if rows == 1 { query_number(&mut session, sql)?.unsigned_abs() } else { rows as u64 };
        report.count(format!("{name}_answer"), answer);
    }
    let mut times = queries.map(|_| Vec::new());
    for _ in 0..options.runs.max(1) {
        for ((_, sql), times) in queries.iter().zip(&mut times) {
            let started = Instant::now();
            session.query(sql)?;
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
        progress.advance(1);
    }
    progress.end();
    for ((name, _), mut times) in queries.iter().zip(times) {
        report.figure(format!("{name}_ms"), median(&mut times));
    }
    report.environment(cpu.foreign_cores(), sync);
    Ok(report)
}
