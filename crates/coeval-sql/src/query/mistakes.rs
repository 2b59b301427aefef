// SPDX-License-Identifier: Apache-2.0
//! What is wrong with a query that DataFusion refuses, found where it is known instead of read out of a message.
//!
//! Names that are not there have types of their own among DataFusion's errors, and so do errors of ours. Everything else comes as a
//! text for people. Such a query is looked at once more:
//!
//! | file | finds | in |
//! |---|---|---|
//! | [`clauses`] | aggregates and windows where they may not be, places that no output has, rows of different lengths | the syntax as it was written |
//! | [`groups`] | columns that are neither grouped by nor aggregated | the same |
//!
//! Why behind the refusal, and not in front of it: PostgreSQL finds tables and columns that are not there first, as DataFusion does;
//! and a query that is right is not walked over. What is found here is wrong whatever DataFusion meant.

mod clauses;
mod groups;

use super::outer_aggregates::aggregate;
use super::scopes::{FindRelation, Owner, Scopes};
use crate::error::{SqlError, SqlState, is_in_words};
use crate::walk::any_outside_queries;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{Expr, Query, Spanned, Visit};
use datafusion::sql::sqlparser::tokenizer::Span;

/// A query that has been refused.
pub(super) struct Refused<'r> {
    /// As it was written.
    pub(super) written: &'r Query,
    /// What finds its relations.
    pub(super) find: FindRelation<'r>,
    /// All functions.
    pub(super) functions: &'r SessionState,
    /// What gives it with the names resolved that only the catalog knows.
    pub(super) resolved: &'r dyn Fn() -> Option<Query>,
}

impl Refused<'_> {
    /// The error for what it was refused with. Costs some walks over its syntax where that was a text.
    pub(super) fn explained(&self, error: DataFusionError) -> SqlError {
        if !is_in_words(&error) {
            return error.into();
        }
        let found = clauses::mistake(self.written, self.find, self.functions)
            .or_else(|| groups::mistake(self.written, self.find, self.functions))
            // Aggregates in its subqueries may be its own, which makes groups of its rows.
            .or_else(|| groups::mistake(&(self.resolved)()?, self.find, self.functions));
        found.unwrap_or_else(|| error.into())
    }

    /// The error for a [call that is misplaced](has_misplaced_call).
    pub(super) fn misplaced_call(&self) -> SqlError {
        clauses::mistake(self.written, self.find, self.functions).unwrap_or_else(|| {
            let message = "aggregate and window functions are not allowed where rows are chosen";
            SqlError::new(SqlState::WindowingError, message)
        })
    }
}

/// Whether an aggregate or a window stands where rows are chosen, joined or grouped: DataFusion plans it, and finds when the plan is
/// to run that it cannot. Costs a walk over the plan, and one over the expressions of such nodes.
pub(super) fn has_misplaced_call(plan: &LogicalPlan) -> Result<bool> {
    let mut is_found = false;
    plan.apply_with_subqueries(|node| {
        let is_misplaced = |part: &PlanExpr| match node {
            LogicalPlan::Filter(_) | LogicalPlan::Join(_) => {
                matches!(part, PlanExpr::AggregateFunction(_) | PlanExpr::WindowFunction(_))
            }
            LogicalPlan::Aggregate(_) => matches!(part, PlanExpr::WindowFunction(_)),
            _ => false,
        };
        if matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Join(_) | LogicalPlan::Aggregate(_)) {
            node.apply_expressions(|expression| {
                is_found |= expression.exists(|part| Ok(is_misplaced(part)))?;
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(if is_found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(is_found)
}

/// The error where this stands in the statement.
fn placed(error: SqlError, syntax: &impl Spanned) -> SqlError {
    at(error, syntax.span())
}

fn at(error: SqlError, place: Span) -> SqlError {
    error.at(place.start.line, place.start.column)
}

/// Where the first expression like that is, those in subqueries aside.
fn first(syntax: &impl Visit, mut is_meant: impl FnMut(&Expr) -> bool) -> Option<Span> {
    let mut place = None;
    let is_there = any_outside_queries(syntax, |expression| {
        let is_found = is_meant(expression);
        if is_found {
            place = Some(expression.span());
        }
        is_found
    });
    if is_there { place } else { None }
}

/// Where the first aggregate of the innermost query is.
fn own_aggregate(scopes: &mut Scopes<'_>, functions: &SessionState, syntax: &impl Visit) -> Option<Span> {
    first(syntax, |expression| is_own_aggregate(scopes, functions, expression))
}

/// Whether an expression is an aggregate of the innermost query: one of columns of a query around it is that one's.
fn is_own_aggregate(scopes: &mut Scopes<'_>, functions: &SessionState, expression: &Expr) -> bool {
    let Some(here) = scopes.depth().checked_sub(1) else { return false };
    aggregate(expression, functions).is_some_and(|call| match scopes.owner_of(call) {
        Owner::Query(place) => place == here,
        Owner::Nobody => true,
        Owner::Unknown => false,
    })
}
