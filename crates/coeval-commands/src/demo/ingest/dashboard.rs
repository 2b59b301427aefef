// SPDX-License-Identifier: Apache-2.0
//! A dashboard: some queries over what has come so far, in one safe snapshot, whose answers must fit each other.

use super::feed::LOAD_ROWS;
use super::figures::Figures;
use crate::failure::Failure;
use arrow::array::RecordBatch;
use coeval::{ColumnType, Database, Session, format_value, value_at};
use std::time::Instant;

/// What a dashboard shows, in the order in which it asks.
pub(super) const QUERIES: [&str; 4] = ["Totals", "By region", "Busiest devices of the last 10 s", "Sources"];

/// Shows the dashboard again and again until the figures say that the time is over.
///
/// # Errors
/// If a query fails.
pub(super) fn run(db: &Database, figures: &Figures) -> Result<(), Failure> {
    let mut session = db.session();
    let mut last = 0;
    while figures.is_running() {
        let begun = Instant::now();
        let found =
            look(&mut session, figures).map_err(|error| Failure::work("a dashboard failed", error))?;
        figures.note_dashboard(begun.elapsed(), found.newest_micros);
        let torn = found.rows % LOAD_ROWS as u64 != 0 || found.balance != 0;
        figures.check((found.rows < last).then_some("a count went backwards"));
        figures.check(torn.then_some("a load is there by half"));
        figures.check((found.rows_by_region != found.rows).then_some("regions are not the sum"));
        let of_other_age = found.rows_of_sources != found.rows;
        figures.check(of_other_age.then_some("offsets and rows are of different ages"));
        last = found.rows;
    }
    Ok(())
}

/// What a dashboard found.
struct Found {
    rows: u64,
    balance: i64,
    newest_micros: Option<i64>,
    rows_by_region: u64,
    rows_of_sources: u64,
}

fn look(session: &mut Session, figures: &Figures) -> Result<Found, coeval::Error> {
    let mut ask = |number: usize, sql: &str| {
        let begun = Instant::now();
        let batches = session.query(sql)?;
        figures.note_query(number, begun.elapsed());
        Ok::<_, coeval::Error>(batches)
    };
    let begin = "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY; \
                 SELECT count(*), CAST(sum(balance) AS bigint), max(at) FROM events";
    let totals = ask(0, begin)?;
    let newest_micros = number(&totals, 0, 2);
    let regions = ask(
        1,
        "SELECT region, count(*), avg(value), max(value) FROM events GROUP BY region ORDER BY region",
    )?;
    if let Some(newest) = newest_micros {
        let mut since = String::new();
        let value = coeval::Value::Int64(newest - 10_000_000);
        format_value(value.borrow(), ColumnType::Timestamp, chrono_tz::UTC, &mut since);
        ask(
            2,
            &format!(
                "SELECT device, count(*) AS events FROM events WHERE at >= TIMESTAMP '{since}' \
                 GROUP BY device ORDER BY events DESC LIMIT 5"
            ),
        )?;
    }
    let sources =
        ask(3, "SELECT CAST(sum(rows) AS bigint) FROM coeval_ingest_offsets WHERE table_name = 'events'")?;
    session.execute("COMMIT")?;
    let unsigned = |number: Option<i64>| number.unwrap_or(0).unsigned_abs();
    Ok(Found {
        rows: unsigned(number(&totals, 0, 0)),
        balance: number(&totals, 0, 1).unwrap_or(0),
        newest_micros,
        rows_by_region: (0..rows(&regions)).map(|row| unsigned(number(&regions, row, 1))).sum(),
        rows_of_sources: unsigned(number(&sources, 0, 0)),
    })
}

fn rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// A number of an answer; `None` for NULL.
fn number(batches: &[RecordBatch], mut row: usize, column: usize) -> Option<i64> {
    for batch in batches {
        if row < batch.num_rows() {
            return value_at(batch.column(column).as_ref(), row).as_i64();
        }
        row -= batch.num_rows();
    }
    None
}

/// How many rows there are, now.
///
/// # Errors
/// If the query fails.
pub(super) fn counted(db: &Database) -> Result<u64, Failure> {
    let batches = db.session().query("SELECT count(*) FROM events");
    let batches = batches.map_err(|error| Failure::work("cannot count the events", error))?;
    Ok(number(&batches, 0, 0).unwrap_or(0).unsigned_abs())
}

/// What telling transactions apart takes of memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Epochs {
    pub(super) bricks: u64,
    pub(super) value_bytes: u64,
    pub(super) epochs_bytes: u64,
}

/// The sum over all bricks.
///
/// # Errors
/// If the query fails.
pub(super) fn epochs(db: &Database) -> Result<Epochs, Failure> {
    let sql = "SELECT count(*), CAST(sum(value_bytes) AS bigint), CAST(sum(epochs_bytes) AS bigint) \
               FROM coeval_bricks WHERE table_name = 'events'";
    let batches =
        db.session().query(sql).map_err(|error| Failure::work("cannot look at the bricks", error))?;
    let of = |column: usize| number(&batches, 0, column).unwrap_or(0).unsigned_abs();
    Ok(Epochs { bricks: of(0), value_bytes: of(1), epochs_bytes: of(2) })
}
