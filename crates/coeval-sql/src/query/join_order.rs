// SPDX-License-Identifier: Apache-2.0
//! The order of inner joins, by estimated cost instead of by the order of names in FROM.
//!
//! DataFusion joins tables in the order in which they are named (it only swaps the two sides of a join), so that
//! an unlucky FROM makes large intermediate results, or even a cross join that no predicate asked for. This rule
//! takes each cluster of inner joins apart into relations and predicates (`cluster`), estimates rows and distinct
//! values in the statement's snapshot (`estimate`), searches for the cheapest tree of joins (`search`), and puts
//! the plan together again.
//!
//! It stands where DataFusion's `EliminateCrossJoin` stood, which it calls where that may find join keys (`keys`). It runs in
//! each pass of the optimizer, so that the order it decides is the order that stays; what is in that order already stays as it is.

mod cluster;
mod estimate;
mod keys;
mod search;

use crate::stack::with_room;
pub(super) use cluster::{Cluster, Parts, Place, is_inner_join};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
pub(super) use estimate::{Relation, named_values};
pub(super) use search::{Set, Sizes};

/// With fewer relations there is nothing to order but the two sides, which DataFusion does.
const RELATIONS_MIN: usize = 3;

/// Orders inner joins by cost.
#[derive(Debug)]
pub(crate) struct JoinOrder;

impl OptimizerRule for JoinOrder {
    fn name(&self) -> &'static str {
        "coeval_join_order"
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if has_join(&plan)? { order(plan, config) } else { Ok(Transformed::no(plan)) }
    }
}

/// Whether there is a join anywhere in a plan.
fn has_join(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = matches!(node, LogicalPlan::Join(_));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Orders the clusters of a plan, from the root down.
fn order(plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    with_room(|| {
        if !is_cluster(&plan) {
            return order_below(plan, config);
        }
        keys::out_of_branches(plan, config)?.transform_data(|plan| match is_cluster(&plan) {
            true => order_cluster(plan, config),
            false => order_below(plan, config),
        })
    })
}

fn is_cluster(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => is_inner_join(&filter.input),
        plan => is_inner_join(plan),
    }
}

fn order_cluster(plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let Some(cluster) = Cluster::of(&plan, RELATIONS_MIN)? else {
        return keys::out_of_filters(plan, config)?.transform_data(|plan| order_below(plan, config));
    };
    let tree = search::cheapest(&cluster.sizes(config)?, cluster::tree_of(&plan, &mut 0));
    if cluster.is_joined_by(&tree, &plan)? {
        return order_relations(plan, config);
    }
    let plan = cluster
        .joined(&tree, plan.schema(), &mut |relation| order(relation, config).map(|ordered| ordered.data))?;
    Ok(Transformed::yes(plan))
}

/// Orders the clusters within the relations of one that is in order.
fn order_relations(plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    if !is_inner_join(&plan) {
        return order(plan, config);
    }
    let plan = with_room(|| plan.map_children(|child| order_relations(child, config)))?;
    if plan.transformed { plan.map_data(LogicalPlan::recompute_schema) } else { Ok(plan) }
}

/// Orders the clusters below the root of a plan, and in its subqueries.
fn order_below(plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let plan = plan.map_uncorrelated_subqueries(|plan| order(plan, config))?;
    let plan = plan.transform_sibling(|plan| plan.map_children(|child| order(child, config)))?;
    if plan.transformed { plan.map_data(LogicalPlan::recompute_schema) } else { Ok(plan) }
}

#[cfg(test)]
mod tests;
