// SPDX-License-Identifier: Apache-2.0
//! A measured run of YCSB: threads that read, update and insert records by key.

use super::key_choice::Records;
use super::wire::WireClient;
use crate::board::{Board, Outcome, Step, Worker};
use crate::error::BenchError;
use crate::machine::measure_sync;
use crate::options::{Api, KeyChoice, Options, Workload, YcsbMix, level_name};
use crate::progress::Progress;
use crate::report::Report;
use crate::system::{Console, System, with_system};
use crate::table::{BatchBuilder, ColumnSpec, TableSpec, column};
use crate::tpcc::{load, send};
use coeval::ColumnType::{BigInt, Varchar};
use coeval::{
    CheckpointPolicy, Database, Error, Isolation, Key, KeyWriter, Prepared, Session, Table, Value, ValueRef,
};
use std::hint::black_box;
use std::path::Path;

/// YCSB's table: a key and ten fields of a hundred characters.
const RECORD: TableSpec = TableSpec {
    name: "usertable",
    columns: &[
        column("y_id", BigInt),
        FIELDS[0],
        FIELDS[1],
        FIELDS[2],
        FIELDS[3],
        FIELDS[4],
        FIELDS[5],
        FIELDS[6],
        FIELDS[7],
        FIELDS[8],
        FIELDS[9],
    ],
    primary_key: &["y_id"],
    indexes: &[],
};

pub(super) const FIELD_COUNT: usize = 10;
const FIELD_LENGTH: usize = 100;

const FIELDS: [ColumnSpec; FIELD_COUNT] = [
    column("field0", Varchar(100)),
    column("field1", Varchar(100)),
    column("field2", Varchar(100)),
    column("field3", Varchar(100)),
    column("field4", Varchar(100)),
    column("field5", Varchar(100)),
    column("field6", Varchar(100)),
    column("field7", Varchar(100)),
    column("field8", Varchar(100)),
    column("field9", Varchar(100)),
];

/// The kinds of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Update,
    Insert,
}

const KIND_NAMES: [&str; 3] = ["read", "update", "insert"];

/// Percent of operations that read and that update; the rest insert.
const fn percents(mix: YcsbMix) -> (u32, u32) {
    match mix {
        YcsbMix::A => (50, 50),
        YcsbMix::B => (95, 5),
        YcsbMix::C => (100, 0),
        YcsbMix::Insert => (0, 0),
    }
}

/// Runs YCSB as the options say.
///
/// # Errors
/// If the database refuses something; conflicts are counted and tried again.
pub(crate) fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    if options.rows == 0 || options.threads == 0 {
        return Err(BenchError::Options("YCSB needs at least one row and one thread".to_owned()));
    }
    with_system(options, CheckpointPolicy::default(), |system, directory| {
        run_on(system, directory, options, progress)
    })
}

