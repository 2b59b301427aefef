// SPDX-License-Identifier: Apache-2.0
//! Arrays of decimals and integers as 64-bit integers, and back.

use super::bounds::Bounds;
use crate::vector::extremes;
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Decimal64Type, Decimal128Type, Int16Type, Int32Type, Int64Type};
use std::sync::Arc;

/// Decimals without their scale, row by row.
#[derive(Debug)]
pub struct NarrowValues {
    /// Where a row is NULL, any value.
    pub values: ScalarBuffer<i64>,
    /// Which rows are NULL; `None`: no row.
    pub nulls: Option<NullBuffer>,
}

impl NarrowValues {
    /// The values of an array of decimals; `None` if one of them does not fit.
    #[must_use]
    pub fn of(array: &ArrayRef) -> Option<Self> {
        narrowed(array).map(|(values, _)| values)
    }

    /// The values of an array that has just them, `Decimal64`; `None` of another one.
    pub(crate) fn as_they_are(array: &ArrayRef) -> Option<Self> {
        let decimals = array.as_primitive_opt::<Decimal64Type>()?;
        let nulls = decimals.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        Some(Self { values: decimals.values().clone(), nulls })
    }

    /// As decimals of this type.
    ///
    /// # Panics
    ///
    /// If it is no type of decimals of 128 bits.
    #[must_use]
    pub fn widened(self, ty: &DataType) -> ArrayRef {
        let values: Vec<i128> = self.values.iter().map(|value| i128::from(*value)).collect();
        let array = PrimitiveArray::<Decimal128Type>::new(values.into(), self.nulls);
        Arc::new(array.with_data_type(ty.clone()))
    }
}

/// The values of an array of decimals or integers, and between which bounds they are; `None` if one of them does not fit.
pub(super) fn narrowed(array: &ArrayRef) -> Option<(NarrowValues, Bounds)> {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let (values, bounds) = match array.data_type() {
        DataType::Decimal128(..) => bounded(array.as_primitive::<Decimal128Type>().values(), nulls),
        DataType::Int16 => bounded(array.as_primitive::<Int16Type>().values(), nulls),
        DataType::Int32 => bounded(array.as_primitive::<Int32Type>().values(), nulls),
        DataType::Int64 => Some(bounded_as_they_are(array.as_primitive::<Int64Type>().values(), nulls)),
        DataType::Decimal64(..) => {
            Some(bounded_as_they_are(array.as_primitive::<Decimal64Type>().values(), nulls))
        }
        _ => None,
    }?;
    Some((NarrowValues { values, nulls: nulls.cloned() }, bounds))
}

/// What has been seen of values.
struct Seen {
    least: i64,
    greatest: i64,
    /// Not 0 if bits of a value were lost.
    lost: i64,
}

impl Seen {
    fn narrow(&mut self, value: i128) -> i64 {
        // The lower half is the value if the upper one repeats its sign.
        let low = value as i64;
        self.lost |= (value >> i64::BITS) as i64 ^ (low >> (i64::BITS - 1));
        self.least = self.least.min(low);
        self.greatest = self.greatest.max(low);
        low
    }
}

/// Those that need not be copied. What stands in the place of a NULL stays.
fn bounded_as_they_are(
    values: &ScalarBuffer<i64>,
    nulls: Option<&NullBuffer>,
) -> (ScalarBuffer<i64>, Bounds) {
    let (least, greatest) = match nulls {
        None => extremes(values),
        Some(nulls) => nulls.valid_indices().fold((i64::MAX, i64::MIN), |(least, greatest), row| {
            (least.min(values[row]), greatest.max(values[row]))
        }),
    };
    let bounds = if least > greatest { Bounds::of(0) } else { Bounds { least, greatest } };
    (values.clone(), bounds)
}

/// Values of NULLs can be anything, and are taken for 0.
fn bounded<T: Copy + Into<i128>>(
    values: &[T],
    nulls: Option<&NullBuffer>,
) -> Option<(ScalarBuffer<i64>, Bounds)> {
    let mut seen = Seen { least: i64::MAX, greatest: i64::MIN, lost: 0 };
    let narrow: Vec<i64> = match nulls {
        None => values.iter().map(|value| seen.narrow((*value).into())).collect(),
        Some(nulls) => {
            let rows = values.iter().zip(nulls.iter());
            rows.map(|(value, is_there)| seen.narrow(if is_there { (*value).into() } else { 0 })).collect()
        }
    };
    let Seen { least, greatest, lost } = seen;
    let bounds = if narrow.is_empty() { Bounds::of(0) } else { Bounds { least, greatest } };
    (lost == 0).then(|| (narrow.into(), bounds))
}
