// SPDX-License-Identifier: Apache-2.0
//! Conditions that are none: DataFusion takes any number for true or false in CASE and FILTER, PostgreSQL takes none.

use crate::error::{SqlError, SqlState};
use crate::types::column_type_of_arrow;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Case, Expr, ExprSchemable};

/// `42804` for a WHEN, of a CASE without an operand, that is a number or a time.
pub(super) fn refuse_case(case: &Case, schema: &DFSchema) -> Result<()> {
    if case.expr.is_some() {
        return Ok(());
    }
    case.when_then_expr.iter().try_for_each(|(when, _)| refuse(when, "CASE/WHEN", schema))
}

/// `42804` for such a FILTER.
pub(super) fn refuse_filter(call: &AggregateFunction, schema: &DFSchema) -> Result<()> {
    call.params.filter.iter().try_for_each(|filter| refuse(filter, "FILTER", schema))
}

fn refuse(condition: &Expr, clause: &str, schema: &DFSchema) -> Result<()> {
    let Ok(ty) = condition.get_type(schema) else { return Ok(()) };
    if !ty.is_numeric() && !ty.is_temporal() {
        return Ok(());
    }
    let name = column_type_of_arrow(&ty).map_or_else(|| ty.to_string(), |ty| ty.to_string());
    let message = format!("argument of {clause} must be type boolean, not type {name}");
    Err(SqlError::new(SqlState::DatatypeMismatch, message).into())
}
