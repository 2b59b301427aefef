// SPDX-License-Identifier: Apache-2.0
//! Figure 12: ten thousand rows; one client's transactions have a thousand operations, the others' ten; half of them
//! read. Without priority and with it.

use super::clients::{Counts, sum, transact};
use super::engine::{Place, settings};
use crate::error::BenchError;
use crate::machine::{CpuWatch, measure_sync};
use crate::options::{Options, Population, Workload};
use crate::progress::Progress;
use crate::report::Report;
use coeval_tique::Database;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The rows that all meet on, and the operations of transactions; a hundredth of the rows and a fifth of the long one's
/// operations for tests.
const ROWS: u64 = 10_000;
const SHORT: usize = 10;
const LONG: usize = 1_000;

/// Runs without priority and with it, each as long as the options say.
///
/// # Errors
/// If the engine is not there or refuses something.
pub(super) fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    if options.threads < 2 {
        return Err(BenchError::Options("long transactions among short ones need two threads".to_owned()));
    }
    let tiny = options.population == Population::Tiny;
    let (rows, long) = if tiny { (ROWS / 100, LONG / 5) } else { (ROWS, LONG) };
    let place = Place::new(options)?;
    let sync = measure_sync(place.path())?;
    let engine = place.engine()?;
    let database = Database::open(engine.clone(), settings(options, 20_000))?;
    let mut session = database.session()?;
    session.execute("CREATE TABLE counters (k bigint PRIMARY KEY, n bigint NOT NULL)")?;
    let values: Vec<String> = (0..rows).map(|k| format!("({k}, 0)")).collect();
    session.execute(&format!("INSERT INTO counters VALUES {}", values.join(", ")))?;
    database.checkpoint()?;
    let mut report = Report::new(Workload::Tique, options, rows);
    report.note("engine", engine.dialect().name);
    let (cpu, time) = (CpuWatch::start(), Duration::from_secs_f64(options.seconds));
    let mut added = 0;
    for priority in ["normal", "high"] {
        progress.begin(priority, None);
        let run = Run { database: &database, options, rows, long, priority, time };
        added += run.measure(&mut report)?;
        progress.end();
    }
    report.check("counters_lost_or_doubled", sum(&mut session)?.abs_diff(added));
    report.environment(cpu.foreign_cores(), sync);
    Ok(report)
}

/// One of the two.
struct Run<'a> {
    database: &'a Database,
    options: &'a Options,
    rows: u64,
    /// Operations of the long transaction.
    long: usize,
    priority: &'a str,
    time: Duration,
}

impl Run<'_> {
    /// How many increments were committed.
    fn measure(&self, report: &mut Report) -> Result<u64, BenchError> {
        let began = Instant::now();
        let stop = AtomicBool::new(false);
        let is_over = || began.elapsed() >= self.time || stop.load(Ordering::Relaxed);
        let (long, short) = std::thread::scope(|scope| {
            let threads: Vec<_> = (1..self.options.threads)
                .map(|number| scope.spawn(move || self.client(number as u64, SHORT, "normal", &is_over)))
                .collect();
            let long = self.client(0, self.long, self.priority, &is_over);
            stop.store(true, Ordering::Relaxed);
            let mut short = Counts::default();
            for thread in threads {
                short.add(thread.join().expect("a client does not panic")?);
            }
            Ok::<_, BenchError>((long?, short))
        })?;
        let (name, seconds) = (self.priority, began.elapsed().as_secs_f64());
        report.count(format!("long_committed_{name}"), long.transactions);
        report.count(format!("long_refused_{name}"), long.refused);
        report.count(format!("long_refused_in_a_row_{name}"), long.refused_in_a_row);
        report.figure(format!("long_s_each_{name}"), seconds / long.transactions.max(1) as f64);
        report.figure(format!("short_per_s_{name}"), short.transactions as f64 / seconds);
        report.figure(format!("short_refused_share_{name}"), short.refused_share());
        Ok(long.committed + short.committed)
    }

    /// A client whose transactions have so many operations, half reads.
    fn client(
        &self,
        number: u64,
        operations: usize,
        priority: &str,
        is_over: &(dyn Fn() -> bool + Sync),
    ) -> Result<Counts, BenchError> {
        let (mut session, mut counts) = (self.database.session()?, Counts::default());
        session.execute(&format!("SET tique.priority = '{priority}'"))?;
        let mut random = SmallRng::seed_from_u64(self.options.seed + 100 + number);
        while !is_over() {
            let mut keys =
                || -> Vec<u64> { (0..operations / 2).map(|_| random.random_range(0..self.rows)).collect() };
            let (reads, writes) = (keys(), keys());
            transact(&mut session, &reads, &writes, is_over, &mut counts)?;
        }
        Ok(counts)
    }
}
