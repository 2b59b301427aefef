// SPDX-License-Identifier: Apache-2.0
//! What a subquery depends on: columns of the queries around it, and parameters.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// The plan of a subquery, if the expression is one.
pub(super) fn subquery_of(expression: &Expr) -> Option<&LogicalPlan> {
    match expression {
        Expr::ScalarSubquery(subquery) => Some(&subquery.subquery),
        Expr::Exists(exists) => Some(&exists.subquery.subquery),
        Expr::InSubquery(within) => Some(&within.subquery.subquery),
        Expr::SetComparison(comparison) => Some(&comparison.subquery.subquery),
        _ => None,
    }
}

/// What a subquery depends on, and the same as arguments in a query around it.
pub(super) struct OuterArguments {
    pub(super) outer: Vec<Expr>,
    pub(super) columns: Vec<Expr>,
}

/// What a subquery depends on, in a query whose rows have this schema.
///
/// # Errors
/// If the plan cannot be walked: a bug.
pub(super) fn outer_arguments(plan: &LogicalPlan, schema: &DFSchema) -> Result<OuterArguments> {
    let mut outer = Vec::new();
    depends_on(plan, &mut outer)?;
    let columns = outer.iter().map(|dependency| match dependency {
        // A column of a query further out stays one.
        Expr::OuterReferenceColumn(_, column) if schema.has_column(column) => Expr::Column(column.clone()),
        other => other.clone(),
    });
    Ok(OuterArguments { columns: columns.collect(), outer })
}

/// Whether a plan has correlated subqueries: after optimization, those that have not become joins.
pub(super) fn has_correlated(plan: &LogicalPlan) -> bool {
    let mut found = false;
    // Nothing in the visit fails.
    let _ = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            found |= expression.exists(|part| {
                let subquery = match part {
                    Expr::ScalarSubquery(subquery) => Some(subquery),
                    Expr::Exists(exists) => Some(&exists.subquery),
                    Expr::InSubquery(within) => Some(&within.subquery),
                    Expr::SetComparison(comparison) => Some(&comparison.subquery),
                    Expr::OuterReferenceColumn(..) => return Ok(true),
                    _ => None,
                };
                Ok(subquery.is_some_and(|subquery| !subquery.outer_ref_columns.is_empty()))
            })?;
            Ok(TreeNodeRecursion::Continue)
        })
    });
    found
}

/// Whether an expression of a node names a column of a query around it.
///
/// # Errors
/// If the node cannot be looked at: a bug.
pub(super) fn names_outer(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expression| {
        found |= expression.contains_outer();
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Whether a plan names a column of a query around it.
///
/// # Errors
/// If the plan cannot be walked: a bug.
pub(super) fn depends_on_outer(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(names_outer)
}

/// Collects what a plan depends on: the columns of queries around it, and parameters.
///
/// # Errors
/// If the plan cannot be walked: a bug.
pub(super) fn depends_on(plan: &LogicalPlan, found: &mut Vec<Expr>) -> Result<()> {
    plan.apply(|node| {
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                match part {
                    Expr::OuterReferenceColumn(..) | Expr::Placeholder(_) => note(part.clone(), found),
                    _ => {
                        if let Some(subquery) = subquery_of(part) {
                            depends_beyond(subquery, &schema, found)?;
                        }
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        // A LATERAL subquery may depend on the tables before it in the same FROM, and no other one names a table that is one of them.
        if let LogicalPlan::Join(join) = node {
            depends_on(&join.left, found)?;
            depends_beyond(&join.right, join.left.schema(), found)?;
            return Ok(TreeNodeRecursion::Jump);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Collects what a plan within another one depends on, without the columns of the rows that it is run for.
fn depends_beyond(plan: &LogicalPlan, rows: &DFSchema, found: &mut Vec<Expr>) -> Result<()> {
    let mut inner = Vec::new();
    depends_on(plan, &mut inner)?;
    for dependency in inner {
        if !matches!(&dependency, Expr::OuterReferenceColumn(_, column) if rows.has_column(column)) {
            note(dependency, found);
        }
    }
    Ok(())
}

/// Adds what a plan depends on, once.
fn note(dependency: Expr, found: &mut Vec<Expr>) {
    if !found.contains(&dependency) {
        found.push(dependency);
    }
}
