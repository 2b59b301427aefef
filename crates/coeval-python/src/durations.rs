// SPDX-License-Identifier: Apache-2.0
//! Intervals as durations, for programs whose frames have no months and days beside a time: columns of them, and of lists of them.

use crate::values::micros_of;
use arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{
    DataType, DurationMicrosecondType, FieldRef, IntervalMonthDayNanoType, IntervalUnit, Schema, SchemaRef,
    TimeUnit,
};
use coeval::{IntervalValue, SqlError, SqlState};
use std::sync::Arc;

/// The columns, with durations in the place of intervals.
pub(crate) fn schema_with_durations(schema: &Schema) -> SchemaRef {
    Arc::new(Schema::new(schema.fields().iter().map(field_with_durations).collect::<Vec<_>>()))
}

fn field_with_durations(field: &FieldRef) -> FieldRef {
    let ty = match field.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => DataType::Duration(TimeUnit::Microsecond),
        DataType::List(item) => DataType::List(field_with_durations(item)),
        other => other.clone(),
    };
    Arc::new(field.as_ref().clone().with_data_type(ty))
}

/// The rows as rows of [these columns](schema_with_durations).
///
/// # Errors
/// `22008` for an interval that is too long for a duration.
pub(crate) fn batch_with_durations(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, SqlError> {
    let columns = batch.columns().iter().map(with_durations).collect::<Result<Vec<_>, SqlError>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

fn with_durations(array: &ArrayRef) -> Result<ArrayRef, SqlError> {
    match array.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let intervals = array.as_primitive::<IntervalMonthDayNanoType>();
            let durations = intervals.try_unary::<_, DurationMicrosecondType, SqlError>(|value| {
                let (months, days, nanoseconds) = (value.months, value.days, value.nanoseconds);
                micros_of(IntervalValue { months, days, nanoseconds }).ok_or_else(|| {
                    let message = "an interval is too long for a duration";
                    SqlError::new(SqlState::DatetimeFieldOverflow, message)
                })
            })?;
            Ok(Arc::new(durations))
        }
        DataType::List(item) => {
            let lists = array.as_list::<i32>();
            let values = with_durations(lists.values())?;
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            Ok(Arc::new(ListArray::try_new(field_with_durations(item), offsets, values, nulls)?))
        }
        _ => Ok(Arc::clone(array)),
    }
}
