// SPDX-License-Identifier: Apache-2.0
//! A value and the rows of a subquery that it is compared with: `at IN (SELECT local FROM ...)`, brought to one type.

use super::comparisons::{Operand, written};
use super::group_keys::key_of_any;
use super::{any_numeric, instants, jsonb, trimmed};
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{InSubquery, SetComparison};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlanBuilder, Subquery, cast};
use std::sync::Arc;

/// `IN (SELECT ...)` with both sides of one type; `None` if they are right as they are.
///
/// # Errors
/// `42883` if the value is not compared with such rows.
pub(super) fn settle_in(within: &InSubquery, schema: &DFSchema) -> Result<Option<Expr>> {
    // NOT IN is the contrary of IN.
    require_rows(&within.expr, "=", &within.subquery, schema)?;
    let settled = both(&within.expr, &within.subquery, schema)?;
    Ok(settled.map(|(value, subquery)| {
        Expr::InSubquery(InSubquery::new(Box::new(value), subquery, within.negated))
    }))
}

/// What the column of a subquery is called behind ANY and ALL: no name of a user's.
const ROW: &str = "\u{1}row";

/// What it is called where it is cast. A cast has the name of what it is of, which DataFusion would take for two columns where the rows are
/// marked (`IN (SELECT ...) OR ...`).
const VALUE: &str = "\u{1}value";

/// `= ANY (SELECT ...)` and its like, likewise. DataFusion puts the comparison into the subquery: its column gets a name of
/// its own, or that of the value would be taken for it where both are of tables that have the same name.
///
/// # Errors
/// `42883` if the value is not compared with such rows.
pub(super) fn settle_any(comparison: &SetComparison, schema: &DFSchema) -> Result<Option<Expr>> {
    require_rows(&comparison.expr, &written(comparison.op), &comparison.subquery, schema)?;
    let (value, subquery) = both(&comparison.expr, &comparison.subquery, schema)?
        .unwrap_or_else(|| (comparison.expr.as_ref().clone(), comparison.subquery.clone()));
    let Some(column) = subquery.subquery.schema().columns().into_iter().next() else { return Ok(None) };
    if column.name == ROW {
        return Ok(None);
    }
    let row = Expr::Column(column).alias(ROW);
    let rows = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone()).project([row])?.build()?;
    let subquery = subquery.with_plan(Arc::new(rows));
    Ok(Some(Expr::SetComparison(SetComparison { expr: Box::new(value), subquery, ..comparison.clone() })))
}

fn require_rows(value: &Expr, operator: &str, subquery: &Subquery, schema: &DFSchema) -> Result<()> {
    let rows = subquery.subquery.schema();
    let Some(column) = rows.columns().into_iter().next() else { return Ok(()) };
    let row = Operand::of(&Expr::Column(column), rows);
    Ok(Operand::of(value, schema).require(&operator, row)?)
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
    } else if let Some(numbers) =
        any_numeric::comparable_sides((value, schema), (&row, plan.schema().as_ref()))?
    {
        numbers
    } else if is_compared_as_double(&ty, &row_type) || is_compared_as_double(&row_type, &ty) {
        // DataFusion would make decimals of the floats, which are others, or none, and a `real` of integers.
        (cast(value.clone(), DataType::Float64), cast(row, DataType::Float64))
    } else if let Some(trimmed) = trimmed::comparable_sides((value, schema), (&row, plan.schema().as_ref()))?
    {
        trimmed
    } else if let (Some(value_key), Some(row_key)) =
        (key_of_any(value, schema)?, key_of_any(&row, plan.schema())?)
    {
        (value_key, row_key)
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
    let plan = LogicalPlanBuilder::from(plan.as_ref().clone()).project([row.alias(VALUE)])?.build()?;
    Ok(Some((value, subquery.with_plan(Arc::new(plan)))))
}

/// Whether a float is compared with an exact number as `double precision` where DataFusion has another type for both.
fn is_compared_as_double(float: &DataType, exact: &DataType) -> bool {
    (float.is_floating() && exact.is_decimal()) || (*float == DataType::Float32 && exact.is_integer())
}
