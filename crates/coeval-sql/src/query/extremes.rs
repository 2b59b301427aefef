// SPDX-License-Identifier: Apache-2.0
//! EXISTS with a comparison, by the least and the greatest value of each key.
//!
//! `WHERE EXISTS (SELECT 1 FROM t WHERE t.k = o.k AND t.b <> o.b)` becomes a semi-join that makes all pairs of rows with one key before
//! it compares them. But some `t.b` is below `o.b` if the least one is, and some is another one if the least or the greatest is:
//!
//! ```text
//! o LEFT SEMI JOIN t ON o.k = t.k AND t.b <> o.b
//!   -> o LEFT SEMI JOIN (SELECT k, min(b), max(b) FROM t GROUP BY k) ON o.k = k AND (min <> o.b OR max <> o.b)
//! ```
//! NULLs are no extremes, and no comparison with them is true; so NOT EXISTS, an anti-join, is the same as well. Types are those whose
//! comparison and whose extremes have one order.
//!
//! It is done where it is estimated to pay: where a key has [`ROWS_PER_KEY_MIN`] rows.

use super::join_order::Relation;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Expr, ExprSchemable, Join, JoinType, LogicalPlan, Operator, Projection,
    binary_expr,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// Rows that a key must have: to group them costs about as much as to put them into the table of a join, and a group more.
const ROWS_PER_KEY_MIN: f64 = 8.0;

/// Fewer rows are not worth it.
const ROWS_MIN: f64 = 1_000.0;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ExistenceByExtremes;

impl OptimizerRule for ExistenceByExtremes {
    fn name(&self) -> &'static str {
        "coeval_existence_by_extremes"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = &plan else { return Ok(Transformed::no(plan)) };
        match by_extremes(join, config)? {
            Some(join) => Ok(Transformed::yes(LogicalPlan::Join(join))),
            None => Ok(Transformed::no(plan)),
        }
    }
}

/// `inner operator outer`, of a column of the right side and a value of the left side. Nothing is computed of rows of the right side that
/// nobody asks for: it might fail.
struct Comparison {
    inner: Expr,
    operator: Operator,
    outer: Expr,
}

impl Comparison {
    fn of(filter: &Expr, join: &Join) -> Result<Option<Self>> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else { return Ok(None) };
        let (outer_schema, inner_schema) = (join.left.schema(), join.right.schema());
        let (inner, operator, outer) = if is_of(left, inner_schema, outer_schema) {
            (left, Some(*op), right)
        } else {
            (right, op.swap(), left)
        };
        let is_comparison = |operator: &Operator| {
            matches!(
                operator,
                Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
            )
        };
        let sides_differ =
            is_of(inner, inner_schema, outer_schema) && is_of(outer, outer_schema, inner_schema);
        let Some(operator) = operator.filter(|operator| sides_differ && is_comparison(operator)) else {
            return Ok(None);
        };
        let ty = inner.get_type(inner_schema)?;
        let is_column = matches!(inner.as_ref(), Expr::Column(_));
        if !is_column || !has_extremes(&ty) || ty != outer.get_type(outer_schema)? {
            return Ok(None);
        }
        Ok(Some(Self { inner: inner.as_ref().clone(), operator, outer: outer.as_ref().clone() }))
    }
}

/// Whether an expression names columns of one side, and none of the other.
fn is_of(expression: &Expr, side: &DFSchema, other: &DFSchema) -> bool {
    let columns = expression.column_refs();
    !columns.is_empty() && columns.iter().all(|column| side.has_column(column) && !other.has_column(column))
}

/// Whether values of a type are compared as their extremes are found.
fn has_extremes(ty: &DataType) -> bool {
    ty.is_integer()
        || ty.is_string()
        || matches!(ty, DataType::Decimal128(..) | DataType::Date32 | DataType::Timestamp(..))
}

fn by_extremes(join: &Join, config: &dyn OptimizerConfig) -> Result<Option<Join>> {
    let is_existence = matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti);
    let filter = join.filter.as_ref().filter(|filter| is_existence && !filter.is_volatile());
    let Some(filter) = filter else { return Ok(None) };
    let Some(comparison) = Comparison::of(filter, join)? else { return Ok(None) };
    if join.null_aware || !pays(join, config)? {
        return Ok(None);
    }
    let next = || config.alias_generator().next("coeval_extreme");
    let column = |name: &String| Expr::Column(Column::from_name(name));
    let (value, keys): (String, Vec<String>) = (next(), join.on.iter().map(|_| next()).collect());
    let named = join.on.iter().zip(&keys).map(|((_, key), name)| key.clone().alias(name.clone()));
    let outputs = named.chain([comparison.inner.alias(value.clone())]).collect();
    let rows = LogicalPlan::Projection(Projection::try_new(outputs, Arc::clone(&join.right))?);
    let functions = match comparison.operator {
        Operator::Lt | Operator::LtEq => vec![min_udaf()],
        Operator::Gt | Operator::GtEq => vec![max_udaf()],
        _ => vec![min_udaf(), max_udaf()],
    };
    let (mut extremes, mut conditions) = (Vec::new(), Vec::new());
    for function in functions {
        let name = next();
        conditions.push(binary_expr(column(&name), comparison.operator, comparison.outer.clone()));
        extremes.push(function.call(vec![column(&value)]).alias(name));
    }
    let grouped = Aggregate::try_new(Arc::new(rows), keys.iter().map(column).collect(), extremes)?;
    let on = join.on.iter().zip(&keys).map(|((outer, _), name)| (outer.clone(), column(name))).collect();
    Join::try_new(
        Arc::clone(&join.left),
        Arc::new(LogicalPlan::Aggregate(grouped)),
        on,
        conditions.into_iter().reduce(Expr::or),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        false,
    )
    .map(Some)
}

/// Whether it is estimated to pay to group the right side by its keys. What has been grouped is no table any more.
fn pays(join: &Join, config: &dyn OptimizerConfig) -> Result<bool> {
    let (mut rows, mut distinct) = (0.0, 1.0);
    for (_, key) in &join.on {
        let Expr::Column(key) = key else { return Ok(false) };
        let Some((scan, column)) = column_of_table(&join.right, key) else { return Ok(false) };
        let table = Relation::of(scan, &[], config);
        let Some(values) = table.distinct(&column, scan, config)? else { return Ok(false) };
        rows = table.rows;
        distinct *= values;
    }
    Ok(rows >= ROWS_MIN && distinct * ROWS_PER_KEY_MIN <= rows)
}

/// The scan of a table and its column that a plan's column is.
fn column_of_table<'p>(plan: &'p LogicalPlan, column: &Column) -> Option<(&'p LogicalPlan, Column)> {
    let place = plan.schema().maybe_index_of_column(column)?;
    match plan {
        LogicalPlan::TableScan(_) => Some((plan, column.clone())),
        LogicalPlan::Filter(filter) => column_of_table(&filter.input, column),
        LogicalPlan::SubqueryAlias(alias) => {
            let below = alias.input.schema().columns().into_iter().nth(place)?;
            column_of_table(&alias.input, &below)
        }
        LogicalPlan::Projection(selected) => {
            let below = match selected.expr.get(place)? {
                Expr::Alias(alias) => alias.expr.as_ref(),
                other => other,
            };
            let Expr::Column(below) = below else { return None };
            column_of_table(&selected.input, below)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
