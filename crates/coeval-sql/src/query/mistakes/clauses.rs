// SPDX-License-Identifier: Apache-2.0
//! Clauses that hold what they may not: the words, the SQLSTATE and the place that PostgreSQL has for each.

use super::{at, first, own_aggregate, placed};
use crate::cancel;
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::query::dialect::{are_same, meant, place_of};
use crate::query::outer_aggregates::aggregate;
use crate::query::scopes::{FindRelation, Scopes};
use crate::stack::with_room;
use crate::walk::{Walk, change_expressions, find_expression, step};
use datafusion::execution::context::SessionState;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, Expr, Function, FunctionArguments, GroupByExpr, Ident, NamedWindowExpr,
    ObjectNamePart, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Spanned, UnaryOperator,
    Value, Values, Visit, Visitor, WindowFrameBound, WindowSpec, WindowType, With,
};
use datafusion::sql::sqlparser::tokenizer::Span;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// The first mistake in a query's clauses; `None` if there is none that is known here.
pub(super) fn mistake(query: &Query, find: FindRelation<'_>, functions: &SessionState) -> Option<SqlError> {
    let mut clauses = Clauses { scopes: Scopes::of_statement(find), functions, rows: Vec::new() };
    query.walk(&mut clauses).break_value()
}

struct Clauses<'f> {
    scopes: Scopes<'f>,
    functions: &'f SessionState,
    /// Subqueries that stand for a row, so that they may have several columns.
    rows: Vec<*const Query>,
}

