// SPDX-License-Identifier: Apache-2.0
//! Expressions that would become many times as large when the plan is made better.
//!
//! DataFusion writes `x BETWEEN a AND b` as two comparisons of `x`, and `coalesce(a, b)` as a CASE that names `a` twice, those within
//! first. Of forty within each other, a text of some hundred letters, that is an expression of a million million parts. So how large
//! one becomes is counted before.

use crate::error::{SqlError, SqlState};
use crate::stack::with_room;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::analyzer::AnalyzerRule;

/// Fewer such calls and tests make no more than some hundred times of an expression.
const CALLS_MIN: usize = 8;

/// An expression may become so large in any case.
const PARTS_MAX: usize = 500_000;

/// One that is longer may become so many times as large.
const TIMES_MAX: usize = 8;

/// Refuses plans with expressions that would become too large.
#[derive(Debug)]
pub(crate) struct BoundedExpansion;

impl AnalyzerRule for BoundedExpansion {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expression| {
                refuse_too_large(expression)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(plan)
    }

    fn name(&self) -> &'static str {
        "coeval_bounded_expansion"
    }
}

/// Refuses an expression that would become too large.
///
/// # Errors
/// `54001`.
pub(super) fn refuse_too_large(expression: &Expr) -> Result<()> {
    let (mut parts, mut calls) = (0_usize, 0_usize);
    expression.apply(|part| {
        parts += 1;
        calls += usize::from(written_twice(part) > 0);
        Ok(TreeNodeRecursion::Continue)
    })?;
    if calls < CALLS_MIN || parts_at_last(expression)? <= PARTS_MAX.max(parts.saturating_mul(TIMES_MAX)) {
        return Ok(());
    }
    let message = "calls of coalesce or BETWEEN are nested too deeply";
    let error = SqlError::new(SqlState::StatementTooComplex, message);
    Err(error.with_hint("Compute inner ones in a subquery in FROM.").into())
}

/// How many of an expression's operands, the first ones, are written twice.
fn written_twice(expression: &Expr) -> usize {
    match expression {
        Expr::Between(_) => 1,
        Expr::ScalarFunction(call) if matches!(call.name(), "coalesce" | "ifnull" | "nvl") => {
            call.args.len().saturating_sub(1)
        }
        _ => 0,
    }
}

/// How many parts an expression comes to have.
fn parts_at_last(expression: &Expr) -> Result<usize> {
    with_room(|| {
        let (mut parts, mut left) = (1_usize, written_twice(expression));
        expression.apply_children(|operand| {
            let times = if left > 0 { 2 } else { 1 };
            left = left.saturating_sub(1);
            parts = parts.saturating_add(parts_at_last(operand)?.saturating_mul(times));
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(parts)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::functions::core;
    use datafusion::logical_expr::{col, lit};

    fn coalesce(arguments: Vec<Expr>) -> Expr {
        core::coalesce().call(arguments)
    }

    #[test]
    fn what_doubles_at_each_level_is_refused_and_what_stands_side_by_side_is_not() {
        let nested =
            |levels: usize| (0..levels).fold(col("a"), |inner, _| coalesce(vec![inner + lit(1), lit(0)]));
        assert!(refuse_too_large(&nested(10)).is_ok());
        assert!(refuse_too_large(&nested(40)).is_err());
        let between = (0..40).fold(col("a"), |inner, _| inner.between(lit(false), lit(true)));
        assert!(refuse_too_large(&between).is_err());
        let last = (0..40).fold(col("a"), |inner, _| coalesce(vec![col("b"), inner]));
        assert!(refuse_too_large(&last).is_ok());
        assert!(refuse_too_large(&coalesce(vec![col("a").between(lit(1), lit(2)); 1_000])).is_ok());
    }
}
