// SPDX-License-Identifier: Apache-2.0
//! Expressions of plans rewritten from the leaves up, at the cost of what changes.
//!
//! Most expressions are columns, and most nodes of a plan stay as they are. A node's schema costs much more than a look at its
//! expressions: a field for each column, the index of names, and where inputs are put together a hash of each field. DataFusion
//! tells its rules only at the end whether something was changed, so that a rule which changes types would have to make the
//! schemas of all nodes anew. This walk tells each node whether something below it was changed, and whoever rewrites says which
//! parts of expressions are its concern: what is none of it is neither taken apart nor put together again.

use crate::cancel;
use crate::stack::with_room;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan};
use std::sync::Arc;

/// What becomes of one part of an expression.
pub(super) type Rewrite<'a> = dyn Fn(Expr, &DFSchema) -> Result<Transformed<Expr>> + 'a;

/// Whether a rewrite may change a part of an expression. Of any other it makes the same, without an error.
pub(super) type Concerns = fn(&Expr) -> bool;

/// What was done below a node: to its inputs and to the subqueries in its expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Below {
    /// Nothing: its schema holds.
    Unchanged,
    /// Something: there may be other types now.
    Changed,
}

/// The plan with a change made to each of its nodes, subqueries and inputs first.
///
/// # Errors
/// Those of the change.
pub(super) fn rewrite_plan(
    plan: LogicalPlan,
    change: &mut dyn FnMut(LogicalPlan, Below) -> Result<Transformed<LogicalPlan>>,
) -> Result<Transformed<LogicalPlan>> {
    with_room(|| {
        let done = plan
            .map_subqueries(|query| rewrite_plan(query, change))?
            .transform_sibling(|plan| plan.map_children(|input| rewrite_plan(input, change)))?;
        let below = if done.transformed { Below::Changed } else { Below::Unchanged };
        done.transform_data(|plan| change(plan, below))
    })
}

/// The node with its expressions rewritten, and its schema made anew if it may be another one.
///
/// # Errors
/// Those of the rewrite, and what DataFusion finds wrong with the node that comes of it.
pub(super) fn rewrite_node(
    plan: LogicalPlan,
    below: Below,
    concerns: Concerns,
    rewrite: &Rewrite<'_>,
) -> Result<Transformed<LogicalPlan>> {
    if matches!(plan, LogicalPlan::TableScan(_) | LogicalPlan::Values(_)) {
        return Ok(Transformed::no(plan));
    }
    let rewritten = match has_concern(&plan, concerns)? {
        true => rewrite_expressions(plan, concerns, rewrite)?,
        false => Transformed::no(plan),
    };
    if rewritten.transformed || below == Below::Changed {
        return rewritten.map_data(LogicalPlan::recompute_schema);
    }
    Ok(rewritten)
}