impl Visitor for Clauses<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
        self.scopes.enter(query);
        step(self.in_query(query))
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<SqlError> {
        self.scopes.turn_to(select);
        step(self.in_select(select))
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<SqlError> {
        self.scopes.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<SqlError> {
        step(cancel::check().and_then(|()| self.in_expression(expression)))
    }
}

impl Clauses<'_> {
    fn in_query(&self, query: &Query) -> Result<(), SqlError> {
        query.with.as_ref().map_or(Ok(()), in_parts)?;
        self.in_body(&query.body)?;
        let Some(OrderByKind::Expressions(order)) = query.order_by.as_ref().map(|order| &order.kind) else {
            return Ok(());
        };
        let keys = order.iter().map(|one| &one.expr);
        refuse_places("ORDER BY", keys, self.scopes.width_of(&query.body))?;
        match query.body.as_ref() {
            SetExpr::Select(select) => in_distinct_order(select, order),
            _ => Ok(()),
        }
    }

    /// Rows of one width, whatever they are put together from.
    fn in_body(&self, body: &SetExpr) -> Result<(), SqlError> {
        match body {
            SetExpr::SetOperation { left, op, right, .. } => {
                with_room(|| self.in_body(left))?;
                with_room(|| self.in_body(right))?;
                match (self.scopes.width_of(left), self.scopes.width_of(right)) {
                    (Some(left), Some(width)) if left != width => {
                        let message = format!("each {op} query must have the same number of columns");
                        Err(at(SqlError::syntax(message), first_output(right)))
                    }
                    _ => Ok(()),
                }
            }
            SetExpr::Values(values) => in_values(values),
            _ => Ok(()),
        }
    }

    fn in_select(&mut self, select: &Select) -> Result<(), SqlError> {
        if let Some(condition) = &select.selection {
            self.refuse_calls(condition, "WHERE")?;
        }
        for join in select.from.iter().flat_map(|tables| &tables.joins) {
            self.refuse_calls(&join.join_operator, "JOIN conditions")?;
        }
        if let GroupByExpr::Expressions(groups, _) = &select.group_by {
            self.refuse_calls(groups, "GROUP BY")?;
            refuse_places("GROUP BY", groups.iter(), self.scopes.width_of_select(select))?;
        }
        if let Some(condition) = &select.having {
            refuse_windows(condition, "HAVING")?;
        }
        for window in &select.named_window {
            if let NamedWindowExpr::WindowSpec(window) = &window.1 {
                in_window(window)?;
            }
        }
        Ok(())
    }

    /// Refuses aggregates and windows where neither may be.
    fn refuse_calls(&mut self, syntax: &impl Visit, clause: &str) -> Result<(), SqlError> {
        if let Some(place) = own_aggregate(&mut self.scopes, self.functions, syntax) {
            let message = format!("aggregate functions are not allowed in {clause}");
            return Err(at(SqlError::new(SqlState::GroupingError, message), place));
        }
        refuse_windows(syntax, clause)
    }

    fn in_expression(&mut self, expression: &Expr) -> Result<(), SqlError> {
        match expression {
            Expr::Function(function) => {
                if aggregate(expression, self.functions).is_some() {
                    self.in_aggregate(&function.args)?;
                }
                self.in_call(function)
            }
            Expr::BinaryOp { left, right, .. } => {
                for (row, other) in [(left, right), (right, left)] {
                    if let (true, Expr::Subquery(query)) = (is_row(row), other.as_ref()) {
                        self.rows.push(std::ptr::from_ref(query.as_ref()));
                    }
                }
                Ok(())
            }
            Expr::InSubquery { expr, subquery, .. } if !is_row(expr) => {
                let is_wide = self.scopes.width_of_query(subquery).is_some_and(|width| width > 1);
                if is_wide { Err(SqlError::syntax("subquery has too many columns")) } else { Ok(()) }
            }
            Expr::Subquery(query) if !self.rows.contains(&std::ptr::from_ref(query.as_ref())) => {
                let is_wide = self.scopes.width_of_query(query).is_some_and(|width| width > 1);
                if is_wide { Err(SqlError::syntax("subquery must return only one column")) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    fn in_aggregate(&mut self, arguments: &FunctionArguments) -> Result<(), SqlError> {
        if let Some(place) = own_aggregate(&mut self.scopes, self.functions, arguments) {
            let message = "aggregate function calls cannot be nested";
            return Err(at(SqlError::new(SqlState::GroupingError, message), place));
        }
        match first(arguments, is_window) {
            Some(place) => {
                let message = "aggregate function calls cannot contain window function calls";
                Err(at(SqlError::new(SqlState::WindowingError, message), place))
            }
            None => Ok(()),
        }
    }

    fn in_call(&mut self, function: &Function) -> Result<(), SqlError> {
        if let Some(error) = lone_window(function, self.functions) {
            return Err(error);
        }
        if let Some(condition) = &function.filter {
            self.refuse_calls(condition.as_ref(), "FILTER")?;
        }
        let Some(window) = &function.over else { return Ok(()) };
        if let Some(place) = first(&function.args, is_window) {
            let message = "window function calls cannot be nested";
            return Err(at(SqlError::new(SqlState::WindowingError, message), place));
        }
        if !function.within_group.is_empty() {
            let message = format!("OVER is not supported for ordered-set aggregate {}", function.name);
            return Err(placed(SqlError::new(SqlState::FeatureNotSupported, message), function));
        }
        match window {
            WindowType::WindowSpec(window) => in_window(window),
            WindowType::NamedWindow(_) => Ok(()),
        }
    }
}

/// `42809` for a call without OVER of what is a window and nothing else.
fn lone_window(function: &Function, functions: &SessionState) -> Option<SqlError> {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
    let name = fold(name);
    let is_window = functions.window_functions().contains_key(&name)
        && !functions.aggregate_functions().contains_key(&name)
        && !functions.scalar_functions().contains_key(&name);
    if !is_window || function.over.is_some() || !function.within_group.is_empty() {
        return None;
    }
    let message = format!("window function {name} requires an OVER clause");
    Some(placed(SqlError::new(SqlState::WrongObjectType, message), function))
}

/// The same in an expression.
pub(super) fn lone_window_in(expression: &Expr, functions: &SessionState) -> Option<SqlError> {
    find_expression(expression, |part| match part {
        Expr::Function(function) => lone_window(function, functions),
        _ => None,
    })
}

/// `42712` for two parts of WITH of one name.
fn in_parts(with: &With) -> Result<(), SqlError> {
    let mut known = HashSet::new();
    let mut names = with.cte_tables.iter().map(|part| &part.alias.name);
    match names.find(|name| !known.insert(fold(name))) {
        Some(name) => {
            let message = format!("WITH query name \"{}\" specified more than once", fold(name));
            Err(at(SqlError::new(SqlState::DuplicateAlias, message), name.span))
        }
        None => Ok(()),
    }
}

fn is_window(expression: &Expr) -> bool {
    matches!(expression, Expr::Function(Function { over: Some(_), .. }))
}

fn refuse_windows(syntax: &impl Visit, clause: &str) -> Result<(), SqlError> {
    match first(syntax, is_window) {
        Some(place) => {
            let message = format!("window functions are not allowed in {clause}");
            Err(at(SqlError::new(SqlState::WindowingError, message), place))
        }
        None => Ok(()),
    }
}

/// `42P10` for the place of an output that is not there.
fn refuse_places<'e>(
    clause: &str,
    mut expressions: impl Iterator<Item = &'e Expr>,
    width: Option<usize>,
) -> Result<(), SqlError> {
    let Some(width) = width else { return Ok(()) };
    let is_outside =
        |expression: &&Expr| place_of(expression).is_some_and(|place| place == 0 || place > width);
    let Some(outside) = expressions.find(is_outside) else { return Ok(()) };
    let message = format!("{clause} position {outside} is not in select list");
    Err(placed(SqlError::new(SqlState::InvalidColumnReference, message), outside))
}

/// `42601` for rows of different lengths.
fn in_values(values: &Values) -> Result<(), SqlError> {
    let Some(width) = values.rows.first().map(|row| row.content.len()) else { return Ok(()) };
    let Some(other) = values.rows.iter().find(|row| row.content.len() != width) else { return Ok(()) };
    let error = SqlError::syntax("VALUES lists must all be the same length");
    Err(at(error, other.content.first().map_or_else(Span::empty, Spanned::span)))
}

/// Where the first output of a query stands.
fn first_output(body: &SetExpr) -> Span {
    match body {
        SetExpr::Select(select) => select.projection.first().map_or_else(Span::empty, Spanned::span),
        SetExpr::Query(query) => first_output(&query.body),
        SetExpr::SetOperation { left, .. } => with_room(|| first_output(left)),
        SetExpr::Values(values) => {
            let first = values.rows.first().and_then(|row| row.content.first());
            first.map_or_else(Span::empty, Spanned::span)
        }
        _ => Span::empty(),
    }
}

/// `42P10` for rows that are told apart by something else than what they are ordered by.
fn in_distinct_order(select: &Select, order: &[OrderByExpr]) -> Result<(), SqlError> {
    match &select.distinct {
        Some(Distinct::Distinct) => {
            let is_output = |key: &Expr| select.projection.iter().any(|item| may_be(item, key));
            let Some(key) = order.iter().find(|key| !is_output(&key.expr)) else { return Ok(()) };
            let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
            Err(placed(SqlError::new(SqlState::InvalidColumnReference, message), &key.expr))
        }
        Some(Distinct::On(on)) => match unmatched(on, select, order) {
            Some(place) => {
                let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
                Err(placed(SqlError::new(SqlState::InvalidColumnReference, message), place))
            }
            None => Ok(()),
        },
        Some(Distinct::All) | None => Ok(()),
    }
}

/// Whether a key of ORDER BY may be this output, or one of these.
fn may_be(item: &SelectItem, key: &Expr) -> bool {
    match item {
        _ if place_of(key).is_some() => true,
        SelectItem::UnnamedExpr(output) => bare(output) == bare(key),
        SelectItem::ExprWithAlias { expr, alias } => {
            bare(expr) == bare(key) || bare(&Expr::Identifier(alias.clone())) == bare(key)
        }
        _ => true,
    }
}

/// The expression of DISTINCT ON that ORDER BY does not name before all others.
fn unmatched<'e>(on: &'e [Expr], select: &Select, order: &[OrderByExpr]) -> Option<&'e Expr> {
    let stands_for = |expression: &Expr| meant(expression, &select.projection);
    let mut is_skipped = false;
    for key in order {
        let wanted = stands_for(&key.expr);
        match on.iter().find(|&known| are_same(&stands_for(known), &wanted)) {
            Some(known) if is_skipped => return Some(known),
            Some(_) => {}
            None => is_skipped = true,
        }
    }
    let is_ordered =
        |known: &Expr| order.iter().any(|key| are_same(&stands_for(known), &stands_for(&key.expr)));
    on.iter().find(|&known| is_skipped && !is_ordered(known))
}

/// An expression as a text that is the same where the expressions may be: without names of tables, parentheses and capitals.
pub(super) fn bare(expression: &Expr) -> String {
    let plain = |name: &Ident| Expr::Identifier(Ident::with_quote('"', fold(name)));
    let mut bare = expression.clone();
    change_expressions(&mut bare, |part| {
        let replaced = match part {
            Expr::CompoundIdentifier(parts) => parts.last().map(plain),
            Expr::Identifier(name) => Some(plain(name)),
            Expr::Nested(inner) => Some(inner.as_ref().clone()),
            _ => None,
        };
        if let Some(replaced) = replaced {
            *part = replaced;
        }
    });
    bare.to_string().to_lowercase()
}

/// Whether an expression is a row of several values.
fn is_row(expression: &Expr) -> bool {
    match expression {
        Expr::Nested(inner) => is_row(inner),
        Expr::Tuple(_) => true,
        Expr::Function(function) => {
            let name = function.name.0.last().and_then(ObjectNamePart::as_ident);
            name.is_some_and(|name| fold(name) == "row")
        }
        _ => false,
    }
}

/// What PostgreSQL says of the frame of a window.
fn in_window(window: &WindowSpec) -> Result<(), SqlError> {
    let Some(frame) = &window.window_frame else { return Ok(()) };
    let ends = [("starting", Some(&frame.start_bound)), ("ending", frame.end_bound.as_ref())];
    for (end, bound) in ends {
        let Some(WindowFrameBound::Preceding(Some(offset)) | WindowFrameBound::Following(Some(offset))) =
            bound
        else {
            continue;
        };
        if let Some(column) = column_in(offset) {
            let message = format!("argument of {} must not contain variables", frame.units);
            return Err(at(SqlError::new(SqlState::InvalidColumnReference, message), column));
        }
        if is_null(offset) {
            let message = format!("frame {end} offset must not be null");
            return Err(SqlError::new(SqlState::NullValueNotAllowed, message));
        }
        if is_negative(offset) {
            let message = format!("frame {end} offset must not be negative");
            return Err(SqlError::new(SqlState::InvalidPrecedingOrFollowingSize, message));
        }
    }
    Ok(())
}

fn column_in(expression: &Expr) -> Option<Span> {
    find_expression(expression, |part| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => Some(part.span()),
        _ => None,
    })
}

fn is_null(expression: &Expr) -> bool {
    matches!(expression, Expr::Value(value) if value.value == Value::Null)
}

/// Whether a number has a sign in front of it that makes it negative.
fn is_negative(expression: &Expr) -> bool {
    match expression {
        Expr::Nested(inner) => is_negative(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => place_of(expr).is_some_and(|number| number > 0),
        Expr::BinaryOp { left, op: BinaryOperator::Minus, right } => {
            matches!((place_of(left), place_of(right)), (Some(left), Some(right)) if left < right)
        }
        _ => false,
    }
}
