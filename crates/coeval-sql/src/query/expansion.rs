// SPDX-License-Identifier: Apache-2.0
//! Expressions that would become many times as large when the plan is made.
//!
//! `x BETWEEN a AND b` becomes two comparisons of `x`, `coalesce(a, b)` a CASE that names `a` twice, and `x IN (a, b)` a comparison of `x`
//! with each member that is no constant, those within first. Of forty within each other, a text of some hundred letters, that is an
//! expression of a million million parts. So how large one becomes is counted before.

use super::typing::is_constant_member;
use crate::error::{SqlError, SqlState};
use crate::stack::with_room;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// An expression may become so large in any case: it is planned in about a second.
const PARTS_MAX: usize = 80_000;

/// One that is longer may become so many times as large.
const TIMES_MAX: usize = 8;

/// The plan, whose expressions do not become too large. Costs a walk over them.
///
/// # Errors
/// `54001`.
pub(super) fn bounded(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            refuse_too_large(expression)?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(plan)
}

/// Refuses an expression that would become too large.
///
/// # Errors
/// `54001`.
pub(super) fn refuse_too_large(expression: &Expr) -> Result<()> {
    // As if all were within each other, which costs less to know.
    let (mut parts, mut times) = (0_usize, 1_usize);
    expression.apply(|part| {
        parts += 1;
        times = times.saturating_mul(copies(part).times);
        Ok(TreeNodeRecursion::Continue)
    })?;
    if parts.saturating_mul(times) <= PARTS_MAX
        || parts_at_last(expression)? <= PARTS_MAX.max(parts.saturating_mul(TIMES_MAX))
    {
        return Ok(());
    }
    let message = "BETWEEN, IN or calls of coalesce are nested too deeply";
    let error = SqlError::new(SqlState::StatementTooComplex, message);
    Err(error.with_hint("Compute inner ones in a subquery in FROM.").into())
}

/// What becomes of an expression's first operands.
struct Copies {
    /// So many of them
    operands: usize,
    /// are written so many times.
    times: usize,
}

fn copies(expression: &Expr) -> Copies {
    match expression {
        Expr::Between(_) => Copies { operands: 1, times: 2 },
        Expr::InList(list) => {
            let others = list.list.iter().filter(|member| !is_constant_member(member)).count();
            Copies { operands: usize::from(others > 0), times: others + 1 }
        }
        Expr::ScalarFunction(call) => match call.name() {
            // Written twice, and looked at twice for whether it may be NULL.
            "coalesce" | "ifnull" | "nvl" => Copies { operands: call.args.len().saturating_sub(1), times: 4 },
            "nullif" => Copies { operands: 1, times: 2 },
            _ => Copies { operands: 0, times: 1 },
        },
        _ => Copies { operands: 0, times: 1 },
    }
}

/// How many parts an expression comes to have.
fn parts_at_last(expression: &Expr) -> Result<usize> {
    with_room(|| {
        let Copies { operands: mut left, times } = copies(expression);
        let mut parts = 1_usize;
        expression.apply_children(|operand| {
            let times = if left > 0 { times } else { 1 };
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
    use arrow::datatypes::DataType;
    use datafusion::functions::core;
    use datafusion::logical_expr::{cast, col, lit};

    fn coalesce(arguments: Vec<Expr>) -> Expr {
        core::coalesce().call(arguments)
    }

    #[test]
    fn what_doubles_at_each_level_is_refused_and_what_stands_side_by_side_is_not() {
        let nested =
            |levels: usize| (0..levels).fold(col("a"), |inner, _| coalesce(vec![inner + lit(1), lit(0)]));
        assert!(refuse_too_large(&nested(7)).is_ok());
        assert!(refuse_too_large(&nested(40)).is_err());
        let between = (0..40).fold(col("a"), |inner, _| inner.between(lit(false), lit(true)));
        assert!(refuse_too_large(&between).is_err());
        let among = (0..40).fold(col("a"), |inner, _| inner.in_list(vec![col("b"), lit(1)], false));
        assert!(refuse_too_large(&among).is_err());
        let last = (0..40).fold(col("a"), |inner, _| coalesce(vec![col("b"), inner]));
        assert!(refuse_too_large(&last).is_ok());
        assert!(refuse_too_large(&coalesce(vec![col("a").between(lit(1), lit(2)); 1_000])).is_ok());
    }

    /// Parameters and constants that are cast stay in the list, however many they are.
    #[test]
    fn what_is_looked_for_among_constants_is_written_once() {
        let sum = (0..40).fold(col("a"), |sum, _| sum + lit(1));
        let constants = (0..20_000).map(|number| cast(lit(number), DataType::Int64)).collect();
        assert!(refuse_too_large(&sum.clone().in_list(constants, false)).is_ok());
        assert!(refuse_too_large(&sum.in_list(vec![col("b"); 20_000], false)).is_err());
    }
}
