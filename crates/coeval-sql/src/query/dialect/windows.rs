// SPDX-License-Identifier: Apache-2.0
//! Windows that are made of named ones: `OVER (w ORDER BY x)`, `WINDOW v AS (w ORDER BY x)`.
//!
//! DataFusion knows `OVER w` alone and passes over the name inside of parentheses, and with it over what the window is divided
//! by. So what a window takes from another one is written into it.

use super::excluded_rows::{leaves_out_current_row, take_mark};
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::walk::try_change_outside_queries;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, NamedWindowDefinition, NamedWindowExpr, Select, WindowSpec, WindowType,
};

/// Writes out the windows of one SELECT; those of its subqueries have their own names.
///
/// # Errors
/// `42704` for a name that no window before has, `42P20` for one that is defined twice, and for a window that divides or
/// orders otherwise what it takes from another.
pub(super) fn write_out(select: &mut Select) -> Result<(), SqlError> {
    let mut known = Windows(Vec::with_capacity(select.named_window.len()));
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
    try_change_outside_queries(&mut select.projection, |expression| match expression {
        Expr::Function(call) => known.write_out(call),
        _ => Ok(()),
    })?;
    for NamedWindowDefinition(_, window) in &mut select.named_window {
        if let NamedWindowExpr::WindowSpec(spec) = window {
            take_mark(spec);
        }
    }
    Ok(())
}

/// The windows that have names, in the order of their definitions.
struct Windows(Vec<(String, WindowSpec)>);

impl Windows {
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

    /// Writes out the window of a call.
    fn write_out(&self, call: &mut Function) -> Result<(), SqlError> {
        if let Some(WindowType::NamedWindow(name)) = &call.over {
            let spec = self.find(&fold(name))?;
            if leaves_out_current_row(spec) {
                call.over = Some(WindowType::WindowSpec(spec.clone()));
            }
            return Ok(());
        }
        match &mut call.over {
            Some(WindowType::WindowSpec(spec)) => self.fill(spec),
            Some(WindowType::NamedWindow(_)) | None => Ok(()),
        }
    }
}
