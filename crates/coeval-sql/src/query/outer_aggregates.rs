// SPDX-License-Identifier: Apache-2.0
//! Aggregates that belong to the query around the subquery in which they are written.
//!
//! `SELECT (SELECT sum(t.x)) FROM t` gives one row: an aggregate belongs to the innermost query that has a column which it
//! names. DataFusion computes it in the subquery, for each row of `t`. So the syntax is changed before it is planned, where
//! it tells whose the columns are, and a plan with such an aggregate left is refused.

mod regrouping;
#[cfg(test)]
mod tests;

use super::dependencies::subquery_of;
use super::dialect::OR_EMPTY;
use super::scopes::{FindRelation, Owner, Scopes, keeping_scopes};
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::stack::with_room;
use crate::walk::{Walk, WalkMut, find_at_depth, step};
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::ast::{
    Function, GroupByExpr, ObjectNamePart, OrderBy, Query, Select, SetExpr, Visit, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// Has each query compute the aggregates that belong to it and are written in its subqueries. Some are left where it is
/// not known whose a column is.
///
/// # Errors
/// `42803` for one that belongs to a query whose WHERE, ON or GROUP BY it is written in.
pub(super) fn computed_outside(
    query: &mut Query,
    find: FindRelation<'_>,
    functions: &SessionState,
) -> Result<(), SqlError> {
    if !aggregates_in_subqueries(query, functions) {
        return Ok(());
    }
    let mut outside = Outside { scopes: Scopes::of_statement(find), functions, count: 0 };
    query.try_walk_mut(&mut outside)
}

/// The call of an aggregate that an expression is.
pub(super) fn aggregate<'e>(expression: &'e ast::Expr, functions: &SessionState) -> Option<&'e Function> {
    let ast::Expr::Function(function) = expression else { return None };
    let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(fold)?;
    // Those that the dialect makes of others are not among the functions.
    let is_known = functions.aggregate_functions().contains_key(&name);
    let is_aggregate =
        is_known || matches!(name.as_str(), "every" | "variance") || crate::json::aggregated(&name).is_some();
    (function.over.is_none() && is_aggregate).then_some(function)
}

fn aggregates_in_subqueries(query: &Query, functions: &SessionState) -> bool {
    let is_one = |expression: &ast::Expr, depth: usize| {
        let is_below = depth > 1 && aggregate(expression, functions).is_some();
        is_below.then_some(())
    };
    find_at_depth(query, is_one).is_some()
}

/// Goes through all queries, the inner ones first.
struct Outside<'f> {
    scopes: Scopes<'f>,
    functions: &'f SessionState,
    /// How many queries have been changed.
    count: usize,
}

impl Outside<'_> {
    fn change_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        step(self.change_body(&mut query.body, query.order_by.as_mut()))
    }

    fn change_body(&mut self, body: &mut SetExpr, order: Option<&mut OrderBy>) -> Result<(), SqlError> {
        match body {
            SetExpr::Select(select) => {
                self.scopes.turn_to(select);
                self.change(select, order)
            }
            // What is put together from several is ordered by its outputs alone.
            SetExpr::SetOperation { left, right, .. } => {
                with_room(|| self.change_body(left, None))?;
                self.change_body(right, None)
            }
            _ => Ok(()),
        }
    }

    fn change(&mut self, select: &mut Select, mut order: Option<&mut OrderBy>) -> Result<(), SqlError> {
        self.refuse_in_conditions(select)?;
        let is_needed = self.has_below(&select.projection)
            || self.has_below(&select.having)
            || self.has_below(&select.distinct)
            || self.has_below(&select.named_window)
            || order.as_deref().is_some_and(|order| self.has_below(order));
        if !is_needed {
            return Ok(());
        }
        let (mut grouped, mut ordered) = (select.clone(), order.as_deref().cloned());
        let (depth, scopes) = (self.scopes.depth(), &mut self.scopes);
        if regrouping::regroup(&mut grouped, ordered.as_mut(), scopes, self.functions, self.count).is_some() {
            self.count += 1;
            *select = grouped;
            if let (Some(order), Some(ordered)) = (&mut order, ordered) {
                **order = ordered;
            }
        }
        self.scopes.leave_to(depth);
        Ok(())
    }

    /// Refuses aggregates where there are no groups yet.
    fn refuse_in_conditions(&mut self, select: &Select) -> Result<(), SqlError> {
        let mut joins = select.from.iter().flat_map(|from| &from.joins);
        let place = if self.has_below(&select.selection) {
            "WHERE"
        } else if joins.any(|join| self.has_below(&join.join_operator)) {
            "JOIN conditions"
        } else if matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if self.has_below(groups)) {
            "GROUP BY"
        } else {
            return Ok(());
        };
        let message = format!("aggregate functions are not allowed in {place}");
        Err(SqlError::new(SqlState::GroupingError, message))
    }

    /// Whether an aggregate of the innermost query is written in a subquery of this.
    fn has_below(&mut self, syntax: &impl Visit) -> bool {
        let depth = self.scopes.depth();
        let mut below = Below { here: depth - 1, scopes: &mut self.scopes, functions: self.functions };
        let is_found = syntax.walk(&mut below).is_break();
        self.scopes.leave_to(depth);
        is_found
    }
}

