// SPDX-License-Identifier: Apache-2.0
//! A column of integers in as few bytes as its chunk allows: the least value, and of each one how much it is greater. Arrow's array is made
//! of it for the rows that are read.
//!
//! # Why
//! Memory that a process writes to for the first time costs the system a page fault and a page of zeros for each 4 KiB, which took more of
//! the first run of a query than reading and decoding its columns. Prices as decimals of Arrow's take sixteen bytes a row, days four;
//! in one chunk their differences fit into four and two. What is kept is that; the array of a batch lies in memory that the batches before
//! have used, and in the processor's cache.
//!
//! # Which columns
//! Integers, days, times, and decimals of which all fit into 64 bits, if the differences take half of the bytes of a value at most.

use crate::narrow_decimals::narrow_decimal_type;
use arrow::array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    DataType, Date32Type, Decimal64Type, Decimal128Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow::error::ArrowError;
use std::sync::Arc;

/// How much values are greater than the least one, in as many bytes each as the greatest needs.
#[derive(Clone, Debug)]
pub(crate) enum Offsets {
    One(ScalarBuffer<u8>),
    Two(ScalarBuffer<u16>),
    Four(ScalarBuffer<u32>),
    Eight(ScalarBuffer<u64>),
}

/// Does the same with offsets of each width.
macro_rules! by_width {
    ($column:expr, $offsets:ident => $done:expr) => {
        match &$column.offsets {
            Offsets::One($offsets) => $done,
            Offsets::Two($offsets) => $done,
            Offsets::Four($offsets) => $done,
            Offsets::Eight($offsets) => $done,
        }
    };
}

impl Offsets {
    /// How many bytes each has if the greatest is this one.
    pub(crate) fn bytes_for(greatest: u64) -> usize {
        match greatest {
            0..=0xFF => 1,
            0x100..=0xFFFF => 2,
            0x1_0000..=0xFFFF_FFFF => 4,
            _ => 8,
        }
    }

    fn slice(&self, start: usize, count: usize) -> Self {
        match self {
            Self::One(offsets) => Self::One(offsets.slice(start, count)),
            Self::Two(offsets) => Self::Two(offsets.slice(start, count)),
            Self::Four(offsets) => Self::Four(offsets.slice(start, count)),
            Self::Eight(offsets) => Self::Eight(offsets.slice(start, count)),
        }
    }
}

/// See the module. Cheap to clone, and to cut.
#[derive(Clone, Debug)]
pub(crate) struct PackedColumn {
    /// That of the array.
    data_type: DataType,
    least: i64,
    /// Anything where there is no value.
    offsets: Offsets,
    nulls: Option<NullBuffer>,
}

impl PackedColumn {
    /// The column of this type whose values are so much greater than `least`. Sums wrap around.
    ///
    /// # Panics
    /// If no column of this type is kept so, or marks of NULLs are not as many as values.
    pub(crate) fn new(data_type: DataType, least: i64, offsets: Offsets, nulls: Option<NullBuffer>) -> Self {
        assert!(Self::offset_bytes_max(&data_type).is_some(), "{data_type} is a type of integers");
        let column = Self { data_type, least, offsets, nulls };
        let marks = column.nulls.as_ref().map_or_else(|| column.rows(), NullBuffer::len);
        assert_eq!(marks, column.rows(), "each row has a value or none");
        column
    }

