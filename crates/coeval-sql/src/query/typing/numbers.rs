// SPDX-License-Identifier: Apache-2.0
//! Functions on numbers that round as PostgreSQL rounds: quotients, means, casts to integers and to `numeric`.

use super::intervals::mean_lengths;
use crate::cancel;
use crate::constants::made_of_columns;
use crate::error::{SqlError, division_by_zero, out_of_range};
use crate::scalar::cast_function::cast_array;
use crate::types::any_numeric::AnyNumeric;
use crate::types::numeric::{QUOTIENT_PRECISION, divide, multiply, quotient_shape, rescale, whole_factor};
use crate::types::{cannot_cast, column_type_of_arrow, real_of, require_cast, session_zone, type_in_words};
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::compute::kernels::arity::{try_binary, try_unary};
use arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
};
use arrow::error::ArrowError;
use coeval_store::{ColumnBuilder, ColumnType, Value, ValueRef, value_at};
use datafusion::common::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, cast,
};
use std::sync::{Arc, LazyLock};

/// Precision and scale of the operands of a quotient that do not say.
const UNDECLARED: (u8, i8) = (38, 10);

/// The function that divides exact numbers.
pub(crate) const DIVISION: &str = "numeric_quotient";

/// `left / right` of exact numbers, one of them a `numeric`; `None` for other types.
pub(crate) fn quotient(left: Expr, left_type: &DataType, right: Expr, right_type: &DataType) -> Option<Expr> {
    let (left_shape, right_shape) = (shape(left_type)?, shape(right_type)?);
    let decimal = |input, (precision, scale)| cast(input, DataType::Decimal128(precision, scale));
    static QUOTIENT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Kind::Quotient));
    Some(call(&QUOTIENT, vec![decimal(left, left_shape), decimal(right, right_shape)]))
}

/// The mean, from a sum and a count.
pub(super) fn mean(sum: Expr, count: Expr) -> Expr {
    static MEAN: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Kind::Mean));
    call(&MEAN, vec![sum, count])
}

/// Whether a function makes the mean from a sum and a count.
pub(crate) fn is_mean(function: &ScalarUDF) -> bool {
    function.inner().downcast_ref::<NumberFunction>().is_some_and(|known| known.kind == Kind::Mean)
}

/// A number as an integer of this type, or a float as a `real`, rounded, with an error of ours if it is too large; `None` if a plain
/// cast does the same.
pub(crate) fn rounded(input: &Expr, from: &DataType, to: &DataType) -> Option<Expr> {
    static ROUNDED: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(|| {
        [DataType::Int16, DataType::Int32, DataType::Int64, DataType::Float32]
            .into_iter()
            .map(|ty| function(Kind::Rounded(ty)))
            .collect()
    });
    let is_rounded = matches!(from, DataType::Float32 | DataType::Float64 | DataType::Decimal128(..));
    let is_narrowed = matches!(
        (from, to),
        (DataType::Int64, DataType::Int32 | DataType::Int16) | (DataType::Int32, DataType::Int16)
    );
    // Literals are all over a statement, and are computed before it runs.
    if !is_rounded && (!is_narrowed || input.as_literal().is_some()) {
        return None;
    }
    let place = match to {
        DataType::Int16 => 0,
        DataType::Int32 => 1,
        DataType::Int64 => 2,
        DataType::Float32 if *from == DataType::Float64 => 3,
        _ => return None,
    };
    Some(call(&ROUNDED[place], vec![input.clone()]))
}

/// The same value, which may be NULL: a scalar subquery without rows is.
pub(super) fn nullable(input: Expr) -> Expr {
    static NULLABLE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Kind::Nullable));
    call(&NULLABLE, vec![input])
}

/// What a cast to `numeric` without a scale calls, for the engine's registry.
pub(crate) fn to_numeric() -> ScalarUDF {
    ScalarUDF::new_from_impl(NumberFunction::new(Kind::ToNumeric))
}

fn function(kind: Kind) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(NumberFunction::new(kind)))
}

fn call(function: &Arc<ScalarUDF>, arguments: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), arguments))
}

