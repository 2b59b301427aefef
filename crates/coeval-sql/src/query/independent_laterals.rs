// SPDX-License-Identifier: Apache-2.0
//! LATERAL subqueries that no longer depend on the tables before them.
//!
//! A rule may find that a subquery has no rows, as one with `u.a = t.a AND false`, and what named columns of the tables before it goes
//! with all else. DataFusion makes joins of those that name some, and has no physical plan for the others. What is left of such a one
//! is an input of its join like any other.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// The rule. To come behind the one that makes joins of LATERAL subqueries.
#[derive(Debug)]
pub(crate) struct IndependentLaterals;

impl OptimizerRule for IndependentLaterals {
    fn name(&self) -> &'static str {
        "coeval_independent_laterals"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        // Most plans have none, and need not be taken apart.
        if !has_lateral(&plan)? {
            return Ok(Transformed::no(plan));
        }
        plan.transform_down_with_subqueries(|node| node.map_children(independent))
    }
}

/// The input of a plan: what is left of a LATERAL subquery, or what it is. A subquery in an expression is the input of none, and stays one.
fn independent(input: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match input {
        LogicalPlan::Subquery(lateral) if !names_outer(&lateral.subquery)? => {
            Ok(Transformed::yes(Arc::unwrap_or_clone(lateral.subquery)))
        }
        input => Ok(Transformed::no(input)),
    }
}

fn has_lateral(plan: &LogicalPlan) -> Result<bool> {
    exists(plan, |node| node.inputs().iter().any(|input| matches!(input, LogicalPlan::Subquery(_))))
}

/// Whether a plan, or a subquery of it, names columns of queries around it.
fn names_outer(plan: &LogicalPlan) -> Result<bool> {
    exists(plan, LogicalPlan::contains_outer_reference)
}

fn exists(plan: &LogicalPlan, test: impl Fn(&LogicalPlan) -> bool) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = test(node);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}
