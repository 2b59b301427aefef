// SPDX-License-Identifier: Apache-2.0
//! A long transaction among short ones, with priority and without (TiQuE 4.3.4, Figure 12).
//!
//! Ten thousand rows; each transaction reads and updates random rows, half and half, and is run again until it commits.
//! One client runs transactions of a thousand operations, the others of ten.

use crate::engine::{Place, create_tables, open};
use crate::error::BenchError;
use crate::machine::{CpuWatch, measure_sync};
use crate::options::{Options, Workload};
use crate::progress::Progress;
use crate::report::Report;
use crate::table::{TableSpec, column};
use coeval::ColumnType::BigInt;
use coeval::{
    CheckpointPolicy, Database, Error, Isolation, Key, KeyWriter, Table, Transaction, Value, ValueRef,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The rows that all transactions are about.
const ROWS: i64 = 10_000;
/// Operations of a short transaction.
const SHORT: usize = 10;
/// Operations of the long one.
const LONG: usize = 1_000;

const ACCOUNTS: TableSpec = TableSpec {
    name: "account",
    columns: &[column("id", BigInt), column("balance", BigInt)],
    primary_key: &["id"],
    indexes: &[],
};

/// Runs both halves, each for as long as the options say.
///
/// # Errors
/// If the database refuses something.
pub(crate) fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    if options.threads < 2 {
        return Err(BenchError::Options(
            "priority needs two threads: one of them runs the long transactions".to_owned(),
        ));
    }
    let place = Place::new(options)?;
    let db = open(place.path(), options, CheckpointPolicy::default())?;
    let sync = measure_sync(place.path())?;
    create_tables(&db, [&ACCOUNTS])?;
    let table = db.table(ACCOUNTS.name)?;
    db.transaction(Isolation::Snapshot, |tx| {
        for id in 0..ROWS {
            tx.insert(&table, table.row(&[Value::Int64(id), Value::Int64(0)])?)?;
        }
        Ok::<_, Error>(())
    })?;
    let mut report = Report::new(Workload::Priority, options, ROWS as u64);
    let cpu = CpuWatch::start();
    let mut updates = 0;
    for (name, with) in [("without", Long::AsAnyOther), ("with", Long::WithPriority)] {
        progress.begin(name, None);
        let half = half(&db, &table, options, with, progress)?;
        progress.end();
        updates += half.updates;
        half.tell(name, &mut report);
    }
    let lost = db.read(|tx| {
        let mut sum = 0;
        for id in 0..ROWS {
            let row = tx.get(&table, &key(id))?.expect("every row was inserted");
            sum += row.get(1).as_i64().expect("balances are integers");
        }
        Ok::<_, Error>(updates - sum)
    })?;
    report.check("lost_updates", lost.unsigned_abs());
    report.environment(cpu.foreign_cores(), sync);
    Ok(report)
}

/// How the long transactions run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Long {
    AsAnyOther,
    WithPriority,
}

/// What one half found.
struct Half {
    seconds: f64,
    short: u64,
    short_attempts: u64,
    short_waits: Vec<Duration>,
    long_attempts: u64,
    /// How many of the long transactions needed a third attempt.
    lost_twice: u64,
    long_times: Vec<Duration>,
    /// Of an attempt that was under way at the end, how long it had taken.
    unfinished: Option<Duration>,
    updates: i64,
}

impl Half {
    fn tell(mut self, name: &str, report: &mut Report) {
        let per_s = |count: u64| count as f64 / self.seconds;
        let operations = self.short * SHORT as u64 + self.long_times.len() as u64 * LONG as u64;
        report.figure(format!("{name}_operations_per_s"), per_s(operations));
        report.figure(format!("{name}_short_transactions_per_s"), per_s(self.short));
        report.figure(
            format!("{name}_short_abort_percent"),
            100.0 * (self.short_attempts - self.short) as f64 / self.short_attempts.max(1) as f64,
        );
        self.short_waits.sort_unstable();
        let at = (self.short_waits.len() * 999 / 1_000).min(self.short_waits.len().saturating_sub(1));
        let p999 = self.short_waits.get(at).map_or(0.0, Duration::as_secs_f64);
        report.figure(format!("{name}_short_p999_ms"), p999 * 1e3);
        let long = self.long_times.len() as u64;
        report.count(format!("{name}_long_transactions"), long);
        if name == "with" {
            report.check("long_transactions_that_lost_twice", self.lost_twice);
        }
        report.figure(format!("{name}_long_attempts_each"), self.long_attempts as f64 / long.max(1) as f64);
        let spent: Duration = self.long_times.iter().chain(&self.unfinished).sum();
        report.figure(format!("{name}_long_response_ms"), spent.as_secs_f64() * 1e3 / long.max(1) as f64);
    }
}

