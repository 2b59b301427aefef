// SPDX-License-Identifier: Apache-2.0
//! LATERAL: subqueries and functions in FROM that depend on the tables before them.
//!
//! DataFusion makes joins of those that only filter by conditions of their own, and those that read no table are
//! [computed](super::lateral_values) from the row. All others run once for each combination of the columns that
//! they depend on, and their rows come as one array, unless [`joined`](super::apply::joined()) makes a join of that as well:
//!
//! ```text
//! FROM t CROSS JOIN LATERAL (SELECT a, b FROM s WHERE s.k = t.k ORDER BY a LIMIT 3) AS l
//!   -> unnest(coeval_apply[subquery](t.k)) beside t, its fields as l.a, l.b
//! ```
//! For LEFT JOIN, an empty array becomes one row of NULLs.

use super::apply::{Apply, Question, is_no_join};
use super::dependencies::{OuterArguments, names_outer, outer_arguments};
use super::lateral_values::computed;
use crate::error::SqlError;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, NullHandling, Result, ScalarValue, UnnestOptions};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{
    Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Subquery, binary_expr, lit,
};
use datafusion::logical_expr::{Operator, utils::conjunction};
use std::sync::Arc;

/// The column of arrays: no name of a user's.
const ROWS: &str = "\u{1}lateral rows";

/// The plan with a join of this kind replaced.
///
/// # Errors
/// `0A000` for a LEFT JOIN with a condition; what DataFusion finds wrong while it rebuilds the plan.
pub(super) fn replaced(plan: LogicalPlan, state: &SessionState) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(join) = &plan else { return Ok(Transformed::no(plan)) };
    let is_left = join.join_type == JoinType::Left;
    let rows = match join.join_type {
        JoinType::Inner | JoinType::Left => lateral_rows(join)?,
        _ => None,
    };
    let Some(rows) = rows else { return Ok(Transformed::no(plan)) };
    if !is_left && only_filters(rows)? {
        return Ok(Transformed::no(plan));
    }
    let condition = condition_of(join);
    if is_left && condition.is_some() {
        let what = "LEFT JOIN LATERAL with a condition other than true";
        return Err(SqlError::unsupported(what).with_hint("Put the condition into the subquery.").into());
    }
    let beside = match computed(join, rows)? {
        Some(computed) => computed,
        None => beside(join, rows, state)?,
    };
    let replaced = match condition {
        Some(condition) => LogicalPlanBuilder::from(beside).filter(condition)?.build()?,
        None => beside,
    };
    Ok(Transformed::yes(replaced))
}

/// The subquery that the right side of a join is, if it depends on the left one.
fn lateral_rows(join: &Join) -> Result<Option<&Arc<LogicalPlan>>> {
    if let Some(lateral) = lateral_side(&join.right) {
        return Ok(Some(&lateral.subquery));
    }
    // DataFusion does not see what only a subquery in its expressions depends on.
    let OuterArguments { columns, .. } = outer_arguments(&join.right, join.left.schema())?;
    let depends_on_left = columns.iter().any(|column| matches!(column, Expr::Column(_)));
    Ok(depends_on_left.then_some(&join.right))
}

/// The subquery that one side of a join is, as DataFusion marks those that depend on the other.
fn lateral_side(side: &LogicalPlan) -> Option<&Subquery> {
    match side {
        LogicalPlan::Subquery(subquery) => (!subquery.outer_ref_columns.is_empty()).then_some(subquery),
        LogicalPlan::SubqueryAlias(alias) => lateral_side(&alias.input),
        LogicalPlan::Projection(projection) => {
            let is_renamed = projection
                .expr
                .iter()
                .all(|expression| matches!(expression, Expr::Column(_) | Expr::Alias(_)));
            if is_renamed { lateral_side(&projection.input) } else { None }
        }
        _ => None,
    }
}

/// Whether DataFusion makes a join of the subquery: one that depends on the tables before it by its own conditions alone. Of those in a
/// query within it, it does not find the columns again, and of what it selects it makes none.
fn only_filters(plan: &LogicalPlan) -> Result<bool> {
    let is_other = plan.exists(|node| {
        Ok(match node {
            LogicalPlan::Projection(_) => names_outer(node)?,
            LogicalPlan::Filter(filter) => looks_for_outer(&filter.predicate)?,
            LogicalPlan::TableScan(_) | LogicalPlan::SubqueryAlias(_) => false,
            _ => true,
        })
    })?;
    Ok(!is_other && !is_no_join(plan)?)
}

/// Whether a condition looks for a value of the tables before a LATERAL subquery among the rows of a subquery of its own.
fn looks_for_outer(condition: &Expr) -> Result<bool> {
    condition.exists(|part| Ok(matches!(part, Expr::InSubquery(within) if within.expr.contains_outer())))
}

/// What a join's rows have to fulfil, if that is more than `true`.
fn condition_of(join: &Join) -> Option<Expr> {
    let equal = |(left, right): &(Expr, Expr)| binary_expr(left.clone(), Operator::Eq, right.clone());
    let is_true = |condition: &Expr| matches!(condition, Expr::Literal(ScalarValue::Boolean(Some(true)), _));
    let filter = join.filter.iter().filter(|condition| !is_true(condition)).cloned();
    conjunction(join.on.iter().map(equal).chain(filter))
}

/// The rows of the left side, each beside each of its rows of the subquery.
fn beside(join: &Join, lateral: &Arc<LogicalPlan>, state: &SessionState) -> Result<LogicalPlan> {
    let arguments = outer_arguments(lateral, join.left.schema())?;
    let apply = Apply::new(Question::Rows, lateral, arguments.outer, state);
    let rows = apply.call(arguments.columns).alias(ROWS);
    let left: Vec<Expr> = join.left.schema().columns().into_iter().map(Expr::Column).collect();
    let get_field = state.scalar_functions().get("get_field");
    let get_field = get_field.ok_or_else(|| SqlError::internal("DataFusion has get_field"))?;
    let rows_column = || Expr::Column(Column::from_name(ROWS));
    let fields = join.right.schema().iter().enumerate().map(|(place, (qualifier, field))| {
        let value = get_field.call(vec![rows_column(), lit(super::apply::field_name(place))]);
        value.alias_qualified(qualifier.cloned(), field.name())
    });
    let no_rows = match join.join_type {
        JoinType::Left => NullHandling::PreserveAndExpandEmpty,
        _ => NullHandling::Drop,
    };
    let options = UnnestOptions::new().with_null_handling(no_rows);
    LogicalPlanBuilder::from(Arc::unwrap_or_clone(Arc::clone(&join.left)))
        .project(left.iter().cloned().chain([rows]))?
        .unnest_column_with_options(Column::from_name(ROWS), options)?
        .project(left.iter().cloned().chain(fields))?
        .build()
}
