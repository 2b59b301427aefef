// SPDX-License-Identifier: Apache-2.0
//! Decimals of few digits as 64-bit integers, in the place of the 128 bits that columns have: for whoever computes with such integers.
//!
//! No value of a type of up to 18 digits has more bits, so the type alone decides.

use crate::types::NUMERIC_PRECISION_SHORT_MAX;
use arrow::array::{Array, ArrayRef, AsArray, Decimal64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DECIMAL64_MAX_PRECISION, DataType, Decimal128Type};
use arrow::error::ArrowError;
use std::sync::Arc;

const _: () = assert!(NUMERIC_PRECISION_SHORT_MAX <= DECIMAL64_MAX_PRECISION, "64 bits have so many digits");

/// The type that decimals of this type have as 64-bit integers; `None` of another type, and of one of more digits.
#[must_use]
pub fn narrow_decimal_type(ty: &DataType) -> Option<DataType> {
    match ty {
        DataType::Decimal128(precision, scale) if *precision <= NUMERIC_PRECISION_SHORT_MAX => {
            Some(DataType::Decimal64(*precision, *scale))
        }
        _ => None,
    }
}

/// A column of decimals of few digits as 64-bit integers. Another one, or one that is so already, stays as it is.
///
/// # Errors
/// If a value has more bits than its type allows.
pub(crate) fn narrowed(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let Some(ty) = narrow_decimal_type(column.data_type()) else { return Ok(Arc::clone(column)) };
    let decimals = column.as_primitive::<Decimal128Type>();
    let mut lost = 0;
    let narrow = |value: &i128| {
        // The lower half is the value if the upper one repeats its sign.
        let low = *value as i64;
        lost |= (*value >> i64::BITS) as i64 ^ (low >> (i64::BITS - 1));
        low
    };
    let values: Vec<i64> = decimals.values().iter().map(narrow).collect();
    // In the place of a NULL there may be anything.
    let fits = |value: i128| i64::try_from(value).is_ok();
    if lost != 0 && !decimals.iter().flatten().all(fits) {
        let what = format!("a column of type {} has a value of more digits", column.data_type());
        return Err(ArrowError::InvalidArgumentError(what));
    }
    Ok(Arc::new(of_integers(ty, values, decimals.nulls().cloned())?))
}

/// Decimals of this type of 64 bits, of which these are the integers.
///
/// # Errors
/// If there are more or fewer marks of NULLs than integers.
fn of_integers(
    ty: DataType,
    integers: Vec<i64>,
    nulls: Option<NullBuffer>,
) -> Result<Decimal64Array, ArrowError> {
    Ok(Decimal64Array::try_new(integers.into(), nulls)?.with_data_type(ty))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Decimal128Array, Int64Array};

    fn column(values: Vec<i128>, there: Vec<bool>) -> ArrayRef {
        let decimals = Decimal128Array::new(values.into(), Some(there.into()));
        Arc::new(decimals.with_precision_and_scale(18, 4).unwrap())
    }

    #[test]
    fn values_stay_what_they_are_and_nulls_may_hide_anything() {
        let ends = [i128::from(i64::MIN), i128::from(i64::MAX), -1, i128::MAX];
        let narrow = narrowed(&column(ends.to_vec(), vec![true, true, true, false])).unwrap();
        let expected = Decimal64Array::from(vec![Some(i64::MIN), Some(i64::MAX), Some(-1), None]);
        assert_eq!(narrow.as_ref(), &expected.with_data_type(DataType::Decimal64(18, 4)) as &dyn Array);
        assert!(Arc::ptr_eq(&narrowed(&narrow).unwrap(), &narrow));
    }

    #[test]
    fn a_value_of_more_bits_is_an_error() {
        for value in [i128::from(i64::MAX) + 1, i128::from(i64::MIN) - 1, 1 << 64, i128::MIN] {
            assert!(narrowed(&column(vec![0, value], vec![true, true])).is_err(), "{value}");
        }
    }

    #[test]
    fn columns_of_other_types_stay() {
        let long = Decimal128Array::from(vec![1]).with_precision_and_scale(19, 4).unwrap();
        let columns: [ArrayRef; 2] = [Arc::new(long), Arc::new(Int64Array::from(vec![1]))];
        for column in columns {
            assert_eq!(narrow_decimal_type(column.data_type()), None);
            assert!(Arc::ptr_eq(&narrowed(&column).unwrap(), &column));
        }
    }
}
