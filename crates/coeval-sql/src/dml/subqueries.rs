// SPDX-License-Identifier: Apache-2.0
//! Subqueries in clauses that are evaluated row by row: RETURNING and ON CONFLICT DO UPDATE.
//!
//! They see the data as it was before the statement, and those that do not refer to the row give the same for all
//! rows. So each is run once, before the first row is written, and its result stands in its place.

use crate::context::StatementContext;
use crate::error::SqlError;
use crate::query::{self, has_subquery};
use crate::result::RowSet;
use crate::types::{column_type_of_arrow, format_value};
use crate::walk::{WalkMut, step};
use chrono_tz::Tz;
use coeval_store::{ColumnType, value_at};
use datafusion::sql::sqlparser::ast::{
    Expr, OnConflictAction, OnInsert, Query, SelectItem, Statement, Value, VisitorMut, With,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::ops::ControlFlow;

/// The statement without subqueries in RETURNING and DO UPDATE, which may name what is in front of it; `None` if it has none there.
///
/// # Errors
/// What running them meets; `0A000` for one that refers to the row.
pub(super) fn evaluated(
    context: &mut StatementContext<'_>,
    statement: &Statement,
    with: Option<&With>,
) -> Result<Option<Statement>, SqlError> {
    let is_there = match statement {
        Statement::Insert(insert) => has_subquery(&insert.returning) || has_subquery(&insert.on),
        Statement::Update(update) => has_subquery(&update.returning),
        Statement::Delete(delete) => has_subquery(&delete.returning),
        _ => false,
    };
    if !is_there {
        return Ok(None);
    }
    let mut statement = statement.clone();
    let mut evaluation = Evaluation { context, with };
    match &mut statement {
        Statement::Insert(insert) => {
            returned(&mut insert.returning, &mut evaluation)?;
            if let Some(OnInsert::OnConflict(clause)) = &mut insert.on
                && let OnConflictAction::DoUpdate(update) = &mut clause.action
            {
                update.try_walk_mut(&mut evaluation)?;
            }
        }
        Statement::Update(update) => returned(&mut update.returning, &mut evaluation)?,
        Statement::Delete(delete) => returned(&mut delete.returning, &mut evaluation)?,
        _ => {}
    }
    Ok(Some(statement))
}

fn returned(list: &mut Option<Vec<SelectItem>>, evaluation: &mut Evaluation<'_, '_>) -> Result<(), SqlError> {
    list.iter_mut().flatten().try_for_each(|item| {
        // The column keeps the name that its subquery gave it.
        if let SelectItem::UnnamedExpr(expression) = item
            && has_subquery(expression)
        {
            let alias = crate::select::quoted(crate::column_name::column_name(expression));
            *item = SelectItem::ExprWithAlias { expr: expression.clone(), alias };
        }
        item.try_walk_mut(evaluation)
    })
}

struct Evaluation<'e, 'c> {
    context: &'e mut StatementContext<'c>,
    /// What is in front of the statement.
    with: Option<&'e With>,
}

impl VisitorMut for Evaluation<'_, '_> {
    type Break = SqlError;

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<SqlError> {
        let replaced = match expression {
            Expr::Subquery(query) => self.scalar(query),
            Expr::Exists { subquery, negated } => {
                self.rows(subquery).map(|rows| Expr::value(Value::Boolean((rows.rows() > 0) != *negated)))
            }
            Expr::InSubquery { expr, subquery, negated } => self.list(subquery).map(|list| {
                if list.is_empty() {
                    return Expr::value(Value::Boolean(*negated));
                }
                Expr::InList { expr: expr.clone(), list, negated: *negated }
            }),
            _ => return ControlFlow::Continue(()),
        };
        step(replaced.map(|replaced| *expression = replaced))
    }
}

impl Evaluation<'_, '_> {
    fn rows(&mut self, query: &Query) -> Result<RowSet, SqlError> {
        let mut query = query.clone();
        query.with = merged(self.with, query.with);
        query::collect(self.context, &query).map_err(|error| {
            if error.may_name_outer_row() {
                return SqlError::unsupported("a subquery that refers to the row in this clause")
                    .with_detail(error.message);
            }
            error
        })
    }

    /// The values of the only column.
    fn list(&mut self, query: &Query) -> Result<Vec<Expr>, SqlError> {
        let rows = self.rows(query)?;
        let [field] = rows.schema.fields().as_ref() else {
            return Err(SqlError::syntax("subquery must return only one column"));
        };
        literals(&rows, 0, self.context.settings.zone())?
            .ok_or_else(|| SqlError::unsupported(format_args!("a value of type {}", field.data_type())))
    }

    fn scalar(&mut self, query: &Query) -> Result<Expr, SqlError> {
        let mut list = self.list(query)?;
        match (list.pop(), list.is_empty()) {
            (Some(only), true) => Ok(only),
            (None, _) => Ok(Expr::Value(Value::Null.into())),
            (Some(_), false) => Err(SqlError::several_rows()),
        }
    }
}

/// The common table expressions in front of the statement and those in front of its query.
pub(super) fn merged(outer: Option<&With>, inner: Option<With>) -> Option<With> {
    match (outer.cloned(), inner) {
        (Some(mut outer), Some(inner)) => {
            outer.recursive |= inner.recursive;
            // The inner ones hide outer ones of the same name.
            outer
                .cte_tables
                .retain(|table| !inner.cte_tables.iter().any(|hiding| hiding.alias.name == table.alias.name));
            outer.cte_tables.extend(inner.cte_tables);
            Some(outer)
        }
        (outer, inner) => outer.or(inner),
    }
}

/// The values of a column as they are written, with their type; `None` if there is no way to write that.
///
/// # Errors
/// None is expected.
pub(super) fn literals(rows: &RowSet, column: usize, zone: Tz) -> Result<Option<Vec<Expr>>, SqlError> {
    let Some(ty) = column_type_of_arrow(rows.schema.field(column).data_type()) else { return Ok(None) };
    let mut list = Vec::with_capacity(rows.rows());
    for batch in &rows.batches {
        let column = arrow::compute::cast(batch.column(column), &ty.arrow())?;
        for row in 0..column.len() {
            let value = value_at(&column, row);
            let mut text = String::new();
            format_value(value, ty, zone, &mut text);
            list.push(literal((!value.is_null()).then_some(text), ty)?);
        }
    }
    Ok(Some(list))
}

/// A value as it is written, with its type.
pub(super) fn literal(text: Option<String>, ty: ColumnType) -> Result<Expr, SqlError> {
    let declared = Parser::new(&PostgreSqlDialect {})
        .try_with_sql(&ty.to_string())
        .and_then(|mut parser| parser.parse_data_type())
        .map_err(|error| SqlError::internal(error.to_string()))?;
    let value = text.map_or(Value::Null, Value::SingleQuotedString);
    Ok(crate::select::cast(Expr::Value(value.into()), declared))
}
