// SPDX-License-Identifier: Apache-2.0
//! Joins that come behind an aggregate.
//!
//! `SELECT c.id, c.name, sum(o.total) FROM orders o JOIN customers c ON c.id = o.customer GROUP BY c.id, c.name` looks up a customer for
//! each order, and compares names to find the groups. A group is told by the customer's number, which each order has. So the orders are
//! grouped by it, and each group looks up its customer:
//!
//! ```text
//! Aggregate [c.id, c.name] [sum(o.total)]  ->  Projection [c.id, c.name, sum(o.total)]
//!   Join o.customer = c.id                       Join o.customer = c.id
//!     o                                            Aggregate [o.customer] [sum(o.total)]
//!     c                                              o
//!                                                  c
//! ```
//! It is the lazy aggregation of Yan and Larson (*Eager Aggregation and Lazy Aggregation*, VLDB 1995) read from right to left.
//!
//! # Why it is the same
//! A table comes behind the aggregate if nothing of it is aggregated, and if it is joined by equations alone, by all columns of
//! one of its keys. What it is joined with is among what is grouped by below, so that all rows of a group have the same partner, at
//! most one, or none: then the group is missing, as its rows were. And it follows from what is grouped by above (`joined_tables`), so the
//! groups are not divided further than they were. Which tables these are is found out in `choice`.
//!
//! What is aggregated is now computed of rows that have no partner, too, so neither it nor its sum may fail (`unfailing`, `digits`). What is
//! grouped by and computed of the table is computed behind.
//!
//! And conditions on what is aggregated are asked of groups that have no partner, as DataFusion puts them below joins. So the groups are not
//! finished before a join below one that might fail, wherever it stands (`conditions`; of quotients, `reach`). What is selected or sorted by
//! is computed behind, and may.
//!
//! # In two steps
//! Where the groups do not tell the number (`GROUP BY c.name`), the orders can be grouped by it all the same, and the groups that have found
//! their customers are grouped once more by the names, where sums become sums of sums. That needs aggregates that can be put together again
//! (`eager_aggregation`, which does the same for a single table). Conditions are asked of the groups that are found last, which all have
//! their customer, so they may fail.
//!
//! So it is where they are grouped by several sets (ROLLUP, CUBE, GROUPING SETS), even if each of these told the number: the second step alone is
//! by the sets, of groups that are the same for all of them.
//!
//! # When it is done
//! If the tables are estimated to have a partner for nearly all rows, and there are fewer groups than rows, or no texts of theirs to group
//! by any more; in two steps, if there are a good deal fewer groups than rows. Joins that let little through are better done first.
//!
//! Rows are those that the joins before the aggregate are estimated to give, where a filter of a table counts by what it leaves of what is
//! looked up there (`JoinedTables::partners_beyond_chance`). Groups are as many as there are values of what is grouped by, in each column
//! those that its filters leave, and by columns of one table no more than it has rows (`JoinedTables::combinations_left`).

mod choice;
mod conditions;
mod digits;
mod nonzero;
mod reach;
mod unfailing;

use super::eager_aggregation::{Call, merged, part_names};
use super::group_values::is_of_sets;
use super::join_order::{Cluster, is_inner_join};
use crate::carried::Carry;
use crate::plan_rule::SwitchedOff;
use crate::stack::with_room;
use choice::{Behind, Steps, Tables};
use conditions::Conditions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinConstraint, NullEquality, Result};
use datafusion::logical_expr::{Aggregate, Join, JoinType, LogicalPlan, Projection};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
pub(super) use digits::digits_before;
use std::sync::Arc;
pub(super) use unfailing::cannot_fail;

/// The setting that switches it off.
pub(super) const LATE_JOINS_SETTING: &str = "coeval.late_joins";

/// With fewer relations there is nothing to be joined behind.
const RELATIONS_MIN: usize = 2;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LateJoins;

impl OptimizerRule for LateJoins {
    fn name(&self) -> &'static str {
        "coeval_late_joins"
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if is_off(config) || !has_candidate(&plan)? {
            return Ok(Transformed::no(plan));
        }
        with_late_joins(plan, &Conditions::default(), config)
    }
}

fn is_candidate(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Aggregate(aggregate) if is_inner_join(&aggregate.input))
}

