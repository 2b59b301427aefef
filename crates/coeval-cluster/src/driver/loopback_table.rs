// SPDX-License-Identifier: Apache-2.0
//! The brick table of nodes on the loopback, for figures and tests: a number for the brick, and a value.

use crate::tables::{RowsRefused, Tables};
use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::DataType;
use bytes::Bytes;
use coeval_brick::{BrickSchema, Column, Dimension, DimensionValues, Metric, Nulls};
use coeval_txn::cluster::BrickAddress;
use std::io;
use std::sync::Arc;

/// Its number.
pub(crate) const TABLE: u64 = 1;
/// How many bricks it can have.
const BRICKS: u64 = 256;

/// Tables with this one declared.
///
/// # Errors
/// If there is no thread to be had.
pub(crate) fn loopback_tables() -> io::Result<Tables> {
    let brick = Dimension {
        name: "brick".to_owned(),
        values: DimensionValues::Ordered { data_type: DataType::Int64, origin: 0 },
        cardinality: BRICKS,
        range_size: 1,
    };
    let value = Metric { name: "value".to_owned(), data_type: DataType::Int64, nulls: Nulls::Refused };
    let schema = BrickSchema::new(vec![Column::Dimension(brick), Column::Metric(value)]);
    let tables = Tables::start(1)?;
    tables.declare(TABLE, schema.map_err(io::Error::other)?).map_err(io::Error::other)?;
    Ok(tables)
}

/// A row of the brick of this number.
///
/// # Errors
/// If the table cannot have it.
pub(crate) fn row_of(tables: &Tables, brick: u64, value: i64) -> Result<(BrickAddress, Bytes), RowsRefused> {
    let number = i64::try_from(brick).map_err(|_| RowsRefused::OtherBrick { table: TABLE, brick })?;
    let columns = [("brick", number), ("value", value)];
    let columns = columns.map(|(name, value)| (name, Arc::new(Int64Array::from(vec![value])) as _));
    let batch = RecordBatch::try_from_iter(columns).map_err(|error| RowsRefused::Load(error.to_string()))?;
    let mut rows = tables.rows(TABLE, &batch)?;
    rows.pop().ok_or(RowsRefused::OtherBrick { table: TABLE, brick })
}
