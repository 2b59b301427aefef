// SPDX-License-Identifier: Apache-2.0
//! Schemas of recursive queries, made anew when their expressions stand.
//!
//! A rule may give an expression that has lost a mark of its type: `coalesce(a, b)` of object ids becomes a CASE, which knows of none. The
//! schema of its node still has the mark. Nobody minds but the two terms of a recursive query, whose columns DataFusion compares with all
//! that is said of them when it makes a physical plan.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The rule. To come last.
#[derive(Debug)]
pub(crate) struct RecursiveSchemas;

impl OptimizerRule for RecursiveSchemas {
    fn name(&self) -> &'static str {
        "coeval_recursive_schemas"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !plan.exists(|node| Ok(matches!(node, LogicalPlan::RecursiveQuery(_))))? {
            return Ok(Transformed::no(plan));
        }
        plan.transform_up(|node| node.recompute_schema().map(Transformed::yes))
    }
}
