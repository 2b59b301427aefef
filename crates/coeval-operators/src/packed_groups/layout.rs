// SPDX-License-Identifier: Apache-2.0
//! How values of several columns stand side by side in one integer.
//!
//! Each column has the bits of its type, and one bit below them that tells whether there is a value, if there may be none. The first column
//! stands in the lowest bits:
//!
//! ```text
//! a int, b int NOT NULL         b b b ... b a a a ... a 1
//!                               32 bits     32 bits     a is there
//! ```
//!
//! All bits of a NULL are 0, so that equal rows have equal keys. No value of a type is left out: nothing has to be known of the values.

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Decimal128Array, PrimitiveArray, UInt64Array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt64Type,
};
use datafusion::common::internal_err;
use datafusion::error::Result;
use std::ops::{BitOrAssign, Shl, Shr};
use std::sync::Arc;

/// The type of keys that have more than 64 bits: Arrow has no other integer of 128. Nobody reads them as decimals.
const WIDE: DataType = DataType::Decimal128(38, 0);

/// See the module.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    places: Vec<Place>,
    bits: u32,
}

/// Where a column's values stand.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Place {
    ty: DataType,
    is_nullable: bool,
    /// Bits below it.
    shift: u32,
}

impl Place {
    /// The bits below the value itself.
    fn value_shift(&self) -> u32 {
        self.shift + u32::from(self.is_nullable)
    }
}

/// Calls a function for Arrow's integers of this type.
macro_rules! by_type {
    ($ty:expr, $function:ident($($argument:expr),*)) => {
        match $ty {
            DataType::Int8 => $function::<Int8Type, _>($($argument),*),
            DataType::Int16 => $function::<Int16Type, _>($($argument),*),
            DataType::Int32 => $function::<Int32Type, _>($($argument),*),
            DataType::Int64 => $function::<Int64Type, _>($($argument),*),
            DataType::Date32 => $function::<Date32Type, _>($($argument),*),
            DataType::Date64 => $function::<Date64Type, _>($($argument),*),
            DataType::Time32(TimeUnit::Second) => $function::<Time32SecondType, _>($($argument),*),
            DataType::Time32(TimeUnit::Millisecond) => $function::<Time32MillisecondType, _>($($argument),*),
            DataType::Time64(TimeUnit::Microsecond) => $function::<Time64MicrosecondType, _>($($argument),*),
            DataType::Time64(TimeUnit::Nanosecond) => $function::<Time64NanosecondType, _>($($argument),*),
            DataType::Timestamp(TimeUnit::Second, _) => $function::<TimestampSecondType, _>($($argument),*),
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                $function::<TimestampMillisecondType, _>($($argument),*)
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                $function::<TimestampMicrosecondType, _>($($argument),*)
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                $function::<TimestampNanosecondType, _>($($argument),*)
            }
            other => internal_err!("values of type {other} have no place in a key"),
        }
    };
}

impl Layout {
    /// Of columns of these types, each with whether it may be NULL; `None` of a single one, if they have more than 128 bits, or if one of
    /// them is no integer, date or time.
    pub(super) fn of(columns: impl IntoIterator<Item = (DataType, bool)>) -> Option<Self> {
        let (mut places, mut bits) = (Vec::new(), 0);
        for (ty, is_nullable) in columns {
            let place = Place { shift: bits, is_nullable, ty };
            bits = place.value_shift() + width(&place.ty)?;
            places.push(place);
        }
        (places.len() > 1 && bits <= u128::BITS).then_some(Self { places, bits })
    }

    /// The bits of a key.
    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    /// The type of keys.
    pub(super) fn data_type(&self) -> DataType {
        if self.bits <= u64::BITS { DataType::UInt64 } else { WIDE }
    }

    /// The key of each row of these columns.
    ///
    /// # Errors
    ///
    /// If a column is of another type, or NULL where it cannot be.
    pub(super) fn pack(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        if self.bits <= u64::BITS {
            return Ok(Arc::new(UInt64Array::from(self.keys::<u64>(columns, rows)?)));
        }
        let keys = self.keys::<u128>(columns, rows)?.into_iter().map(u128::cast_signed);
        let keys = Decimal128Array::from(keys.collect::<Vec<i128>>());
        Ok(Arc::new(keys.with_data_type(WIDE)))
    }

