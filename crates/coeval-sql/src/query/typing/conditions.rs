// SPDX-License-Identifier: Apache-2.0
//! Conditions in expressions: of what is none, a number or a text, DataFusion makes a truth value, and PostgreSQL refuses it. Those of
//! WHERE, HAVING and joins DataFusion refuses itself.

use crate::types::{no_condition, type_in_words};
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable};

/// Refuses what is no condition behind WHEN and FILTER.
///
/// # Errors
/// `42804`.
pub(super) fn refuse_others(expression: &Expr, schema: &DFSchema) -> Result<()> {
    let filter = match expression {
        Expr::Case(case) if case.expr.is_none() => {
            let mut conditions = case.when_then_expr.iter().map(|(condition, _)| condition);
            return conditions.try_for_each(|condition| require("CASE/WHEN", condition, schema));
        }
        Expr::AggregateFunction(call) => call.params.filter.as_deref(),
        Expr::WindowFunction(call) => call.params.filter.as_deref(),
        _ => None,
    };
    filter.map_or(Ok(()), |condition| require("FILTER", condition, schema))
}

fn require(clause: &str, condition: &Expr, schema: &DFSchema) -> Result<()> {
    // A literal is read as a truth value, and so is a parameter.
    if matches!(condition, Expr::Literal(value, _) if value.data_type().is_string()) {
        return Ok(());
    }
    match condition.get_type(schema) {
        Ok(ty) if !is_condition(&ty) => Err(no_condition(clause, &type_in_words(&ty)).into()),
        Ok(_) | Err(_) => Ok(()),
    }
}

pub(in crate::query) fn is_condition(ty: &DataType) -> bool {
    matches!(ty, DataType::Boolean | DataType::Null)
}
