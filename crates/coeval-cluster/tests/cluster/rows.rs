// SPDX-License-Identifier: Apache-2.0
//! Rows of loads of known sum, and the tables that they are in.

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use bytes::Bytes;
use coeval_brick::{BrickSchema, Column, Dimension, DimensionValues, Metric, Nulls};
use coeval_cluster::{BrickAddress, BrickRows, Load, LoadError, ReadError, Snapshot, Tables};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// The bricks that there are.
pub(crate) const BRICKS: u64 = 8;
/// The rows of a load, each in a brick of its own.
pub(crate) const ROWS: u64 = 4;
/// What the rows of a load add up to.
const SUM: i64 = 1_000;

/// The table of the loads, and one for what is in no sum.
const TABLES: [u64; 2] = [1, 2];

/// Nodes of one process are told of tables by one value; each has its own bricks of them.
static DECLARED: LazyLock<Tables> = LazyLock::new(|| {
    let tables = Tables::start(2).unwrap();
    for table in TABLES {
        tables.declare(table, schema()).unwrap();
    }
    tables
});

/// Their columns.
pub(crate) fn schema() -> BrickSchema {
    let brick = Dimension {
        name: "brick".into(),
        values: DimensionValues::Ordered { data_type: DataType::Int64, origin: 0 },
        cardinality: BRICKS,
        range_size: 1,
    };
    let metric = |name: &str| {
        let (data_type, nulls) = (DataType::Int64, Nulls::Refused);
        Column::Metric(Metric { name: name.into(), data_type, nulls })
    };
    BrickSchema::new(vec![Column::Dimension(brick), metric("load"), metric("value")]).unwrap()
}

pub(crate) fn tables() -> Tables {
    DECLARED.clone()
}

pub(crate) fn brick(number: u64) -> BrickAddress {
    BrickAddress { table: TABLES[0], brick: number % BRICKS }
}

/// Rows of one brick: each of a load, with a value.
pub(crate) fn rows_of(brick: BrickAddress, rows: &[(u64, i64)]) -> Bytes {
    let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let batch = RecordBatch::try_from_iter([
        ("brick", column(vec![brick.brick as i64; rows.len()])),
        ("load", column(rows.iter().map(|row| row.0 as i64).collect())),
        ("value", column(rows.iter().map(|row| row.1).collect())),
    ]);
    let mut by_brick = tables().rows(brick.table, &batch.unwrap()).unwrap();
    let (of, bytes) = by_brick.pop().unwrap();
    assert!(by_brick.is_empty() && of == brick);
    bytes
}

/// A row in each brick: of this load, with a value.
pub(crate) fn batch_in_all_bricks(load: u64, value: i64) -> RecordBatch {
    let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let batch = RecordBatch::try_from_iter([
        ("brick", column((0..BRICKS as i64).collect())),
        ("load", column(vec![load as i64; BRICKS as usize])),
        ("value", column(vec![value; BRICKS as usize])),
    ]);
    batch.unwrap()
}

/// The loads and values of rows that were read.
pub(crate) fn values_of(rows: &BrickRows) -> Vec<(u64, i64)> {
    let mut values = Vec::with_capacity(rows.count());
    for batch in rows.batches() {
        let numbers = |column: usize| batch.column(column).as_primitive::<Int64Type>().values().clone();
        let loads = numbers(1);
        values.extend(loads.iter().map(|load| *load as u64).zip(numbers(2).iter().copied()));
    }
    assert_eq!(values.len(), rows.count());
    values
}

/// Appends the rows of the load of this number.
pub(crate) async fn fill(load: &mut Load, number: u64) -> Result<(), LoadError> {
    let mut left = SUM;
    for place in 0..ROWS {
        let value = if place + 1 == ROWS { left } else { (number % 97) as i64 - 40 * place as i64 };
        left -= value;
        let brick = brick(number.wrapping_add(place));
        load.append(brick, rows_of(brick, &[(number, value)])).await?;
    }
    Ok(())
}

/// Which loads a snapshot sees, ascending; or what is wrong with one of them.
pub(crate) async fn seen_at(snapshot: &Snapshot) -> Result<Result<Vec<u64>, String>, ReadError> {
    let mut loads: BTreeMap<u64, (u64, i64)> = BTreeMap::new();
    for number in 0..BRICKS {
        for (load, value) in values_of(&snapshot.read(brick(number)).await?) {
            let seen = loads.entry(load).or_default();
            seen.0 += 1;
            seen.1 += value;
        }
    }
    let broken = loads.iter().find(|(_, seen)| **seen != (ROWS, SUM));
    Ok(match broken {
        Some((load, (rows, sum))) => {
            Err(format!("{rows} rows of {ROWS} of load {load} are seen at {snapshot:?}; their sum is {sum}"))
        }
        None => Ok(loads.into_keys().collect()),
    })
}