    /// The column of this type of these values.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub(crate) fn of_integers(data_type: DataType, integers: &[i64], nulls: Option<NullBuffer>) -> Self {
        let least = integers.iter().copied().min().unwrap_or_default();
        let greatest = integers.iter().copied().max().unwrap_or_default();
        let offsets = integers.iter().map(|integer| integer.wrapping_sub(least) as u64);
        let offsets = match Offsets::bytes_for(greatest.wrapping_sub(least) as u64) {
            1 => Offsets::One(offsets.map(|offset| offset as u8).collect()),
            2 => Offsets::Two(offsets.map(|offset| offset as u16).collect()),
            4 => Offsets::Four(offsets.map(|offset| offset as u32).collect()),
            _ => Offsets::Eight(offsets.collect()),
        };
        Self::new(data_type, least, offsets, nulls)
    }

    /// How many bytes offsets may have in a column of this type, half of those of a value; `None` if its values are no integers.
    pub(crate) fn offset_bytes_max(data_type: &DataType) -> Option<usize> {
        match data_type {
            DataType::Int16 => Some(1),
            DataType::Int32 | DataType::Date32 => Some(2),
            DataType::Int64 | DataType::Time64(_) | DataType::Timestamp(_, _) | DataType::Decimal64(_, _) => {
                Some(4)
            }
            DataType::Decimal128(_, _) => Some(8),
            _ => None,
        }
    }

    /// How many rows.
    pub(crate) fn rows(&self) -> usize {
        by_width!(self, offsets => offsets.len())
    }

    /// The type of the array.
    pub(crate) fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        let of_values = by_width!(self, offsets => size_of_val(&offsets[..]));
        (of_values + self.nulls.as_ref().map_or(0, |nulls| nulls.len().div_ceil(8))) as u64
    }

    /// The same values; decimals of few digits as `Decimal64`.
    pub(crate) fn narrowed(self) -> Self {
        match narrow_decimal_type(&self.data_type) {
            Some(data_type) => Self { data_type, ..self },
            None => self,
        }
    }

    /// So many rows from `start` on.
    ///
    /// # Panics
    /// If there are not so many.
    pub(crate) fn slice(&self, start: usize, count: usize) -> Self {
        Self {
            data_type: self.data_type.clone(),
            least: self.least,
            offsets: self.offsets.slice(start, count),
            nulls: self.nulls.as_ref().map(|nulls| nulls.slice(start, count)),
        }
    }

    /// The array of all rows.
    ///
    /// # Errors
    /// If Arrow refuses it: a bug.
    pub(crate) fn array(&self) -> Result<ArrayRef, ArrowError> {
        by_width!(self, offsets => self.array_of_all(offsets))
    }

    /// The array of these rows.
    ///
    /// # Errors
    /// As [`array`](Self::array).
    ///
    /// # Panics
    /// If there is no such row.
    pub(crate) fn taken(&self, rows: &[u32]) -> Result<ArrayRef, ArrowError> {
        by_width!(self, offsets => self.array_of_rows(offsets, rows))
    }

    /// So many zeros of the same type.
    ///
    /// # Errors
    /// As [`array`](Self::array).
    pub(crate) fn zeros(&self, rows: usize) -> Result<ArrayRef, ArrowError> {
        Self::new(self.data_type.clone(), 0, Offsets::One(vec![0_u8; rows].into()), None).array()
    }

    fn array_of_all<O: Copy + Into<u64>>(&self, offsets: &[O]) -> Result<ArrayRef, ArrowError> {
        self.array_of(offsets.iter().map(|&offset| offset.into()), self.nulls.clone())
    }

    fn array_of_rows<O: Copy + Into<u64>>(
        &self,
        offsets: &[O],
        rows: &[u32],
    ) -> Result<ArrayRef, ArrowError> {
        let is_there = |nulls: &NullBuffer| rows.iter().map(|&row| nulls.is_valid(row as usize)).collect();
        let nulls: Option<NullBuffer> = self.nulls.as_ref().map(is_there);
        self.array_of(rows.iter().map(|&row| offsets[row as usize].into()), nulls)
    }

    fn array_of(
        &self,
        offsets: impl Iterator<Item = u64>,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        let least = self.least;
        let integers = offsets.map(move |offset| least.wrapping_add(offset as i64));
        match &self.data_type {
            DataType::Int16 => self.of_values::<Int16Type>(integers.map(|value| value as i16), nulls),
            DataType::Int32 => self.of_values::<Int32Type>(integers.map(|value| value as i32), nulls),
            DataType::Date32 => self.of_values::<Date32Type>(integers.map(|value| value as i32), nulls),
            DataType::Int64 => self.of_values::<Int64Type>(integers, nulls),
            DataType::Time64(_) => self.of_values::<Time64MicrosecondType>(integers, nulls),
            DataType::Timestamp(_, _) => self.of_values::<TimestampMicrosecondType>(integers, nulls),
            DataType::Decimal64(_, _) => self.of_values::<Decimal64Type>(integers, nulls),
            DataType::Decimal128(_, _) => self.of_values::<Decimal128Type>(integers.map(i128::from), nulls),
            other => Err(ArrowError::InvalidArgumentError(format!("{other} is no type of integers"))),
        }
    }

    fn of_values<T: ArrowPrimitiveType>(
        &self,
        values: impl Iterator<Item = T::Native>,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        let values: Vec<T::Native> = values.collect();
        let array = PrimitiveArray::<T>::try_new(values.into(), nulls)?;
        Ok(Arc::new(array.with_data_type(self.data_type.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, AsArray, Int64Array};
    use arrow::compute::cast;
    use arrow::datatypes::TimeUnit;

    const TYPES: [DataType; 8] = [
        DataType::Int16,
        DataType::Int32,
        DataType::Date32,
        DataType::Int64,
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Decimal64(18, 0),
        DataType::Decimal128(38, 0),
    ];

    /// The values that each type has for these integers, as integers again.
    fn integers_of(array: &ArrayRef) -> Vec<Option<i64>> {
        let integers = match array.data_type() {
            DataType::Date32 => cast(array, &DataType::Int32).unwrap(),
            _ => Arc::clone(array),
        };
        cast(&integers, &DataType::Int64).unwrap().as_primitive::<Int64Type>().iter().collect()
    }

    #[test]
    fn values_of_each_type_and_width_are_what_they_were_wherever_they_are_read() {
        for greatest in [0, 0xFF, 0x100, 0xFFFF, 0x1_0000, 0xFFFF_FFFF, 0x1_0000_0000_i64] {
            for data_type in TYPES {
                let greatest_of_type = match data_type.primitive_width() {
                    Some(2) => 0x7FFF,
                    Some(4) => 0x7FFF_FFFF,
                    _ => i64::MAX,
                };
                if greatest > greatest_of_type {
                    continue;
                }
                let least = -100;
                let integers = [greatest + least, least, least + greatest / 2, least];
                let nulls: Option<NullBuffer> = Some(vec![true, true, true, false].into());
                let values = Int64Array::new(integers.to_vec().into(), nulls.clone());
                let packed = PackedColumn::of_integers(data_type.clone(), values.values(), nulls);
                let bytes = Offsets::bytes_for(greatest as u64);
                assert_eq!(packed.bytes(), (integers.len() * bytes + 1) as u64, "{data_type} {greatest}");
                let array = packed.array().unwrap();
                assert_eq!(array.data_type(), &data_type);
                assert_eq!(integers_of(&array), values.iter().collect::<Vec<_>>(), "{data_type}");
                let part = packed.slice(1, 3);
                assert_eq!(&part.array().unwrap(), &array.slice(1, 3), "{data_type}");
                let taken = part.taken(&[2, 0, 0]).unwrap();
                let expected = [None, Some(least), Some(least)];
                assert_eq!(integers_of(&taken), expected, "{data_type}");
                assert_eq!(integers_of(&packed.zeros(2).unwrap()), [Some(0); 2], "{data_type}");
            }
        }
    }

    #[test]
    fn the_least_and_the_greatest_integers_stand_beside_each_other() {
        let integers = [i64::MIN, i64::MAX, 0, -1];
        let packed = PackedColumn::of_integers(DataType::Decimal128(38, 0), &integers, None);
        let expected = integers.map(i128::from);
        assert_eq!(packed.array().unwrap().as_primitive::<Decimal128Type>().values(), &expected[..]);
    }

    #[test]
    fn decimals_of_few_digits_are_given_with_64_bits_and_others_as_they_are() {
        let packed = |digits| PackedColumn::of_integers(DataType::Decimal128(digits, 2), &[1, -7], None);
        let narrow = packed(12).narrowed();
        assert_eq!(narrow.data_type(), &DataType::Decimal64(12, 2));
        assert_eq!(narrow.array().unwrap().as_primitive::<Decimal64Type>().values(), &[1_i64, -7][..]);
        assert_eq!(packed(30).narrowed().data_type(), &DataType::Decimal128(30, 2));
    }
}
