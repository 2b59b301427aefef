// SPDX-License-Identifier: Apache-2.0
//! Subqueries in clauses that are evaluated row by row: RETURNING and ON CONFLICT DO UPDATE.
//!
//! They see the data as it was before the statement, and those that do not refer to the row give the same for all
//! rows. So each is run once, before the first row is written, and its result stands in its place. If it fails by values,
//! [what raises its error](RAISED) stands there: no row may ask for it, as where a CASE goes another way.

use crate::context::StatementContext;
use crate::error::SqlError;
use crate::functions::RAISED;
use crate::query::{self, PlannedQuery, has_subquery};
use crate::result::RowSet;
use crate::types::{column_type_of_arrow, format_value};
use crate::walk::{WalkMut, step};
use arrow::datatypes::Field;
use chrono_tz::Tz;
use coeval_store::{ColumnType, value_at};
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, OnConflictAction, OnInsert, Query, SelectItem, Statement, UnaryOperator, Value,
    VisitorMut, With,
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

fn not(condition: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(condition))) }
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
            Expr::Exists { subquery, negated: true } => self.exists(subquery).map(not),
            Expr::Exists { subquery, .. } => self.exists(subquery),
            Expr::InSubquery { expr, subquery, negated: true } => self.is_among(expr, subquery).map(not),
            Expr::InSubquery { expr, subquery, .. } => self.is_among(expr, subquery),
            _ => return ControlFlow::Continue(()),
        };
        step(replaced.map(|replaced| *expression = replaced))
    }
}

impl Evaluation<'_, '_> {
    fn planned(&mut self, query: &Query) -> Result<PlannedQuery, SqlError> {
        let mut query = query.clone();
        query.with = merged(self.with, query.with);
        let types: Vec<_> = self.context.parameter_types.iter().copied().map(Some).collect();
        query::plan(self.context, &query, &types).map_err(|error| {
            if error.may_name_outer_row() {
                return SqlError::unsupported("a subquery that refers to the row in this clause")
                    .with_detail(error.message);
            }
            error
        })
    }

    /// What is made of the rows of a query, which is of this type; if it fails by values, what raises the error.
    fn answered(
        &mut self,
        planned: &PlannedQuery,
        ty: ColumnType,
        answer: impl FnOnce(&RowSet, Tz) -> Result<Expr, SqlError>,
    ) -> Result<Expr, SqlError> {
        let zone = self.context.settings.zone();
        match query::collect_planned(self.context, planned).and_then(|rows| answer(&rows, zone)) {
            Err(error) if error.is_of_values() => raised(error, ty),
            answered => answered,
        }
    }

    fn exists(&mut self, query: &Query) -> Result<Expr, SqlError> {
        let planned = self.planned(query)?;
        self.answered(&planned, ColumnType::Boolean, |rows, _| {
            Ok(Expr::value(Value::Boolean(rows.rows() > 0)))
        })
    }

    fn is_among(&mut self, value: &Expr, query: &Query) -> Result<Expr, SqlError> {
        let planned = self.planned(query)?;
        only_column(&planned)?;
        self.answered(&planned, ColumnType::Boolean, |rows, zone| {
            let list = values(rows, zone)?;
            if list.is_empty() {
                return Ok(Expr::value(Value::Boolean(false)));
            }
            Ok(Expr::InList { expr: Box::new(value.clone()), list, negated: false })
        })
    }

    fn scalar(&mut self, query: &Query) -> Result<Expr, SqlError> {
        let planned = self.planned(query)?;
        let ty = only_column(&planned)?;
        self.answered(&planned, ty, |rows, zone| {
            let mut list = values(rows, zone)?;
            match (list.pop(), list.is_empty()) {
                (Some(only), true) => Ok(only),
                (None, _) => Ok(Expr::Value(Value::Null.into())),
                (Some(_), false) => Err(SqlError::several_rows()),
            }
        })
    }
}

/// The type of the only column.
///
/// # Errors
/// `42601` if there are others; `0A000` if its values are not written.
fn only_column(planned: &PlannedQuery) -> Result<ColumnType, SqlError> {
    let [field] = planned.columns().fields().as_ref() else {
        return Err(SqlError::syntax("subquery must return only one column"));
    };
    column_type_of_arrow(field.data_type()).ok_or_else(|| no_literal(field))
}

/// The values of the only column.
fn values(rows: &RowSet, zone: Tz) -> Result<Vec<Expr>, SqlError> {
    literals(rows, 0, zone)?.ok_or_else(|| no_literal(rows.schema.field(0)))
}

fn no_literal(field: &Field) -> SqlError {
    SqlError::unsupported(format_args!("a value of type {}", field.data_type()))
}

/// What raises this error where a value of this type is asked for.
fn raised(error: SqlError, ty: ColumnType) -> Result<Expr, SqlError> {
    let text = |text: Option<String>| Expr::value(text.map_or(Value::Null, Value::SingleQuotedString));
    let arguments = vec![
        text(Some(error.state.code().to_owned())),
        text(Some(error.message)),
        text(error.detail),
        text(error.hint.map(String::from)),
    ];
    Ok(crate::select::cast(crate::select::call(RAISED, arguments), data_type(ty)?))
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
    let value = text.map_or(Value::Null, Value::SingleQuotedString);
    Ok(crate::select::cast(Expr::Value(value.into()), data_type(ty)?))
}

/// A type as it is written.
fn data_type(ty: ColumnType) -> Result<DataType, SqlError> {
    Parser::new(&PostgreSqlDialect {})
        .try_with_sql(&ty.to_string())
        .and_then(|mut parser| parser.parse_data_type())
        .map_err(|error| SqlError::internal(error.to_string()))
}
