// SPDX-License-Identifier: Apache-2.0
//! The point path: statements that touch few rows by key, as direct tree operations.

use crate::context::StatementContext;
use crate::error::SqlError;
use crate::result::StatementResult;
use arrow::datatypes::SchemaRef;
use coeval_store::{ColumnType, Transaction};
use datafusion::sql::sqlparser::ast::Statement;

/// A statement compiled to operations on trees.
#[derive(Debug)]
pub(crate) struct PointPlan {}

impl PointPlan {
    /// The plan of a statement; `None` if it is not one for this path. Parameter types that the caller knows
    /// stand in `context.parameter_types`; the others are inferred from where the parameters stand.
    ///
    /// # Errors
    /// What is wrong with a statement that this path would take.
    pub(crate) fn compile(_: &StatementContext<'_>, _: &Statement) -> Result<Option<Self>, SqlError> {
        Ok(None)
    }

    /// Whether the definitions that the plan relies on are those of this transaction.
    pub(crate) fn is_current(&self, _: &Transaction) -> bool {
        false
    }

    /// The types of the parameters.
    pub(crate) fn parameter_types(&self) -> &[ColumnType] {
        &[]
    }

    /// The columns of the rows it returns, if it returns any.
    pub(crate) fn columns(&self) -> Option<&SchemaRef> {
        None
    }

    /// Runs it.
    ///
    /// # Errors
    /// As the statement on the general path.
    pub(crate) fn execute(&self, _: &mut StatementContext<'_>) -> Result<StatementResult, SqlError> {
        Err(SqlError::internal("an empty point plan was run"))
    }

    /// What EXPLAIN prints, line by line.
    pub(crate) fn explain(&self) -> Vec<String> {
        Vec::new()
    }
}