fn run_on(
    system: System<'_>,
    directory: &Path,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Report, BenchError> {
    let mut console = system.console()?;
    populate(&mut *console, options, progress)?;
    let sync = measure_sync(directory)?;
    let mut report = Report::new(Workload::Ycsb, options, options.rows);
    report.name_system(system);
    let board = Board::new(options.threads, KIND_NAMES.len());
    let workers = workers(system, &mut *console, options)?;
    progress.begin("YCSB", None);
    let cpu = system.watch_cpu(options);
    let measured = board.run(workers, options, progress)?;
    let usage = cpu.usage();
    report.environment(usage.foreign, sync);
    progress.end();
    let figures = board.figures();
    let total = figures.total();
    report.note("mix", format!("{:?}", options.ycsb_mix).to_lowercase());
    report.note("keys", format!("{:?}", options.key_choice).to_lowercase());
    report.figure("transactions_per_s", total.committed as f64 / measured.as_secs_f64());
    report.figure("latency_p50_ms", total.latency.percentile_ms(50.0));
    report.figure("latency_p99_ms", total.latency.percentile_ms(99.0));
    report
        .figure("abort_rate", total.conflicts as f64 / ((total.conflicts + total.committed) as f64).max(1.0));
    for (name, kind) in KIND_NAMES.iter().zip(&figures.kinds).filter(|(_, kind)| kind.committed > 0) {
        report.count(format!("{name}_count"), kind.committed);
        report.figure(format!("{name}_p50_ms"), kind.latency.percentile_ms(50.0));
        report.figure(format!("{name}_p99_ms"), kind.latency.percentile_ms(99.0));
    }
    report.cpu(usage);
    check(&mut *console, options, &mut report)?;
    Ok(report)
}

/// Rows in a batch while loading.
const BATCH_ROWS: u64 = 32_768;

fn populate(console: &mut dyn Console, options: &Options, progress: &dyn Progress) -> Result<(), BenchError> {
    if console.has_table(&RECORD)? {
        let found = console.query_number("SELECT count(*) FROM usertable")?.unsigned_abs();
        if found < options.rows {
            let wanted = options.rows;
            return Err(BenchError::Population(format!(
                "the database holds {found} records, the options ask for {wanted}; choose another one"
            )));
        }
        return Ok(());
    }
    console.create(&RECORD)?;
    progress.begin("load YCSB", Some(options.rows));
    load(console, progress, |batches| {
        let mut records = Records::new(KeyChoice::Uniform, options.rows, options.seed);
        let mut text = String::new();
        for first in (0..options.rows).step_by(BATCH_ROWS as usize) {
            let mut rows = BatchBuilder::new(&RECORD, BATCH_ROWS as usize);
            for record in first..(first + BATCH_ROWS).min(options.rows) {
                rows.bigint(record as i64);
                for _ in 0..FIELD_COUNT {
                    rows.text(records.letters(&mut text, FIELD_LENGTH));
                }
            }
            send(batches, (&RECORD, rows.finish()?));
        }
        Ok(())
    })?;
    console.settle()?;
    progress.end();
    Ok(())
}

/// No update makes or loses a record, and each insert makes one.
fn check(console: &mut dyn Console, options: &Options, report: &mut Report) -> Result<(), BenchError> {
    let below = format!("SELECT count(*) FROM usertable WHERE y_id < {}", options.rows);
    let found = console.query_number(&below)?.unsigned_abs();
    report.check("lost_records", options.rows.abs_diff(found));
    Ok(())
}

fn workers<'d>(
    system: System<'d>,
    console: &mut dyn Console,
    options: &Options,
) -> Result<Vec<Box<dyn Worker + 'd>>, BenchError> {
    let largest = console.query_number("SELECT max(y_id) FROM usertable")?;
    let records = Records::new(options.key_choice, options.rows, options.seed);
    let mut workers: Vec<Box<dyn Worker + 'd>> = Vec::with_capacity(options.threads);
    for thread in 0..options.threads {
        let client: Box<dyn Client + 'd> = match (system, options.api) {
            (System::Embedded(db), Api::Typed) => Box::new(TypedClient::new(db, options.isolation)?),
            (System::Embedded(db), Api::Sql) => Box::new(SqlClient::new(db, options.isolation)?),
            (System::Server(server), _) => Box::new(WireClient::new(server, options.isolation)?),
            (System::Foreign(_), _) => {
                let message = "YCSB runs on Coeval or a server";
                return Err(BenchError::Options(message.to_owned()));
            }
        };
        workers.push(Box::new(YcsbWorker {
            client,
            records: records.with_seed(options.seed.wrapping_add(1 + thread as u64)),
            mix: percents(options.ycsb_mix),
            next_insert: largest + 1 + thread as i64,
            insert_step: options.threads as i64,
            text: String::new(),
        }));
    }
    Ok(workers)
}

/// One thread: chooses operations, keys and values.
struct YcsbWorker<'d> {
    client: Box<dyn Client + 'd>,
    records: Records,
    mix: (u32, u32),
    next_insert: i64,
    insert_step: i64,
    text: String,
}

impl Worker for YcsbWorker<'_> {
    fn step(&mut self) -> Result<Step, BenchError> {
        let (read, update) = self.mix;
        let kind = if self.records.happens(read) {
            Kind::Read
        } else if update > 0 {
            Kind::Update
        } else {
            Kind::Insert
        };
        let conflicts = match kind {
            Kind::Read => {
                self.client.read(self.records.next() as i64)?;
                0
            }
            Kind::Update => {
                let record = self.records.next() as i64;
                let field = self.records.field(FIELD_COUNT);
                let value = self.records.letters(&mut self.text, FIELD_LENGTH);
                self.client.update(record, field, value)?
            }
            Kind::Insert => {
                let record = self.next_insert;
                self.next_insert += self.insert_step;
                let mut values = vec![Value::from(record)];
                for _ in 0..FIELD_COUNT {
                    values.push(self.records.letters(&mut self.text, FIELD_LENGTH).into());
                }
                self.client.insert(&values)?
            }
        };
        Ok(Step { kind: kind as usize, outcome: Outcome::Committed, conflicts })
    }
}

