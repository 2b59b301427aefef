// SPDX-License-Identifier: Apache-2.0
//! Grouping in one step, after the exchange between threads, for aggregates that keep all their input.
//!
//! DataFusion groups twice: before rows are exchanged between threads, and after. For an array or a text of all values the
//! first step saves nothing, and its few rows together are as large as the table. The exchange gathers rows until it has a batch
//! of them, however large they are, and counts none of that memory; so the whole table would be in memory beside what the
//! query is allowed. With this rule the rows themselves are exchanged, and grouped once.

use crate::functions::ORDERED_SET;
use crate::plan_rule::PlanRule;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use std::sync::Arc;

/// Functions whose states are as large as what they were given.
const KEEP_ALL: [&str; 3] = ["array_agg", "string_agg", ORDERED_SET];

/// The rule. Behind those that divide the work among threads.
pub(crate) const WHOLE_GROUPS: PlanRule =
    PlanRule::new("coeval_whole_groups", |plan, _| plan.transform_up(grouped_once).map(|done| done.data))
        .about(|node| node.is::<RepartitionExec>());

fn grouped_once(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    Ok(match in_one_step(node.as_ref())? {
        Some(grouped) => Transformed::yes(Arc::new(grouped) as _),
        None => Transformed::no(node),
    })
}

/// The second step of a grouping, as the only one; `None` if it is to have two.
fn in_one_step(node: &dyn ExecutionPlan) -> Result<Option<AggregateExec>> {
    let Some(last) = node.downcast_ref::<AggregateExec>() else { return Ok(None) };
    let Some(exchange) = last.input().downcast_ref::<RepartitionExec>() else { return Ok(None) };
    let Some(first) = exchange.input().downcast_ref::<AggregateExec>() else { return Ok(None) };
    let Partitioning::Hash(_, partitions) = exchange.partitioning() else { return Ok(None) };
    let are_halves = *last.mode() == AggregateMode::FinalPartitioned
        && *first.mode() == AggregateMode::Partial
        && last.limit_options().is_none()
        && first.limit_options().is_none();
    let is_kept = |aggregate: &AggregateFunctionExpr| KEEP_ALL.contains(&aggregate.fun().name());
    let keeps_all = first.aggr_expr().iter().any(|aggregate| is_kept(aggregate));
    // Whose order matters stays where the order is; what is kept is ordered only when all of it is there.
    let has_order = *first.input_order_mode() != InputOrderMode::Linear
        || first.aggr_expr().iter().any(|aggregate| !aggregate.order_bys().is_empty() && !is_kept(aggregate));
    if !are_halves || !keeps_all || has_order || !first.group_expr().is_single() {
        return Ok(None);
    }
    let groups = Partitioning::Hash(first.group_expr().input_exprs(), *partitions);
    let rows = RepartitionExec::try_new(undivided(first.input()), groups)?;
    let grouped = AggregateExec::try_new(
        AggregateMode::SinglePartitioned,
        first.group_expr().clone(),
        first.aggr_expr().to_vec(),
        first.filter_expr().to_vec(),
        Arc::new(rows),
        first.input_schema(),
    )?;
    // Types and names are those that the plan above knows.
    Ok(Some(grouped).filter(|grouped| grouped.schema() == last.schema()))
}

/// The plan without an exchange at its top that only divides the work.
fn undivided(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.downcast_ref::<RepartitionExec>() {
        Some(exchange) if matches!(exchange.partitioning(), Partitioning::RoundRobinBatch(_)) => {
            Arc::clone(exchange.input())
        }
        _ => Arc::clone(plan),
    }
}

#[cfg(test)]
mod tests;
