// SPDX-License-Identifier: Apache-2.0
//! How values of several columns stand side by side in one integer.
//!
//! Each column has the bits of its type, and one bit below them that tells whether there is a value, if there may be none. A value is kept as
//! its distance from the least one. The first column stands in the lowest bits:
//!
//! ```text
//! a int, b int NOT NULL         b b b ... b a a a ... a 1
//!                               32 bits     32 bits     a is there
//! ```
//!
//! All bits of a NULL are 0, so that equal rows have equal keys. No value of a type is left out: nothing has to be known of the values.
//!
//! If that takes more than 64 bits and a column's values are expected between bounds, it has the bits of their distance, and an equal share
//! of those that are left over: numbers and dates of rows that come later are mostly above the others. The highest bit of such a key
//! tells that a row has a value that there is no room for: the others are the number of that row then (`outliers.rs`).
//!
//! ```text
//! a bigint, b bigint NOT NULL,                  0 0 b b b ... b a a a ... a 1
//! 0 <= a <= 131, 1 <= b <= 8000                     33 bits     28 bits     a is there
//! ```

use super::expected::{Bounds, Expected};
use super::outliers::{OUTLIER, Outliers, Rows};
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
use std::hash::{Hash, Hasher};
use std::ops::{BitOrAssign, Shl, Shr};
use std::sync::Arc;

/// The type of keys that have more than 64 bits: Arrow has no other integer of 128. Nobody reads them as decimals.
const WIDE: DataType = DataType::Decimal128(38, 0);

/// See the module.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout {
    places: Vec<Place>,
    bits: u32,
    /// If values are expected between bounds: the rows with others.
    outliers: Option<Outliers>,
}

// By hand: what is equal has the same places.
impl Hash for Layout {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.places.hash(state);
    }
}

/// Where a column's values stand.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Place {
    ty: DataType,
    is_nullable: bool,
    /// Bits below it.
    shift: u32,
    /// Bits of a value.
    width: u32,
    /// The value whose bits are all 0.
    least: i64,
}

impl Place {
    /// One that has room for all values of this type, and for NULL if there may be some, above so many bits; `None` if such values have no place in a key.
    fn of((ty, is_nullable): (DataType, bool), shift: u32) -> Option<Self> {
        let width = width(&ty)?;
        Some(Self { ty, is_nullable, shift, width, least: i64::MIN >> (i64::BITS - width) })
    }

    /// The same that has room for the values between these bounds.
    fn within(self, bounds: Bounds) -> Self {
        let width = u64::BITS - bounds.most.abs_diff(bounds.least).leading_zeros();
        if width < self.width { Self { width, least: bounds.least, ..self } } else { self }
    }

    /// The same with more bits, if the type has them, above so many others.
    fn wider(self, more: u32, shift: u32) -> Option<Self> {
        let whole = Self::of((self.ty.clone(), self.is_nullable), shift)?;
        let width = self.width + more;
        Some(if width < whole.width { Self { shift, width, ..self } } else { whole })
    }

    /// The bits that it takes, and those below.
    fn end(&self) -> u32 {
        self.value_shift() + self.width
    }

    /// The bits of a value, in the lowest places.
    fn mask(&self) -> u64 {
        u64::MAX.checked_shr(u64::BITS - self.width).unwrap_or(0)
    }

    /// The number whose bits are in this key.
    #[inline]
    fn number_in<K: Key>(&self, key: K) -> Option<i64> {
        let is_there = !self.is_nullable || (key >> self.shift).low() & 1 == 1;
        let above = (key >> self.value_shift()).low() & self.mask();
        is_there.then(|| above.cast_signed().wrapping_add(self.least))
    }

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
        for column in columns {
            let place = Place::of(column, bits)?;
            bits = place.end();
            places.push(place);
        }
        (places.len() > 1 && bits <= u128::BITS).then_some(Self { places, bits, outliers: None })
    }

    /// The same with room for the expected values of each column at least, and a bit for others; `None` also if they have more than 63 bits.
    pub(super) fn within(
        columns: impl IntoIterator<Item = (DataType, bool)>,
        expected: &Expected,
    ) -> Option<Self> {
        let needed = |(index, column): (usize, (DataType, bool))| {
            let whole = Place::of(column, 0)?;
            Some(match expected.bounds(index) {
                Some(bounds) => whole.within(bounds),
                None => whole,
            })
        };
        let needed = columns.into_iter().enumerate().map(needed).collect::<Option<Vec<Place>>>()?;
        let left_over = (u64::BITS - 1).checked_sub(needed.iter().map(Place::end).sum())?;
        let share = left_over.checked_div(needed.len() as u32)?;
        let (mut places, mut bits) = (Vec::new(), 0);
        for place in needed {
            let place = place.wider(share, bits)?;
            bits = place.end();
            places.push(place);
        }
        (places.len() > 1).then(|| Self { places, bits, outliers: Some(Outliers::default()) })
    }

    /// Whether these columns have places, and a key would be shorter if their values were known.
    pub(super) fn can_be_shorter(columns: &[(DataType, bool)]) -> bool {
        let bits = |(ty, is_nullable): &(DataType, bool)| Some(width(ty)? + u32::from(*is_nullable));
        let bits: Option<u32> = columns.iter().map(bits).sum();
        columns.len() > 1 && bits.is_some_and(|bits| bits > u64::BITS)
    }

    /// Whether there are values that it has no room for.
    pub(super) fn is_of_expected_values(&self) -> bool {
        self.outliers.is_some()
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
            let mut keys = self.keys::<u64>(columns, rows)?;
            if let Some(outliers) = &self.outliers
                && has_outliers(&keys)
            {
                self.number_outliers(columns, &mut keys, &mut outliers.lock())?;
            }
            return Ok(Arc::new(UInt64Array::from(keys)));
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
            return match &self.outliers {
                Some(outliers) if has_outliers(keys.values()) => {
                    self.columns_with(keys.values(), &outliers.lock())
                }
                _ => self.columns(keys.values()),
            };
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

    /// Puts the numbers of the rows with other values than the expected ones in the place of their keys.
    fn number_outliers(&self, columns: &[ArrayRef], keys: &mut [u64], rows: &mut Rows) -> Result<()> {
        let numbers = |(place, column): (&Place, &ArrayRef)| -> Result<Vec<Option<i64>>> {
            by_type!(&place.ty, numbers_of(column))
        };
        let numbers = self.places.iter().zip(columns).map(numbers).collect::<Result<Vec<_>>>()?;
        let mut row = Vec::with_capacity(numbers.len());
        for (at, key) in keys.iter_mut().enumerate().filter(|(_, key)| **key & OUTLIER != 0) {
            row.clear();
            row.extend(numbers.iter().map(|numbers| numbers[at]));
            *key = rows.key_of(&row);
        }
        Ok(())
    }

    /// The columns of keys of which some are the numbers of these rows.
    fn columns_with(&self, keys: &[u64], rows: &Rows) -> Result<Vec<ArrayRef>> {
        let columns = self.places.iter().enumerate();
        columns.map(|(index, place)| by_type!(&place.ty, take_out_each(place, index, keys, rows))).collect()
    }
}

