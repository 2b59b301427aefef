// SPDX-License-Identifier: Apache-2.0
//! Columns of a grouped query that have no one value in a group.

use super::clauses::bare;
use super::{at, is_own_aggregate, own_aggregate, placed};
use crate::cancel;
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::query::scopes::{FindRelation, OwnColumn, Scopes};
use crate::walk::Walk;
use datafusion::execution::context::SessionState;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Spanned, Value,
    Visitor,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// `42803` for the first such column; `None` if there is none that is known here.
pub(super) fn mistake(query: &Query, find: FindRelation<'_>, functions: &SessionState) -> Option<SqlError> {
    let mut groups = Groups { scopes: Scopes::of_statement(find), functions };
    query.walk(&mut groups).break_value()
}

struct Groups<'f> {
    scopes: Scopes<'f>,
    functions: &'f SessionState,
}

impl Visitor for Groups<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
        self.scopes.enter(query);
        match (query.body.as_ref(), query.order_by.as_ref().map(|order| &order.kind)) {
            (SetExpr::Select(select), Some(OrderByKind::Expressions(order))) => self.check(select, order),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<SqlError> {
        self.scopes.turn_to(select);
        self.check(select, &[])
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<SqlError> {
        self.scopes.leave();
        ControlFlow::Continue(())
    }
}

impl Groups<'_> {
    fn check(&mut self, select: &Select, order: &[OrderByExpr]) -> ControlFlow<SqlError> {
        let Some(keys) = Keys::of(select).filter(|_| self.is_grouped(select, order)) else {
            return ControlFlow::Continue(());
        };
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(output) | SelectItem::ExprWithAlias { expr: output, .. } => {
                    self.check_expression(output, &keys)?;
                }
                all => self.check_all(all, select, &keys)?,
            }
        }
        for key in order.iter().map(|one| &one.expr).filter(|key| !is_output_name(key, select)) {
            self.check_expression(key, &keys)?;
        }
        match &select.having {
            Some(condition) => self.check_expression(condition, &keys),
            None => ControlFlow::Continue(()),
        }
    }

    /// Whether a query has groups, or is one.
    fn is_grouped(&mut self, select: &Select, order: &[OrderByExpr]) -> bool {
        let has_groups = match &select.group_by {
            GroupByExpr::Expressions(groups, _) => !groups.is_empty(),
            GroupByExpr::All(_) => false,
        };
        let (scopes, functions) = (&mut self.scopes, self.functions);
        has_groups
            || select.having.is_some()
            || own_aggregate(scopes, functions, &select.projection).is_some()
            || order.iter().any(|one| own_aggregate(scopes, functions, &one.expr).is_some())
    }

    fn check_expression(&mut self, expression: &Expr, keys: &Keys) -> ControlFlow<SqlError> {
        let (scopes, functions) = (&mut self.scopes, self.functions);
        let mut search = Ungrouped { scopes, functions, keys, covering: Vec::new(), queries: 0 };
        expression.walk(&mut search)
    }

    /// The same for all columns of a table, or of all.
    fn check_all(&mut self, item: &SelectItem, select: &Select, keys: &Keys) -> ControlFlow<SqlError> {
        for name in self.scopes.columns_of(item, select).unwrap_or_default() {
            let column = Expr::Identifier(Ident::with_quote('"', name));
            if let Some(own) = self.scopes.own_column(&column).filter(|own| !keys.decide(own)) {
                return ControlFlow::Break(at(ungrouped(&own), item.span()));
            }
        }
        ControlFlow::Continue(())
    }
}

/// Whether a key of ORDER BY is an output's name, or its place.
fn is_output_name(key: &Expr, select: &Select) -> bool {
    match key {
        Expr::Value(_) => true,
        Expr::Identifier(name) => select
            .projection
            .iter()
            .any(|item| matches!(item, SelectItem::ExprWithAlias { alias, .. } if fold(alias) == fold(name))),
        _ => false,
    }
}

fn ungrouped(column: &OwnColumn<'_>) -> SqlError {
    let name = match column.table {
        Some(table) => format!("{table}.{}", column.name),
        None => column.name.clone(),
    };
    let message =
        format!("column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function");
    SqlError::new(SqlState::GroupingError, message)
}

