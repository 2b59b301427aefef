// SPDX-License-Identifier: Apache-2.0
//! What a column of GROUP BY does: gives each of its values a small number, and knows the value of each number.

use super::booleans::Booleans;
use super::decimals::Decimals;
use super::integers::Integers;
use super::texts::Texts;
use arrow::array::ArrayRef;
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type,
};

/// For each code that was given before its new one, if codes have changed.
pub(super) type Recoding = Option<Vec<u32>>;

/// The codes of one column's values, of which NULL is one.
pub(super) trait KeyCodes: Send {
    /// Puts the code of each value into `codes`, whatever was in there.
    fn encode(&mut self, values: &ArrayRef, codes: &mut Vec<u32>) -> Recoding;

    /// Whether codes never change, and are 1, 2, 3 in the order in which values, and NULL, were first seen.
    fn are_lasting(&self) -> bool {
        false
    }

    /// Whether a value's code is computed of the value alone, so that nothing is looked up.
    fn are_computed(&self) -> bool {
        false
    }

    /// All codes are below this.
    fn count(&self) -> u64;

    /// The values of codes that were given.
    fn decode(&self, codes: &[u32]) -> ArrayRef;

    /// Bytes that it holds.
    fn bytes(&self) -> usize;
}

/// The codes of a column of this type; `None` for types that have none here.
///
/// Floats have none: zeros of both signs are one group, and NaNs.
pub(super) fn key_codes(ty: &DataType) -> Option<Box<dyn KeyCodes>> {
    macro_rules! integers {
        ($kind:ty) => {
            Box::new(Integers::<$kind>::new(ty.clone()))
        };
    }
    Some(match ty {
        DataType::Boolean => Box::new(Booleans),
        DataType::Int8 => integers!(Int8Type),
        DataType::Int16 => integers!(Int16Type),
        DataType::Int32 => integers!(Int32Type),
        DataType::Int64 => integers!(Int64Type),
        DataType::UInt8 => integers!(UInt8Type),
        DataType::UInt16 => integers!(UInt16Type),
        DataType::UInt32 => integers!(UInt32Type),
        DataType::Date32 => integers!(Date32Type),
        DataType::Date64 => integers!(Date64Type),
        DataType::Time32(TimeUnit::Second) => integers!(Time32SecondType),
        DataType::Time32(TimeUnit::Millisecond) => integers!(Time32MillisecondType),
        DataType::Time64(TimeUnit::Microsecond) => integers!(Time64MicrosecondType),
        DataType::Time64(TimeUnit::Nanosecond) => integers!(Time64NanosecondType),
        DataType::Timestamp(TimeUnit::Second, _) => integers!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => integers!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => integers!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => integers!(TimestampNanosecondType),
        DataType::Decimal128(..) => Box::new(Decimals::new(ty.clone())),
        DataType::Utf8View => Box::new(Texts::new()),
        _ => return None,
    })
}

/// Puts the code of each value into `codes`, of a NULL 0.
#[inline]
pub(super) fn codes_of<T: Copy>(
    nulls: Option<&NullBuffer>,
    values: &[T],
    codes: &mut Vec<u32>,
    mut code: impl FnMut(T) -> u32,
) {
    codes.clear();
    match nulls.filter(|nulls| nulls.null_count() > 0) {
        None => codes.extend(values.iter().map(|value| code(*value))),
        Some(nulls) => {
            let there = nulls.iter().zip(values);
            codes.extend(there.map(|(is_there, value)| if is_there { code(*value) } else { 0 }));
        }
    }
}
