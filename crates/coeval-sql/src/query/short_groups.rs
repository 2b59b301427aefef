// SPDX-License-Identifier: Apache-2.0
//! Texts that follow from a key beside them are no keys of groups.
//!
//! In `SELECT id, name, count(*) FROM t GROUP BY id, name` the name follows from the key: all rows of a group have the same. Grouped by as
//! well, it would be hashed and compared for each row, and keep the operators from which groups by integers are quicker. So it is
//! any value of the group:
//!
//! ```text
//! Aggregate [id, name] [count(*)]  ->  Projection [id, any AS name, count(*)]
//!                                        Aggregate [id] [count(*), coeval_any(name) AS any]
//! ```
//! It is done if nothing but integers, dates and times is left to group by, of a table by itself and of inner and semi joins, and if the
//! groups are estimated to be many: few of them are found by codes of their values, of whatever type.

use super::group_values::is_of_sets;
use super::join_order::{Cluster, is_inner_join};
use super::joined_tables::JoinedTables;
use super::typing::any_of_group;
use crate::carried::Carry;
use crate::plan_rule::SwitchedOff;
use crate::provider::CoevalTable;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, JoinType, LogicalPlan, Projection};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// The setting that switches it off.
pub(super) const SHORT_GROUPS_SETTING: &str = "coeval.short_groups";

/// Fewer groups are found by codes.
const GROUPS_MIN: f64 = 10_000.0;

/// With fewer relations there is no join.
const RELATIONS_MIN: usize = 2;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ShortGroups;

impl OptimizerRule for ShortGroups {
    fn name(&self) -> &'static str {
        "coeval_short_groups"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
        match short(aggregate, config)? {
            Some(plan) => Ok(Transformed::yes(plan)),
            None => Ok(Transformed::no(plan)),
        }
    }
}

/// Whether values of this type are compared as numbers, so that groups by several of them may be told by one.
pub(super) fn is_short(ty: &DataType) -> bool {
    ty.is_signed_integer()
        || matches!(
            ty,
            DataType::Date32
                | DataType::Timestamp(..)
                | DataType::Time64(TimeUnit::Microsecond | TimeUnit::Nanosecond)
        )
}

/// The aggregate with nothing but short values to group by; `None` if others do not follow from them, or it does not pay.
fn short(aggregate: &Aggregate, config: &dyn OptimizerConfig) -> Result<Option<LogicalPlan>> {
    let schema = aggregate.input.schema();
    // Where nothing is aggregated, the first groups may be enough for a LIMIT.
    if is_of_sets(aggregate) || aggregate.aggr_expr.is_empty() {
        return Ok(None);
    }
    let mut is_long = Vec::with_capacity(aggregate.group_expr.len());
    for value in &aggregate.group_expr {
        is_long.push(!is_short(&value.get_type(schema)?));
    }
    let has_both = is_long.contains(&true) && is_long.contains(&false);
    if !has_both || is_off(config) || has_rows_elsewhere(&aggregate.input)? {
        return Ok(None);
    }
    let rows = joined_rows(&aggregate.input);
    let is_gain = if is_inner_join(rows) {
        let Some(cluster) = Cluster::of(rows, RELATIONS_MIN)? else { return Ok(None) };
        let tables = JoinedTables::of_cluster(&cluster, config)?;
        follow(aggregate, &is_long, &tables)
            && cluster.sizes(config)?.rows() >= GROUPS_MIN
            && are_many(aggregate, &is_long, &tables, config)?
    } else if !matches!(rows, LogicalPlan::TableScan(_) | LogicalPlan::SubqueryAlias(_)) {
        false
    } else {
        let tables = JoinedTables::of_table(rows, config);
        follow(aggregate, &is_long, &tables)
            && tables.relations[0].rows >= GROUPS_MIN
            && are_many(aggregate, &is_long, &tables, config)?
    };
    if !is_gain {
        return Ok(None);
    }
    let plan = grouped(aggregate, &is_long, config)?;
    Ok(plan.schema().logically_equivalent_names_and_types(&aggregate.schema).then_some(plan))
}

