// SPDX-License-Identifier: Apache-2.0
//! Aggregates that collect their values take them in the order of the subquery below, as PostgreSQL does:
//! `SELECT array_agg(x) FROM (SELECT x FROM t ORDER BY y)`.
//!
//! DataFusion drops an ORDER BY that nothing asks for. So the aggregate is given the keys, which the subquery gives out beside
//! its own columns where they are none of them.

use super::aggregates::is_collecting;
use crate::query::rewriting::{Below, rewrite_node};
use crate::stack::with_room;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::{Aggregate, Expr, Filter, Limit, LogicalPlan, Projection, SubqueryAlias};
use std::sync::Arc;

/// What a key is called that the subquery does not give out, a name that no query has.
const KEY: &str = "coeval order ";

/// The aggregation with the order of its subquery; all other nodes as they are.
pub(super) fn settle(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = plan else { return Ok(Transformed::no(plan)) };
    if !aggregate.aggr_expr.iter().any(has_no_order) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let Some((input, keys)) = ordered(&aggregate.input)? else {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    };
    let plan = Aggregate::try_new(Arc::new(input), aggregate.group_expr, aggregate.aggr_expr)?;
    let with_keys = |expression: Expr, _: &DFSchema| match expression {
        Expr::AggregateFunction(mut call) if is_collecting(&call) => {
            call.params.order_by.clone_from(&keys);
            Ok(Transformed::yes(Expr::AggregateFunction(call)))
        }
        other => Ok(Transformed::no(other)),
    };
    // Its schema is a new one already.
    let done = rewrite_node(LogicalPlan::Aggregate(plan), Below::Unchanged, is_without_order, &with_keys)?;
    Ok(Transformed::yes(done.data))
}

fn has_no_order(aggregate: &Expr) -> bool {
    // Nothing in the search fails.
    aggregate.exists(|part| Ok(is_without_order(part))).unwrap_or_default()
}

fn is_without_order(part: &Expr) -> bool {
    matches!(part, Expr::AggregateFunction(call) if is_collecting(call))
}

/// The plan with the keys that its rows are ordered by, as columns of it; `None` if they are in no order that was asked for.
fn ordered(plan: &LogicalPlan) -> Result<Option<(LogicalPlan, Vec<Sort>)>> {
    with_room(|| ordered_node(plan))
}

fn ordered_node(plan: &LogicalPlan) -> Result<Option<(LogicalPlan, Vec<Sort>)>> {
    Ok(match plan {
        LogicalPlan::Sort(sort) => Some((plan.clone(), sort.expr.clone())),
        LogicalPlan::Filter(filter) => ordered(&filter.input)?
            .map(|(input, keys)| {
                let filter = Filter::try_new(filter.predicate.clone(), Arc::new(input))?;
                Ok::<_, datafusion::error::DataFusionError>((LogicalPlan::Filter(filter), keys))
            })
            .transpose()?,
        LogicalPlan::Limit(limit) => ordered(&limit.input)?.map(|(input, keys)| {
            (LogicalPlan::Limit(Limit { input: Arc::new(input), ..limit.clone() }), keys)
        }),
        LogicalPlan::Projection(projection) => match ordered(&projection.input)? {
            Some((input, keys)) => Some(projected(projection, input, keys)?),
            None => None,
        },
        LogicalPlan::SubqueryAlias(alias) => match ordered(&alias.input)? {
            Some((input, keys)) => Some(aliased(alias, input, keys)?),
            None => None,
        },
        _ => None,
    })
}

/// A projection that gives out the keys, too.
fn projected(
    projection: &Projection,
    input: LogicalPlan,
    keys: Vec<Sort>,
) -> Result<(LogicalPlan, Vec<Sort>)> {
    let mut outputs = projection.expr.clone();
    let mut places = Vec::with_capacity(keys.len());
    for (number, key) in keys.iter().enumerate() {
        let known = outputs.iter().position(|output| output.clone().unalias() == key.expr);
        places.push(known.unwrap_or_else(|| {
            outputs.push(key.expr.clone().alias(format!("{KEY}{number}")));
            outputs.len() - 1
        }));
    }
    let plan = LogicalPlan::Projection(Projection::try_new(outputs, Arc::new(input))?);
    let keys = at_places(&plan, keys, places);
    Ok((plan, keys))
}

/// A subquery under its name, by which the keys go from there on.
fn aliased(alias: &SubqueryAlias, input: LogicalPlan, keys: Vec<Sort>) -> Result<(LogicalPlan, Vec<Sort>)> {
    let schema = Arc::clone(input.schema());
    let plan = SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?;
    let plan = LogicalPlan::SubqueryAlias(plan);
    let renamed = |key: Sort| {
        let expr = key.expr.transform(|part| match &part {
            Expr::Column(column) => match schema.maybe_index_of_column(column) {
                Some(place) => Ok(Transformed::yes(column_at(&plan, place))),
                None => Ok(Transformed::no(part)),
            },
            _ => Ok(Transformed::no(part)),
        })?;
        Ok(Sort { expr: expr.data, ..key })
    };
    let keys = keys.into_iter().map(renamed).collect::<Result<_>>()?;
    Ok((plan, keys))
}

fn at_places(plan: &LogicalPlan, keys: Vec<Sort>, places: Vec<usize>) -> Vec<Sort> {
    let keys = keys.into_iter().zip(places);
    keys.map(|(key, place)| Sort { expr: column_at(plan, place), ..key }).collect()
}

fn column_at(plan: &LogicalPlan, place: usize) -> Expr {
    Expr::Column(Column::from(plan.schema().qualified_field(place)))
}
