// SPDX-License-Identifier: Apache-2.0
//! What snapshot isolation costs a query of a brick table: Figures 8 and 9.
//!
//! The same query by its snapshot and by nothing at all ("read uncommitted": all rows, no look at an epoch), by turns, while
//! loaders load. The query scans one column of all bricks and sums it up, from the snapshot's taking on, without SQL: so
//! what epochs cost is held against the least that a query can cost. What counts is the median of the ratios of pairs.

use super::Target;
use crate::error::BenchError;
use crate::machine::{CpuWatch, measure_sync};
use crate::options::{Options, Workload};
use crate::progress::Progress;
use crate::report::{Report, median};
use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::compute::sum;
use arrow::datatypes::Int64Type;
use coeval::{Database, Durability, Table};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Rows of a transaction, columns of the table, loaders, as in the paper.
const TRANSACTION_ROWS: usize = 500;
const COLUMNS: usize = 20;
const LOADERS: usize = 32;
/// Bricks of the table.
const BRICKS: i64 = 16;
/// Pairs of queries of each part.
const PAIRS: usize = 2_000;
/// A loader waits so long between its transactions while queries are measured: it is about queries, not about who gets the
/// processors, nor about a table that grows to several times its size meanwhile.
const PAUSE: Duration = Duration::from_millis(200);
/// The position of the column that is summed up.
const SUMMED: usize = 1;

/// Runs the pairs with purge on, then with purge off behind all transactions.
///
/// # Errors
/// If the database refuses something.
pub(crate) fn latency(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    let sync = measure_sync(&std::env::temp_dir())?;
    let mut report = Report::new(Workload::AosiLatency, options, options.rows);
    let cpu = CpuWatch::start();
    let pairs = options.runs.clamp(1, PAIRS);
    for (prefix, is_purged) in [("purged_", true), ("unpurged_", false)] {
        let db = Database::options().durability(Durability::None).in_memory()?;
        let target = Target { name: "loaded", columns: COLUMNS, bricks: BRICKS };
        let mut session = db.session();
        target.create(&mut session)?;
        // A snapshot that is to keep purge away has to see some rows.
        let (rows_before, _) = target.fill(&db, options.seed, 1, TRANSACTION_ROWS, progress)?;
        let mut holder = db.session();
        if !is_purged {
            holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
            holder.query("SELECT count(*) FROM loaded")?;
        }
        let (rows, _) = target.fill(&db, options.seed, options.rows, TRANSACTION_ROWS, progress)?;
        let rows = rows + rows_before;
        target.check(&mut session, rows, &mut report)?;
        if is_purged {
            super::purged(&db, &mut session)?;
        }
        report.count(format!("{prefix}transactions"), rows / TRANSACTION_ROWS as u64);
        report.count(format!("{prefix}epochs_bytes"), super::epochs_bytes(&mut session)?);
        let ratios = measured(&db, &target, pairs, options.seed, progress)?;
        ratios.report(prefix, &mut report);
    }
    report.environment(cpu.foreign_cores(), sync);
    Ok(report)
}

/// The times of pairs, in seconds.
#[derive(Default)]
struct Pairs {
    by_snapshot: Vec<f64>,
    uncommitted: Vec<f64>,
    loads: u64,
}

impl Pairs {
    fn report(mut self, prefix: &str, report: &mut Report) {
        let mut ratios: Vec<f64> =
            self.by_snapshot.iter().zip(&self.uncommitted).map(|(one, other)| one / other).collect();
        ratios.sort_by(f64::total_cmp);
        // The order statistic that the median is below of with 95 %: a binomial, as a normal distribution.
        let count = ratios.len() as f64;
        let bound = (count / 2.0 + 1.645 * count.sqrt() / 2.0).ceil().min(count - 1.0) as usize;
        report.figure(format!("{prefix}ratio_median"), ratios[ratios.len() / 2]);
        report.figure(format!("{prefix}ratio_bound"), ratios[bound]);
        report.figure(format!("{prefix}snapshot_ms"), median(&mut self.by_snapshot) * 1e3);
        report.figure(format!("{prefix}uncommitted_ms"), median(&mut self.uncommitted) * 1e3);
        report.count(format!("{prefix}pairs"), ratios.len() as u64);
        report.count(format!("{prefix}loads_meanwhile"), self.loads);
    }
}

/// Asks in pairs while others load: from when each of them has loaded once, so that no pair is of a time without loads.
fn measured(
    db: &Database,
    target: &Target,
    pairs: usize,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Pairs, BenchError> {
    let table = db.table(target.name)?;
    let mut random = StdRng::seed_from_u64(seed);
    let batch = target.batch(&mut random, TRANSACTION_ROWS)?;
    let is_over = AtomicBool::new(false);
    let all_have_loaded = Barrier::new(LOADERS + 1);
    progress.begin("pairs of queries", Some(pairs as u64));
    let measured = std::thread::scope(|scope| {
        let loaders: Vec<_> = (0..LOADERS)
            .map(|_| scope.spawn(|| load(db, target, &batch, &all_have_loaded, &is_over)))
            .collect();
        all_have_loaded.wait();
        let mut measured = Pairs::default();
        let mut ask = || -> Result<(), BenchError> {
            for _ in 0..pairs {
                let mut one =
                    || timed(db, &table, Reading::BySnapshot).map(|time| measured.by_snapshot.push(time));
                let mut other =
                    || timed(db, &table, Reading::Uncommitted).map(|time| measured.uncommitted.push(time));
                if random.random() {
                    one()?;
                    other()?;
                } else {
                    other()?;
                    one()?;
                }
                progress.advance(1);
            }
            Ok(())
        };
        let asked = ask();
        is_over.store(true, Ordering::Release);
        for loader in loaders {
            measured.loads += loader.join().expect("a loader does not panic")?;
        }
        asked.map(|()| measured)
    });
    progress.end();
    measured
}

fn load(
    db: &Database,
    target: &Target,
    batch: &RecordBatch,
    all_have_loaded: &Barrier,
    is_over: &AtomicBool,
) -> Result<u64, BenchError> {
    let first = db.append(target.name, batch);
    // Also where it failed: the others are not to wait for ever.
    all_have_loaded.wait();
    first?;
    let mut loads = 1;
    while !is_over.load(Ordering::Acquire) {
        std::thread::sleep(PAUSE);
        db.append(target.name, batch)?;
        loads += 1;
    }
    Ok(loads)
}

#[derive(Clone, Copy)]
enum Reading {
    BySnapshot,
    Uncommitted,
}

/// How long the query takes, in seconds.
fn timed(db: &Database, table: &Table, reading: Reading) -> Result<f64, BenchError> {
    let begun = Instant::now();
    let snapshot = db.read(|transaction| transaction.bricks(table))?;
    let snapshot = match reading {
        Reading::BySnapshot => snapshot,
        Reading::Uncommitted => snapshot.uncommitted(),
    };
    let mut total = 0_i64;
    for brick in snapshot.bricks() {
        for batch in snapshot.batches(brick, &[SUMMED]) {
            let values: &Int64Array = batch.column(0).as_primitive::<Int64Type>();
            total = total.wrapping_add(sum(values).unwrap_or(0));
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    if total < 0 {
        return Err(BenchError::Answer(format!("a sum of numbers above zero is {total}")));
    }
    Ok(seconds)
}