fn is_off(config: &dyn OptimizerConfig) -> bool {
    let options = config.options();
    SwitchedOff::carried_by(&options).is_some_and(|off| off.0.contains(&SHORT_GROUPS_SETTING))
}

/// Whether a plan reads tables whose rows are on other nodes, which know no function of ours.
fn has_rows_elsewhere(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| {
        let LogicalPlan::TableScan(scan) = node else { return Ok(false) };
        let Ok(provider) = source_as_provider(&scan.source) else { return Ok(false) };
        Ok(provider.downcast_ref::<CoevalTable>().is_some_and(|table| table.def().is_spread()))
    })
}

/// What the rows are of that come through filters and semi joins: they are some of its rows, each once.
fn joined_rows(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::Filter(filter) => joined_rows(&filter.input),
        LogicalPlan::Join(join) if matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti) => {
            joined_rows(&join.left)
        }
        LogicalPlan::Join(join) if matches!(join.join_type, JoinType::RightSemi | JoinType::RightAnti) => {
            joined_rows(&join.right)
        }
        LogicalPlan::Projection(projection)
            if !is_inner_join(plan)
                && projection.expr.iter().all(|value| matches!(value, Expr::Column(_))) =>
        {
            joined_rows(&projection.input)
        }
        plan => plan,
    }
}

/// Whether all long values follow from the short ones.
fn follow(aggregate: &Aggregate, is_long: &[bool], tables: &JoinedTables<'_>) -> bool {
    let place = |value: &Expr| match value {
        Expr::Column(column) => tables.place(column),
        _ => None,
    };
    let mut values = aggregate.group_expr.iter().zip(is_long);
    let short = values.clone().filter(|(_, is_long)| !**is_long);
    let known = tables.with_followers(short.filter_map(|(value, _)| place(value)).collect());
    values.all(|(value, is_long)| !is_long || tables.is_told_by(value, &known))
}

/// Whether the short values are estimated to make many groups.
fn are_many(
    aggregate: &Aggregate,
    is_long: &[bool],
    tables: &JoinedTables<'_>,
    config: &dyn OptimizerConfig,
) -> Result<bool> {
    let mut groups = 1.0;
    for (value, _) in aggregate.group_expr.iter().zip(is_long).filter(|(_, is_long)| !**is_long) {
        let Expr::Column(column) = value else { continue };
        if let Some(place) = tables.place(column)
            && let Some(values) = tables.values_of(place, config)?
        {
            groups *= values;
        }
    }
    Ok(groups >= GROUPS_MIN)
}

/// The groups by short values, with any of the long ones, under the names of the aggregate.
fn grouped(aggregate: &Aggregate, is_long: &[bool], config: &dyn OptimizerConfig) -> Result<LogicalPlan> {
    let (mut groups, mut values) = (Vec::new(), aggregate.aggr_expr.clone());
    let columns = aggregate.schema.columns();
    let mut outputs: Vec<Expr> = columns.into_iter().map(Expr::Column).collect();
    for (place, (value, is_long)) in aggregate.group_expr.iter().zip(is_long).enumerate() {
        if !is_long {
            groups.push(value.clone());
            continue;
        }
        let name = config.alias_generator().next("coeval_any");
        let (qualifier, field) = aggregate.schema.qualified_field(place);
        outputs[place] =
            Expr::Column(Column::from_name(&name)).alias_qualified(qualifier.cloned(), field.name());
        values.push(any_of_group(value.clone().unalias()).alias(name));
    }
    let groups = Aggregate::try_new(Arc::clone(&aggregate.input), groups, values)?;
    let groups = Arc::new(LogicalPlan::Aggregate(groups));
    Ok(LogicalPlan::Projection(Projection::try_new(outputs, groups)?))
}

#[cfg(test)]
mod tests;