    /// The columns of these keys.
    ///
    /// # Errors
    ///
    /// If the keys are of another type.
    pub(super) fn unpack(&self, keys: &ArrayRef) -> Result<Vec<ArrayRef>> {
        if let Some(keys) = keys.as_primitive_opt::<UInt64Type>() {
            return self.columns(keys.values());
        }
        let Some(keys) = keys.as_primitive_opt::<Decimal128Type>() else {
            return internal_err!("values of type {} are no keys", keys.data_type());
        };
        let keys: Vec<u128> = keys.values().iter().map(|key| key.cast_unsigned()).collect();
        self.columns(&keys)
    }

    fn keys<K: Key>(&self, columns: &[ArrayRef], rows: usize) -> Result<Vec<K>> {
        let mut keys = vec![K::default(); rows];
        for (place, column) in self.places.iter().zip(columns) {
            by_type!(&place.ty, put_in(place, column, &mut keys))?;
        }
        Ok(keys)
    }

    fn columns<K: Key>(&self, keys: &[K]) -> Result<Vec<ArrayRef>> {
        self.places.iter().map(|place| by_type!(&place.ty, take_out(place, keys))).collect()
    }
}

/// The bits of a value of this type; `None` if such values have no place in a key.
fn width(ty: &DataType) -> Option<u32> {
    Some(match ty {
        DataType::Int8 => 8,
        DataType::Int16 => 16,
        DataType::Int32 | DataType::Date32 | DataType::Time32(TimeUnit::Second | TimeUnit::Millisecond) => 32,
        DataType::Int64
        | DataType::Date64
        | DataType::Time64(TimeUnit::Microsecond | TimeUnit::Nanosecond)
        | DataType::Timestamp(..) => 64,
        _ => return None,
    })
}

/// Adds a column to the keys of its rows.
fn put_in<T, K: Key>(place: &Place, column: &ArrayRef, keys: &mut [K]) -> Result<()>
where
    T: ArrowPrimitiveType,
    T::Native: Bits,
{
    let Some(values) = column.as_primitive_opt::<T>().filter(|values| values.len() == keys.len()) else {
        return internal_err!("{} values of type {} for {}", column.len(), column.data_type(), place.ty);
    };
    let (there, shift) = (K::from(u64::from(place.is_nullable)) << place.shift, place.value_shift());
    let pairs = keys.iter_mut().zip(values.values().iter());
    match values.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => pairs.for_each(|(key, value)| {
            *key |= there;
            *key |= K::from(value.bits()) << shift;
        }),
        Some(nulls) if place.is_nullable => {
            for ((key, value), is_there) in pairs.zip(nulls.iter()) {
                if is_there {
                    *key |= there;
                    *key |= K::from(value.bits()) << shift;
                }
            }
        }
        Some(_) => return internal_err!("NULL in a column that has none"),
    }
    Ok(())
}

/// A column of the rows with these keys.
fn take_out<T, K: Key>(place: &Place, keys: &[K]) -> Result<ArrayRef>
where
    T: ArrowPrimitiveType,
    T::Native: Bits,
{
    let shift = place.value_shift();
    let values: Vec<T::Native> =
        keys.iter().map(|key| <T::Native as Bits>::of_bits((*key >> shift).low())).collect();
    let there = |row: usize| (keys[row] >> place.shift).low() & 1 == 1;
    let nulls = place.is_nullable.then(|| NullBuffer::new(BooleanBuffer::collect_bool(keys.len(), there)));
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
    let values = PrimitiveArray::<T>::new(values.into(), nulls);
    Ok(Arc::new(values.with_data_type(place.ty.clone())))
}

/// An integer that keys can be made of.
trait Key: Copy + Default + From<u64> + BitOrAssign + Shl<u32, Output = Self> + Shr<u32, Output = Self> {
    /// Its lowest 64 bits.
    fn low(self) -> u64;
}

impl Key for u64 {
    fn low(self) -> u64 {
        self
    }
}

impl Key for u128 {
    fn low(self) -> u64 {
        // The bits above are other columns'.
        self as u64
    }
}

/// A value as bits without a sign, and back.
trait Bits: Copy {
    fn bits(self) -> u64;

    /// The value of the lowest bits, as many as it has.
    fn of_bits(bits: u64) -> Self;
}

macro_rules! bits {
    ($($integer:ty),+) => {
        $(impl Bits for $integer {
            fn bits(self) -> u64 {
                u64::from(self.cast_unsigned())
            }

            fn of_bits(bits: u64) -> Self {
                bits as Self
            }
        })+
    };
}

bits!(i8, i16, i32, i64);

#[cfg(test)]
mod tests {
    use super::{Layout, WIDE};
    use arrow::array::{Array, ArrayRef, Date32Array, Int16Array, Int32Array, Int64Array};
    use arrow::array::{Time64MicrosecondArray, TimestampMicrosecondArray};
    use arrow::datatypes::{DataType, TimeUnit};
    use std::collections::HashSet;
    use std::sync::Arc;

