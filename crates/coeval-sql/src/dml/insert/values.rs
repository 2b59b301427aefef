// SPDX-License-Identifier: Apache-2.0
//! `VALUES`: rows of expressions.

use super::{ColumnList, Shape};
use crate::cancel;
use crate::context::StatementContext;
use crate::dml::environment;
use crate::dml::expressions::{ColumnExpression, Expressions};
use crate::dml::selected::{self, source_type};
use crate::error::SqlError;
use crate::memory::ReturnedMemory;
use crate::parse::is_default;
use crate::query;
use crate::scalar::{Inputs, NoRows, Scope};
use crate::select;
use coeval_store::{Value, ValueRef, value_at};
use datafusion::sql::sqlparser::ast::{Expr, Values, With};

/// How one value of a row is made.
enum Cell<'e> {
    Default,
    Expression(ColumnExpression),
    /// It needs the database: a subquery.
    Query(&'e Expr),
}

/// Rows that are given one by one.
pub(super) struct GivenRows {
    /// The table's columns that they have values for.
    columns: Vec<usize>,
    /// By row, in the order of `columns`; `None` for what is to be generated.
    rows: Vec<Vec<Option<Value>>>,
    memory: ReturnedMemory,
}

impl GivenRows {
    /// Rows of somebody who has counted them, with values for these columns.
    pub(super) fn new(columns: Vec<usize>, rows: Vec<Vec<Option<Value>>>) -> Self {
        Self { columns, rows, memory: ReturnedMemory::default() }
    }

    /// The table's columns that they have values for.
    pub(super) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// How many rows.
    pub(super) fn count(&self) -> usize {
        self.rows.len()
    }

    /// The rows one by one, with a place for each of the table's `width` columns; `None` for what is to be generated. Their memory is
    /// given back behind the last one.
    pub(super) fn into_rows(self, width: usize) -> impl Iterator<Item = Vec<Option<Value>>> {
        let Self { columns, rows, memory } = self;
        rows.into_iter().map(move |row| {
            let _held = &memory;
            let mut given = vec![None; width];
            for (&column, value) in columns.iter().zip(row) {
                given[column] = value;
            }
            given
        })
    }
}

/// The rows. What is kept of them is what the text has, however many columns the table has.
///
/// # Errors
/// `42601` for rows of different lengths or too many values, `428C9`, `53200`, and what the expressions refuse.
pub(super) fn given_rows(
    context: &mut StatementContext<'_>,
    shape: &Shape,
    values: &Values,
    list: ColumnList,
    with: Option<&With>,
) -> Result<GivenRows, SqlError> {
    let width = values.rows.first().map_or(0, |row| row.content.len());
    if values.rows.iter().any(|row| row.content.len() != width) {
        return Err(SqlError::syntax("VALUES lists must all be the same length"));
    }
    let columns = shape.filled(width, list)?;
    let scope = Scope::empty();
    let mut expressions = Expressions::new(context, &scope);
    let mut memory = ReturnedMemory::default();
    let mut rows = Vec::with_capacity(values.rows.len());
    for row in &values.rows {
        cancel::check()?;
        let mut given = Vec::with_capacity(width);
        for (&column, expression) in columns.iter().zip(&row.content) {
            let cell = cell(shape, &mut expressions, column, expression)?;
            let value = evaluate(context, shape, column, cell, with)?;
            let kept = value.as_ref().map_or(ValueRef::Null, Value::borrow);
            memory.add(kept, &context.engine.queries)?;
            given.push(value);
        }
        rows.push(given);
    }
    Ok(GivenRows { columns: columns.to_vec(), rows, memory })
}

fn cell<'e>(
    shape: &Shape,
    expressions: &mut Expressions<'_>,
    column: usize,
    expression: &'e Expr,
) -> Result<Cell<'e>, SqlError> {
    if is_default(expression) || shape.ignores(column) {
        return Ok(Cell::Default);
    }
    shape.check_given(column)?;
    let compiled = expressions.column(expression, &shape.target.def.columns[column])?;
    Ok(compiled.map_or(Cell::Query(expression), Cell::Expression))
}

fn evaluate(
    context: &mut StatementContext<'_>,
    shape: &Shape,
    column: usize,
    cell: Cell<'_>,
    with: Option<&With>,
) -> Result<Option<Value>, SqlError> {
    match cell {
        Cell::Default => Ok(None),
        Cell::Expression(expression) => {
            let (environment, _) = environment::split(context);
            let inputs =
                Inputs { rows: &NoRows, parameters: environment.parameters, environment: &environment };
            expression.value(inputs, environment.zone).map(Some)
        }
        Cell::Query(expression) => {
            let column = &shape.target.def.columns[column];
            let item = select::item(expression.clone(), "value".to_owned());
            let select = select::query(with.cloned(), vec![item], Vec::new(), None);
            let found = query::collect(context, &select)?;
            selected::check(found.schema.field(0).data_type(), source_type(expression), column)?;
            let Some(batch) = found.batches.iter().find(|batch| batch.num_rows() > 0) else {
                return Ok(Some(Value::Null));
            };
            let array = selected::assigned(batch.column(0), column, context.settings.zone())?;
            Ok(Some(value_at(&array, 0).to_owned()))
        }
    }
}
