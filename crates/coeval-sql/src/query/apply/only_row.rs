// SPDX-License-Identifier: Apache-2.0
//! The value of a subquery that may have one row, where the rows of all keys have been counted beside it.
//!
//! It stands where the subquery stood, so that rows are an error where they would have been one: not for a key that nobody asks
//! for, nor in a branch of CASE that is not taken.

use super::too_many_rows;
use arrow::array::AsArray;
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

/// The value, of which there are so many.
pub(super) fn only_row(value: Expr, count: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        // What may fail is not to be moved below the join.
        let signature = Signature::any(2, Volatility::Volatile);
        Arc::new(ScalarUDF::from(OnlyRow { signature }))
    });
    FUNCTION.call(vec![value, count])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OnlyRow {
    signature: Signature,
}

impl ScalarUDFImpl for OnlyRow {
    fn name(&self) -> &'static str {
        "coeval_only_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [value, _] => Ok(value.clone()),
            _ => internal_err!("a value and a count"),
        }
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match arguments.arg_fields {
            [value, _] => Ok(Arc::new(value.as_ref().clone().with_name(self.name()).with_nullable(true))),
            _ => internal_err!("a value and a count"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, count] = args.args.as_slice() else { return internal_err!("a value and a count") };
        let count = count.to_array(args.number_rows)?;
        if count.as_primitive::<Int64Type>().iter().flatten().any(|count| count > 1) {
            return Err(too_many_rows());
        }
        Ok(value.clone())
    }
}
