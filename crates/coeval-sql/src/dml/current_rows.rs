// SPDX-License-Identifier: Apache-2.0
//! `UPDATE ... WHERE CURRENT OF cursor`, and DELETE: the row at which a cursor stands.
//!
//! A cursor has its rows collected. So the row is found by its primary key, which the cursor's query has to select.

use super::target::Target;
use super::target_view::ViewChange;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::names::{self, fold};
use crate::parse::CURRENT_OF;
use crate::select::column;
use crate::stored::parse_query;
use crate::types::format_shown;
use arrow::array::RecordBatch;
use chrono_tz::Tz;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FromTable, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Query,
    SelectItem, SetExpr, Statement, TableFactor, TableWithJoins, Value,
};

/// The statement with the key of the row in the place of the cursor; `None` if it names none.
///
/// # Errors
/// `34000` for an unknown cursor, `24000` for one that stands at no row, or is not of the table's rows; `0A000` where the key is not
/// known.
pub(super) fn resolved(
    context: &StatementContext<'_>,
    statement: &Statement,
) -> Result<Option<Statement>, SqlError> {
    let selection = match statement {
        Statement::Update(update) => update.selection.as_ref(),
        Statement::Delete(delete) => delete.selection.as_ref(),
        _ => None,
    };
    let Some(cursor) = selection.and_then(cursor_of) else { return Ok(None) };
    let mut changed = statement.clone();
    match &mut changed {
        Statement::Update(update) => {
            update.selection = Some(is_current(context, cursor, &update.table, ViewChange::Update)?);
        }
        Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
            let [table] = tables.as_slice() else {
                return Err(SqlError::unsupported("DELETE from several tables"));
            };
            delete.selection = Some(is_current(context, cursor, table, ViewChange::Delete)?);
        }
        _ => {}
    }
    Ok(Some(changed))
}

/// The cursor that a condition names.
fn cursor_of(condition: &Expr) -> Option<&str> {
    let Expr::Function(function) = condition else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(name)))] = list.args.as_slice() else {
        return None;
    };
    match &name.value {
        Value::SingleQuotedString(name) if function.name.to_string() == CURRENT_OF => Some(name.as_str()),
        _ => None,
    }
}

/// The condition that a row of the table is the one at which the cursor stands.
fn is_current(
    context: &StatementContext<'_>,
    cursor: &str,
    table: &TableWithJoins,
    change: ViewChange,
) -> Result<Expr, SqlError> {
    let Some(current) = context.open.current_row(cursor) else {
        let message = format!("cursor \"{cursor}\" does not exist");
        return Err(SqlError::new(SqlState::InvalidCursorName, message));
    };
    let target = Target::of_from(context, table, change)?;
    let name = &target.def.name.name;
    let invalid = |message: String| SqlError::new(SqlState::InvalidCursorState, message);
    // Clauses of our own may not be read again.
    let query = parse_query(&current.sql).ok();
    let selected = query.and_then(|query| selected_columns(context, &query, &target)).ok_or_else(|| {
        invalid(format!("cursor \"{cursor}\" is not a simply updatable scan of table \"{name}\""))
    })?;
    let Some(row) = &current.row else {
        return Err(invalid(format!("cursor \"{cursor}\" is not positioned on a row")));
    };
    let key = key_of(&target, &selected, row)?;
    key.ok_or_else(|| {
        SqlError::unsupported(format!("WHERE CURRENT OF a cursor that selects no primary key of \"{name}\""))
            .with_hint("Have the query of the cursor select all columns of a primary key.")
    })
}

/// The condition that the primary key is that of this row; `None` if the row has not got it.
fn key_of(target: &Target, selected: &[Option<String>], row: &RecordBatch) -> Result<Option<Expr>, SqlError> {
    if !target.def.has_declared_primary_key() || selected.len() != row.num_columns() {
        return Ok(None);
    }
    let mut condition: Option<Expr> = None;
    for &key in &target.def.primary_key {
        let wanted = &target.def.columns[key].name;
        let Some(place) = selected.iter().position(|name| name.as_ref() == Some(wanted)) else {
            return Ok(None);
        };
        let Some(text) = format_shown(row.column(place), 0, Tz::UTC)? else { return Ok(None) };
        // A literal takes the type of the column beside it.
        let literal = Expr::Value(Value::SingleQuotedString(text).into());
        let equation = operation(column(target.name(), wanted), BinaryOperator::Eq, literal);
        condition = Some(match condition {
            Some(before) => operation(before, BinaryOperator::And, equation),
            None => equation,
        });
    }
    Ok(condition)
}

fn operation(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// The columns of the table that the outputs of a query are; `None` if its rows are not rows of the table.
fn selected_columns(
    context: &StatementContext<'_>,
    query: &Query,
    target: &Target,
) -> Option<Vec<Option<String>>> {
    let (SetExpr::Select(select), None) = (query.body.as_ref(), &query.with) else { return None };
    let is_grouped = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(keys, modifiers) => !keys.is_empty() || !modifiers.is_empty(),
    };
    if is_grouped || select.having.is_some() || select.distinct.is_some() || target.view().is_some() {
        return None;
    }
    let [TableWithJoins { relation: TableFactor::Table { name, args: None, .. }, joins }] =
        select.from.as_slice()
    else {
        return None;
    };
    let table = names::table(name, context.settings, context.transaction).ok()?;
    if !joins.is_empty() || table.id != target.id() {
        return None;
    }
    let mut selected = Vec::with_capacity(select.projection.len());
    for output in &select.projection {
        match output {
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => {
                selected.extend(table.live_columns().map(|(_, column)| Some(column.name.clone())));
            }
            SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. } => {
                selected.push(match expression {
                    Expr::Identifier(name) => Some(fold(name)),
                    Expr::CompoundIdentifier(parts) => parts.last().map(fold),
                    _ => None,
                });
            }
            _ => return None,
        }
    }
    Some(selected)
}
