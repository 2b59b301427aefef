// SPDX-License-Identifier: Apache-2.0
//! `GENERATED ALWAYS AS (expression) STORED`: what may stand there, and what stands on other columns.

use super::expressions;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use coeval_store::{ColumnDef, ColumnState, TableDef};
use datafusion::sql::sqlparser::ast::{Expr, Ident};

/// Refuses expressions that are no value of one row for ever, of the generated columns of a table.
///
/// # Errors
/// `42P17` for functions whose results change and for other generated columns, `0A000` for subqueries, `42803` for
/// aggregates, `42703`, and what is wrong with the expression as the value of its column.
pub(super) fn validate(context: &StatementContext<'_>, def: &TableDef) -> Result<(), SqlError> {
    for column in &def.columns {
        let Some(text) = &column.generated else { continue };
        let expr = expressions::parse(text)?;
        let place = match column.state {
            ColumnState::Computed => "index expression",
            ColumnState::Live
            | ColumnState::Hidden
            | ColumnState::Dropped { .. }
            | ColumnState::Retired { .. } => "column generation expression",
        };
        expressions::refuse_subquery(&expr, place)?;
        expressions::refuse_aggregates_in(context, &expr, place)?;
        for used in expressions::check_columns(def, &expr)? {
            if def.columns[used].generated.is_some() && column.state != ColumnState::Computed {
                let name = &def.columns[used].name;
                let message =
                    format!("cannot use generated column \"{name}\" in column generation expression");
                return Err(SqlError::new(SqlState::InvalidObjectDefinition, message)
                    .with_detail("A generated column cannot reference another generated column."));
            }
        }
        let compiled = crate::scalar::compile_generated(context.engine.template(), def, column);
        let counts_days = compiled.as_ref().is_ok_and(crate::scalar::Scalar::counts_days);
        if counts_days || expressions::is_changing(context, &expr) {
            let message = match column.state {
                ColumnState::Computed => "functions in index expression must be marked IMMUTABLE",
                ColumnState::Live
                | ColumnState::Hidden
                | ColumnState::Dropped { .. }
                | ColumnState::Retired { .. } => "generation expression is not immutable",
            };
            return Err(SqlError::new(SqlState::InvalidObjectDefinition, message));
        }
        compiled?;
    }
    Ok(())
}

/// The table with a generated column as an ordinary one, which keeps the values that it has; `None` if it is none.
pub(super) fn without_expression(def: &TableDef, place: usize) -> Option<TableDef> {
    let mut changed = def.clone();
    changed.columns[place].generated.take()?;
    Some(changed)
}

/// The generated columns that stand on this one, by name.
///
/// # Errors
/// If a stored expression cannot be read.
pub(super) fn using(def: &TableDef, column: &str) -> Result<Vec<String>, SqlError> {
    let mut found = Vec::new();
    for generated in &def.columns {
        if let Some(text) = &generated.generated
            && expressions::names_column(&expressions::parse(text)?, column)
        {
            found.push(generated.name.clone());
        }
    }
    Ok(found)
}

/// Lets the expressions of generated columns follow a change of names.
///
/// # Errors
/// If a stored expression cannot be read.
pub(super) fn rename(def: &mut TableDef, change: impl Fn(&mut Expr)) -> Result<(), SqlError> {
    for column in &mut def.columns {
        if let Some(text) = &mut column.generated {
            let mut expr = expressions::parse(text)?;
            change(&mut expr);
            *text = expr.to_string();
            if column.state == ColumnState::Computed {
                let (mark, shown) = match column.name.strip_prefix(ColumnDef::MARKER) {
                    Some(shown) => (ColumnDef::MARKER, shown),
                    None => ("", column.name.as_str()),
                };
                let mut shown = expressions::parse(shown)?;
                change(&mut shown);
                column.name = format!("{mark}{shown}");
            }
        }
    }
    Ok(())
}

/// Lets the expressions of generated columns follow a column's new name.
///
/// # Errors
/// As [`rename`].
pub(super) fn rename_column(def: &mut TableDef, old: &str, new: &Ident) -> Result<(), SqlError> {
    rename(def, |expr| expressions::rename_column(expr, old, new))
}