/// Whether a node has an expression with a part that is the concern of a rewrite.
///
/// # Errors
/// If the node cannot be looked at: a bug.
pub(super) fn has_concern(plan: &LogicalPlan, concerns: Concerns) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(|expression| {
        found = expression.exists(|part| Ok(concerns(part)))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether a plan has such an expression in any of its nodes, or in those of its subqueries.
///
/// # Errors
/// If a node cannot be looked at: a bug.
pub(super) fn has_concern_anywhere(plan: &LogicalPlan, concerns: Concerns) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = has_concern(node, concerns)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn rewrite_expressions(
    plan: LogicalPlan,
    concerns: Concerns,
    rewrite: &Rewrite<'_>,
) -> Result<Transformed<LogicalPlan>> {
    let schema = columns_of(&plan);
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expression| {
        if !expression.exists(|part| Ok(concerns(part)))? {
            return Ok(Transformed::no(expression));
        }
        let name = names.save(&expression);
        let done = expression.transform_up(|part| {
            cancel::check()?;
            rewrite(part, &schema)
        })?;
        Ok(if done.transformed { done.update_data(|expression| name.restore(expression)) } else { done })
    })
}

/// The columns that expressions of a node may name: those of its inputs, and its own. To put schemas together takes a hash of each field of
/// both, so that is done only where one has what the others have not.
fn columns_of(plan: &LogicalPlan) -> DFSchemaRef {
    match plan {
        // Its columns are those of its input.
        LogicalPlan::Filter(_) | LogicalPlan::Sort(_) | LogicalPlan::Limit(_) => Arc::clone(plan.schema()),
        // Its columns are some of its inputs.
        LogicalPlan::Join(join) if !matches!(join.join_type, JoinType::LeftMark | JoinType::RightMark) => {
            Arc::new(merge_schema(&plan.inputs()))
        }
        _ => {
            let mut schema = merge_schema(&plan.inputs());
            schema.merge(plan.schema());
            Arc::new(schema)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::{LogicalPlanBuilder, cast, col, lit, table_scan};

    #[test]
    fn the_columns_of_a_node_are_those_of_its_inputs_and_its_own() {
        let scan = |name: &str| {
            let field = |name: &str| Field::new(name, DataType::Int64, false);
            table_scan(Some(name), &Schema::new(vec![field("a"), field("b")]), None).unwrap()
        };
        let (one, other) = (scan("s").build().unwrap(), scan("t").build().unwrap());
        let filtered = LogicalPlanBuilder::from(one.clone()).filter(col("a").gt(lit(1_i64))).unwrap();
        assert!(Arc::ptr_eq(&columns_of(&filtered.build().unwrap()), one.schema()));
        for join_type in [JoinType::Inner, JoinType::Full, JoinType::LeftSemi, JoinType::LeftMark] {
            let (builder, keys) = (LogicalPlanBuilder::from(one.clone()), (vec!["s.a"], vec!["t.a"]));
            let plan = builder.join(other.clone(), join_type, keys, None).unwrap().build().unwrap();
            let mut named = plan.schema().columns();
            named.extend([one.schema(), other.schema()].into_iter().flat_map(|schema| schema.columns()));
            let columns = columns_of(&plan);
            assert!(named.iter().all(|column| columns.has_column(column)), "{join_type}");
            assert_eq!(columns.fields().len(), 4 + usize::from(join_type == JoinType::LeftMark));
        }
        let sum = LogicalPlanBuilder::from(one).project([(col("a") + col("b")).alias("c")]).unwrap();
        assert_eq!(columns_of(&sum.build().unwrap()).fields().len(), 3);
    }

    /// `SELECT a FROM (SELECT CAST(1 AS int) AS a)`.
    fn plan() -> LogicalPlan {
        let one = cast(lit(1_i64), DataType::Int32).alias("a");
        let inner = LogicalPlanBuilder::empty(true).project([one]).unwrap();
        inner.project([col("a")]).unwrap().build().unwrap()
    }

    /// The plan with each cast as one to a type, if casts are its concern.
    fn with_casts_to(ty: &DataType, concerns: Concerns) -> Transformed<LogicalPlan> {
        let rewrite = |part: Expr, _: &DFSchema| match part {
            Expr::Cast(old) => Ok(Transformed::yes(cast(*old.expr, ty.clone()))),
            other => Ok(Transformed::no(other)),
        };
        rewrite_plan(plan(), &mut |node, below| rewrite_node(node, below, concerns, &rewrite)).unwrap()
    }

    #[test]
    fn types_that_change_are_known_above() {
        let done = with_casts_to(&DataType::Int64, |part| matches!(part, Expr::Cast(_)));
        assert!(done.transformed);
        assert_eq!(done.data.schema().field(0).data_type(), &DataType::Int64);
    }

    #[test]
    fn what_is_no_concern_stays_as_it_is() {
        let done = with_casts_to(&DataType::Int64, |part| matches!(part, Expr::Negative(_)));
        assert!(!done.transformed);
        assert_eq!(done.data, plan());
    }

    #[test]
    fn a_node_above_nothing_that_changes_keeps_its_schema() {
        let before = plan();
        let same = |part: Expr, _: &DFSchema| Ok(Transformed::no(part));
        let mut change = |node, below| rewrite_node(node, below, |_| true, &same);
        let done = rewrite_plan(before.clone(), &mut change).unwrap();
        assert!(Arc::ptr_eq(done.data.schema(), before.schema()));
    }
}
