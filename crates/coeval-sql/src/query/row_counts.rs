// SPDX-License-Identifier: Apache-2.0
//! LIMIT and OFFSET that a subquery counts, and FETCH WITH TIES, which DataFusion has not: the rows are numbered in the query's
//! order, and a filter takes those whose numbers are asked for.
//!
//! ```text
//! ORDER BY x LIMIT (SELECT n)             -> row_number() OVER (ORDER BY x) <= n
//! ORDER BY x FETCH FIRST n ROWS WITH TIES -> rank() OVER (ORDER BY x) <= n
//! ```
//! All rows are sorted for that; those of a plain LIMIT are not.

use crate::error::SqlError;
use crate::functions::{ROWS_SKIPPED, ROWS_TAKEN, function};
use crate::parse::WITH_TIES;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::functions_window::rank::rank;
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::expr::Sort as SortExpr;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, Limit, LogicalPlan, LogicalPlanBuilder, cast, lit,
};
use std::sync::Arc;

/// The plan with such counts as filters.
///
/// # Errors
/// `0A000` for one of DISTINCT ON, whose rows have no order before they are counted.
pub(super) fn with_counted_rows(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut has_counted = false;
    plan.apply_with_subqueries(|node| {
        has_counted = matches!(node, LogicalPlan::Limit(limit) if is_counted(limit)?);
        Ok(if has_counted { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    // Most plans have none, and need not be taken apart.
    if !has_counted {
        return Ok(plan);
    }
    let rewrite = |node: LogicalPlan| match node {
        LogicalPlan::Limit(limit) if is_counted(&limit)? => counted(limit).map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    };
    plan.transform_up_with_subqueries(rewrite).map(|done| done.data)
}

/// Whether DataFusion cannot count the rows by itself.
fn is_counted(limit: &Limit) -> Result<bool> {
    for count in [&limit.skip, &limit.fetch].into_iter().flatten() {
        if has_ties(count)? || count.exists(|part| Ok(matches!(part, Expr::ScalarSubquery(_))))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_ties(count: &Expr) -> Result<bool> {
    count.exists(|part| Ok(matches!(part, Expr::ScalarFunction(call) if call.func.name() == WITH_TIES)))
}

/// The rows before they are counted: what selects from them behind the order, the order, and where they come from.
struct Ordered {
    selected: Option<Vec<Expr>>,
    keys: Vec<SortExpr>,
    rows: Arc<LogicalPlan>,
}

impl Ordered {
    fn of(input: &Arc<LogicalPlan>) -> Result<Self> {
        Ok(match input.as_ref() {
            LogicalPlan::Sort(sort) => {
                Self { selected: None, keys: sort.expr.clone(), rows: Arc::clone(&sort.input) }
            }
            LogicalPlan::Projection(selected) => match selected.input.as_ref() {
                LogicalPlan::Sort(sort) => Self {
                    selected: Some(selected.expr.clone()),
                    keys: sort.expr.clone(),
                    rows: Arc::clone(&sort.input),
                },
                _ => Self { selected: None, keys: Vec::new(), rows: Arc::clone(input) },
            },
            LogicalPlan::Distinct(Distinct::On(_)) => {
                let what = "DISTINCT ON with a count of rows that is a subquery or WITH TIES";
                return Err(SqlError::unsupported(what).with_hint("Put it into a subquery in FROM.").into());
            }
            _ => Self { selected: None, keys: Vec::new(), rows: Arc::clone(input) },
        })
    }
}

/// The function over all rows in this order.
fn over(function: Expr, keys: &[SortExpr]) -> Result<Expr> {
    if keys.is_empty() { function.partition_by(Vec::new()) } else { function.order_by(keys.to_vec()) }.build()
}

fn counted(limit: Limit) -> Result<LogicalPlan> {
    let Ordered { selected, keys, rows } = Ordered::of(&limit.input)?;
    let shown: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
    let is_ordered = !keys.is_empty();
    let (place, first) = (over(row_number(), &keys)?, over(rank(), &keys)?);
    let named = |window: &Expr| Expr::Column(Column::from_name(window.schema_name().to_string()));
    let order = named(&place);
    let (number, first_number) = (cast(named(&place), DataType::Int64), cast(named(&first), DataType::Int64));
    let skipped = match limit.skip {
        Some(count) => function(ROWS_SKIPPED)?.call(vec![*count]),
        None => lit(0_i64),
    };
    let mut is_taken = number.clone().gt(skipped.clone());
    let mut windows = vec![place];
    if let Some(count) = limit.fetch {
        let has_ties = has_ties(&count)?;
        let taken = function(ROWS_TAKEN)?.call(vec![*count]);
        if has_ties {
            windows.push(first);
            let is_before = (first_number - skipped).lt_eq(taken.clone());
            is_taken = is_taken.and(is_before).and(taken.gt(lit(0_i64)));
        } else {
            is_taken = is_taken.and((number - skipped).lt_eq(taken));
        }
    }
    let counted = LogicalPlanBuilder::new_from_arc(rows).window(windows)?.filter(is_taken)?;
    let counted = if is_ordered { counted.sort([order.sort(true, false)])? } else { counted };
    let counted = counted.project(shown)?;
    match selected {
        Some(selected) => counted.project(selected)?.build(),
        None => counted.build(),
    }
}