/// One of the APIs, or a connection. Writes answer with how many attempts lost certification, as far as the API tells.
pub(super) trait Client: Send {
    fn read(&mut self, record: i64) -> Result<(), BenchError>;
    fn update(&mut self, record: i64, field: usize, value: &str) -> Result<u64, BenchError>;
    fn insert(&mut self, values: &[Value]) -> Result<u64, BenchError>;
}

struct TypedClient<'d> {
    db: &'d Database,
    isolation: Isolation,
    table: Table,
}

impl<'d> TypedClient<'d> {
    fn new(db: &'d Database, isolation: Isolation) -> Result<Self, BenchError> {
        Ok(Self { db, isolation, table: db.table(RECORD.name)? })
    }
}

fn key(record: i64) -> Key {
    let mut writer = KeyWriter::new();
    writer.push(ValueRef::Int64(record));
    writer.finish()
}

impl Client for TypedClient<'_> {
    fn read(&mut self, record: i64) -> Result<(), BenchError> {
        self.db.read(|tx| {
            let row = tx.get(&self.table, &key(record))?.expect("no operation deletes a record");
            for column in 1..=FIELD_COUNT {
                black_box(row.get(column));
            }
            Ok(())
        })
    }

    fn update(&mut self, record: i64, field: usize, value: &str) -> Result<u64, BenchError> {
        let mut attempts = 0;
        let key = key(record);
        self.db.transaction(self.isolation, |tx| {
            attempts += 1;
            let row = tx.get(&self.table, &key)?.expect("no operation deletes a record");
            let changed = row.with(&[(1 + field, value.into())]);
            tx.update(&self.table, &key, changed)
        })?;
        Ok(attempts - 1)
    }

    fn insert(&mut self, values: &[Value]) -> Result<u64, BenchError> {
        let mut attempts = 0;
        self.db.transaction(self.isolation, |tx| {
            attempts += 1;
            tx.insert(&self.table, self.table.row(values)?).map(|_| ())
        })?;
        Ok(attempts - 1)
    }
}

/// The statement that makes a session's transactions be of a level.
pub(super) fn set_level(isolation: Isolation) -> String {
    format!("SET default_transaction_isolation = '{}'", level_name(isolation))
}

/// The statement that reads a record.
pub(super) fn read_text() -> String {
    let names: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
    format!("SELECT {} FROM usertable WHERE y_id = $1", names.join(", "))
}

/// The statements that change one field of a record, field by field.
pub(super) fn update_texts() -> Vec<String> {
    FIELDS.iter().map(|field| format!("UPDATE usertable SET {} = $1 WHERE y_id = $2", field.name)).collect()
}

/// The statement that makes a record.
pub(super) fn insert_text() -> String {
    let places: Vec<String> = (1..=FIELD_COUNT + 1).map(|place| format!("${place}")).collect();
    format!("INSERT INTO usertable VALUES ({})", places.join(", "))
}

/// Autocommit statements, which the session runs again by itself when they meet a conflict.
struct SqlClient {
    session: Session,
    read: Prepared,
    updates: Vec<Prepared>,
    insert: Prepared,
}

impl SqlClient {
    fn new(db: &Database, isolation: Isolation) -> Result<Self, BenchError> {
        let mut session = db.session();
        session.execute(&set_level(isolation))?;
        let read = session.prepare(&read_text())?;
        let updates =
            update_texts().iter().map(|text| session.prepare(text)).collect::<Result<_, Error>>()?;
        let insert = session.prepare(&insert_text())?;
        Ok(Self { session, read, updates, insert })
    }
}

impl Client for SqlClient {
    fn read(&mut self, record: i64) -> Result<(), BenchError> {
        black_box(self.session.query_prepared(&self.read, &[record.into()])?);
        Ok(())
    }

    fn update(&mut self, record: i64, field: usize, value: &str) -> Result<u64, BenchError> {
        self.session.execute_prepared(&self.updates[field], &[value.into(), record.into()])?;
        Ok(0)
    }

    fn insert(&mut self, values: &[Value]) -> Result<u64, BenchError> {
        self.session.execute_prepared(&self.insert, values)?;
        Ok(0)
    }
}
