// SPDX-License-Identifier: Apache-2.0
//! `lag` and `lead` of numbers with a default of another type of number: the result has the type that both have in common, where
//! DataFusion makes the default one of the first type, and cuts off what that has no room for.

use crate::types::common_arrow_type;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{ExprSchemable, WindowFunctionDefinition, cast};

/// The call with both numbers of one type; `None` if it is right as it is.
pub(super) fn settle_shift(call: &WindowFunction, schema: &DFSchema) -> Result<Option<WindowFunction>> {
    let is_shift = matches!(&call.fun, WindowFunctionDefinition::WindowUDF(function)
        if matches!(function.name(), "lag" | "lead"));
    let ([value, _, default], true) = (&call.params.args[..], is_shift) else { return Ok(None) };
    let (ty, own) = (value.get_type(schema)?, default.get_type(schema)?);
    if ty == own || !ty.is_numeric() || !own.is_numeric() {
        return Ok(None);
    }
    let Some(common) = common_arrow_type([&ty, &own]) else { return Ok(None) };
    let mut call = call.clone();
    for (place, ty) in [(0, ty), (2, own)] {
        if ty != common {
            call.params.args[place] = cast(call.params.args[place].clone(), common.clone());
        }
    }
    Ok(Some(call))
}
