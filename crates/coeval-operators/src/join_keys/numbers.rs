// SPDX-License-Identifier: Apache-2.0
//! Columns of keys as the integers that their values are kept as.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Int16Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
};

/// The values of a column, whatever stands in the place of NULL.
#[derive(Clone, Copy, Debug)]
pub enum Numbers<'a> {
    /// Of 16 bits.
    Short(&'a [i16]),
    /// Of 32 bits.
    Word(&'a [i32]),
    /// Of 64 bits.
    Long(&'a [i64]),
}

impl<'a> Numbers<'a> {
    /// Those of this column; `None` if its type has none.
    #[must_use]
    pub fn of(column: &'a ArrayRef) -> Option<Self> {
        Some(match column.data_type() {
            DataType::Int16 => Self::Short(column.as_primitive::<Int16Type>().values()),
            DataType::Int32 => Self::Word(column.as_primitive::<Int32Type>().values()),
            DataType::Date32 => Self::Word(column.as_primitive::<Date32Type>().values()),
            DataType::Int64 => Self::Long(column.as_primitive::<Int64Type>().values()),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                Self::Long(column.as_primitive::<TimestampMicrosecondType>().values())
            }
            _ => return None,
        })
    }

    /// Whether columns of this type have some.
    #[must_use]
    pub fn are_of(ty: &DataType) -> bool {
        matches!(
            ty,
            DataType::Int16
                | DataType::Int32
                | DataType::Date32
                | DataType::Int64
                | DataType::Timestamp(TimeUnit::Microsecond, _)
        )
    }

    /// Calls this for each value that is there.
    pub(crate) fn each(&self, nulls: Option<&NullBuffer>, call: impl FnMut(i64)) {
        match self {
            Self::Short(values) => each(values, nulls, call),
            Self::Word(values) => each(values, nulls, call),
            Self::Long(values) => each(values, nulls, call),
        }
    }
}

fn each<T: Copy>(values: &[T], nulls: Option<&NullBuffer>, mut call: impl FnMut(i64))
where
    i64: From<T>,
{
    match nulls {
        None => values.iter().for_each(|value| call(i64::from(*value))),
        Some(nulls) => nulls.valid_indices().for_each(|row| call(i64::from(values[row]))),
    }
}
