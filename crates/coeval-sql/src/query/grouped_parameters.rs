// SPDX-License-Identifier: Apache-2.0
//! Parameters in GROUPING SETS, ROLLUP and CUBE.
//!
//! An expression has the name that it had when a parameter's value is put into it, so that what is above finds it. DataFusion does so for the
//! groups of a query, but not for what is within sets of them. So an expression with a parameter there becomes a column of a projection
//! below:
//!
//! ```text
//! Aggregate [ROLLUP (b, b + $1)]  ->  Aggregate [ROLLUP (b, "b + $1")]
//!                                       Projection [..., b + $1 AS "b + $1"]
//! ```

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection};
use std::sync::Arc;

/// The plan with such expressions below the groups.
///
/// # Errors
/// What DataFusion finds wrong while it rebuilds the plan.
pub(super) fn with_computed_sets(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut has_any = false;
    plan.apply_with_subqueries(|node| {
        has_any = matches!(node, LogicalPlan::Aggregate(aggregate) if has_parameter_in_sets(aggregate));
        Ok(if has_any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    // Most plans have none, and need not be taken apart.
    if !has_any {
        return Ok(plan);
    }
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Aggregate(aggregate) if has_parameter_in_sets(&aggregate) => {
            computed_below(aggregate).map(Transformed::yes)
        }
        node => Ok(Transformed::no(node)),
    })
    .data()
}

fn has_parameter_in_sets(aggregate: &Aggregate) -> bool {
    let is_set = |group: &&Expr| matches!(group, Expr::GroupingSet(_));
    aggregate.group_expr.iter().filter(is_set).any(has_parameter)
}

fn has_parameter(expression: &Expr) -> bool {
    expression.exists(|part| Ok(matches!(part, Expr::Placeholder(_)))).unwrap_or(false)
}

fn computed_below(aggregate: Aggregate) -> Result<LogicalPlan> {
    let Aggregate { input, group_expr, aggr_expr, schema, .. } = aggregate;
    let mut computed: Vec<Expr> = Vec::new();
    let column_of = |part: &Expr| Expr::Column(Column::from_name(part.schema_name().to_string()));
    let mut sets = Vec::with_capacity(group_expr.len());
    for group in group_expr {
        let is_set = matches!(group, Expr::GroupingSet(_));
        let group = group.map_children(|part| {
            if !is_set || !has_parameter(&part) {
                return Ok(Transformed::no(part));
            }
            let column = column_of(&part);
            if !computed.contains(&part) {
                computed.push(part);
            }
            Ok(Transformed::yes(column))
        })?;
        sets.push(group.data);
    }
    // What grouping() asks about is told by what the sets have.
    let with_columns = |expression: Expr| {
        let done = expression.transform_down(|part| match computed.contains(&part) {
            true => Ok(Transformed::yes(column_of(&part))),
            false => Ok(Transformed::no(part)),
        });
        done.data()
    };
    let aggregates = aggr_expr.into_iter().map(with_columns).collect::<Result<_>>()?;
    let named = computed.iter().map(|part| part.clone().alias(part.schema_name().to_string()));
    let outputs = input.schema().columns().into_iter().map(Expr::Column).chain(named).collect();
    let below = LogicalPlan::Projection(Projection::try_new(outputs, input)?);
    Aggregate::try_new_with_schema(Arc::new(below), sets, aggregates, schema).map(LogicalPlan::Aggregate)
}
