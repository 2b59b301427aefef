// SPDX-License-Identifier: Apache-2.0
//! Columns of MonetDB as Arrow arrays. A column is a C array of values, and each type has one value that means NULL.
//!
//! | code | values | NULL | Arrow |
//! |---|---|---|---|
//! | 0 to 5 | boolean, integers of 1, 2, 4, 8 and 16 bytes | the smallest | the same; decimals, if there is a scale |
//! | 7, 8 | floating-point numbers | not a number | the same |
//! | 9 | pointers to texts | null | text |
//! | 10 | lengths and pointers to bytes | null | bytes |
//! | 11 | day, month, year (1, 1, 2 bytes) | all zero | days |
//! | 12 | milliseconds, seconds, minutes, hours (4, 1, 1, 1 bytes) | impossible milliseconds | microseconds |
//! | 13 | a date, then a time | the time's | microseconds |
#![allow(unsafe_code)]

use super::interface::{QueryResult, RawColumn};
use crate::engine::{EngineError, Rows};
use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{Field, Schema};
use std::ffi::{CStr, c_char};
use std::sync::Arc;

/// Where a column's structure has the value that means NULL.
const NULL_AT: usize = std::mem::size_of::<RawColumn>();

fn broken(what: impl std::fmt::Display) -> EngineError {
    EngineError::refused(format!("MonetDB's answer cannot be read: {what}"))
}

/// All columns of a result.
pub(super) fn read(mut result: QueryResult<'_>) -> Result<Rows, EngineError> {
    let (row_count, column_count) = result.size();
    let (mut fields, mut columns) = (Vec::with_capacity(column_count), Vec::with_capacity(column_count));
    for place in 0..column_count {
        let column = result.column(place)?;
        if column.count != row_count {
            return Err(broken("a column is longer or shorter than the others"));
        }
        let name = if column.name.is_null() {
            String::new()
        } else {
            // SAFETY: a name that is there ends with zero.
            unsafe { CStr::from_ptr(column.name) }.to_string_lossy().into_owned()
        };
        let array = import(column, &name)?;
        fields.push(Field::new(name, array.data_type().clone(), true));
        columns.push(array);
    }
    let schema = Arc::new(Schema::new(fields));
    if column_count == 0 {
        return Ok(Rows { schema, batches: Vec::new() });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(row_count));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options).map_err(broken)?;
    Ok(Rows { schema, batches: vec![batch] })
}

/// The values of a column, each as its bytes.
fn raw_values<const WIDTH: usize>(column: &RawColumn) -> impl Iterator<Item = [u8; WIDTH]> {
    let data = column.data;
    (0..column.count).map(move |row| {
        // SAFETY: a column has `count` values of its type, which `WIDTH` is the size of.
        unsafe { data.add(row * WIDTH).cast::<[u8; WIDTH]>().read() }
    })
}

/// The same, with nothing for NULL.
fn values<const WIDTH: usize>(column: &RawColumn) -> impl Iterator<Item = Option<[u8; WIDTH]>> {
    // SAFETY: behind the common part of a column's structure stands the value that means NULL, of the column's type.
    let null = unsafe { std::ptr::from_ref(column).cast::<u8>().add(NULL_AT).cast::<[u8; WIDTH]>().read() };
    raw_values(column).map(move |value| (value != null).then_some(value))
}

/// The decimal digits behind the point, for a type that has some: the structure has the power of ten.
fn scale(column: &RawColumn, at: usize) -> Option<i8> {
    // SAFETY: behind the value that means NULL stands the scale, aligned to eight bytes.
    let scale = unsafe { std::ptr::from_ref(column).cast::<u8>().add(at).cast::<f64>().read() };
    (scale >= 1.0).then(|| scale.log10().round() as i8)
}

fn decimals(
    values: impl Iterator<Item = Option<i128>>,
    digits: u8,
    scale: i8,
) -> Result<ArrayRef, EngineError> {
    let array: Decimal128Array = values.collect();
    Ok(Arc::new(array.with_precision_and_scale(digits, scale).map_err(broken)?))
}

/// Integers of a width; decimals of so many digits if there is a scale.
macro_rules! integers {
    ($column:expr, $number:ty, $array:ty, $digits:expr) => {{
        let values = values::<{ std::mem::size_of::<$number>() }>($column)
            .map(|value| value.map(<$number>::from_le_bytes));
        match scale($column, NULL_AT + 8) {
            Some(scale) => decimals(values.map(|value| value.map(i128::from)), $digits, scale)?,
            None => Arc::new(values.collect::<$array>()) as ArrayRef,
        }
    }};
}

