// SPDX-License-Identifier: Apache-2.0
//! Subqueries in ORDER BY, which may name columns that are not selected.
//!
//! ```text
//! SELECT a FROM t ORDER BY (SELECT count(*) FROM s WHERE s.k = t.k)
//!   -> SELECT a of (SELECT a, k FROM t) in the order of the subquery
//! ```
//! DataFusion does so for columns that an expression in ORDER BY names itself.

use super::dependencies::{outer_arguments, subquery_of};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection, Sort};
use std::sync::Arc;

/// The node, if it sorts by subqueries, over all columns that they name.
///
/// # Errors
/// What DataFusion finds wrong while it rebuilds the plan.
pub(super) fn with_columns_of_subqueries(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Sort(sort) = &plan else { return Ok(Transformed::no(plan)) };
    let LogicalPlan::Projection(selected) = sort.input.as_ref() else { return Ok(Transformed::no(plan)) };
    let missing = missing_columns(sort, selected)?;
    if missing.is_empty() {
        return Ok(Transformed::no(plan));
    }
    let shown: Vec<Expr> = selected.schema.columns().into_iter().map(Expr::Column).collect();
    let all = selected.expr.iter().cloned().chain(missing.into_iter().map(Expr::Column)).collect();
    let wide = LogicalPlan::Projection(Projection::try_new(all, Arc::clone(&selected.input))?);
    let sorted =
        LogicalPlan::Sort(Sort { expr: sort.expr.clone(), input: Arc::new(wide), fetch: sort.fetch });
    LogicalPlanBuilder::from(sorted).project(shown)?.build().map(Transformed::yes)
}

/// The columns below the selected ones that subqueries in ORDER BY name.
fn missing_columns(sort: &Sort, selected: &Projection) -> Result<Vec<Column>> {
    let mut missing = Vec::new();
    for ordering in &sort.expr {
        ordering.expr.apply(|part| {
            let Some(subquery) = subquery_of(part) else { return Ok(TreeNodeRecursion::Continue) };
            for named in outer_arguments(subquery, selected.input.schema())?.columns {
                if let Expr::Column(column) = named
                    && !selected.schema.has_column(&column)
                    && !missing.contains(&column)
                {
                    missing.push(column);
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(missing)
}