impl VisitorMut for Outside<'_> {
    type Break = SqlError;

    keeping_scopes!(&mut, change_query);
}

/// Looks for an aggregate of one query in the queries within it.
struct Below<'s, 'f> {
    scopes: &'s mut Scopes<'f>,
    functions: &'s SessionState,
    /// How many queries there are around the one.
    here: usize,
}

impl Visitor for Below<'_, '_> {
    type Break = ();

    keeping_scopes!(&);

    fn pre_visit_expr(&mut self, expression: &ast::Expr) -> ControlFlow<()> {
        let is_within = self.scopes.depth() > self.here + 1;
        match aggregate(expression, self.functions).filter(|_| is_within) {
            Some(function) if self.scopes.owner_of(function) == Owner::Query(self.here) => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Refuses a plan with subqueries that name columns of the query around them, and no others, in an aggregate.
///
/// # Errors
/// `0A000`.
pub(super) fn refuse_outer_aggregates(plan: &LogicalPlan) -> Result<()> {
    plan.apply(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                if let Some(inner) = subquery_of(part) {
                    if !makes_array(inner) {
                        refuse_in(inner)?;
                    }
                    refuse_outer_aggregates(inner)?;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })
    .map(|_| ())
}

/// Whether a subquery is what became of `ARRAY(SELECT ...)`, whose aggregate nobody has written.
fn makes_array(subquery: &LogicalPlan) -> bool {
    let LogicalPlan::Projection(projection) = subquery else { return false };
    let is_of_array = |part: &Expr| Ok(matches!(part, Expr::ScalarFunction(call) if call.name() == OR_EMPTY));
    // Nothing in the search fails.
    projection.expr.iter().any(|output| output.exists(is_of_array).unwrap_or_default())
}

fn refuse_in(subquery: &LogicalPlan) -> Result<()> {
    subquery
        .apply(|node| {
            if let LogicalPlan::Aggregate(aggregate) = node
                && aggregate.aggr_expr.iter().any(is_of_outer)
            {
                return Err(SqlError::unsupported("an aggregate of columns of the query around a subquery")
                    .with_hint(
                        "Write the aggregate outside of the subquery, or name it in a subquery in FROM.",
                    )
                    .into());
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .map(|_| ())
}

/// Whether all columns that an aggregate names are of a query further out.
fn is_of_outer(aggregate: &Expr) -> bool {
    let (mut outer, mut own) = (false, false);
    // Nothing in the visit fails.
    let _ = aggregate.apply(|part| {
        outer |= matches!(part, Expr::OuterReferenceColumn(..));
        own |= matches!(part, Expr::Column(_)) || subquery_of(part).is_some();
        Ok(TreeNodeRecursion::Continue)
    });
    outer && !own
}
