// SPDX-License-Identifier: Apache-2.0
//! NaN in the one form that SQL has of it.
//!
//! A float has room for many NaNs, and a processor gives one with a sign, of `infinity - infinity` for example. Arrow and DataFusion
//! compare, order and group floats by their bits: such a NaN would be below all numbers, and another value than `'NaN'`. PostgreSQL has
//! one NaN, which is above all numbers. So whatever computes floats gives the NaN that Arrow, too, has above all numbers.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use std::sync::Arc;

/// The values, with that NaN in the place of each other one; what are no floats stay as they are.
pub(crate) fn with_one_nan(values: &ArrayRef) -> ArrayRef {
    let replaced = match values.data_type() {
        DataType::Float32 => replaced::<Float32Type>(values, is_other_real, f32::NAN),
        DataType::Float64 => replaced::<Float64Type>(values, is_other_double, f64::NAN),
        _ => None,
    };
    replaced.unwrap_or_else(|| Arc::clone(values))
}

/// The number, or that NaN.
pub(crate) fn real_with_one_nan(number: f32) -> f32 {
    if number.is_nan() { f32::NAN } else { number }
}

/// The number, or that NaN.
pub(crate) fn double_with_one_nan(number: f64) -> f64 {
    if number.is_nan() { f64::NAN } else { number }
}

fn is_other_real(number: f32) -> bool {
    number.is_nan() && number.to_bits() != f32::NAN.to_bits()
}

fn is_other_double(number: f64) -> bool {
    number.is_nan() && number.to_bits() != f64::NAN.to_bits()
}

/// The values with `nan` in the place of others; `None` if there are no others.
fn replaced<T: ArrowPrimitiveType>(
    values: &ArrayRef,
    is_other: impl Fn(T::Native) -> bool,
    nan: T::Native,
) -> Option<ArrayRef> {
    let floats = values.as_primitive::<T>();
    // To look at all of them takes less time than to stop at the first one.
    let has_others = floats.values().iter().fold(false, |found, number| found | is_other(*number));
    has_others.then(|| {
        let replaced = floats.unary::<_, T>(|number| if is_other(number) { nan } else { number });
        Arc::new(replaced) as ArrayRef
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int32Array};

    #[test]
    fn nans_with_a_sign_become_the_one_without() {
        let values: ArrayRef =
            Arc::new(Float64Array::from(vec![Some(-f64::NAN), None, Some(-1.0), Some(-0.0)]));
        let replaced = with_one_nan(&values);
        let bits = |array: &ArrayRef| -> Vec<Option<u64>> {
            array.as_primitive::<Float64Type>().iter().map(|number| number.map(f64::to_bits)).collect()
        };
        let expected = [Some(f64::NAN), None, Some(-1.0), Some(-0.0)]
            .map(|number: Option<f64>| number.map(f64::to_bits));
        assert_eq!(bits(&replaced), expected);
        assert!(Arc::ptr_eq(&with_one_nan(&replaced), &replaced), "nothing is copied if nothing changes");
        let whole: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        assert!(Arc::ptr_eq(&with_one_nan(&whole), &whole));
        assert_eq!(real_with_one_nan(-f32::NAN).to_bits(), f32::NAN.to_bits());
        assert_eq!(double_with_one_nan(-0.0).to_bits(), (-0.0_f64).to_bits());
    }
}
