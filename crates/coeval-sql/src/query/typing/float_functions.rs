// SPDX-License-Identifier: Apache-2.0
//! Functions of floats that are called with a `numeric` without digits: it is a `double precision` to them. DataFusion casts none to it.

use super::exact_types::is_any_numeric;
use super::number_functions::with_numbers;
use crate::wrapped::as_wrapped;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{Expr, ScalarUDF, ScalarUDFImpl, Signature};
use std::sync::Arc;

/// The functions.
const FUNCTIONS: [&str; 17] = [
    "sin", "cos", "tan", "cot", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh",
    "atanh", "cbrt", "degrees", "radians",
];

/// Whether a function is one of these.
pub(super) fn is_one(name: &str) -> bool {
    FUNCTIONS.contains(&name)
}

/// The functions of a registry, which take such numbers beside what they take already.
///
/// # Errors
/// If one of them is missing there: a bug.
pub(super) fn functions(registry: &dyn FunctionRegistry) -> Result<Vec<ScalarUDF>> {
    let known = FUNCTIONS.into_iter().map(|name| {
        let general = registry.udf(name)?;
        let signature = with_numbers(general.signature());
        Ok(ScalarUDF::new_from_impl(OfFloats { general, signature }))
    });
    known.collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfFloats {
    general: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for OfFloats {
    as_wrapped!(general: name, aliases, evaluate_bounds, output_ordering, invoke_with_args);

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        // The casts are written once the types of all arguments are settled.
        if types.iter().any(is_any_numeric) { Ok(types.to_vec()) } else { self.general.coerce_types(types) }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if types.iter().any(is_any_numeric) { Ok(DataType::Float64) } else { self.general.return_type(types) }
    }

    fn simplify(&self, arguments: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.general.simplify(arguments, info)
    }
}