/// Whether some of these keys are no values, but the numbers of rows.
fn has_outliers(keys: &[u64]) -> bool {
    keys.iter().fold(0, |all, key| all | key) & OUTLIER != 0
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
    let (least, mask) = (place.least, place.mask());
    let put = |key: &mut K, value: T::Native| {
        let above = value.number().wrapping_sub(least).cast_unsigned();
        *key |= there;
        *key |= K::from(above & mask) << shift;
        // Never where all values of the type have room.
        *key |= K::from(u64::from(above > mask)) << (u64::BITS - 1);
    };
    let pairs = keys.iter_mut().zip(values.values().iter());
    match values.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => pairs.for_each(|(key, value)| put(key, *value)),
        Some(nulls) if place.is_nullable => {
            for ((key, value), is_there) in pairs.zip(nulls.iter()) {
                if is_there {
                    put(key, *value);
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
    let (shift, mask, least) = (place.value_shift(), place.mask(), place.least.cast_unsigned());
    let value = |key: &K| {
        let above = (*key >> shift).low() & mask;
        <T::Native as Bits>::of_bits(above.wrapping_add(least))
    };
    let values: Vec<T::Native> = keys.iter().map(value).collect();
    let there = |row: usize| (keys[row] >> place.shift).low() & 1 == 1;
    let nulls = place.is_nullable.then(|| NullBuffer::new(BooleanBuffer::collect_bool(keys.len(), there)));
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
    let values = PrimitiveArray::<T>::new(values.into(), nulls);
    Ok(Arc::new(values.with_data_type(place.ty.clone())))
}

/// The same of keys of which some are the numbers of these rows; the column is the one at this place.
fn take_out_each<T, K: Key>(place: &Place, index: usize, keys: &[K], rows: &Rows) -> Result<ArrayRef>
where
    T: ArrowPrimitiveType,
    T::Native: Bits,
{
    let number = |key: &K| {
        if key.low() & OUTLIER == 0 {
            return Ok(place.number_in(*key));
        }
        match rows.row_of(key.low()) {
            Some(row) => Ok(row[index]),
            None => internal_err!("there is no row of number {}", key.low() & !OUTLIER),
        }
    };
    let numbers = keys.iter().map(number).collect::<Result<Vec<Option<i64>>>>()?;
    let value =
        |number: &Option<i64>| <T::Native as Bits>::of_bits(number.unwrap_or_default().cast_unsigned());
    let values: Vec<T::Native> = numbers.iter().map(value).collect();
    let nulls = NullBuffer::new(BooleanBuffer::collect_bool(numbers.len(), |row| numbers[row].is_some()));
    let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
    let values = PrimitiveArray::<T>::new(values.into(), nulls);
    Ok(Arc::new(values.with_data_type(place.ty.clone())))
}

/// The values of a column as numbers.
fn numbers_of<T, R: FromIterator<Option<i64>>>(column: &ArrayRef) -> Result<R>
where
    T: ArrowPrimitiveType,
    T::Native: Bits,
{
    let Some(values) = column.as_primitive_opt::<T>() else {
        return internal_err!("values of type {} are no numbers", column.data_type());
    };
    Ok(values.iter().map(|value| value.map(Bits::number)).collect())
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

/// A value as a number, and back.
trait Bits: Copy {
    fn number(self) -> i64;

    /// The value of a number's lowest bits, as many as it has.
    fn of_bits(bits: u64) -> Self;
}

macro_rules! bits {
    ($($integer:ty),+) => {
        $(impl Bits for $integer {
            fn number(self) -> i64 {
                i64::from(self)
            }

            fn of_bits(bits: u64) -> Self {
                bits as Self
            }
        })+
    };
}

bits!(i8, i16, i32, i64);

#[cfg(test)]
mod tests;