/// Precision and scale of an exact number.
fn shape(ty: &DataType) -> Option<(u8, i8)> {
    Some(match ty {
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => (5, 0),
        DataType::Int32 | DataType::UInt16 => (10, 0),
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => (20, 0),
        DataType::Decimal128(precision, scale) => (*precision, *scale),
        _ => return None,
    })
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// Dividend, divisor.
    Quotient,
    /// Sum, count.
    Mean,
    /// A float or decimal, as this integer or `real`.
    Rounded(DataType),
    /// Anything, as `numeric`.
    ToNumeric,
    /// Anything, as it is.
    Nullable,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NumberFunction {
    kind: Kind,
    signature: Signature,
}

impl NumberFunction {
    fn new(kind: Kind) -> Self {
        let arguments = if matches!(kind, Kind::Quotient | Kind::Mean) { 2 } else { 1 };
        Self { kind, signature: Signature::any(arguments, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for NumberFunction {
    fn name(&self) -> &str {
        match &self.kind {
            Kind::Quotient => DIVISION,
            Kind::Mean => "mean",
            Kind::Rounded(DataType::Int16) => "rounded_to_smallint",
            Kind::Rounded(DataType::Int32) => "rounded_to_int",
            Kind::Rounded(DataType::Float32) => "rounded_to_real",
            Kind::Rounded(_) => "rounded_to_bigint",
            Kind::Nullable => "nullable",
            Kind::ToNumeric => super::literals::TO_NUMERIC,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let first = types.first().unwrap_or(&DataType::Null);
        Ok(match (&self.kind, shape(first)) {
            (Kind::Rounded(ty), _) => ty.clone(),
            (Kind::Nullable, _) => first.clone(),
            (Kind::ToNumeric, Some((precision, scale))) => DataType::Decimal128(precision, scale),
            (Kind::ToNumeric, None) => {
                match column_type_of_arrow(first) {
                    Some(from) => require_cast(from, ColumnType::AnyNumeric)?,
                    None => return Err(cannot_cast(&type_in_words(first), "numeric").into()),
                }
                ColumnType::AnyNumeric.arrow()
            }
            (Kind::Mean, None) => first.clone(),
            (Kind::Mean, Some((_, scale))) => {
                DataType::Decimal128(QUOTIENT_PRECISION, scale.max(quotient_shape(0, 0)))
            }
            (Kind::Quotient, left) => {
                let left = left.unwrap_or(UNDECLARED);
                let right = types.get(1).and_then(shape).unwrap_or(UNDECLARED);
                DataType::Decimal128(QUOTIENT_PRECISION, quotient_shape(left.1, right.1))
            }
        })
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> =
            arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        Ok(Arc::new(match (&self.kind, arguments.arg_fields.first()) {
            (Kind::Nullable, Some(first)) => field.with_metadata(first.metadata().clone()),
            _ => field,
        }))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        made_of_columns(&arguments, |inputs| {
            let to = arguments.return_field.data_type();
            Ok(match (&self.kind, inputs) {
                (Kind::Quotient, [left, right]) => quotients(left, right, to)?,
                (Kind::Mean, [sum, count]) if to.is_floating() => float_means(sum, count)?,
                (Kind::Mean, [sum, count]) if matches!(to, DataType::Interval(_)) => {
                    mean_lengths(sum, count)?
                }
                (Kind::Mean, [sum, count]) if *to == ColumnType::AnyNumeric.arrow() => {
                    number_means(sum, count)?
                }
                (Kind::Mean, [sum, count]) => {
                    let sum = match shape(sum.data_type()) {
                        Some((precision, scale)) => {
                            arrow::compute::cast(sum, &DataType::Decimal128(precision, scale))?
                        }
                        None => return Err(SqlError::internal("a mean of what is no number").into()),
                    };
                    // No rows have no mean: the sum is NULL where the count is zero.
                    quotients(&sum, &arrow::compute::cast(count, &DataType::Decimal128(20, 0))?, to)?
                }
                (Kind::Nullable, [input]) => Arc::clone(input),
                (Kind::Rounded(to), [input]) => rounded_array(input, to)?,
                (Kind::ToNumeric, [input]) if !to.is_decimal() => {
                    cast_array(input, ColumnType::AnyNumeric, session_zone(&arguments.config_options))?
                }
                (Kind::ToNumeric, [input]) => checked_cast(input, to)?,
                _ => return Err(SqlError::internal("a function of numbers with other arguments").into()),
            })
        })
    }
}

fn checked_cast(input: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let options = arrow::compute::CastOptions { safe: false, ..Default::default() };
    Ok(arrow::compute::cast_with_options(input, to, &options)?)
}

fn external(error: SqlError) -> ArrowError {
    ArrowError::ExternalError(Box::new(error))
}

fn scale_of(ty: &DataType) -> i8 {
    shape(ty).map_or(0, |(_, scale)| scale)
}

fn quotients(left: &ArrayRef, right: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let shift = i32::from(scale_of(to)) - i32::from(scale_of(left.data_type()))
        + i32::from(scale_of(right.data_type()));
    let (left, right) = (left.as_primitive::<Decimal128Type>(), right.as_primitive::<Decimal128Type>());
    // Most divisors are constants, and most constants are parts of a power of ten: to multiply takes a small part of the time.
    let factor = only_value(right).and_then(|divisor| whole_factor(divisor, shift));
    let done: PrimitiveArray<Decimal128Type> = match factor {
        Some(factor) => try_unary(left, |left| multiply(left, factor).map_err(external))?,
        None => try_binary(left, right, |left, right| divide(left, right, shift).map_err(external))?,
    };
    Ok(Arc::new(done.with_data_type(to.clone())))
}

/// The value that all rows have; `None` if they differ, one has none, or there are no rows.
fn only_value(values: &PrimitiveArray<Decimal128Type>) -> Option<i128> {
    let (first, others) = values.values().split_first()?;
    (values.null_count() == 0 && others.iter().all(|value| value == first)).then_some(*first)
}

/// Means of numbers of any number of digits.
fn number_means(sums: &ArrayRef, counts: &ArrayRef) -> Result<ArrayRef> {
    let counts = arrow::compute::cast(counts, &DataType::Int64)?;
    let counts = counts.as_primitive::<Int64Type>();
    let mut means = ColumnBuilder::new(ColumnType::AnyNumeric, sums.len());
    for row in 0..sums.len() {
        cancel::check()?;
        match value_at(sums, row) {
            ValueRef::Number(sum) if counts.is_valid(row) => {
                let mean = AnyNumeric::of(sum).quotient(&AnyNumeric::whole(counts.value(row)))?;
                means.push(Value::Number(mean.number()?).borrow());
            }
            _ => means.push(ValueRef::Null),
        }
    }
    Ok(means.finish())
}

fn float_means(sum: &ArrayRef, count: &ArrayRef) -> Result<ArrayRef> {
    let sum = arrow::compute::cast(sum, &DataType::Float64)?;
    let (sum, count) = (sum.as_primitive::<Float64Type>(), count.as_primitive::<Int64Type>());
    let divided: PrimitiveArray<Float64Type> = try_binary(sum, count, |sum: f64, count: i64| {
        if count == 0 { Err(external(division_by_zero())) } else { Ok(sum / count as f64) }
    })?;
    Ok(Arc::new(divided))
}

fn rounded_array(input: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    Ok(match to {
        DataType::Int16 => Arc::new(rounded_to::<Int16Type>(input, "smallint")?) as ArrayRef,
        DataType::Int32 => Arc::new(rounded_to::<Int32Type>(input, "integer")?),
        DataType::Float32 => {
            let reals: PrimitiveArray<Float32Type> =
                try_unary(input.as_primitive::<Float64Type>(), |value| real_of(value).map_err(external))?;
            Arc::new(reals)
        }
        _ => Arc::new(rounded_to::<Int64Type>(input, "bigint")?),
    })
}

fn rounded_to<T>(input: &ArrayRef, name: &str) -> Result<PrimitiveArray<T>>
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i128>,
{
    let narrow = |value: Option<i128>| {
        let fits = value.and_then(|value| T::Native::try_from(value).ok());
        fits.ok_or_else(|| external(out_of_range(&format!("{name} out of range"))))
    };
    let whole = |value: f64| {
        let rounded = value.round_ties_even();
        (rounded.is_finite() && rounded.abs() < 1e19).then_some(rounded as i128)
    };
    Ok(match input.data_type() {
        DataType::Float32 => {
            try_unary(input.as_primitive::<Float32Type>(), |value| narrow(whole(f64::from(value))))?
        }
        DataType::Float64 => try_unary(input.as_primitive::<Float64Type>(), |value| narrow(whole(value)))?,
        DataType::Decimal128(_, scale) => try_unary(input.as_primitive::<Decimal128Type>(), |value| {
            narrow(rescale(value, *scale, 0, u8::MAX).ok())
        })?,
        DataType::Int32 => {
            try_unary(input.as_primitive::<Int32Type>(), |value| narrow(Some(i128::from(value))))?
        }
        DataType::Int64 => {
            try_unary(input.as_primitive::<Int64Type>(), |value| narrow(Some(i128::from(value))))?
        }
        other => return Err(SqlError::internal(format!("{other} is not rounded")).into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimals(values: &[Option<i128>]) -> ArrayRef {
        let values: PrimitiveArray<Decimal128Type> = values.iter().copied().collect();
        Arc::new(values.with_data_type(DataType::Decimal128(12, 2)))
    }

    fn divided(dividends: &[Option<i128>], divisors: &[Option<i128>]) -> Result<Vec<Option<i128>>> {
        let to = DataType::Decimal128(38, 16);
        let found = quotients(&decimals(dividends), &decimals(divisors), &to)?;
        Ok(found.as_primitive::<Decimal128Type>().iter().collect())
    }

    #[test]
    fn what_is_divided_by_a_constant_is_divided_in_each_row() {
        let dividends = [Some(12_345), None, Some(-1), Some(0), Some(99)];
        for divisor in [1, 125, 200, -200, 300, 700] {
            let expected = dividends.map(|one| one.map(|one| divide(one, divisor, 16).unwrap()));
            assert_eq!(divided(&dividends, &[Some(divisor); 5]).unwrap(), expected, "by {divisor}");
        }
        let most = [Some(10_i128.pow(37)), Some(1)];
        assert!(divided(&most, &[Some(200); 2]).is_err(), "more than 38 digits");
        assert!(divided(&[Some(1)], &[Some(0)]).is_err(), "a divisor of zero");
        assert_eq!(divided(&[None], &[Some(0)]).unwrap(), [None::<i128>]);
        assert!(divided(&[], &[]).unwrap().is_empty());
    }

    #[test]
    fn divisors_of_some_rows_are_not_those_of_others() {
        let quotient = |divisor| Some(divide(100, divisor, 16).unwrap());
        let divisors = [Some(200), Some(400), None, Some(200)];
        let expected = [quotient(200), quotient(400), None, quotient(200)];
        assert_eq!(divided(&[Some(100); 4], &divisors).unwrap(), expected);
        assert_eq!(divided(&[Some(100); 2], &[Some(200), None]).unwrap(), [quotient(200), None]);
    }
}
