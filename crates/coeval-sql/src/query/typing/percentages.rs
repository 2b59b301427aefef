// SPDX-License-Identifier: Apache-2.0
//! What `TABLESAMPLE` takes for a percentage, where it is no constant: a parameter, or something that is computed.

use crate::error::{SqlError, SqlState};
use arrow::array::AsArray;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The function that gives a percentage as it is, and refuses what is none.
pub(crate) const PERCENTAGE: &str = "coeval_percentage";

/// The function.
pub(super) fn function() -> ScalarUDF {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
    ScalarUDF::new_from_impl(Percentage { signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Percentage {
    signature: Signature,
}

impl ScalarUDFImpl for Percentage {
    fn name(&self) -> &'static str {
        PERCENTAGE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else { return internal_err!("a percentage") };
        let rows = if matches!(value, ColumnarValue::Scalar(_)) { 1 } else { args.number_rows };
        for percentage in value.to_array(rows)?.as_primitive::<Float64Type>() {
            check(percentage)?;
        }
        Ok(value.clone())
    }
}

/// `2202H` for NULL, and for what is beyond 0 or 100, as NaN is.
fn check(percentage: Option<f64>) -> Result<(), SqlError> {
    let message = match percentage {
        Some(percentage) if (0.0..=100.0).contains(&percentage) => return Ok(()),
        Some(_) => "sample percentage must be between 0 and 100",
        None => "TABLESAMPLE parameter cannot be null",
    };
    Err(SqlError::new(SqlState::InvalidTablesampleArgument, message))
}
