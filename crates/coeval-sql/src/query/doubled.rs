// SPDX-License-Identifier: Apache-2.0
//! Names that several columns of one subquery have, as `id` in `(SELECT * FROM a JOIN b ON ...) q`, or of sets beside each other, as
//! `unnest` in `unnest(x, y)`. DataFusion gives the others new names, and takes the first one for what is meant.

use super::ordered_names::ambiguous_order;
use super::scopes::{FindRelation, Scopes, names_of_sets};
use crate::column_name::unmarked;
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::walk::Walk;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Spanned, TableFactor, Visitor,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Refuses a column that is named by such a name. Costs a walk over a query that has subqueries or such sets in FROM, or a WITH.
///
/// # Errors
/// `42702`.
pub(super) fn refuse(query: &Query, find: FindRelation<'_>) -> Result<(), SqlError> {
    if query.walk(&mut Doubling).is_continue() {
        return Ok(());
    }
    let mut columns = Columns { scopes: Scopes::of_statement(find), outputs: HashSet::new() };
    query.try_walk(&mut columns)
}

/// Breaks off where there are columns of a subquery, or of sets beside each other.
struct Doubling;

impl Visitor for Doubling {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if query.with.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let is_subquery = matches!(factor, TableFactor::Derived { .. } | TableFactor::NestedJoin { .. });
        let is_doubling = is_subquery || names_of_sets(factor).is_some();
        if is_doubling { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

struct Columns<'f> {
    scopes: Scopes<'f>,
    /// Names in ORDER BY, which may be those of outputs.
    outputs: HashSet<*const Expr>,
}

impl Columns<'_> {
    /// The name in ORDER BY that several columns of one `*` have.
    fn several_of_star<'q>(&self, query: &'q Query, order: &'q [OrderByExpr]) -> Option<&'q Ident> {
        let SetExpr::Select(select) = query.body.as_ref() else { return None };
        let is_star =
            |item: &&SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
        let stars = select.projection.iter().filter(is_star);
        let stars: Vec<Vec<String>> = stars.filter_map(|item| self.scopes.columns_of(item, select)).collect();
        let has_several = |star: &Vec<String>, name: &str| {
            star.iter().filter(|column| unmarked(column) == name).nth(1).is_some()
        };
        order.iter().find_map(|key| match &key.expr {
            Expr::Identifier(name) if stars.iter().any(|star| has_several(star, &fold(name))) => Some(name),
            _ => None,
        })
    }
}

impl Visitor for Columns<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
        self.scopes.enter(query);
        if let Some(OrderByKind::Expressions(order)) = query.order_by.as_ref().map(|order| &order.kind) {
            let names = order.iter().map(|key| &key.expr).filter(|key| matches!(key, Expr::Identifier(_)));
            self.outputs.extend(names.map(std::ptr::from_ref));
            if let Some(name) = self.several_of_star(query, order) {
                return ControlFlow::Break(ambiguous_order(name));
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<SqlError> {
        self.scopes.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<SqlError> {
        self.scopes.turn_to_entered(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<SqlError> {
        self.scopes.enter_table(factor);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<SqlError> {
        self.scopes.leave_table(factor);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<SqlError> {
        let doubled = match self.scopes.doubled(expression) {
            Some(name) if !self.outputs.contains(&std::ptr::from_ref(expression)) => name,
            _ => return ControlFlow::Continue(()),
        };
        let message = format!("column reference \"{doubled}\" is ambiguous");
        let place = expression.span().start;
        let error = SqlError::new(SqlState::AmbiguousColumn, message);
        ControlFlow::Break(error.at(place.line, place.column))
    }
}
