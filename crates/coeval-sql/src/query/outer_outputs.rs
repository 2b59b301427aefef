// SPDX-License-Identifier: Apache-2.0
//! Outputs of subqueries in FROM that are columns of the queries around them, as `a` in `FROM t, LATERAL (SELECT t.a, s.b FROM s) l` and in
//! `SELECT (SELECT max(l.a) FROM (SELECT t.a) l) FROM t`.
//!
//! DataFusion names such a column after what it is in a plan, and `l.a` would find nothing. So it gets its name as an alias.

use super::scopes::{FindRelation, Owner, Scopes};
use crate::column_name::column_name;
use crate::select::quoted;
use crate::walk::{Walk, WalkMut};
use datafusion::sql::sqlparser::ast::{Expr, Query, Select, SelectItem, TableFactor, Visitor, VisitorMut};
use std::ops::ControlFlow;

/// Gives such outputs their names. Costs a walk over a query without subqueries in FROM that may have some.
pub(super) fn named(query: &mut Query, find: FindRelation<'_>) {
    if query.walk(&mut HasSeeing { depth: 0 }).is_continue() {
        return;
    }
    let mut naming = Naming { scopes: Scopes::of_statement(find), around: Vec::new() };
    // Nothing breaks off the visit.
    let _ = query.walk_mut(&mut naming);
}

/// Breaks off where there is a subquery in FROM that sees columns of queries around it: one that is LATERAL, or in the FROM of a subquery in an
/// expression.
struct HasSeeing {
    /// How many expressions there are around the place.
    depth: usize,
}

impl Visitor for HasSeeing {
    type Break = ();

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Derived { lateral, .. } if *lateral || self.depth > 0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

struct Naming<'f> {
    scopes: Scopes<'f>,
    /// How many queries there are around each subquery in FROM that the place is in.
    around: Vec<usize>,
}

impl VisitorMut for Naming<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.scopes.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.scopes.turn_to(select);
        let Some(&around) = self.around.last().filter(|around| **around + 1 == self.scopes.depth()) else {
            return ControlFlow::Continue(());
        };
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expression) = &*item else { continue };
            let owner = self.scopes.owner_of_column(expression);
            if matches!(owner, Some(Owner::Query(place)) if place < around) {
                let alias = quoted(column_name(expression));
                *item = SelectItem::ExprWithAlias { expr: expression.clone(), alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if matches!(factor, TableFactor::Derived { .. }) {
            self.around.push(self.scopes.depth());
        }
        self.scopes.enter_table(factor);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if matches!(factor, TableFactor::Derived { .. }) {
            self.around.pop();
        }
        self.scopes.leave_table(factor);
        ControlFlow::Continue(())
    }
}
