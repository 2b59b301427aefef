// SPDX-License-Identifier: Apache-2.0
//! Windows that are made of named ones: `OVER (w ORDER BY x)`, `WINDOW v AS (w ORDER BY x)`.
//!
//! DataFusion knows `OVER w` alone and passes over the name inside of parentheses, and with it over what the window is divided
//! by. So what a window takes from another one is written into it. In ORDER BY it knows no names of windows: there all is written out.

use super::excluded_rows::{is_mark, leaves_out_rows, take_mark};
use super::{COPIED_MAX, frame_offsets, frames};
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::walk::{WalkMut, each_expression};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, NamedWindowDefinition, NamedWindowExpr, OrderByKind, Query, Select, SetExpr, VisitorMut,
    WindowSpec, WindowType,
};
use std::cell::Cell;
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Writes out the windows of one SELECT; those of its subqueries have their own names.
///
/// # Errors
/// `42704` for a name that no window before has, `42P20` for one that is defined twice, for a window that divides or
/// orders otherwise what it takes from another, and for a frame that no window has.
pub(super) fn write_out(select: &mut Select) -> Result<(), SqlError> {
    let known = Windows::of(select)?;
    let mut calls = Calls { known: &known, names: Names::AreKnown, depth: 0 };
    for item in &mut select.projection {
        if let ControlFlow::Break(error) = item.walk_mut(&mut calls) {
            return Err(error);
        }
    }
    for (NamedWindowDefinition(_, window), mut spec) in select.named_window.iter_mut().zip(known.specs) {
        take_mark(&mut spec);
        *window = NamedWindowExpr::WindowSpec(spec);
    }
    Ok(())
}

/// Writes out the windows of calls in the ORDER BY of one SELECT.
///
/// # Errors
/// As [`write_out`].
pub(super) fn write_into_order(query: &mut Query) -> Result<(), SqlError> {
    let (SetExpr::Select(select), Some(order)) = (query.body.as_ref(), &mut query.order_by) else {
        return Ok(());
    };
    let OrderByKind::Expressions(order) = &mut order.kind else { return Ok(()) };
    if select.named_window.is_empty() {
        return Ok(());
    }
    let known = Windows::of(select)?;
    let mut calls = Calls { known: &known, names: Names::AreUnknown, depth: 0 };
    for ordering in order {
        if let ControlFlow::Break(error) = ordering.expr.walk_mut(&mut calls) {
            return Err(error);
        }
    }
    Ok(())
}

/// Takes offsets that are no literals out of the frames of windows that have names.
pub(super) fn take_offsets(select: &mut Select) {
    for NamedWindowDefinition(_, window) in &mut select.named_window {
        if let NamedWindowExpr::WindowSpec(spec) = window {
            frame_offsets::take(spec);
        }
    }
}

/// The windows that have names.
struct Windows {
    /// In the order of their definitions.
    specs: Vec<WindowSpec>,
    /// By name the place of a window, and how many parts it has.
    places: HashMap<String, (usize, usize)>,
    /// The parts of all copies.
    copied: Cell<usize>,
}

impl Windows {
    /// Those of a SELECT, written out.
    fn of(select: &Select) -> Result<Self, SqlError> {
        let specs = Vec::with_capacity(select.named_window.len());
        let mut known = Self { specs, places: HashMap::new(), copied: Cell::new(0) };
        for NamedWindowDefinition(name, window) in &select.named_window {
            let name = fold(name);
            if known.places.contains_key(&name) {
                let message = format!("window \"{name}\" is already defined");
                return Err(SqlError::new(SqlState::WindowingError, message));
            }
            let spec = match window {
                NamedWindowExpr::NamedWindow(other) => known.copied(&fold(other))?.clone(),
                NamedWindowExpr::WindowSpec(spec) => {
                    let mut spec = spec.clone();
                    known.fill(&mut spec)?;
                    spec
                }
            };
            frames::check(&spec)?;
            let mut parts = 1;
            each_expression(&spec, |_| parts += 1);
            known.places.insert(name, (known.specs.len(), parts));
            known.specs.push(spec);
        }
        Ok(known)
    }

    /// The window of this name, which is going to be copied: whole, for each use of the name.
    fn copied(&self, name: &str) -> Result<&WindowSpec, SqlError> {
        let Some(&(place, parts)) = self.places.get(name) else {
            let message = format!("window \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::UndefinedObject, message));
        };
        self.copied.set(self.copied.get().saturating_add(parts));
        if self.copied.get() > COPIED_MAX {
            let message = "the windows of the query are too large together";
            return Err(SqlError::new(SqlState::StatementTooComplex, message)
                .with_detail("Each counts as often as it is named.")
                .with_hint("Compute what it is divided and ordered by in a subquery in FROM."));
        }
        Ok(&self.specs[place])
    }

    /// Writes into a window what it takes from the one that it names.
    fn fill(&self, spec: &mut WindowSpec) -> Result<(), SqlError> {
        let Some(name) = spec.window_name.take() else { return Ok(()) };
        let name = fold(&name);
        let from = self.copied(&name)?;
        let refused = |message: String| Err(SqlError::new(SqlState::WindowingError, message));
        if spec.partition_by.iter().any(|expression| !is_mark(expression)) {
            return refused(format!("cannot override PARTITION BY clause of window \"{name}\""));
        }
        if !spec.order_by.is_empty() && !from.order_by.is_empty() {
            return refused(format!("cannot override ORDER BY clause of window \"{name}\""));
        }
        if from.window_frame.is_some() {
            return refused(format!("cannot copy window \"{name}\" because it has a frame clause"));
        }
        spec.partition_by.extend_from_slice(&from.partition_by);
        if spec.order_by.is_empty() {
            spec.order_by.clone_from(&from.order_by);
        }
        Ok(())
    }
}

/// Whether DataFusion knows the names of windows in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    AreKnown,
    AreUnknown,
}

/// Writes out the windows of calls; `depth` says how many subqueries there are around the place.
struct Calls<'w> {
    known: &'w Windows,
    names: Names,
    depth: usize,
}

impl Calls<'_> {
    fn write_out(&self, call: &mut Function) -> Result<(), SqlError> {
        if let Some(WindowType::NamedWindow(name)) = &call.over {
            let spec = self.known.copied(&fold(name))?;
            if self.names == Names::AreUnknown || leaves_out_rows(spec) {
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
