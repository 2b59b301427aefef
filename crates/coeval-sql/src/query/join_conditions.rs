// SPDX-License-Identifier: Apache-2.0
//! Subqueries in the ON of joins, which DataFusion does not plan there: they move to where they mean the same.
//!
//! | join | a part of its condition that holds a subquery and names columns of | becomes a filter |
//! |---|---|---|
//! | inner | any side | of the join's rows |
//! | left | the right side only | of the right side's rows |
//! | right | the left side only | of the left side's rows |
//!
//! All other parts stay, and [`apply`](super::apply) runs their subqueries. Rows of the side that an outer join fills up
//! are given without a partner when the condition is not met, so no filter on that side is the same.

use super::dependencies::{outer_arguments, subquery_of};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder};
use std::sync::Arc;

/// The node, if it is a join, with subqueries in filters around it.
///
/// # Errors
/// What DataFusion finds wrong while it builds the filters.
pub(super) fn without_subqueries(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Join(join) if join.filter.as_ref().is_some_and(has_subquery) => separated(join),
        other => Ok(Transformed::no(other)),
    }
}

fn has_subquery(expression: &Expr) -> bool {
    // Nothing in the visit fails.
    expression.exists(|part| Ok(subquery_of(part).is_some())).unwrap_or(true)
}

/// Where a part of the condition goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goes {
    Above,
    Left,
    Right,
    Nowhere,
}

fn separated(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let (mut above, mut left, mut right, mut staying) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for part in join.filter.take().map(split_conjunction_owned).unwrap_or_default() {
        match place_of(&part, &join)? {
            Goes::Above => above.push(part),
            Goes::Left => left.push(part),
            Goes::Right => right.push(part),
            Goes::Nowhere => staying.push(part),
        }
    }
    let has_moved = !(above.is_empty() && left.is_empty() && right.is_empty());
    join.filter = conjunction(staying);
    join.left = filtered(join.left, left)?;
    join.right = filtered(join.right, right)?;
    let done = filtered(Arc::new(LogicalPlan::Join(join)), above)?;
    let done = Arc::unwrap_or_clone(done);
    Ok(if has_moved { Transformed::yes(done) } else { Transformed::no(done) })
}

fn filtered(input: Arc<LogicalPlan>, parts: Vec<Expr>) -> Result<Arc<LogicalPlan>> {
    let Some(condition) = conjunction(parts) else { return Ok(input) };
    Ok(Arc::new(LogicalPlanBuilder::from(input).filter(condition)?.build()?))
}

fn place_of(part: &Expr, join: &Join) -> Result<Goes> {
    if !has_subquery(part) {
        return Ok(Goes::Nowhere);
    }
    Ok(match join.join_type {
        JoinType::Inner => Goes::Above,
        JoinType::Left if names_none_of(part, join.left.schema())? && !is_lateral(&join.right) => Goes::Right,
        JoinType::Right if names_none_of(part, join.right.schema())? => Goes::Left,
        _ => Goes::Nowhere,
    })
}

/// Whether a side depends on the other one.
fn is_lateral(side: &LogicalPlan) -> bool {
    side.exists(|node| Ok(matches!(node, LogicalPlan::Subquery(_)))).unwrap_or(true)
}

/// Whether an expression, subqueries in it included, names no column of a side.
fn names_none_of(expression: &Expr, side: &DFSchema) -> Result<bool> {
    let names = expression.exists(|part| {
        let own = matches!(part, Expr::Column(column) if side.has_column(column));
        let of_subquery = match subquery_of(part) {
            Some(plan) => outer_arguments(plan, side)?.columns,
            None => Vec::new(),
        };
        Ok(own || of_subquery.iter().any(|column| matches!(column, Expr::Column(_))))
    })?;
    Ok(!names)
}
