// SPDX-License-Identifier: Apache-2.0
//! Reading one value out of an Arrow array.

use super::place::{PLACE_SIZE, kept_place};
use super::zoned_time::ZONED_TIME_SIZE;
use super::{AnyNumberRef, IntervalValue, ListRef, ValueRef};
use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal64Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType,
};

/// Bytes of a `uuid`.
pub(crate) const UUID_SIZE: i32 = 16;

/// The value at `index` of a chunk's array.
///
/// # Panics
/// If the array is of a type no [`ColumnType`](crate::ColumnType) has, or `index` is out of range.
#[must_use]
#[inline]
pub fn value_at(array: &dyn Array, index: usize) -> ValueRef<'_> {
    if array.is_null(index) {
        return ValueRef::Null;
    }
    match array.data_type() {
        DataType::Int16 => ValueRef::Int16(array.as_primitive::<Int16Type>().value(index)),
        DataType::Int32 => ValueRef::Int32(array.as_primitive::<Int32Type>().value(index)),
        DataType::Int64 => ValueRef::Int64(array.as_primitive::<Int64Type>().value(index)),
        DataType::Float32 => ValueRef::Float32(array.as_primitive::<Float32Type>().value(index)),
        DataType::Float64 => ValueRef::Float64(array.as_primitive::<Float64Type>().value(index)),
        DataType::Decimal64(_, _) => {
            ValueRef::Decimal(array.as_primitive::<Decimal64Type>().value(index).into())
        }
        DataType::Decimal128(_, _) => ValueRef::Decimal(array.as_primitive::<Decimal128Type>().value(index)),
        DataType::Boolean => ValueRef::Boolean(array.as_boolean().value(index)),
        DataType::Utf8View => ValueRef::Text(array.as_string_view().value(index)),
        DataType::BinaryView => ValueRef::Bytes(array.as_binary_view().value(index)),
        DataType::Binary => ValueRef::Bytes(array.as_binary::<i32>().value(index)),
        DataType::LargeBinary => ValueRef::Number(AnyNumberRef::new(array.as_binary::<i64>().value(index))),
        DataType::Date32 => ValueRef::Int32(array.as_primitive::<Date32Type>().value(index)),
        DataType::Time64(TimeUnit::Microsecond) => {
            ValueRef::Int64(array.as_primitive::<Time64MicrosecondType>().value(index))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            ValueRef::Int64(array.as_primitive::<TimestampMicrosecondType>().value(index))
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(index);
            ValueRef::Interval(IntervalValue {
                months: value.months,
                days: value.days,
                nanoseconds: value.nanoseconds,
            })
        }
        DataType::FixedSizeBinary(UUID_SIZE) => {
            let mut uuid = [0; UUID_SIZE as usize];
            uuid.copy_from_slice(array.as_fixed_size_binary().value(index));
            ValueRef::Uuid(uuid)
        }
        DataType::FixedSizeBinary(PLACE_SIZE) => {
            let mut place = [0; PLACE_SIZE as usize];
            place.copy_from_slice(array.as_fixed_size_binary().value(index));
            ValueRef::Int64(kept_place(u64::from_be_bytes(place)))
        }
        DataType::FixedSizeBinary(ZONED_TIME_SIZE) => {
            ValueRef::Bytes(array.as_fixed_size_binary().value(index))
        }
        DataType::Struct(_) => {
            ValueRef::Int64(array.as_struct().column(0).as_primitive::<Int64Type>().value(index))
        }
        DataType::List(_) => ValueRef::List(ListRef::Cell { lists: array.as_list(), row: index }),
        // A column that was dropped before the chunk was written.
        DataType::Null => ValueRef::Null,
        other => panic!("no column type is kept as {other}"),
    }
}
