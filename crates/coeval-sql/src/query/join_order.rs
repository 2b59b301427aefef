// SPDX-License-Identifier: Apache-2.0
//! The order of inner joins, by estimated cost instead of by the order of names in FROM.
//!
//! DataFusion joins tables in the order in which they are named (it only swaps the two sides of a join), so that
//! an unlucky FROM makes large intermediate results, or even a cross join that no predicate asked for. This rule
//! takes each cluster of inner joins apart into relations and predicates (`cluster`), estimates rows and distinct
//! values in the statement's snapshot (`estimate`), searches for the cheapest tree of joins (`search`), and puts
//! the plan together again.
//!
//! It stands where DataFusion's `EliminateCrossJoin` stood, which it calls first: that finds join keys inside of
//! OR. It runs in each pass of the optimizer, so that the order it decides is the order that stays.

mod cluster;
mod estimate;
mod search;

use crate::stack::with_room;
pub(super) use cluster::{Cluster, Parts, is_inner_join};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
pub(super) use estimate::Relation;

/// With fewer relations there is nothing to order but the two sides, which DataFusion does.
const RELATIONS_MIN: usize = 3;

/// Orders inner joins by cost.
#[derive(Debug, Default)]
pub(crate) struct JoinOrder {
    keys: EliminateCrossJoin,
}

impl OptimizerRule for JoinOrder {
    fn name(&self) -> &'static str {
        "coeval_join_order"
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let with_keys = self.keys.rewrite(plan, config)?;
        let was_changed = with_keys.transformed;
        let mut ordered = order(with_keys.data, config)?;
        ordered.transformed |= was_changed;
        Ok(ordered)
    }
}

/// Orders the clusters of a plan, from the root down.
fn order(plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    with_room(|| order_here(plan, config))
}

fn order_here(plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let is_cluster = match &plan {
        LogicalPlan::Filter(filter) => is_inner_join(&filter.input),
        plan => is_inner_join(plan),
    };
    if is_cluster && let Some(cluster) = Cluster::of(&plan, RELATIONS_MIN, config)? {
        let tree = search::cheapest(cluster.sizes());
        let plan = cluster.joined(&tree, plan.schema(), &mut |relation| {
            order(relation, config).map(|ordered| ordered.data)
        })?;
        return Ok(Transformed::yes(plan));
    }
    let plan = plan.map_uncorrelated_subqueries(|plan| order(plan, config))?;
    let plan = plan.transform_sibling(|plan| plan.map_children(|child| order(child, config)))?;
    if plan.transformed { plan.map_data(LogicalPlan::recompute_schema) } else { Ok(plan) }
}

#[cfg(test)]
mod tests;