fn import(column: &RawColumn, name: &str) -> Result<ArrayRef, EngineError> {
    Ok(match column.kind {
        0 => Arc::new(values::<1>(column).map(|value| value.map(|[bit]| bit != 0)).collect::<BooleanArray>()),
        1 => integers!(column, i8, Int8Array, 2),
        2 => integers!(column, i16, Int16Array, 4),
        3 => integers!(column, i32, Int32Array, 9),
        4 => integers!(column, i64, Int64Array, 18),
        5 => {
            let values = values::<16>(column).map(|value| value.map(i128::from_le_bytes));
            decimals(values, 38, scale(column, NULL_AT + 16).unwrap_or(0))?
        }
        7 => {
            Arc::new(values::<4>(column).map(|value| value.map(f32::from_le_bytes)).collect::<Float32Array>())
        }
        8 => {
            Arc::new(values::<8>(column).map(|value| value.map(f64::from_le_bytes)).collect::<Float64Array>())
        }
        9 => texts(column)?,
        10 => bytes(column),
        11 => Arc::new(values::<4>(column).map(|value| value.map(days)).collect::<Date32Array>()),
        12 => Arc::new(raw_values::<8>(column).map(micros_of_day).collect::<Time64MicrosecondArray>()),
        13 => Arc::new(raw_values::<12>(column).map(micros).collect::<TimestampMicrosecondArray>()),
        other => return Err(broken(format!("column {name} has a type ({other}) that is not supported"))),
    })
}

fn texts(column: &RawColumn) -> Result<ArrayRef, EngineError> {
    let mut list = Vec::with_capacity(column.count);
    for row in 0..column.count {
        // SAFETY: a column of texts has `count` pointers.
        let text = unsafe { column.data.cast::<*const c_char>().add(row).read() };
        if text.is_null() {
            list.push(None);
            continue;
        }
        // SAFETY: a text that is there ends with zero, and lives as long as its column.
        list.push(Some(unsafe { CStr::from_ptr(text) }.to_str().map_err(broken)?));
    }
    Ok(Arc::new(StringArray::from(list)))
}

fn bytes(column: &RawColumn) -> ArrayRef {
    let list = (0..column.count).map(|row| {
        // SAFETY: a column of bytes has `count` pairs of a length and a pointer.
        let (length, data) = unsafe {
            let pair = column.data.cast::<usize>().add(row * 2);
            (pair.read(), pair.add(1).cast::<*const u8>().read())
        };
        // SAFETY: where the pointer is not null, so many bytes stand there, as long as the column lives.
        (!data.is_null()).then(|| unsafe { std::slice::from_raw_parts(data, length) })
    });
    Arc::new(list.collect::<BinaryArray>())
}

/// Days since 1970 of a date of the Gregorian calendar.
fn days([day, month, low, high]: [u8; 4]) -> i32 {
    let (day, month) = (i32::from(day), i32::from(month));
    let year = i32::from(i16::from_le_bytes([low, high])) - i32::from(month <= 2);
    // Years are taken to begin in March, so that the day that comes and goes is the last one.
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The last byte is nobody's, so NULL is told by what no time has: more than 999 milliseconds.
fn micros_of_day([a, b, c, d, seconds, minutes, hours, _]: [u8; 8]) -> Option<i64> {
    let millis = u32::from_le_bytes([a, b, c, d]);
    let seconds = (i64::from(hours) * 60 + i64::from(minutes)) * 60 + i64::from(seconds);
    (millis < 1_000).then(|| (seconds * 1_000 + i64::from(millis)) * 1_000)
}

fn micros([a, b, c, d, time @ ..]: [u8; 12]) -> Option<i64> {
    Some(i64::from(days([a, b, c, d])) * 86_400_000_000 + micros_of_day(time)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(year: i16, month: u8, day: u8) -> i32 {
        let [low, high] = year.to_le_bytes();
        days([day, month, low, high])
    }

    #[test]
    fn dates_count_from_1970_through_leap_years() {
        assert_eq!(date(1970, 1, 1), 0);
        assert_eq!(date(1969, 12, 31), -1);
        assert_eq!(date(2000, 2, 29), 11_016);
        assert_eq!(date(2000, 3, 1), 11_017);
        assert_eq!(date(2024, 12, 31), 20_088);
        assert_eq!(date(1, 1, 1), -719_162);
    }

    #[test]
    fn a_timestamp_is_its_date_and_its_time() {
        let stamp = [1, 1, 178, 7, 244, 1, 0, 0, 3, 2, 1, 0];
        assert_eq!(micros(stamp), Some((3_723 * 1_000 + 500) * 1_000));
        assert_eq!(micros([0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 7]), None);
    }
}
