// SPDX-License-Identifier: Apache-2.0
//! A query with aggregates that are written in its subqueries, as one that is planned.
//!
//! ```sql
//! SELECT o.b, (SELECT max(o.a) FROM u) FROM t o GROUP BY o.b
//! SELECT g.c0 AS b, (SELECT g.c1 FROM u) FROM (SELECT o.b AS c0, max(o.a) AS c1 FROM t o GROUP BY o.b) g
//! ```
//!
//! The groups go into a subquery in FROM, with all that the query says of them: its aggregates, wherever they are written, the
//! expressions that it is grouped by, and other columns, which have to depend on these. HAVING becomes the WHERE of what is
//! left.

use super::aggregate;
use crate::column_name::column_name;
use crate::names::fold;
use crate::query::dialect::output_name;
use crate::query::scopes::{Owner, Scopes, keeping_scopes};
use crate::select::{body as select_body, of_body as query_of_body};
use crate::walk::WalkMut;
use datafusion::execution::context::SessionState;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, TableAlias,
    TableFactor, TableWithJoins, Value, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// The query of `select` and `order` in two; `number` makes its names its own. `None` where it cannot be told what a name
/// means; both are left half changed then.
pub(super) fn regroup(
    select: &mut Select,
    order: Option<&mut OrderBy>,
    scopes: &mut Scopes<'_>,
    functions: &SessionState,
    number: usize,
) -> Option<()> {
    let here = scopes.depth() - 1;
    name_groups(&mut select.group_by, &select.projection, scopes);
    let table = Ident::with_quote('"', format!("coeval_groups_{number}"));
    let groups = computed_groups(&select.group_by);
    let mut regrouping = Regrouping { scopes, functions, here, groups, table, outputs: Vec::new() };
    if let Some(order) = order {
        regrouping.change_order(order, &select.projection)?;
    }
    if let Some(Distinct::On(expressions)) = &mut select.distinct {
        regrouping.change(expressions)?;
    }
    for item in &mut select.projection {
        regrouping.change_output(item)?;
    }
    regrouping.change(&mut select.having)?;
    regrouping.change(&mut select.named_window)?;
    put_groups_in_from(select, regrouping.table, regrouping.outputs);
    Some(())
}

/// Puts what places and names of outputs in GROUP BY stand for in their place: the groups get other outputs.
fn name_groups(group_by: &mut GroupByExpr, projection: &[SelectItem], scopes: &Scopes<'_>) {
    let GroupByExpr::Expressions(expressions, _) = group_by else { return };
    for expression in expressions {
        let output = match &*expression {
            Expr::Value(place) => match &place.value {
                Value::Number(digits, _) => {
                    let place = digits.parse().unwrap_or(0_usize);
                    place.checked_sub(1).and_then(|place| projection.get(place))
                }
                _ => None,
            },
            // A column of a table comes before an output of the same name.
            Expr::Identifier(name)
                if scopes.owner_of_column(expression) != Some(Owner::Query(scopes.depth() - 1)) =>
            {
                projection.iter().find(|item| output_name(item).is_some_and(|output| output == fold(name)))
            }
            _ => None,
        };
        if let Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = output {
            *expression = expr.clone();
        }
    }
}

/// What a query is grouped by and what is more than a column.
fn computed_groups(group_by: &GroupByExpr) -> Vec<Expr> {
    let GroupByExpr::Expressions(expressions, _) = group_by else { return Vec::new() };
    let mut groups = Vec::new();
    expressions.iter().for_each(|expression| add_groups(expression, &mut groups));
    let is_computed =
        |group: &Expr| !matches!(group, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_));
    groups.into_iter().map(without_parentheses).filter(|group| is_computed(group)).cloned().collect()
}

/// Adds what a group is made of.
fn add_groups<'g>(group: &'g Expr, groups: &mut Vec<&'g Expr>) {
    match group {
        Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
            sets.iter().flatten().for_each(|member| add_groups(member, groups));
        }
        Expr::Tuple(columns) => columns.iter().for_each(|column| add_groups(column, groups)),
        plain => groups.push(plain),
    }
}

fn without_parentheses(expression: &Expr) -> &Expr {
    match expression {
        Expr::Nested(inner) => without_parentheses(inner),
        other => other,
    }
}

