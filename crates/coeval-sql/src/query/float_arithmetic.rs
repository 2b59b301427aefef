// SPDX-License-Identifier: Apache-2.0
//! Operators between numbers of one type, with PostgreSQL's errors for floats.
//!
//! | operands and result | |
//! |---|---|
//! | anything but NaN, divided by zero | `22012` |
//! | an infinite result of finite operands | `22003` |
//! | a product that is zero though neither operand is, and a quotient of what is not zero by what is not infinite | `22003` |
//!
//! A row with a NULL has none of them. Of integers Arrow finds what is wrong.

use crate::error::{SqlError, division_by_zero};
use crate::types::{float_overflow, float_underflow, with_one_nan};
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Datum};
use arrow::compute::kernels::numeric::{add, div, mul, rem, sub};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::error::ArrowError;
use datafusion::logical_expr::Operator;

/// What the operator makes of two numbers, row by row.
///
/// # Errors
/// Those of the module, and Arrow's.
pub(super) fn calculated(
    operator: Operator,
    left: &dyn Datum,
    right: &dyn Datum,
) -> Result<ArrayRef, ArrowError> {
    let done = match operator {
        Operator::Plus => add(left, right)?,
        Operator::Minus => sub(left, right)?,
        Operator::Multiply => mul(left, right)?,
        Operator::Divide => div(left, right)?,
        _ => rem(left, right)?,
    };
    let may_have_nan = match done.data_type() {
        DataType::Float32 => looked_at::<Float32Type>(operator, (left, right), &done)?,
        DataType::Float64 => looked_at::<Float64Type>(operator, (left, right), &done)?,
        _ => false,
    };
    Ok(if may_have_nan { with_one_nan(&done) } else { done })
}

/// Whether some results may be NaN, once none is found wrong.
fn looked_at<T>(
    operator: Operator,
    (left, right): (&dyn Datum, &dyn Datum),
    done: &ArrayRef,
) -> Result<bool, ArrowError>
where
    T: ArrowPrimitiveType,
    T::Native: Into<f64>,
{
    let results = done.as_primitive::<T>();
    let may_underflow = matches!(operator, Operator::Multiply | Operator::Divide);
    let may_be_wrong = |result: f64| !result.is_finite() || (may_underflow && result == 0.0);
    if !results.values().iter().any(|result| may_be_wrong((*result).into())) {
        return Ok(false);
    }
    let (left, right) = (Operand::<T>::of(left), Operand::<T>::of(right));
    for (row, result) in results.values().iter().enumerate() {
        let result: f64 = (*result).into();
        if may_be_wrong(result)
            && results.is_valid(row)
            && let Some(error) = error_of(operator, (left.at(row), right.at(row)), result)
        {
            return Err(ArrowError::ExternalError(Box::new(error)));
        }
    }
    Ok(true)
}

/// What is wrong with a result; `None` if nothing is.
fn error_of(operator: Operator, (left, right): (f64, f64), result: f64) -> Option<SqlError> {
    match operator {
        Operator::Divide | Operator::Modulo if right == 0.0 && !left.is_nan() => Some(division_by_zero()),
        _ if result.is_infinite() && left.is_finite() && right.is_finite() => Some(float_overflow()),
        Operator::Multiply if result == 0.0 && left != 0.0 && right != 0.0 => Some(float_underflow()),
        Operator::Divide if result == 0.0 && left != 0.0 && !right.is_infinite() => Some(float_underflow()),
        _ => None,
    }
}

/// The floats on one side of an operator: one for each row, or one for all.
struct Operand<'a, T: ArrowPrimitiveType> {
    values: &'a [T::Native],
    is_constant: bool,
}

impl<'a, T> Operand<'a, T>
where
    T: ArrowPrimitiveType,
    T::Native: Into<f64>,
{
    fn of(operand: &'a dyn Datum) -> Self {
        let (array, is_constant) = operand.get();
        Self { values: array.as_primitive::<T>().values(), is_constant }
    }

    fn at(&self, row: usize) -> f64 {
        self.values[if self.is_constant { 0 } else { row }].into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float32Array, Float64Array, Int32Array, Scalar};

    /// The results as texts, or which error there is.
    fn shown(operator: Operator, left: &dyn Datum, right: &dyn Datum) -> String {
        match calculated(operator, left, right) {
            Ok(done) => format!("{:?}", done.as_primitive::<Float64Type>().iter().collect::<Vec<_>>()),
            Err(error) => SqlError::from(error).state.code().to_owned(),
        }
    }

    #[test]
    fn what_leaves_the_range_of_floats_is_an_error_and_infinity_is_in_it() {
        let one = |value: f64| Scalar::new(Float64Array::from(vec![value]));
        let both = |operator, left, right| shown(operator, &one(left), &one(right));
        assert_eq!(both(Operator::Multiply, 1e200, 1e200), "22003");
        assert_eq!(both(Operator::Multiply, 1e-200, 1e-200), "22003");
        assert_eq!(both(Operator::Multiply, 0.0, 1e-200), "[Some(0.0)]");
        assert_eq!(both(Operator::Divide, 1e-200, 1e200), "22003");
        assert_eq!(both(Operator::Divide, 1.0, f64::INFINITY), "[Some(0.0)]");
        assert_eq!(both(Operator::Divide, 1.0, 0.0), "22012");
        assert_eq!(both(Operator::Divide, f64::INFINITY, -0.0), "22012");
        assert_eq!(both(Operator::Divide, f64::NAN, 0.0), "[Some(NaN)]");
        assert_eq!(both(Operator::Plus, f64::MAX, f64::MAX), "22003");
        assert_eq!(both(Operator::Plus, f64::INFINITY, f64::MAX), "[Some(inf)]");
        assert_eq!(both(Operator::Minus, 1.0, 1.0), "[Some(0.0)]");
    }

    #[test]
    fn rows_with_a_null_have_no_errors() {
        let dividends = Float64Array::from(vec![None, Some(6.0), Some(f64::INFINITY)]);
        let divisors = Float64Array::from(vec![Some(0.0), Some(3.0), None]);
        assert_eq!(shown(Operator::Divide, &dividends, &divisors), "[None, Some(2.0), None]");
        assert_eq!(
            shown(Operator::Divide, &divisors, &Scalar::new(Float64Array::new_null(1))),
            "[None, None, None]"
        );
        let products = calculated(Operator::Multiply, &Int32Array::from(vec![0]), &Int32Array::from(vec![7]));
        assert!(products.is_ok(), "of integers nothing is looked at");
    }

    #[test]
    fn what_has_no_value_has_the_one_nan() {
        let infinite = Float32Array::from(vec![f32::INFINITY]);
        let done = calculated(Operator::Minus, &infinite, &infinite).expect("NaN is no error");
        assert_eq!(done.as_primitive::<Float32Type>().value(0).to_bits(), f32::NAN.to_bits());
    }
}
