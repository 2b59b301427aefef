// SPDX-License-Identifier: Apache-2.0
//! `lag` and `lead` of numbers with a default of another type of number: the result has the type that both have in common, where
//! DataFusion makes the default one of the first type, and cuts off what that has no room for. Of numbers without digits it would make
//! bytes.

use super::any_numeric::settled_cast;
use super::comparisons::is_text_literal;
use super::exact_types::is_any_numeric;
use crate::scalar::cast_function::literal_as;
use crate::types::common_arrow_type;
use arrow::datatypes::DataType;
use coeval_store::ColumnType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{ExprSchemable, WindowFunctionDefinition, cast};

/// The call with both numbers of one type; `None` if it is right as it is.
pub(super) fn settle_shift(call: &WindowFunction, schema: &DFSchema) -> Result<Option<WindowFunction>> {
    let is_shift = matches!(&call.fun, WindowFunctionDefinition::WindowUDF(function)
        if matches!(function.name(), "lag" | "lead"));
    let ([value, _, default], true) = (&call.params.args[..], is_shift) else { return Ok(None) };
    let (ty, own) = (value.get_type(schema)?, default.get_type(schema)?);
    if is_any_numeric(&ty) && is_text_literal(default) {
        let default = literal_as(default.clone(), ColumnType::AnyNumeric)?;
        let mut call = call.clone();
        call.params.args[2] = default;
        return Ok(Some(call));
    }
    let is_number = |ty: &DataType| ty.is_numeric() || is_any_numeric(ty);
    if ty == own || !is_number(&ty) || !is_number(&own) {
        return Ok(None);
    }
    let Some(common) = common_arrow_type([&ty, &own]) else { return Ok(None) };
    let mut call = call.clone();
    for (place, ty) in [(0, ty), (2, own)] {
        if ty != common {
            let argument = call.params.args[place].clone();
            let number = settled_cast(&argument, &ty, &common)?;
            call.params.args[place] = number.unwrap_or_else(|| cast(argument, common.clone()));
        }
    }
    Ok(Some(call))
}
