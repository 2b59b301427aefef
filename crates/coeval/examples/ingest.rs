// SPDX-License-Identifier: Apache-2.0
//! A source that is cut off while it feeds a brick table, and goes on where it was: each of its rows counts once.
//!
//! `cargo run -p coeval --example ingest`

use arrow::array::{Array, AsArray, Date32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use coeval::{AppendOptions, Database, Error, Ingested};
use std::sync::Arc;

const LOADS: i64 = 20;
const ROWS: i64 = 1_000;

/// What the source has between two offsets: rows of some days and two regions.
fn rows(from: i64, to: i64) -> Result<RecordBatch, Box<dyn std::error::Error>> {
    let region = |row: i64| Some(if row % 3 == 0 { "north" } else { "south" });
    let day = |row: i64| Some((row / 500) as i32);
    Ok(RecordBatch::try_from_iter([
        ("region", Arc::new((from..to).map(region).collect::<StringArray>()) as Arc<dyn Array>),
        ("day", Arc::new((from..to).map(day).collect::<Date32Array>())),
        ("amount", Arc::new((from..to).collect::<Int64Array>())),
    ])?)
}

/// Feeds the table from where its offset says, and stops after so many loads.
fn feed(db: &Database, loads: usize) -> Result<(), Box<dyn std::error::Error>> {
    let start = db.source_offset("events", "meter 7")?.unwrap_or(0);
    for offset in (start..LOADS * ROWS).step_by(ROWS as usize).take(loads) {
        let end = offset + ROWS;
        let options = AppendOptions::default().source("meter 7", end);
        db.append_with("events", &[rows(offset, end)?], &options)?;
    }
    Ok(())
}

/// Runs the example.
///
/// # Errors
/// If the database fails, or the rows are not those of the source.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::temp_dir().join(format!("coeval-example-ingest-{}", std::process::id()));
    let db = Database::open(&directory)?;
    db.session().execute(
        "CREATE TABLE events (region text, day date, amount bigint) USING brick
         PARTITION BY (region CARDINALITY 4, day CARDINALITY 100 RANGE SIZE 10)",
    )?;
    feed(&db, 7)?;
    // A load that was sent again because its answer was lost: nothing happens.
    let again = AppendOptions::default().source("meter 7", 7 * ROWS);
    let outcome = db.append_with("events", &[rows(6 * ROWS, 7 * ROWS)?], &again)?;
    assert_eq!(outcome, Ingested::Repeated);
    drop(db);

    // The next process goes on.
    let db = Database::open(&directory)?;
    feed(&db, usize::MAX)?;

    // A row that is none of the table refuses its load, unless some may be left out.
    let bad = rows(99_999, 100_001)?;
    let refused: Result<u64, Error> = db.append("events", &bad);
    println!("refused: {}", refused.err().ok_or("day 200 is not among the hundred")?);
    let some = AppendOptions::default().max_rejected(10);
    let Ingested::Appended(appended) = db.append_with("events", &[bad], &some)? else {
        return Err("a load without a source is never a repetition".into());
    };
    println!("{} of its rows were left out", appended.rejected.len());
    assert_eq!((appended.rows, appended.rejected.len()), (0, 2));

    let sums = db.session().query("SELECT count(*), sum(amount)::bigint FROM events")?;
    let number = |column: usize| sums[0].column(column).as_primitive::<Int64Type>().value(0);
    let expected = LOADS * ROWS;
    assert_eq!((number(0), number(1)), (expected, expected * (expected - 1) / 2));
    println!("{expected} rows, each once");
    drop(db);
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