/// What a query is grouped by.
#[derive(Default)]
struct Keys {
    /// The names of those that are columns.
    columns: HashSet<String>,
    /// All others, bare.
    others: HashSet<String>,
}

impl Keys {
    /// Those of a query; `None` if one is the place of an output that is not known.
    fn of(select: &Select) -> Option<Self> {
        let mut keys = Self::default();
        let GroupByExpr::Expressions(groups, _) = &select.group_by else { return None };
        groups.iter().try_for_each(|group| keys.add(group, select))?;
        Some(keys)
    }

    fn add(&mut self, group: &Expr, select: &Select) -> Option<()> {
        match group {
            Expr::Nested(inner) => return self.add(inner, select),
            Expr::Tuple(list) => return list.iter().try_for_each(|one| self.add(one, select)),
            Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
                return sets.iter().flatten().try_for_each(|one| self.add(one, select));
            }
            Expr::Value(value) => {
                let Value::Number(place, _) = &value.value else { return Some(()) };
                let before = place.parse::<usize>().ok()?.checked_sub(1)?;
                if select.projection.iter().take(before + 1).any(|item| output_of(item).is_none()) {
                    return None;
                }
                self.add_plain(output_of(select.projection.get(before)?)?);
            }
            Expr::Identifier(name) => {
                // It may be the name of an output as well as of a column: then neither is taken for a mistake.
                let named = select.projection.iter().find_map(|item| match item {
                    SelectItem::ExprWithAlias { expr, alias } if fold(alias) == fold(name) => Some(expr),
                    _ => None,
                });
                if let Some(output) = named {
                    self.add_plain(output);
                }
                self.add_plain(group);
            }
            other => self.add_plain(other),
        }
        Some(())
    }

    fn add_plain(&mut self, expression: &Expr) {
        match column_name(expression) {
            Some(name) => self.columns.insert(name),
            None => self.others.insert(bare(expression)),
        };
    }

    /// Whether an expression is one of the keys, but for what cannot be known here.
    fn has(&self, expression: &Expr) -> bool {
        match column_name(expression) {
            Some(name) => self.columns.contains(&name),
            None => !self.others.is_empty() && self.others.contains(&bare(expression)),
        }
    }

    /// Whether a column has one value in each group: by itself, or as its table's primary key has.
    fn decide(&self, column: &OwnColumn<'_>) -> bool {
        let has_key = !column.key.is_empty() && column.key.iter().all(|name| self.columns.contains(name));
        has_key || self.columns.contains(&column.name)
    }
}

fn output_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(output) | SelectItem::ExprWithAlias { expr: output, .. } => Some(output),
        _ => None,
    }
}

fn column_name(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Identifier(name) => Some(fold(name)),
        Expr::CompoundIdentifier(parts) => parts.last().map(fold),
        _ => None,
    }
}

/// Looks for a column outside of keys, aggregates and subqueries.
struct Ungrouped<'s, 'f> {
    scopes: &'s mut Scopes<'f>,
    functions: &'s SessionState,
    keys: &'s Keys,
    /// Of each expression around the place, whether what is within it has one value in a group.
    covering: Vec<bool>,
    /// How many subqueries there are around the place.
    queries: usize,
}

impl Visitor for Ungrouped<'_, '_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<SqlError> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<SqlError> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<SqlError> {
        if let Err(error) = cancel::check() {
            return ControlFlow::Break(error);
        }
        let is_covered = self.queries > 0
            || self.covering.last().copied().unwrap_or_default()
            || self.keys.has(expression)
            || is_own_aggregate(self.scopes, self.functions, expression);
        self.covering.push(is_covered);
        match self.scopes.own_column(expression).filter(|own| !is_covered && !self.keys.decide(own)) {
            Some(own) => ControlFlow::Break(placed(ungrouped(&own), expression)),
            None => ControlFlow::Continue(()),
        }
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<SqlError> {
        self.covering.pop();
        ControlFlow::Continue(())
    }
}
