// SPDX-License-Identifier: Apache-2.0
//! Rows with texts, of the same loads as those with numbers.

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Int64Type, UInt32Type};
use coeval_brick::{BrickSchema, Column, Dimension, DimensionValues, Metric, Nulls};
use coeval_cluster::{BrickAddress, BrickRows, Load, LoadError, ReadError, Snapshot, Tables};
use std::collections::BTreeMap;
use std::sync::Arc;

const TABLE: u64 = 3;
const WORDS: [&str; 6] = ["one", "two", "three", "four", "five", "six"];
/// The bricks that there are.
pub(crate) const BRICKS: u64 = 3;

/// Load, word and note of a row.
pub(crate) type Row = (u64, String, String);

/// Declares the table of these rows.
pub(crate) fn declare(tables: &Tables) {
    let metric = |name: &str, data_type| {
        let nulls = Nulls::Refused;
        Column::Metric(Metric { name: name.into(), data_type, nulls })
    };
    let word = Dimension {
        name: "word".into(),
        values: DimensionValues::String,
        cardinality: WORDS.len() as u64,
        range_size: 2,
    };
    let columns =
        vec![Column::Dimension(word), metric("load", DataType::Int64), metric("note", DataType::Utf8)];
    tables.declare(TABLE, BrickSchema::new(columns).unwrap()).unwrap();
}

pub(crate) fn brick(number: u64) -> BrickAddress {
    BrickAddress { table: TABLE, brick: number }
}

/// The rows of the load of this number, in their order. Notes are new with many loads; what was given a code keeps it for good, so
/// they are not new with all.
fn rows_of(number: u64) -> Vec<Row> {
    let word = |place: u64| WORDS[(number.wrapping_add(place) % WORDS.len() as u64) as usize];
    let row = |place| (number, word(place).to_owned(), format!("{:x} of {}", number % 256, word(place)));
    let mut rows: Vec<Row> = (0..3).map(row).collect();
    rows.sort();
    rows
}

/// Appends the rows of the load of this number.
pub(crate) async fn fill(load: &mut Load, number: u64) -> Result<(), LoadError> {
    let rows = rows_of(number);
    let texts = |text: fn(&Row) -> &str| -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(text(row))).collect::<StringArray>())
    };
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![number as i64; rows.len()]));
    let columns = [("word", texts(|row| &row.1)), ("load", numbers), ("note", texts(|row| &row.2))];
    load.append_rows(TABLE, &RecordBatch::try_from_iter(columns).unwrap()).await
}

/// The rows that were read.
pub(crate) fn rows_in(read: &BrickRows) -> Vec<Row> {
    let mut rows = Vec::new();
    for batch in read.batches() {
        let texts = |column: usize| -> Vec<String> {
            let texts = batch.column(column).as_dictionary::<UInt32Type>();
            let texts = texts.downcast_dict::<StringArray>().unwrap();
            texts.into_iter().map(|text| text.unwrap().to_owned()).collect()
        };
        let loads = batch.column(1).as_primitive::<Int64Type>().values();
        let loads = loads.iter().map(|load| *load as u64);
        rows.extend(loads.zip(texts(0)).zip(texts(2)).map(|((load, word), note)| (load, word, note)));
    }
    rows
}

/// Which loads a snapshot sees, ascending; or what is wrong with one of them.
pub(crate) async fn seen_at(snapshot: &Snapshot) -> Result<Result<Vec<u64>, String>, ReadError> {
    let mut loads: BTreeMap<u64, Vec<Row>> = BTreeMap::new();
    for number in 0..BRICKS {
        for row in rows_in(&snapshot.read(brick(number)).await?) {
            loads.entry(row.0).or_default().push(row);
        }
    }
    for (number, rows) in &mut loads {
        rows.sort();
        if *rows != rows_of(*number) {
            return Ok(Err(format!("at {snapshot:?} load {number} has {rows:?}")));
        }
    }
    Ok(Ok(loads.into_keys().collect()))
}
