// SPDX-License-Identifier: Apache-2.0
//! A value and the rows of a subquery that it is compared with: `at IN (SELECT local FROM ...)`, brought to one type.

use super::intervals::length;
use super::{instants, jsonb};
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{InSubquery, SetComparison};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlanBuilder, Subquery};
use std::sync::Arc;

/// `IN (SELECT ...)` with both sides of one type; `None` if they are right as they are.
pub(super) fn settle_in(within: &InSubquery, schema: &DFSchema) -> Result<Option<Expr>> {
    let settled = both(&within.expr, &within.subquery, schema)?;
    Ok(settled.map(|(value, subquery)| {
        Expr::InSubquery(InSubquery::new(Box::new(value), subquery, within.negated))
    }))
}

/// `= ANY (SELECT ...)` and its like, likewise.
pub(super) fn settle_any(comparison: &SetComparison, schema: &DFSchema) -> Result<Option<Expr>> {
    let settled = both(&comparison.expr, &comparison.subquery, schema)?;
    Ok(settled.map(|(value, subquery)| {
        let settled = SetComparison { expr: Box::new(value), subquery, ..comparison.clone() };
        Expr::SetComparison(settled)
    }))
}

/// The value and the subquery, its rows cast where they are of another type.
fn both(value: &Expr, subquery: &Subquery, schema: &DFSchema) -> Result<Option<(Expr, Subquery)>> {
    let plan = &subquery.subquery;
    let (Ok(ty), Some(column)) = (value.get_type(schema), plan.schema().columns().into_iter().next()) else {
        return Ok(None);
    };
    let row = Expr::Column(column);
    let row_type = row.get_type(plan.schema())?;
    let (value, row) = if jsonb::is_jsonb(value, schema) || jsonb::is_jsonb(&row, plan.schema()) {
        (jsonb::ordered(value.clone())?, jsonb::ordered(row)?)
    } else if [&ty, &row_type].into_iter().all(|ty| matches!(ty, DataType::Interval(_))) {
        (length(value.clone()), length(row))
    } else {
        match instants::common_type([&ty, &row_type]) {
            Some(common) if ty != row_type => {
                let as_common = |side: Expr, own: &DataType| {
                    if *own == common { Ok(side) } else { instants::as_type(side, &common) }
                };
                (as_common(value.clone(), &ty)?, as_common(row, &row_type)?)
            }
            _ => return Ok(None),
        }
    };
    let plan = LogicalPlanBuilder::from(plan.as_ref().clone()).project([row])?.build()?;
    Ok(Some((value, subquery.with_plan(Arc::new(plan)))))
}
