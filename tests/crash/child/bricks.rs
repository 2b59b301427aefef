// SPDX-License-Identifier: Apache-2.0
//! Loads of a brick table, deletes of its bricks, and columns that are added to it.
//!
//! Keys: `rows/N/DECADE` is the number of rows that load N has in the brick of these ten days; `offset` is the last offset
//! of the worker's source.

use crate::{Effect, Worker};
use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Int32Type, Int64Type};
use coeval::{AppendOptions, Database, Error, Ingested};
use rand::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many rows a load has at most in one brick, and in how many of the ten bricks of its worker.
const ROWS_MAX: usize = 30;
const DECADES: i32 = 10;

/// With so many pairs of a load and a brick, bricks go.
const PAIRS: usize = 40;

/// So many columns are added.
const ADDED: usize = 6;

/// How many rows each load has in each brick.
type Loads = BTreeMap<(i64, i32), usize>;

fn present(db: &Database, worker: u32) -> Result<Loads, Error> {
    let table = db.table("events")?;
    let snapshot = db.read(|transaction| transaction.bricks(&table))?;
    let mut loads = Loads::new();
    // Not by SQL: planning it would take most of a life.
    for batch in snapshot.bricks().iter().flat_map(|brick| snapshot.batches(brick, &[0, 1, 2])) {
        let days = batch.column(1).as_primitive::<Int32Type>();
        let numbers = batch.column(2).as_primitive::<Int64Type>();
        for (row, of) in batch.column(0).as_primitive::<Int32Type>().values().iter().enumerate() {
            if *of == worker as i32 {
                *loads.entry((numbers.value(row), days.value(row) / 10)).or_default() += 1;
            }
        }
    }
    Ok(loads)
}

/// The next load: how many rows go to which bricks.
fn next_load(worker: &mut Worker, number: i64) -> Loads {
    let dice = &mut worker.dice;
    let bricks = dice.random_range(1..=4);
    (0..bricks).map(|_| ((number, dice.random_range(0..DECADES)), dice.random_range(1..=ROWS_MAX))).collect()
}

fn effect_of(load: &Loads) -> Effect {
    let mut effect = Effect::default();
    for ((number, decade), rows) in load {
        effect.put(format_args!("rows/{number}/{decade}"), rows);
    }
    effect
}

/// The days of a load's rows.
fn days(load: &Loads) -> impl Iterator<Item = i32> + '_ {
    load.iter().flat_map(|((_, decade), rows)| (0..*rows).map(move |row| decade * 10 + (row % 10) as i32))
}

fn note(number: i64) -> String {
    format!("n{}", number % 50)
}

fn batch(worker: u32, number: i64, load: &Loads, added: usize) -> RecordBatch {
    let days: Vec<i32> = days(load).collect();
    let rows = days.len();
    let mut columns: Vec<(String, ArrayRef)> = vec![
        ("worker".to_owned(), Arc::new(Int32Array::from(vec![worker as i32; rows]))),
        ("day".to_owned(), Arc::new(Int32Array::from(days))),
        ("n".to_owned(), Arc::new(Int64Array::from(vec![number; rows]))),
        ("note".to_owned(), Arc::new(StringArray::from(vec![note(number); rows]))),
    ];
    for column in 0..added {
        columns.push((format!("c{column}"), Arc::new(Int64Array::from(vec![column as i64; rows]))));
    }
    RecordBatch::try_from_iter(columns).expect("the columns are of one length")
}

/// Deletes one of the worker's bricks.
fn delete_brick(worker: &mut Worker, db: &Database, loads: &mut Loads) -> Result<(), Error> {
    let pair = worker.dice.random_range(0..loads.len());
    let decade = loads.keys().nth(pair).expect("there are as many").1;
    let mut effect = Effect::default();
    for (number, _) in loads.keys().filter(|pair| pair.1 == decade) {
        effect.remove(format_args!("rows/{number}/{decade}"));
    }
    let (first, last) = (decade * 10, decade * 10 + 9);
    let number = worker.number;
    let delete = format!("DELETE FROM events WHERE worker = {number} AND day BETWEEN {first} AND {last}");
    let mut session = db.session();
    worker.run(&effect, || session.execute(&delete).map(drop))?;
    loads.retain(|pair, _| pair.1 != decade);
    Ok(())
}

/// Adds a column of which each row, old or new, has the same value.
fn add_column(db: &Database, added: usize) -> Result<(), Error> {
    let mut session = db.session();
    loop {
        match session.execute(&format!("ALTER TABLE events ADD COLUMN c{added} bigint DEFAULT {added}")) {
            Ok(_) => return Ok(()),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error),
        }
    }
}

/// Appends batches with the offset of their source, each twice.
pub(crate) fn work_with_offsets(mut worker: Worker, db: &Database) -> Result<(), Error> {
    let number = worker.number;
    let mut loads = present(db, number)?;
    let source = format!("w{number}");
    let mut added = db.table("events")?.def().live_columns().count() - 4;
    let mut next = db.source_offset("events", &source)?.map_or(0, |last| last + 1);
    loop {
        if added < ADDED && worker.dice.random_ratio(1, 40) {
            add_column(db, added)?;
            added += 1;
        }
        if loads.len() >= PAIRS {
            delete_brick(&mut worker, db, &mut loads)?;
            continue;
        }
        let load = next_load(&mut worker, next);
        let mut effect = effect_of(&load);
        effect.put("offset", next);
        let batch = [batch(number, next, &load, added)];
        let options = AppendOptions::default().source(&source, next);
        worker.run(&effect, || db.append_with("events", &batch, &options).map(drop))?;
        assert_eq!(db.append_with("events", &batch, &options)?, Ingested::Repeated);
        loads.extend(load);
        next += 1;
    }
}

/// Inserts through SQL, in transactions of which some part is rolled back.
pub(crate) fn work_in_sql(mut worker: Worker, db: &Database) -> Result<(), Error> {
    let number = worker.number;
    let mut loads = present(db, number)?;
    let mut next = loads.keys().next_back().map_or(0, |last| last.0 + 1);
    let mut session = db.session();
    loop {
        if loads.len() >= PAIRS {
            delete_brick(&mut worker, db, &mut loads)?;
            continue;
        }
        let load = next_load(&mut worker, next);
        let insert = |pair: (&(i64, i32), &usize)| {
            let one = Loads::from([(*pair.0, *pair.1)]);
            let rows = days(&one).map(|day| format!("({number}, {day}, {next}, '{}')", note(next)));
            let rows = rows.collect::<Vec<_>>().join(", ");
            format!("INSERT INTO events (worker, day, n, note) VALUES {rows}")
        };
        let mut block: Vec<String> = load.iter().map(insert).collect();
        let undone = ["SAVEPOINT s".to_owned(), block[0].clone(), "ROLLBACK TO s".to_owned()];
        block.splice(0..0, undone);
        worker.run_sql(&mut session, &effect_of(&load), &block)?;
        loads.extend(load);
        next += 1;
    }
}