/// Makes the query one over its groups.
fn put_groups_in_from(select: &mut Select, table: Ident, outputs: Vec<Expr>) {
    let items = outputs.into_iter().enumerate();
    let items = items.map(|(place, expr)| SelectItem::ExprWithAlias { expr, alias: placed_column(place) });
    let mut groups = select_body(items.collect(), std::mem::take(&mut select.from), select.selection.take());
    let no_groups = GroupByExpr::Expressions(Vec::new(), Vec::new());
    groups.group_by = std::mem::replace(&mut select.group_by, no_groups);
    let relation = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query_of_body(None, SetExpr::Select(Box::new(groups)))),
        alias: Some(TableAlias { explicit: true, name: table, columns: Vec::new(), at: None }),
        sample: None,
    };
    select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    select.selection = select.having.take();
}

fn placed_column(place: usize) -> Ident {
    Ident::with_quote('"', format!("c{place}"))
}

/// What a subquery of one row gives that reads nothing, `(SELECT x)`.
fn only_output(query: &Query) -> Option<&Expr> {
    let is_bare = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty();
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let reads_nothing = select.from.is_empty()
        && select.selection.is_none()
        && select.having.is_none()
        && select.distinct.is_none();
    match select.projection.as_slice() {
        [SelectItem::UnnamedExpr(only) | SelectItem::ExprWithAlias { expr: only, .. }]
            if is_bare && reads_nothing =>
        {
            Some(only)
        }
        _ => None,
    }
}

/// Puts outputs of the groups in the place of what belongs to the query.
struct Regrouping<'s, 'f> {
    scopes: &'s mut Scopes<'f>,
    functions: &'s SessionState,
    /// How many queries there are around the query.
    here: usize,
    groups: Vec<Expr>,
    /// The name of the groups in FROM, and what they give.
    table: Ident,
    outputs: Vec<Expr>,
}

impl Regrouping<'_, '_> {
    fn change(&mut self, syntax: &mut impl VisitMut) -> Option<()> {
        syntax.walk_mut(self).is_continue().then_some(())
    }

    /// An output keeps its name.
    fn change_output(&mut self, item: &mut SelectItem) -> Option<()> {
        match item {
            SelectItem::ExprWithAlias { expr, .. } => self.change(expr),
            SelectItem::UnnamedExpr(expression) => {
                let alias = Ident::with_quote('"', column_name(expression));
                let mut expr = expression.clone();
                self.change(&mut expr)?;
                *item = SelectItem::ExprWithAlias { expr, alias };
                Some(())
            }
            // All columns of a table are no aggregates.
            _ => None,
        }
    }

    /// Names of outputs stay.
    fn change_order(&mut self, order: &mut OrderBy, projection: &[SelectItem]) -> Option<()> {
        let OrderByKind::Expressions(orderings) = &mut order.kind else { return None };
        for ordering in orderings {
            let is_output = |name: &Ident| {
                projection.iter().any(|item| output_name(item).is_some_and(|output| output == fold(name)))
            };
            if !matches!(&ordering.expr, Expr::Identifier(name) if is_output(name)) {
                self.change(&mut ordering.expr)?;
            }
        }
        Some(())
    }

    /// Whose an expression is that may stand in the list of the groups; `None` of all others.
    fn owner(&mut self, expression: &Expr) -> Option<Owner> {
        if let Some(owner) = self.scopes.owner_of_column(expression) {
            return Some(owner);
        }
        let is_own = self.scopes.depth() == self.here + 1;
        if let Some(function) = aggregate(expression, self.functions) {
            return Some(match self.scopes.owner_of(function) {
                Owner::Nobody if is_own => Owner::Query(self.here),
                owner => owner,
            });
        }
        // In subqueries PostgreSQL knows none but columns as groups.
        (is_own && self.groups.contains(expression)).then(|| self.scopes.owner_of(expression))
    }
}

impl VisitorMut for Regrouping<'_, '_> {
    type Break = ();

    keeping_scopes!(&mut);

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        match self.owner(expression) {
            Some(Owner::Query(place)) if place == self.here => {
                let known = self.outputs.iter().position(|output| *output == *expression);
                let place = known.unwrap_or(self.outputs.len());
                let column = Expr::CompoundIdentifier(vec![self.table.clone(), placed_column(place)]);
                let replaced = std::mem::replace(expression, column);
                if known.is_none() {
                    self.outputs.push(replaced);
                }
                ControlFlow::Continue(())
            }
            Some(Owner::Unknown) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    /// `(SELECT max(o.a))` is an output itself: it need not run for each group.
    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if let Expr::Subquery(query) = &*expression
            && let Some(Expr::CompoundIdentifier(parts)) = only_output(query)
            && parts.first() == Some(&self.table)
        {
            *expression = Expr::CompoundIdentifier(parts.clone());
        }
        ControlFlow::Continue(())
    }
}
