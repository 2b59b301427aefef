// SPDX-License-Identifier: Apache-2.0
//! Get by primary key: how far from an ordered map in the same process?
//!
//! The same rows lie once in a table's base, once in its delta, and in a `BTreeMap` of boxed bytes whose keys and
//! values are those of the table. One thread gets the same uniformly random keys from each, in turns; the median
//! of the turns counts. A prepared `SELECT` of the same row is measured beside.

use crate::engine::{Place, create_tables, open};
use crate::error::BenchError;
use crate::machine::{CpuWatch, measure_sync, resident_bytes};
use crate::options::{KeyChoice, Options, Workload};
use crate::progress::Progress;
use crate::report::{Report, median};
use crate::system::EmbeddedConsole;
use crate::table::{BatchBuilder, TableSpec, column};
use crate::tpcc::{load, send};
use crate::ycsb::Records;
use coeval::ColumnType::{BigInt, Int, Varchar};
use coeval::{
    CheckpointPolicy, Database, Error, Key, KeyWriter, Prepared, Row, Session, Table, Value, ValueRef,
};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

/// The table whose rows lie in the base.
const BASE: TableSpec = TableSpec {
    name: "rows_in_base",
    columns: &[column("id", BigInt), column("a", BigInt), column("b", Int), column("c", Varchar(16))],
    primary_key: &["id"],
    indexes: &[],
};

/// The table whose rows lie in the delta.
const DELTA: TableSpec = TableSpec { name: "rows_in_delta", ..BASE };

/// Gets of one turn at most.
const TURN_GETS: u64 = 500_000;
/// Gets of each row in a turn at most, on average: of few rows more would say no more.
const GETS_OF_A_ROW: u64 = 20;
/// For so many gets of a turn there is one prepared statement.
const GETS_PER_SELECT: usize = 5;
/// Turns of each contestant.
const TURNS: usize = 7;
/// Rows in a batch or transaction while loading.
const LOAD_ROWS: u64 = 32_768;

/// Ordered map to compare with.
type Map = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// Runs the experiment with as many rows as the options say.
///
/// # Errors
/// If the database refuses something.
pub(crate) fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    if options.rows == 0 {
        return Err(BenchError::Options("get needs at least one row".to_owned()));
    }
    if options.dir.as_ref().is_some_and(|dir| dir.join("LOCK").exists()) {
        return Err(BenchError::Options("get makes a new database; choose an empty directory".to_owned()));
    }
    let place = Place::new(options)?;
    let db = open(place.path(), options, CheckpointPolicy::Manual)?;
    let sync = measure_sync(place.path())?;
    let mut report = Report::new(Workload::Get, options, options.rows);
    create_tables(&db, [&BASE, &DELTA])?;
    let bytes = |before: u64| resident_bytes().saturating_sub(before) as f64 / options.rows as f64;

    let before = resident_bytes();
    load_base(&db, options, progress)?;
    report.figure("base_resident_bytes_per_row", bytes(before));
    let before = resident_bytes();
    load_delta(&db, options, progress)?;
    report.figure("delta_resident_bytes_per_row", bytes(before));
    let before = resident_bytes();
    let map = load_map(&db, options, progress)?;
    report.figure("map_resident_bytes_per_row", bytes(before));
    check_places(&db, options, &mut report)?;

    let cpu = CpuWatch::start();
    measure(&db, &map, options, progress, &mut report)?;
    report.environment(cpu.foreign_cores(), sync);
    Ok(report)
}

