// SPDX-License-Identifier: Apache-2.0
//! Joins and sorts of arrays without bounds of what is worth reading.
//!
//! A hash join hands the least and greatest key of one side to the other side, and a sort with a limit drops what is behind
//! the last row that it keeps. Both are filters that change while the query runs. DataFusion finds such bounds with elements
//! that are NULL above all others, as PostgreSQL orders arrays, and compares with NULL below them. Rows would be lost.
//!
//! So a join by arrays gets a filter that nobody reads, in which case it makes none, and a sort by them sorts all rows, with
//! the limit above it. This comes right before filters are handed down.

use crate::plan_rule::PlanRule;
use crate::types::has_elements;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, lit};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use std::sync::Arc;

/// The rule.
pub(crate) const ARRAY_BOUNDS: PlanRule =
    PlanRule::new("coeval_array_bounds", |plan, _| plan.transform_up(unbounded).map(|done| done.data))
        .about(|node| node.is::<HashJoinExec>() || node.is::<SortExec>());

fn unbounded(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let unbounded = match unbounded_join(node.as_ref())? {
        Some(join) => Some(join),
        None => unbounded_sort(node.as_ref()),
    };
    Ok(unbounded.map_or_else(|| Transformed::no(node), Transformed::yes))
}

/// Whether a value of an input has elements.
fn is_divisible(value: &Arc<dyn PhysicalExpr>, input: &Arc<dyn ExecutionPlan>) -> bool {
    value.data_type(&input.schema()).is_ok_and(|data_type| has_elements(&data_type))
}

/// A join by arrays, with a filter that is in no plan; `None` if it is another node.
fn unbounded_join(node: &dyn ExecutionPlan) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(None) };
    if !join.on().iter().any(|(_, key)| is_divisible(key, join.right())) {
        return Ok(None);
    }
    let unread = Arc::new(DynamicFilterPhysicalExpr::new(Vec::new(), lit(true)));
    let join = join.builder().build()?.with_dynamic_filter_expr(unread)?;
    Ok(Some(Arc::new(join)))
}

/// A sort by arrays that keeps all rows, under its limit; `None` if it is another node.
fn unbounded_sort(node: &dyn ExecutionPlan) -> Option<Arc<dyn ExecutionPlan>> {
    let sort = node.downcast_ref::<SortExec>()?;
    let fetch = sort.fetch()?;
    if !sort.expr().iter().any(|key| is_divisible(&key.expr, sort.input())) {
        return None;
    }
    Some(Arc::new(LocalLimitExec::new(Arc::new(sort.with_fetch(None)), fetch)))
}
