// SPDX-License-Identifier: Apache-2.0
//! What PostgreSQL refuses in a part of `WITH RECURSIVE`: an aggregate of the rows of the step before, which would have a row at
//! each step and never end, more than one look at them, a look at them in front of UNION, and an order or a limit of all rows.

use super::unqualified;
use crate::error::{SqlError, SqlState};
use crate::functions::is_aggregate;
use crate::names::fold;
use crate::select::of_body;
use crate::walk::{Walk, any_outside_queries, find_query};
use datafusion::sql::sqlparser::ast::{
    Cte, Expr, LimitClause, ObjectNamePart, Query, Select, SelectItem, SetExpr, SetOperator, Statement,
    TableFactor, Visitor,
};
use std::ops::ControlFlow;

/// Looks at the recursive parts of all queries of a statement that is planned elsewhere: an engine may run without an end what is
/// refused here.
///
/// # Errors
/// `42P19`, `0A000`.
pub(crate) fn check_all(statement: &Statement) -> Result<(), SqlError> {
    find_query(statement, |query| check(query).err()).map_or(Ok(()), Err)
}

/// Looks at the recursive parts of a query's WITH.
///
/// # Errors
/// `42P19`; `0A000` for an order or a limit of a recursion.
pub(super) fn check(query: &Query) -> Result<(), SqlError> {
    let mut parts = query.with.iter().filter(|with| with.recursive).flat_map(|with| &with.cte_tables);
    parts.try_for_each(check_part)
}

fn check_part(part: &Cte) -> Result<(), SqlError> {
    let name = fold(&part.alias.name);
    let invalid = |message: String| Err(SqlError::new(SqlState::InvalidRecursion, message));
    let (left, right) = match part.query.body.as_ref() {
        SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } => (left, right),
        body @ (SetExpr::Select(_) | SetExpr::SetOperation { .. }) if reads(body, &name) => {
            return invalid(format!(
                "recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] recursive-term"
            ));
        }
        _ => return Ok(()),
    };
    if reads(left, &name) {
        return invalid(format!(
            "recursive reference to query \"{name}\" must not appear within its non-recursive term"
        ));
    }
    let mut steps = Steps { name: &name, references: 0 };
    if let ControlFlow::Break(Some(error)) = right.walk(&mut steps) {
        return Err(error);
    }
    if steps.references == 0 { Ok(()) } else { refuse_order(&part.query) }
}

/// Whether a part of a query reads what has this name.
fn reads(body: &SetExpr, name: &str) -> bool {
    let mut steps = Steps { name, references: 0 };
    // What it breaks off with is said of the recursive term alone.
    let _ = body.walk(&mut steps);
    steps.references > 0
}

/// Refuses an order or a limit of all rows of a recursion: without them it may have no end.
///
/// # Errors
/// `0A000`.
fn refuse_order(query: &Query) -> Result<(), SqlError> {
    let clause = match &query.limit_clause {
        _ if query.order_by.is_some() => "ORDER BY",
        Some(LimitClause::LimitOffset { offset: Some(_), .. }) => "OFFSET",
        Some(_) => "LIMIT",
        None if query.fetch.is_some() => "LIMIT",
        None => return Ok(()),
    };
    let message = format!("{clause} in a recursive query is not implemented");
    Err(SqlError::new(SqlState::FeatureNotSupported, message)
        .with_hint("Order and limit the rows in the query that reads them."))
}

/// Writes a WITH inside of a recursive part into both of its sides: DataFusion plans these by themselves, and forgets it. A part that does not
/// read its own rows becomes a query of that query: else DataFusion takes its UNION for a recursion, and forgets its order and limit.
pub(super) fn keep_inner_parts(query: &mut Query) {
    let parts = query.with.iter_mut().filter(|with| with.recursive).flat_map(|with| &mut with.cte_tables);
    for part in parts {
        let name = fold(&part.alias.name);
        let inner = part.query.as_mut();
        if !reads(&inner.body, &name) && matches!(*inner.body, SetExpr::SetOperation { .. }) {
            *inner = of_body(None, SetExpr::Query(Box::new(inner.clone())));
            continue;
        }
        if let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = inner.body.as_mut()
            && let Some(with) = inner.with.take()
        {
            for side in [left, right] {
                let body = side.as_ref().clone();
                **side = SetExpr::Query(Box::new(of_body(Some(with.clone()), body)));
            }
        }
    }
}

/// Counts who reads the rows of the step before. Breaks off with nothing where another part of this name hides them.
struct Steps<'n> {
    name: &'n str,
    references: usize,
}

impl Steps<'_> {
    fn is_it(&self, factor: &TableFactor) -> bool {
        let TableFactor::Table { name, args: None, .. } = factor else { return false };
        matches!(name.0.as_slice(), [ObjectNamePart::Identifier(only)] if fold(only) == self.name)
    }

    fn is_read_by(&self, select: &Select) -> bool {
        select.from.iter().any(|tables| {
            self.is_it(&tables.relation) || tables.joins.iter().any(|join| self.is_it(&join.relation))
        })
    }
}

impl Visitor for Steps<'_> {
    type Break = Option<SqlError>;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Self::Break> {
        let mut parts = query.with.iter().flat_map(|with| &with.cte_tables);
        if parts.any(|part| fold(&part.alias.name) == self.name) {
            return ControlFlow::Break(None);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Self::Break> {
        if self.is_read_by(select) && aggregates(select) {
            let message = "aggregate functions are not allowed in a recursive query's recursive term";
            return ControlFlow::Break(Some(SqlError::new(SqlState::InvalidRecursion, message)));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Self::Break> {
        self.references += usize::from(self.is_it(factor));
        if self.references > 1 {
            let message =
                format!("recursive reference to query \"{}\" must not appear more than once", self.name);
            return ControlFlow::Break(Some(SqlError::new(SqlState::InvalidRecursion, message)));
        }
        ControlFlow::Continue(())
    }
}

/// Whether a SELECT aggregates the rows of its own FROM.
pub(super) fn aggregates(select: &Select) -> bool {
    let in_outputs = select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(output) | SelectItem::ExprWithAlias { expr: output, .. } => calls_one(output),
        _ => false,
    });
    in_outputs || select.having.as_ref().is_some_and(calls_one)
}

/// Whether an expression calls an aggregate, those in subqueries aside.
fn calls_one(expression: &Expr) -> bool {
    any_outside_queries(expression, |part| {
        matches!(part, Expr::Function(function) if function.over.is_none()
            && unqualified(&function.name).is_some_and(|name| is_aggregate(&name)))
    })
}