fn values(id: i64) -> [Value; 4] {
    // Mixed, so that neighbours differ and nothing compresses by accident.
    let mixed = (id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [id.into(), (mixed as i64).into(), ((mixed >> 40) as i32).into(), format!("{:016x}", mixed).into()]
}

fn load_base(db: &Database, options: &Options, progress: &dyn Progress) -> Result<(), BenchError> {
    progress.begin("load base", Some(options.rows));
    load(&mut EmbeddedConsole::new(db), progress, |batches| {
        for first in (0..options.rows).step_by(LOAD_ROWS as usize) {
            let mut rows = BatchBuilder::new(&BASE, LOAD_ROWS as usize);
            for id in first..(first + LOAD_ROWS).min(options.rows) {
                let values = values(id as i64);
                rows.bigint(id as i64);
                rows.bigint(values[1].borrow().as_i64().expect("the second value is a bigint"));
                rows.int(values[2].borrow().as_i64().expect("the third value is an int") as i32);
                rows.text(values[3].borrow().as_str().expect("the fourth value is text"));
            }
            send(batches, (&BASE, rows.finish()?));
        }
        Ok(())
    })?;
    db.checkpoint()?;
    progress.end();
    Ok(())
}

fn load_delta(db: &Database, options: &Options, progress: &dyn Progress) -> Result<(), BenchError> {
    let table = db.table(DELTA.name)?;
    progress.begin("load delta", Some(options.rows));
    for first in (0..options.rows).step_by(LOAD_ROWS as usize) {
        let last = (first + LOAD_ROWS).min(options.rows);
        db.transaction(options.isolation, |tx| {
            for id in first..last {
                tx.insert(&table, table.row(&values(id as i64))?)?;
            }
            Ok::<_, Error>(())
        })?;
        progress.advance(last - first);
    }
    progress.end();
    Ok(())
}

fn load_map(db: &Database, options: &Options, progress: &dyn Progress) -> Result<Map, BenchError> {
    let table = db.table(DELTA.name)?;
    progress.begin("load map", None);
    let mut map = Map::new();
    for id in 0..options.rows {
        let row: Row = table.row(&values(id as i64))?;
        map.insert(key(id).as_slice().into(), row.as_bytes().into());
    }
    progress.end();
    Ok(map)
}

#[inline]
fn key(id: u64) -> Key {
    let mut writer = KeyWriter::new();
    writer.push(ValueRef::Int64(id as i64));
    writer.finish()
}

/// All rows lie where they should: none of the base table's in delta, all of the delta table's there.
fn check_places(db: &Database, options: &Options, report: &mut Report) -> Result<(), BenchError> {
    let world = db.world();
    let delta_rows = |name: &str| -> Result<u64, BenchError> {
        let table = world.table(db.table(name)?.id()).expect("a table that was just found is in the world");
        Ok(table.delta_rows() as u64)
    };
    report.check("base_rows_in_delta", delta_rows(BASE.name)?);
    report.check("delta_rows_not_in_delta", options.rows.abs_diff(delta_rows(DELTA.name)?));
    Ok(())
}

/// Nanoseconds of one get, of several turns.
#[derive(Default)]
struct Turns {
    base: Vec<f64>,
    delta: Vec<f64>,
    map: Vec<f64>,
    select_base: Vec<f64>,
    select_delta: Vec<f64>,
}

fn measure(
    db: &Database,
    map: &Map,
    options: &Options,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let (base, delta) = (db.table(BASE.name)?, db.table(DELTA.name)?);
    let mut session = db.session();
    let mut select = |name: &str| session.prepare(&format!("SELECT a, b, c FROM {name} WHERE id = $1"));
    let (select_base, select_delta) = (select(BASE.name)?, select(DELTA.name)?);
    let mut records = Records::new(KeyChoice::Uniform, options.rows, options.seed);
    let gets = TURN_GETS.min(options.rows.saturating_mul(GETS_OF_A_ROW));
    let mut turns = Turns::default();
    progress.begin("get", Some(TURNS as u64));
    for _ in 0..TURNS {
        let ids: Vec<u64> = (0..gets).map(|_| records.next()).collect();
        let selected = &ids[..ids.len() / GETS_PER_SELECT];
        turns.map.push(get_map(map, &ids));
        turns.base.push(get_table(db, &base, &ids)?);
        turns.delta.push(get_table(db, &delta, &ids)?);
        turns.select_base.push(get_select(&mut session, &select_base, selected)?);
        turns.select_delta.push(get_select(&mut session, &select_delta, selected)?);
        progress.advance(1);
    }
    progress.end();
    let [map, base, delta] = [&mut turns.map, &mut turns.base, &mut turns.delta].map(|turns| median(turns));
    let [select_base, select_delta] =
        [&mut turns.select_base, &mut turns.select_delta].map(|turns| median(turns));
    report.figure("map_get_ns", map);
    report.figure("base_get_ns", base);
    report.figure("delta_get_ns", delta);
    report.figure("base_select_ns", select_base);
    report.figure("delta_select_ns", select_delta);
    report.figure("base_get_to_map_ratio", base / map);
    report.figure("delta_get_to_map_ratio", delta / map);
    report.figure("base_select_to_get_ratio", select_base / base);
    report.figure("delta_select_to_get_ratio", select_delta / delta);
    Ok(())
}

/// Nanoseconds of one get. Every contestant makes the key and looks at the value's first bytes.
fn get_map(map: &Map, ids: &[u64]) -> f64 {
    let started = Instant::now();
    for &id in ids {
        let value = map.get(key(id).as_slice()).expect("every id was inserted");
        black_box(value[value.len() - 1]);
    }
    started.elapsed().as_nanos() as f64 / ids.len() as f64
}

fn get_table(db: &Database, table: &Table, ids: &[u64]) -> Result<f64, BenchError> {
    let started = Instant::now();
    db.read(|tx| {
        for &id in ids {
            let row = tx.get(table, &key(id))?.expect("every id was inserted");
            black_box(row.get(1));
        }
        Ok::<_, Error>(())
    })?;
    Ok(started.elapsed().as_nanos() as f64 / ids.len() as f64)
}

fn get_select(session: &mut Session, select: &Prepared, ids: &[u64]) -> Result<f64, BenchError> {
    let started = Instant::now();
    for &id in ids {
        let rows = session.query_rows(select, &[Value::Int64(id as i64)])?;
        black_box(rows.iter().next().expect("every id was inserted"));
    }
    Ok(started.elapsed().as_nanos() as f64 / ids.len() as f64)
}