    fn layout(columns: &[ArrayRef], nullable: &[bool]) -> Option<Layout> {
        Layout::of(columns.iter().map(|column| column.data_type().clone()).zip(nullable.iter().copied()))
    }

    #[test]
    fn all_values_come_back_with_their_types() {
        let wide: ArrayRef =
            Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(i64::MAX), None, Some(0), Some(-1), None]));
        let small: ArrayRef = Arc::new(Int32Array::from(vec![i32::MIN, i32::MAX, 0, -1, 1, 0]));
        let tiny: ArrayRef =
            Arc::new(Int16Array::from(vec![None, Some(i16::MIN), Some(i16::MAX), Some(0), None, Some(-1)]));
        let date: ArrayRef =
            Arc::new(Date32Array::from(vec![Some(i32::MAX), None, Some(0), None, None, None]));
        let moment: ArrayRef = Arc::new(
            TimestampMicrosecondArray::from(vec![i64::MAX, i64::MIN, 0, 1, -1, 7]).with_timezone("UTC"),
        );
        let time: ArrayRef = Arc::new(Time64MicrosecondArray::from(vec![5, 0, 1, 2, 3, 86_399_999_999]));
        for (columns, nullable, bits) in [
            (vec![Arc::clone(&wide), Arc::clone(&small)], vec![true, false], 97),
            (vec![Arc::clone(&small), Arc::clone(&wide)], vec![true, true], 98),
            (vec![Arc::clone(&small), Arc::clone(&small)], vec![false, false], 64),
            (vec![Arc::clone(&tiny), Arc::clone(&date)], vec![true, true], 50),
            (vec![Arc::clone(&date), Arc::clone(&tiny), Arc::clone(&small)], vec![true, true, true], 83),
            (vec![moment, time], vec![false, false], 128),
            (vec![wide.slice(2, 3), tiny.slice(1, 3)], vec![true, true], 82),
            (vec![wide.slice(0, 0), tiny.slice(0, 0)], vec![true, true], 82),
        ] {
            let layout = layout(&columns, &nullable).unwrap();
            assert_eq!(layout.bits(), bits);
            let keys = layout.pack(&columns, columns[0].len()).unwrap();
            assert_eq!(keys.data_type(), &layout.data_type());
            assert_eq!(keys.data_type() == &WIDE, bits > 64);
            assert_eq!(layout.unpack(&keys).unwrap(), columns);
        }
    }

    #[test]
    fn keys_are_equal_where_rows_are() {
        // What stands below a NULL in memory does not count.
        let nulls = arrow::buffer::NullBuffer::from(vec![false, false, true]);
        let one: ArrayRef = Arc::new(Int32Array::new(vec![5, 6, 0].into(), Some(nulls)));
        let other: ArrayRef = Arc::new(Int32Array::from(vec![1, 1, 1]));
        let columns = [one, other];
        let keys = layout(&columns, &[true, true]).unwrap().pack(&columns, 3).unwrap();
        let row = |row: usize| format!("{:?}", keys.slice(row, 1));
        assert_eq!(row(0), row(1));
        assert_eq!(HashSet::from([row(0), row(2)]).len(), 2);
    }

    #[test]
    fn what_does_not_fit_has_no_layout() {
        let moment = DataType::Timestamp(TimeUnit::Microsecond, None);
        for columns in [
            vec![(DataType::Int32, false)],
            vec![(DataType::Int32, false), (DataType::Utf8View, false)],
            vec![(DataType::Float64, false), (DataType::Int32, false)],
            vec![(DataType::Int64, true), (moment.clone(), false)],
            vec![(DataType::Int64, false), (moment, false), (DataType::Int8, false)],
        ] {
            assert!(Layout::of(columns.clone()).is_none(), "{columns:?}");
        }
    }

    #[test]
    fn nulls_where_there_are_none_are_refused() {
        let columns: [ArrayRef; 2] =
            [Arc::new(Int32Array::from(vec![None, Some(1)])), Arc::new(Int32Array::from(vec![1, 2]))];
        assert!(layout(&columns, &[false, false]).unwrap().pack(&columns, 2).is_err());
        let others: [ArrayRef; 2] = [Arc::clone(&columns[1]), Arc::new(Int64Array::from(vec![1, 2]))];
        assert!(layout(&columns, &[true, true]).unwrap().pack(&others, 2).is_err());
    }
}
