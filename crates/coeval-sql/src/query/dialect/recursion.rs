// SPDX-License-Identifier: Apache-2.0
//! What PostgreSQL refuses in the recursive part of `WITH RECURSIVE`: an aggregate of the rows of the step before, which would
//! have a row at each step and never end, and more than one look at them.

use super::unqualified;
use crate::error::{SqlError, SqlState};
use crate::functions::is_aggregate;
use crate::names::fold;
use crate::walk::{Walk, any_outside_queries, find_query};
use datafusion::sql::sqlparser::ast::{
    Expr, ObjectNamePart, Query, Select, SelectItem, SetExpr, SetOperator, Statement, TableFactor, Visitor,
};
use std::ops::ControlFlow;

/// Looks at the recursive parts of all queries of a statement that is planned elsewhere: an engine may run without an end what is
/// refused here.
///
/// # Errors
/// `42P19`.
pub(crate) fn check_all(statement: &Statement) -> Result<(), SqlError> {
    find_query(statement, |query| check(query).err()).map_or(Ok(()), Err)
}

/// Looks at the recursive parts of a query's WITH.
///
/// # Errors
/// `42P19`.
pub(super) fn check(query: &Query) -> Result<(), SqlError> {
    for part in query.with.iter().filter(|with| with.recursive).flat_map(|with| &with.cte_tables) {
        let SetExpr::SetOperation { op: SetOperator::Union, right, .. } = part.query.body.as_ref() else {
            continue;
        };
        let name = fold(&part.alias.name);
        if let ControlFlow::Break(Some(error)) = right.walk(&mut Steps { name: &name, references: 0 }) {
            return Err(error);
        }
    }
    Ok(())
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
