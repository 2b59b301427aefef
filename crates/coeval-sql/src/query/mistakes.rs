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
//! | [`asked`] | functions that there are not, arguments and operands of types that do not go together | a second plan, of the query with functions that look at types |
//! | [`operators`] | the same of operators | that plan, while it is made |
//! | [`plans`] | the same | a plan that stands, and that DataFusion cannot make better |
//!
//! Why behind the refusal, and not in front of it: PostgreSQL finds tables and columns that are not there first, as DataFusion does;
//! and a query that is right is not walked over. What is found here is wrong whatever DataFusion meant.

mod asked;
mod clauses;
mod groups;
mod operators;
mod plans;

pub(super) use asked::{Asks, asked_function};
pub(super) use operators::AskedOperators;

use super::outer_aggregates::aggregate;
use super::scopes::{FindRelation, Owner, Scopes};
use super::typing::settled;
use crate::error::{SqlError, SqlState, is_in_words, own_error};
use crate::walk::any_outside_queries;
use asked::ask;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{Expr, ExprWithAlias, Query, Spanned, Visit};
use datafusion::sql::sqlparser::tokenizer::Span;
use plans::{in_expression, in_plan};

/// Longer statements are not planned once more: what is asked of a call takes longer the more of them there are.
const ASKED_BYTES_MAX: usize = 64 << 10;

/// A query that has been refused.
pub(super) struct Refused<'r> {
    /// As it was written.
    pub(super) written: &'r Query,
    /// How long the statement's text is.
    pub(super) text_bytes: usize,
    /// What finds its relations.
    pub(super) find: FindRelation<'r>,
    /// All functions.
    pub(super) functions: &'r SessionState,
    /// What gives it with the names resolved that only the catalog knows.
    pub(super) resolved: &'r dyn Fn() -> Option<Query>,
}

impl Refused<'_> {
    /// The error for what it was refused with, after it had been changed to this; `plan_again` plans it as it is to be asked.
    /// Costs some walks over its syntax where the error is a text, and a second plan.
    pub(super) fn explained(
        &self,
        error: DataFusionError,
        changed: &Query,
        plan_again: impl FnOnce(Query) -> Result<LogicalPlan>,
    ) -> SqlError {
        if !is_in_words(&error) {
            return error.into();
        }
        let found = clauses::mistake(self.written, self.find, self.functions)
            .or_else(|| groups::mistake(self.written, self.find, self.functions))
            // Aggregates in its subqueries may be its own, which makes groups of its rows.
            .or_else(|| groups::mistake(&(self.resolved)()?, self.find, self.functions))
            .or_else(|| self.asked(changed, plan_again));
        found.unwrap_or_else(|| error.into())
    }

    fn asked(
        &self,
        changed: &Query,
        plan_again: impl FnOnce(Query) -> Result<LogicalPlan>,
    ) -> Option<SqlError> {
        if self.text_bytes > ASKED_BYTES_MAX {
            return None;
        }
        let mut asking = changed.clone();
        ask(&mut asking, self.functions);
        match plan_again(asking).and_then(settled) {
            Ok(plan) => in_plan(&plan),
            Err(error) => own_error(&error).cloned(),
        }
    }

    /// The error for a [call that is misplaced](has_misplaced_call).
    pub(super) fn misplaced_call(&self) -> SqlError {
        clauses::mistake(self.written, self.find, self.functions).unwrap_or_else(|| {
            let message = "aggregate and window functions are not allowed where rows are chosen";
            SqlError::new(SqlState::WindowingError, message)
        })
    }
}

/// The error for what an expression that is in no query was refused with; `schema` has its columns. Its text is not the statement's,
/// so the error has no place.
pub(super) fn explained_expression(
    error: DataFusionError,
    expression: &Expr,
    schema: &DFSchema,
    functions: &SessionState,
) -> SqlError {
    if !is_in_words(&error) {
        return error.into();
    }
    let found = clauses::lone_window_in(expression, functions)
        .or_else(|| asked_expression(expression, schema, functions));
    found.map_or_else(|| error.into(), SqlError::without_position)
}

fn asked_expression(expression: &Expr, schema: &DFSchema, functions: &SessionState) -> Option<SqlError> {
    let mut asking = expression.clone();
    let names = ask(&mut asking, functions);
    let mut state = functions.clone();
    for name in names {
        state.register_udf(asked_function(Asks::Why, &name, functions)?).ok()?;
    }
    match state.create_logical_expr_from_sql_expr(ExprWithAlias { expr: asking, alias: None }, schema) {
        Ok(planned) => in_expression(&planned, schema),
        Err(error) => own_error(&error).cloned(),
    }
}

/// The error for what an expression of plans was refused with when its types were looked at.
pub(super) fn explained_types(error: DataFusionError, expression: &PlanExpr, schema: &DFSchema) -> SqlError {
    let found = if is_in_words(&error) { in_expression(expression, schema) } else { None };
    found.unwrap_or_else(|| error.into())
}

/// The error for what a plan was refused with that was to be made better, or to be run.
pub(super) fn explained_plan(error: DataFusionError, plan: &LogicalPlan) -> SqlError {
    let found = if is_in_words(&error) { in_plan(plan) } else { None };
    found.unwrap_or_else(|| error.into())
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
