// SPDX-License-Identifier: Apache-2.0
//! `round`, `floor`, `ceil` and `trunc` as PostgreSQL has them: floats are rounded half to even, and a `numeric`
//! that becomes whole has no digits behind the point, and may have one more in front of it. The sign of NaN is zero. Everything else is
//! DataFusion's.

use crate::wrapped::as_wrapped;
use arrow::array::{ArrayRef, AsArray, Decimal128Array, Float32Array, Float64Array};
use arrow::compute::cast;
use arrow::compute::kernels::arity::unary;
use arrow::datatypes::{DataType, Decimal128Type, FieldRef, Float32Type, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::math;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
};
use std::sync::Arc;

/// The functions, for the engine's registry.
pub(crate) fn rounding_functions() -> [ScalarUDF; 5] {
    [math::round(), math::floor(), math::ceil(), math::trunc(), math::signum()]
        .map(|general| ScalarUDF::new_from_impl(Rounding { general }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Rounding {
    general: Arc<ScalarUDF>,
}

/// The type of a whole `numeric`.
fn whole(field: FieldRef, arguments: usize) -> FieldRef {
    match field.data_type() {
        DataType::Decimal128(precision, scale) if arguments == 1 && *scale > 0 => {
            let digits = precision.saturating_sub(scale.unsigned_abs()) + 1;
            Arc::new(field.as_ref().clone().with_data_type(DataType::Decimal128(digits, 0)))
        }
        _ => field,
    }
}

fn sign(number: f64) -> f64 {
    f64::from(i8::from(number > 0.0) - i8::from(number < 0.0))
}

impl ScalarUDFImpl for Rounding {
    as_wrapped!(general: name, signature, return_type, coerce_types);

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let count = arguments.arg_fields.len();
        Ok(whole(self.general.return_field_from_args(arguments)?, count))
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [input] = &arguments.args[..] else {
            return self.general.invoke_with_args(arguments);
        };
        let ty = input.data_type();
        let is_scalar = matches!(input, ColumnarValue::Scalar(_));
        let rows = if is_scalar { 1 } else { arguments.number_rows };
        let done: ArrayRef = match &ty {
            DataType::Float64 if self.name() == "round" => {
                let rounded: Float64Array =
                    unary(input.to_array(rows)?.as_primitive::<Float64Type>(), f64::round_ties_even);
                Arc::new(rounded)
            }
            DataType::Float32 if self.name() == "round" => {
                let rounded: Float32Array =
                    unary(input.to_array(rows)?.as_primitive::<Float32Type>(), f32::round_ties_even);
                Arc::new(rounded)
            }
            DataType::Float64 if self.name() == "signum" => {
                let signs: Float64Array = unary(input.to_array(rows)?.as_primitive::<Float64Type>(), sign);
                Arc::new(signs)
            }
            DataType::Float32 if self.name() == "signum" => {
                let sign = |number: f32| sign(f64::from(number)) as f32;
                let signs: Float32Array = unary(input.to_array(rows)?.as_primitive::<Float32Type>(), sign);
                Arc::new(signs)
            }
            DataType::Decimal128(_, scale @ 1..) if matches!(self.name(), "floor" | "ceil") => {
                let unit = 10_i128.pow(u32::from(scale.unsigned_abs()));
                let is_floor = self.name() == "floor";
                let whole = |number: i128| match is_floor {
                    true => number.div_euclid(unit),
                    false => -(-number).div_euclid(unit),
                };
                let input = input.to_array(rows)?;
                let numbers: Decimal128Array = unary(input.as_primitive::<Decimal128Type>(), whole);
                Arc::new(numbers.with_data_type(arguments.return_field.data_type().clone()))
            }
            DataType::Decimal128(..) => {
                let to = arguments.return_field.data_type().clone();
                let nullable = arguments.return_field.is_nullable();
                let fields = ReturnFieldArgs { arg_fields: &arguments.arg_fields, scalar_arguments: &[None] };
                let general = self.general.return_field_from_args(fields)?;
                arguments.return_field = Arc::new(general.as_ref().clone().with_nullable(nullable));
                cast(&self.general.invoke_with_args(arguments)?.to_array(rows)?, &to)?
            }
            _ => return self.general.invoke_with_args(arguments),
        };
        if is_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&done, 0)?));
        }
        Ok(ColumnarValue::Array(done))
    }
}
