// SPDX-License-Identifier: Apache-2.0
//! Updates of `lineitem` and `orders` at uniformly random keys, so that the delta holds a share of both.
//!
//! A row gets new text in its clerk or comment, which no query reads: so the answers stay those of the
//! specification, while every touched row has moved from base to delta.

use super::tables::{LINEITEM, ORDERS};
use crate::engine::query;
use crate::error::BenchError;
use crate::options::Options;
use crate::progress::Progress;
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type};
use coeval::{Database, Error, Value};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

/// Rows updated in one transaction.
const TRANSACTION_ROWS: usize = 1_000;

/// The two tables that are updated, by the names that figures begin with.
pub(crate) const UPDATED: [&str; 2] = [LINEITEM.name, ORDERS.name];

/// The share of a table's rows that lie in its delta.
///
/// # Errors
/// If there is no such table.
pub(crate) fn delta_share(db: &Database, table: &str) -> Result<f64, BenchError> {
    let id = db.table(table)?.id();
    let world = db.world();
    let table = world.table(id).expect("a table that was just found is in the world");
    Ok(table.delta_rows() as f64 / (table.row_count() as f64).max(1.0))
}

/// Updates so many rows of both tables that the options' share of each is in delta; what is there already counts.
/// Returns how many rows were updated.
///
/// # Errors
/// If the database refuses an update.
pub(crate) fn update_random_rows(
    db: &Database,
    options: &Options,
    progress: &dyn Progress,
) -> Result<u64, BenchError> {
    let mut random = SmallRng::seed_from_u64(options.seed);
    let mut updated = 0;
    for (spec, column) in [(&ORDERS, "o_clerk"), (&LINEITEM, "l_comment")] {
        let missing = options.update_fraction - delta_share(db, spec.name)?;
        if missing <= 0.0 {
            continue;
        }
        let mut keys = keys(db, &format!("SELECT {} FROM {}", spec.primary_key.join(", "), spec.name))?;
        let count = ((keys.len() as f64 * missing).ceil() as usize).min(keys.len());
        let (chosen, _) = keys.partial_shuffle(&mut random, count);
        progress.begin(&format!("update {}", spec.name), Some(count as u64));
        update(db, options, spec.name, spec.column_index(column), chosen, progress)?;
        progress.end();
        updated += count as u64;
    }
    Ok(updated)
}

/// The values of a primary key: a `bigint`, and an `int` behind it if the key has two columns.
type KeyValues = (i64, Option<i32>);

fn keys(db: &Database, sql: &str) -> Result<Vec<KeyValues>, BenchError> {
    let mut keys = Vec::new();
    for batch in query(&mut db.session(), sql)? {
        keys.extend(batch_keys(&batch));
    }
    Ok(keys)
}

fn batch_keys(batch: &RecordBatch) -> Vec<KeyValues> {
    let first = batch.column(0).as_primitive::<Int64Type>().values();
    match batch.columns().get(1) {
        None => first.iter().map(|&first| (first, None)).collect(),
        Some(second) => {
            let second = second.as_primitive::<Int32Type>().values();
            first.iter().zip(second).map(|(&first, &second)| (first, Some(second))).collect()
        }
    }
}

fn update(
    db: &Database,
    options: &Options,
    table: &str,
    column: usize,
    chosen: &[KeyValues],
    progress: &dyn Progress,
) -> Result<(), BenchError> {
    let table = db.table(table)?;
    for group in chosen.chunks(TRANSACTION_ROWS) {
        db.transaction(options.isolation, |tx| {
            for &(first, second) in group {
                let values = [Value::from(first), Value::from(second)];
                let key = table.key(if second.is_some() { &values } else { &values[..1] });
                let row =
                    tx.get(&table, &key)?.expect("keys were read from the table and nobody deletes rows");
                let changed = row.with(&[(column, "changed".into())]);
                tx.update(&table, &key, changed)?;
            }
            Ok::<_, Error>(())
        })?;
        progress.advance(group.len() as u64);
    }
    Ok(())
}