fn half(
    db: &Database,
    table: &Table,
    options: &Options,
    long: Long,
    progress: &dyn Progress,
) -> Result<Half, BenchError> {
    let is_over = AtomicBool::new(false);
    let started = Instant::now();
    let clients = std::thread::scope(|scope| {
        let client = |index: usize| {
            let is_over = &is_over;
            scope.spawn(move || {
                let random = StdRng::seed_from_u64(options.seed * 1_000 + index as u64);
                let (length, long) = if index == 0 { (LONG, long) } else { (SHORT, Long::AsAnyOther) };
                Client { db, table, isolation: options.isolation, long, length, random }.run(is_over)
            })
        };
        let clients: Vec<_> = (0..options.threads).map(client).collect();
        while started.elapsed().as_secs_f64() < options.seconds && !progress.is_cancelled() {
            std::thread::sleep(Duration::from_millis(20));
        }
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("a client does not panic")).collect::<Vec<_>>()
    });
    let seconds = started.elapsed().as_secs_f64();
    let mut done = clients.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter();
    let first = done.next().expect("there is a client with long transactions");
    let mut half = Half {
        seconds,
        short: 0,
        short_attempts: 0,
        short_waits: Vec::new(),
        long_attempts: first.attempts,
        lost_twice: first.lost_twice,
        updates: (first.times.len() * LONG / 2) as i64,
        long_times: first.times,
        unfinished: first.unfinished,
    };
    for client in done {
        half.short += client.times.len() as u64;
        half.short_attempts += client.attempts;
        half.updates += (client.times.len() * SHORT / 2) as i64;
        half.short_waits.extend(client.times);
    }
    Ok(half)
}

/// What a client has done.
struct Done {
    attempts: u64,
    lost_twice: u64,
    times: Vec<Duration>,
    unfinished: Option<Duration>,
}

struct Client<'b> {
    db: &'b Database,
    table: &'b Table,
    isolation: Isolation,
    long: Long,
    length: usize,
    random: StdRng,
}

/// The end of the run: no error, but the way out of a transaction that would be tried again.
enum Ended {
    Over,
    Failed(Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Client<'_> {
    fn run(mut self, is_over: &AtomicBool) -> Result<Done, BenchError> {
        let attempts = AtomicU64::new(0);
        let mut done = Done { attempts: 0, lost_twice: 0, times: Vec::new(), unfinished: None };
        while !is_over.load(Ordering::Relaxed) {
            let ids: Vec<i64> = (0..self.length).map(|_| self.random.random_range(0..ROWS)).collect();
            let (started, before) = (Instant::now(), attempts.load(Ordering::Relaxed));
            let attempt = |tx: &mut Transaction| {
                if is_over.load(Ordering::Relaxed) {
                    return Err(Ended::Over);
                }
                attempts.fetch_add(1, Ordering::Relaxed);
                operate(tx, self.table, &ids).map_err(Ended::Failed)
            };
            let outcome = match self.long {
                Long::AsAnyOther => self.db.transaction(self.isolation, attempt),
                Long::WithPriority => self.db.transaction_with_priority(self.isolation, attempt),
            };
            match outcome {
                Ok(()) => {
                    done.times.push(started.elapsed());
                    done.lost_twice += u64::from(attempts.load(Ordering::Relaxed) > before + 2);
                }
                Err(Ended::Over) => done.unfinished = Some(started.elapsed()),
                Err(Ended::Failed(error)) => return Err(error.into()),
            }
        }
        done.attempts = attempts.into_inner();
        Ok(done)
    }
}

/// Reads the rows, and adds one to every second of them.
fn operate(tx: &mut Transaction, table: &Table, ids: &[i64]) -> Result<(), Error> {
    for (place, &id) in ids.iter().enumerate() {
        let key = key(id);
        let row = tx.get(table, &key)?.expect("every row was inserted");
        let balance = row.get(1).as_i64().expect("balances are integers");
        if place % 2 == 1 {
            tx.update(table, &key, table.row(&[Value::Int64(id), Value::Int64(balance + 1)])?)?;
        }
    }
    Ok(())
}

fn key(id: i64) -> Key {
    let mut writer = KeyWriter::new();
    writer.push(ValueRef::Int64(id));
    writer.finish()
}
