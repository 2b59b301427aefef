// SPDX-License-Identifier: Apache-2.0
//! Rows that break a rule of their brick table, found before they go to whoever keeps the bricks.
//!
//! A load into bricks of the store finds them on its way (`coeval-brick`, `route`). Rows for other nodes are looked at here first: so that
//! the error is the same, and some may be left out. How many texts a dimension takes is known to those who give texts their codes.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::{cast, max, min};
use arrow::datatypes::{DataType, Int64Type};
use arrow::error::ArrowError;
use coeval_brick::{BrickSchema, Column, DimensionValues, Nulls, RejectReason, Rejection};
use std::collections::BTreeMap;

/// The rows of batches, which are one load and have the table's columns in the types of its bricks, that break a rule which a row
/// can break alone: NULL where there is none, and values that a dimension has no place for. Ascending, each with its first
/// reason. Cost: a pass over the dimensions, and over the NULLs of the other columns.
///
/// # Errors
/// If a dimension is of another type than the table says.
///
/// # Panics
/// If a batch has fewer columns than the table.
pub fn bad_rows(schema: &BrickSchema, batches: &[RecordBatch]) -> Result<Vec<Rejection>, ArrowError> {
    let mut bad = BTreeMap::new();
    let mut first_row = 0;
    for batch in batches {
        assert!(batch.num_columns() >= schema.columns().len(), "a batch has all columns of the table");
        for (column, array) in schema.columns().iter().zip(batch.columns()) {
            note_nulls(column, array.as_ref(), first_row, &mut bad);
        }
        for (column, array) in schema.columns().iter().zip(batch.columns()) {
            note_outside(column, array.as_ref(), first_row, &mut bad)?;
        }
        first_row += batch.num_rows();
    }
    Ok(bad.into_iter().map(|(row, reason)| Rejection { row, reason }).collect())
}

fn note_nulls(column: &Column, array: &dyn Array, first_row: usize, bad: &mut BTreeMap<usize, RejectReason>) {
    let is_dimension = match column {
        Column::Dimension(_) => true,
        Column::Metric(metric) if metric.nulls == Nulls::Refused => false,
        Column::Metric(_) => return,
    };
    let reason = || {
        let column = column.name().to_owned();
        if is_dimension {
            RejectReason::NullDimension { column }
        } else {
            RejectReason::NullMetric { column }
        }
    };
    let Some(nulls) = array.logical_nulls().filter(|nulls| nulls.null_count() > 0) else { return };
    for row in (0..array.len()).filter(|row| nulls.is_null(*row)) {
        bad.entry(first_row + row).or_insert_with(reason);
    }
}

fn note_outside(
    column: &Column,
    array: &dyn Array,
    first_row: usize,
    bad: &mut BTreeMap<usize, RejectReason>,
) -> Result<(), ArrowError> {
    let Column::Dimension(dimension) = column else { return Ok(()) };
    let DimensionValues::Ordered { origin, data_type } = &dimension.values else { return Ok(()) };
    if array.data_type() != data_type {
        let message =
            format!("dimension {} is {data_type}, the load brings {}", dimension.name, array.data_type());
        return Err(ArrowError::CastError(message));
    }
    let numbers = cast(array, &DataType::Int64)?;
    let numbers = numbers.as_primitive::<Int64Type>();
    let ordinals = 0..i128::from(dimension.cardinality);
    let is_inside = |value: i64| ordinals.contains(&(i128::from(value) - i128::from(*origin)));
    // Mostly all are, which the least and the greatest tell for less than a look at each.
    if [min(numbers), max(numbers)].into_iter().flatten().all(is_inside) {
        return Ok(());
    }
    for (row, value) in numbers.iter().enumerate() {
        let Some(value) = value else { continue };
        if !is_inside(value) {
            bad.entry(first_row + row).or_insert_with(|| RejectReason::OutsideCardinality {
                column: dimension.name.clone(),
                value,
                origin: *origin,
                cardinality: dimension.cardinality,
                data_type: data_type.clone(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Date32Array, Int32Array, StringArray};
    use coeval_brick::{BrickTable, Dimension, LoadError, Metric, Shards};
    use std::sync::Arc;

    /// Bricks say of the same rows the same. Break: leave out `note_nulls`, or compare with the cardinality alone.
    #[test]
    fn the_rows_that_bricks_reject_are_found_before() {
        let day = Dimension {
            name: "day".into(),
            values: DimensionValues::Ordered { data_type: DataType::Date32, origin: 100 },
            cardinality: 30,
            range_size: 10,
        };
        let region = Dimension {
            name: "region".into(),
            values: DimensionValues::String,
            cardinality: 8,
            range_size: 2,
        };
        let likes = Metric { name: "likes".into(), data_type: DataType::Int32, nulls: Nulls::Refused };
        let note = Metric { name: "note".into(), data_type: DataType::Int32, nulls: Nulls::Allowed };
        let columns = vec![
            Column::Dimension(day),
            Column::Dimension(region),
            Column::Metric(likes),
            Column::Metric(note),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable([
            (
                "day",
                Arc::new(Date32Array::from(vec![Some(100), Some(99), Some(129), Some(130), None, Some(101)]))
                    as _,
                true,
            ),
            (
                "region",
                Arc::new(StringArray::from(vec![Some("a"), Some("a"), None, Some("a"), None, Some("b")]))
                    as _,
                true,
            ),
            (
                "likes",
                Arc::new(Int32Array::from(vec![Some(1), Some(2), Some(3), None, Some(5), None])) as _,
                true,
            ),
            ("note", Arc::new(Int32Array::from(vec![None; 6])) as _, true),
        ])
        .unwrap();
        let schema = BrickSchema::new(columns).unwrap();
        let found = bad_rows(&schema, &[batch.clone(), batch.clone()]).unwrap();
        let rows: Vec<usize> = found.iter().map(|rejection| rejection.row).collect();
        assert_eq!(rows, [1, 2, 3, 4, 5, 7, 8, 9, 10, 11]);
        let shards = Arc::new(Shards::start(1, 16).unwrap());
        let table = BrickTable::new(schema, shards);
        for (row, found) in found.iter().enumerate().take(5) {
            let one = batch.slice(row + 1, 1);
            let Err(LoadError::TooManyRejected { rejected, .. }) = table.route(&one, 0) else {
                panic!("bricks reject row {}", row + 1);
            };
            assert_eq!(rejected[0].reason, found.reason, "row {}", row + 1);
        }
    }
}