/// Whether there is an aggregate of joined rows anywhere in a plan.
fn has_candidate(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = is_candidate(node);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The plan of a query whose rows these conditions ask for, with late joins. While LATERAL subqueries are in it that may become conditions of
/// what is beside them, there are none.
fn with_late_joins(
    plan: LogicalPlan,
    above: &Conditions,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    if plan.exists(|node| Ok(matches!(node, LogicalPlan::Subquery(_))))? {
        return Ok(Transformed::no(plan));
    }
    late_below(plan, above, config)
}

/// The same of a part of a plan.
fn late_below(
    plan: LogicalPlan,
    above: &Conditions,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    // A good part of a plan are joins of tables, below which there is no aggregate: they need not be taken apart.
    if matches!(plan, LogicalPlan::Join(_)) && !has_candidate(&plan)? {
        return Ok(Transformed::no(plan));
    }
    with_room(|| {
        let found = match &plan {
            LogicalPlan::Aggregate(aggregate) if is_candidate(&plan) => late(aggregate, above, config)?,
            _ => None,
        };
        let done = found.map_or_else(|| Transformed::no(plan), Transformed::yes);
        done.transform_data(|plan| late_in_inputs(plan, above, config))
    })
}

/// Late joins in the inputs of a node, and in its subqueries.
fn late_in_inputs(
    plan: LogicalPlan,
    above: &Conditions,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let in_query = |query: LogicalPlan| {
        let compared = Conditions::comparing(&query);
        with_late_joins(query, &compared, config)
    };
    let done = plan.map_subqueries(|subquery| subquery.map_children(in_query))?;
    let done = done.transform_sibling(|plan| {
        let mut below = above.below(&plan)?.into_iter();
        plan.map_children(|input| late_below(input, &below.next().unwrap_or_default(), config))
    })?;
    if done.transformed { done.map_data(LogicalPlan::recompute_schema) } else { Ok(done) }
}

fn is_off(config: &dyn OptimizerConfig) -> bool {
    let options = config.options();
    SwitchedOff::carried_by(&options).is_some_and(|off| off.0.contains(&LATE_JOINS_SETTING))
}

/// The aggregate, which these conditions are above, with joins behind it; `None` if there are none that can come there, or it does not pay.
fn late(
    aggregate: &Aggregate,
    above: &Conditions,
    config: &dyn OptimizerConfig,
) -> Result<Option<LogicalPlan>> {
    if aggregate.group_expr.is_empty() || !unfailing::may_come_first(aggregate) {
        return Ok(None);
    }
    let Some(cluster) = Cluster::of(&aggregate.input, RELATIONS_MIN)? else { return Ok(None) };
    let tables = Tables::of(&cluster, aggregate, config)?;
    let of_one_step = match is_of_sets(aggregate) || above.may_fail_of(aggregate)? {
        true => None,
        false => in_one_step(aggregate, &cluster, &tables, config)?,
    };
    match of_one_step {
        Some(plan) => Ok(Some(plan)),
        None => in_two_steps(aggregate, &cluster, &tables, config),
    }
}

fn in_one_step(
    aggregate: &Aggregate,
    cluster: &Cluster,
    tables: &Tables<'_>,
    config: &dyn OptimizerConfig,
) -> Result<Option<LogicalPlan>> {
    let Some(behind) = Behind::of(tables, aggregate, Steps::One, config)? else { return Ok(None) };
    let Some(input) = cluster.joined_alone(&aggregate.input, behind.others())? else { return Ok(None) };
    let grouped = Aggregate::try_new(Arc::new(input), behind.groups(), aggregate.aggr_expr.clone())?;
    let Some(joined) = joined(LogicalPlan::Aggregate(grouped), &behind, cluster, aggregate)? else {
        return Ok(None);
    };
    let outputs = behind.outputs(aggregate);
    let plan = LogicalPlan::Projection(Projection::try_new(outputs, Arc::new(joined))?);
    Ok(plan.schema().logically_equivalent_names_and_types(&aggregate.schema).then_some(plan))
}

fn in_two_steps(
    aggregate: &Aggregate,
    cluster: &Cluster,
    tables: &Tables<'_>,
    config: &dyn OptimizerConfig,
) -> Result<Option<LogicalPlan>> {
    let mut calls = Vec::with_capacity(aggregate.aggr_expr.len());
    for whole in &aggregate.aggr_expr {
        match Call::of(whole, &aggregate.input)? {
            // Once is enough.
            Some(call) if !call.is_of_parts() => calls.push(call),
            _ => return Ok(None),
        }
    }
    let Some(behind) = Behind::of(tables, aggregate, Steps::Two, config)? else { return Ok(None) };
    let Some(input) = cluster.joined_alone(&aggregate.input, behind.others())? else { return Ok(None) };
    let names = part_names(&calls, config);
    let parts = calls.iter().zip(&names).map(|(call, name)| call.part(name)).collect();
    let grouped = Aggregate::try_new(Arc::new(input), behind.groups(), parts)?;
    let Some(joined) = joined(LogicalPlan::Aggregate(grouped), &behind, cluster, aggregate)? else {
        return Ok(None);
    };
    let plan = merged(aggregate, &calls, &names, joined)?;
    Ok(plan.schema().logically_equivalent_names_and_types(&aggregate.schema).then_some(plan))
}

/// The groups joined with what comes behind. `None` if the names of aggregates are those of columns.
fn joined(
    grouped: LogicalPlan,
    behind: &Behind<'_, '_>,
    cluster: &Cluster,
    aggregate: &Aggregate,
) -> Result<Option<LogicalPlan>> {
    let mut plan = grouped;
    for join in behind.joins() {
        let Some(table) = cluster.joined_alone(&aggregate.input, 1 << join.relation)? else {
            return Ok(None);
        };
        if plan.schema().join(table.schema()).is_err() {
            return Ok(None);
        }
        plan = LogicalPlan::Join(Join::try_new(
            Arc::new(plan),
            Arc::new(table),
            behind.on(join),
            None,
            JoinType::Inner,
            JoinConstraint::On,
            NullEquality::NullEqualsNothing,
            false,
        )?);
    }
    Ok(Some(plan))
}

#[cfg(test)]
mod tests;
