// SPDX-License-Identifier: Apache-2.0
//! How long a database takes to open: replaying a log, and after a clean shutdown.
//!
//! A crash is imitated by copying the directory while the database is open and idle: what the copy holds is what a
//! crashed process would have left behind.

use crate::directories::{copy_directory, directory_bytes};
use crate::engine::{Place, create_tables, open, query_number};
use crate::error::BenchError;
use crate::machine::{CpuWatch, measure_sync};
use crate::options::{KeyChoice, Options, Workload};
use crate::progress::Progress;
use crate::report::Report;
use crate::table::{TableSpec, column};
use crate::tpch::{LINEITEM, populate};
use crate::ycsb::Records;
use coeval::ColumnType::{BigInt, Varchar};
use coeval::{CheckpointPolicy, Database, Direction, Error, Value};
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

/// The table that fills the log.
const RECORD: TableSpec = TableSpec {
    name: "replayed",
    columns: &[column("id", BigInt), column("number", BigInt), column("text", Varchar(100))],
    primary_key: &["id"],
    indexes: &[],
};

/// Rows written by one transaction.
const TRANSACTION_ROWS: usize = 100;
/// Keys that are written again and again.
const KEYS: u64 = 1_000_000;
const TEXT_LENGTH: usize = 80;

/// The two indexes on `lineitem` that the second half opens with.
const INDEXES: [(&str, &str); 2] = [("lineitem_part", "l_partkey"), ("lineitem_shipdate", "l_shipdate")];

/// Measures both: the replay of a log of the options' size, and opening TPC-H at the options' scale.
///
/// # Errors
/// If the database or a file refuses something.
pub(crate) fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    let place = Place::new(options)?;
    let sync = measure_sync(place.path())?;
    let mut report = Report::new(Workload::Recovery, options, options.scale);
    let cpu = CpuWatch::start();
    replay(place.path(), options, progress, &mut report)?;
    if options.scale > 0.0 {
        clean_open(place.path(), options, progress, &mut report)?;
    }
    report.environment(cpu.foreign_cores(), sync);
    Ok(report)
}

fn replay(
    place: &Path,
    options: &Options,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let (written, crashed) = (place.join("replay"), place.join("replay-crashed"));
    let db = open(&written, options, CheckpointPolicy::Manual)?;
    create_tables(&db, [&RECORD])?;
    let (commits, sum) = fill_log(&db, &written, options, progress)?;
    let log_bytes = directory_bytes(&written)?;
    copy_directory(&written, &crashed)?;
    drop(db);
    progress.begin("replay the log", None);
    let started = Instant::now();
    let db = open(&crashed, options, CheckpointPolicy::Manual)?;
    let seconds = started.elapsed().as_secs_f64();
    progress.end();
    report.count("log_bytes", log_bytes);
    report.count("log_commits", commits);
    report.figure("replay_s", seconds);
    report.figure("replay_bytes_per_s", log_bytes as f64 / seconds);
    report.figure("replay_commits_per_s", commits as f64 / seconds);
    let found = query_number(&mut db.session(), "SELECT sum(number) FROM replayed")?;
    report.check("replayed_sum_differs", u64::from(found != sum));
    Ok(())
}

/// Writes rows until the directory has grown to the asked size. Returns how many transactions committed and what
/// the numbers of all rows add up to.
fn fill_log(
    db: &Database,
    directory: &Path,
    options: &Options,
    progress: &dyn Progress,
) -> Result<(u64, i64), BenchError> {
    let table = db.table(RECORD.name)?;
    let mut records = Records::new(KeyChoice::Uniform, KEYS, options.seed);
    let mut numbers = vec![0; KEYS as usize];
    let mut text = String::new();
    let (mut commits, mut written) = (0i64, 0);
    progress.begin("fill the log", Some(options.log_bytes));
    while written < options.log_bytes {
        let ids: Vec<u64> = (0..TRANSACTION_ROWS).map(|_| records.next()).collect();
        records.letters(&mut text, TEXT_LENGTH);
        commits += 1;
        db.transaction(options.isolation, |tx| {
            for &id in &ids {
                tx.put(&table, table.row(&[(id as i64).into(), commits.into(), text.as_str().into()])?)?;
            }
            Ok::<_, Error>(())
        })?;
        ids.iter().for_each(|&id| numbers[id as usize] = commits);
        // Looking at files costs more than a transaction.
        if commits % 1_000 == 0 {
            let bytes = directory_bytes(directory)?;
            progress.advance(bytes - written);
            written = bytes;
        }
    }
    progress.end();
    Ok((commits.unsigned_abs(), numbers.iter().sum()))
}

fn clean_open(
    place: &Path,
    options: &Options,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let path = place.join("clean");
    let db = open(&path, options, CheckpointPolicy::Manual)?;
    if populate(&db, options, progress)?.is_some() {
        progress.begin("index lineitem", None);
        let mut session = db.session();
        for (name, column) in INDEXES {
            session.execute(&format!("CREATE INDEX {name} ON {} ({column})", LINEITEM.name))?;
        }
        drop(session);
        db.checkpoint()?;
        progress.end();
    }
    let rows = query_number(&mut db.session(), "SELECT count(*) FROM lineitem")?;
    let bytes = directory_bytes(&path)?;
    drop(db);
    let started = Instant::now();
    let db = open(&path, options, CheckpointPolicy::Manual)?;
    let opened = started.elapsed();
    let found = first_indexed_get(&db)?;
    let first_get = started.elapsed();
    report.count("lineitem_rows", rows.unsigned_abs());
    report.count("directory_bytes", bytes);
    report.figure("clean_open_ms", milliseconds(opened));
    report.figure("clean_open_and_get_ms", milliseconds(first_get));
    report.check("indexed_get_found_nothing", u64::from(found == 0));
    Ok(())
}

/// Reads the rows of one part by the index on parts; returns how many there were.
fn first_indexed_get(db: &Database) -> Result<usize, BenchError> {
    let table = db.table(LINEITEM.name)?;
    let index = table.index(INDEXES[0].0)?;
    let range = table.index_prefix(&[Value::Int64(1)]);
    db.read(|tx| {
        let mut found = 0;
        for entry in tx.scan_index(&table, index, &range, Direction::Forward)? {
            black_box(tx.get(&table, &entry?.primary_key)?.map(|row| row.get(4)));
            found += 1;
        }
        Ok(found)
    })
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
