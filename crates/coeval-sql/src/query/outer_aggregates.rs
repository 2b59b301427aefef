// SPDX-License-Identifier: Apache-2.0
//! Aggregates that belong to the query around the subquery in which they are written.
//!
//! `SELECT (SELECT sum(t.x)) FROM t` gives one row: an aggregate belongs to the innermost query that has a column which it
//! names. DataFusion computes it in the subquery, for each row of `t`, so it is refused.

use super::dialect::OR_EMPTY;
use super::join_conditions::subquery_of;
use crate::error::SqlError;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Refuses a plan with subqueries that name columns of the query around them, and no others, in an aggregate.
///
/// # Errors
/// `0A000`.
pub(super) fn refuse_outer_aggregates(plan: &LogicalPlan) -> Result<()> {
    plan.apply(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                if let Some(inner) = subquery_of(part) {
                    if !makes_array(inner) {
                        refuse_in(inner)?;
                    }
                    refuse_outer_aggregates(inner)?;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })
    .map(|_| ())
}

/// Whether a subquery is what became of `ARRAY(SELECT ...)`, whose aggregate nobody has written.
fn makes_array(subquery: &LogicalPlan) -> bool {
    let LogicalPlan::Projection(projection) = subquery else { return false };
    let is_of_array = |part: &Expr| Ok(matches!(part, Expr::ScalarFunction(call) if call.name() == OR_EMPTY));
    // Nothing in the search fails.
    projection.expr.iter().any(|output| output.exists(is_of_array).unwrap_or_default())
}

fn refuse_in(subquery: &LogicalPlan) -> Result<()> {
    subquery
        .apply(|node| {
            if let LogicalPlan::Aggregate(aggregate) = node
                && aggregate.aggr_expr.iter().any(is_of_outer)
            {
                return Err(SqlError::unsupported("an aggregate of columns of the query around a subquery")
                    .with_hint(
                        "Write the aggregate outside of the subquery, or name it in a subquery in FROM.",
                    )
                    .into());
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .map(|_| ())
}

/// Whether all columns that an aggregate names are of a query further out.
fn is_of_outer(aggregate: &Expr) -> bool {
    let (mut outer, mut own) = (false, false);
    // Nothing in the visit fails.
    let _ = aggregate.apply(|part| {
        outer |= matches!(part, Expr::OuterReferenceColumn(..));
        own |= matches!(part, Expr::Column(_)) || subquery_of(part).is_some();
        Ok(TreeNodeRecursion::Continue)
    });
    outer && !own
}
