// SPDX-License-Identifier: Apache-2.0
//! Windows that are made of named ones: `OVER (w ORDER BY x)`, `WINDOW v AS (w ORDER BY x)`.
//!
//! DataFusion knows `OVER w` alone and passes over the name inside of parentheses, and with it over what the window is divided
//! by. So what a window takes from another one is written into it.

use super::excluded_rows::{leaves_out_current_row, take_mark};
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::walk::WalkMut;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, NamedWindowDefinition, NamedWindowExpr, Query, Select, SetExpr, VisitorMut, WindowSpec,
    WindowType,
};
use std::ops::ControlFlow;

/// Writes out the windows of one SELECT; those of its subqueries have their own names.
///
/// # Errors
/// `42704` for a name that no window before has, `42P20` for one that is defined twice, and for a window that divides or
/// orders otherwise what it takes from another.
pub(super) fn write_out(select: &mut Select) -> Result<(), SqlError> {
    let known = Windows::of(select)?;
    let mut calls = Calls { known: &known, place: Place::SelectList, depth: 0 };
    for item in &mut select.projection {
        if let ControlFlow::Break(error) = item.walk_mut(&mut calls) {
            return Err(error);
        }
    }
    for NamedWindowDefinition(_, window) in &mut select.named_window {
        if let NamedWindowExpr::WindowSpec(spec) = window {
            take_mark(spec);
        }
    }
    Ok(())
}

/// Writes out the windows of a query's ORDER BY, whose names DataFusion does not know there.
///
/// # Errors
/// As [`write_out`].
pub(super) fn write_out_order(query: &mut Query) -> Result<(), SqlError> {
    let (Some(order), SetExpr::Select(select)) = (&mut query.order_by, query.body.as_mut()) else {
        return Ok(());
    };
    if select.named_window.is_empty() {
        return Ok(());
    }
    let known = Windows::of(select)?;
    match order.walk_mut(&mut Calls { known: &known, place: Place::OrderBy, depth: 0 }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The windows that have names, in the order of their definitions.
struct Windows(Vec<(String, WindowSpec)>);

impl Windows {
    /// Those of a SELECT, in which each is written out.
    fn of(select: &mut Select) -> Result<Self, SqlError> {
        let mut known = Self(Vec::with_capacity(select.named_window.len()));
        for NamedWindowDefinition(name, window) in &mut select.named_window {
            let name = fold(name);
            if known.find(&name).is_ok() {
                let message = format!("window \"{name}\" is already defined");
                return Err(SqlError::new(SqlState::WindowingError, message));
            }
            let spec = match window {
                NamedWindowExpr::NamedWindow(other) => known.find(&fold(other))?.clone(),
                NamedWindowExpr::WindowSpec(spec) => {
                    known.fill(spec)?;
                    spec.clone()
                }
            };
            *window = NamedWindowExpr::WindowSpec(spec.clone());
            known.0.push((name, spec));
        }
        Ok(known)
    }

    fn find(&self, name: &str) -> Result<&WindowSpec, SqlError> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, spec)| spec).ok_or_else(|| {
            SqlError::new(SqlState::UndefinedObject, format!("window \"{name}\" does not exist"))
        })
    }

    /// Writes into a window what it takes from the one that it names.
    fn fill(&self, spec: &mut WindowSpec) -> Result<(), SqlError> {
        let Some(name) = spec.window_name.take() else { return Ok(()) };
        let name = fold(&name);
        let from = self.find(&name)?;
        let refused = |message: String| Err(SqlError::new(SqlState::WindowingError, message));
        if !spec.partition_by.is_empty() {
            return refused(format!("cannot override PARTITION BY clause of window \"{name}\""));
        }
        if !spec.order_by.is_empty() && !from.order_by.is_empty() {
            return refused(format!("cannot override ORDER BY clause of window \"{name}\""));
        }
        if from.window_frame.is_some() {
            return refused(format!("cannot copy window \"{name}\" because it has a frame clause"));
        }
        spec.partition_by.clone_from(&from.partition_by);
        if spec.order_by.is_empty() {
            spec.order_by.clone_from(&from.order_by);
        }
        Ok(())
    }
}

/// Where calls over windows stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Where DataFusion finds windows by their names.
    SelectList,
    OrderBy,
}

/// Writes out the windows of calls; `depth` says how many subqueries there are around the place.
struct Calls<'w> {
    known: &'w Windows,
    place: Place,
    depth: usize,
}

impl Calls<'_> {
    fn write_out(&self, call: &mut Function) -> Result<(), SqlError> {
        if let Some(WindowType::NamedWindow(name)) = &call.over {
            let spec = self.known.find(&fold(name))?;
            if self.place == Place::OrderBy || leaves_out_current_row(spec) {
                call.over = Some(WindowType::WindowSpec(spec.clone()));
            }
            return Ok(());
        }
        match &mut call.over {
            Some(WindowType::WindowSpec(spec)) => self.known.fill(spec),
            Some(WindowType::NamedWindow(_)) | None => Ok(()),
        }
    }
}

impl VisitorMut for Calls<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<SqlError> {
        if let (0, Expr::Function(call)) = (self.depth, expression)
            && let Err(error) = self.write_out(call)
        {
            return ControlFlow::Break(error);
        }
        ControlFlow::Continue(())
    }
}
