// SPDX-License-Identifier: Apache-2.0
//! Functions of floats that PostgreSQL refuses to compute where they are not defined, or where the result is larger or smaller than
//! floats are. DataFusion gives NaN, infinity and zero there, so a result that is none of them is right; of others it is looked up why
//! they are. Logarithms to a base are computed here: DataFusion's of a thousand to ten is less than three.

use crate::constants::made_of_columns;
use crate::error::{SqlError, SqlState};
use crate::wrapped::as_wrapped;
use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::compute::cast;
use arrow::compute::kernels::arity::binary;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::functions::math;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use std::sync::Arc;

/// The functions, for the engine's registry.
pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let all = [
        math::ln(),
        math::log(),
        math::log10(),
        math::log2(),
        math::sqrt(),
        math::power(),
        math::exp(),
        math::acos(),
        math::asin(),
        math::acosh(),
        math::atanh(),
        math::sin(),
        math::cos(),
        math::tan(),
        math::cot(),
    ];
    all.into_iter().map(|general| ScalarUDF::new_from_impl(Bounded { general }))
}

/// Why a function is not defined for these arguments, if it is not.
fn refusal(name: &str, arguments: &[f64]) -> Option<(SqlState, &'static str)> {
    let [first, ..] = *arguments else { return None };
    let logarithm = |number: f64| {
        let message = match number {
            0.0 => "cannot take logarithm of zero",
            ..0.0 => "cannot take logarithm of a negative number",
            _ => return None,
        };
        Some((SqlState::InvalidArgumentForLogarithm, message))
    };
    let power = |message| Some((SqlState::InvalidArgumentForPowerFunction, message));
    let is_outside = match name {
        "ln" | "log" | "log10" | "log2" => {
            if let Some(refusal) = arguments.iter().find_map(|number| logarithm(*number)) {
                return Some(refusal);
            }
            // The logarithm of one, which divides.
            let divides_by_zero = arguments.len() == 2 && first == 1.0;
            return divides_by_zero.then_some((SqlState::DivisionByZero, "division by zero"));
        }
        "sqrt" if first < 0.0 => return power("cannot take square root of a negative number"),
        "power" => {
            let [base, exponent] = *arguments else { return None };
            if base == 0.0 && exponent < 0.0 {
                return power("zero raised to a negative power is undefined");
            }
            if base < 0.0 && exponent.is_finite() && exponent.fract() != 0.0 {
                return power("a negative number raised to a non-integer power yields a complex result");
            }
            let are_finite = base.is_finite() && exponent.is_finite();
            return if are_finite && base != 0.0 { beyond(base.powf(exponent)) } else { None };
        }
        "exp" => return if first.is_finite() { beyond(first.exp()) } else { None },
        "acos" | "asin" | "atanh" => first.abs() > 1.0,
        "acosh" => first < 1.0,
        "sin" | "cos" | "tan" | "cot" => first.is_infinite(),
        _ => false,
    };
    is_outside.then_some((SqlState::NumericValueOutOfRange, "input is out of range"))
}

/// What is wrong with a result that is neither infinite nor zero, but for the range that floats have.
fn beyond(result: f64) -> Option<(SqlState, &'static str)> {
    let message = match result {
        0.0 => "value out of range: underflow",
        result if result.is_infinite() => "value out of range: overflow",
        _ => return None,
    };
    Some((SqlState::NumericValueOutOfRange, message))
}

/// Logarithms to base ten, or, of two arguments, of the second to the base of the first.
fn logarithms(arguments: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let ty = arguments.return_field.data_type();
    made_of_columns(arguments, |columns| {
        let floats = |column: &ArrayRef| -> Result<Float64Array> {
            Ok(cast(column, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
        };
        let logarithms: Float64Array = match columns {
            [numbers] => floats(numbers)?.unary(f64::log10),
            [bases, numbers] => binary(&floats(bases)?, &floats(numbers)?, logarithm)?,
            _ => return Err(SqlError::internal("log takes one argument or two").into()),
        };
        Ok(cast(&logarithms, ty)?)
    })
}

/// NaN for a base of which there are none.
fn logarithm(base: f64, number: f64) -> f64 {
    if base <= 0.0 {
        return f64::NAN;
    }
    let quotient = number.log(base);
    // The quotient of two rounded logarithms may be beside the whole number that it is.
    let whole = quotient.round();
    if base.powf(whole) == number { whole } else { quotient }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    general: Arc<ScalarUDF>,
}

/// Whether there is a number among these that is none, or not finite, or zero where that may be too small a number.
fn has_other(done: &ArrayRef, function: &str) -> Result<bool> {
    let floats = match done.data_type() {
        DataType::Float64 => Arc::clone(done),
        DataType::Float32 => cast(done, &DataType::Float64)?,
        _ => return Ok(false),
    };
    let may_underflow = matches!(function, "exp" | "power");
    let is_other = |number: f64| !number.is_finite() || (may_underflow && number == 0.0);
    Ok(floats.as_primitive::<Float64Type>().iter().flatten().any(is_other))
}

impl Bounded {
    /// The first refusal among the rows.
    fn refusal(&self, arguments: &[ColumnarValue], rows: usize) -> Result<Option<SqlError>> {
        let columns: Vec<Float64Array> = arguments
            .iter()
            .map(|argument| {
                let column = cast(&argument.to_array(rows)?, &DataType::Float64)?;
                Ok(column.as_primitive::<Float64Type>().clone())
            })
            .collect::<Result<_>>()?;
        let known = |row: usize| columns.iter().all(|column| column.is_valid(row));
        let found = (0..rows).filter(|row| known(*row)).find_map(|row| {
            let numbers: Vec<f64> = columns.iter().map(|column| column.value(row)).collect();
            refusal(self.name(), &numbers)
        });
        Ok(found.map(|(state, message)| SqlError::new(state, message)))
    }
}

impl ScalarUDFImpl for Bounded {
    as_wrapped!(general: name, aliases, signature, return_type, return_field_from_args, coerce_types);
    as_wrapped!(general: evaluate_bounds, output_ordering);

    fn simplify(&self, arguments: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        // `ln(exp(x))` may be refused where `x` is not.
        Ok(ExprSimplifyResult::Original(arguments))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let inputs = arguments.args.clone();
        let is_scalar = inputs.iter().all(|input| matches!(input, ColumnarValue::Scalar(_)));
        let done = match self.name() {
            "log" => logarithms(&arguments),
            _ => self.general.invoke_with_args(arguments),
        };
        let is_suspect = match &done {
            Ok(done) => has_other(&done.to_array(if is_scalar { 1 } else { rows })?, self.name())?,
            Err(_) => true,
        };
        if is_suspect && let Some(refusal) = self.refusal(&inputs, if is_scalar { 1 } else { rows })? {
            return Err(refusal.into());
        }
        done
    }
}
