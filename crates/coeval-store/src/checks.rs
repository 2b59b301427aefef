// SPDX-License-Identifier: Apache-2.0
//! CHECK constraints, defaults and generated columns: the store keeps their text and asks the SQL layer what it means.

use crate::catalog::TableDef;
use crate::error::ConstraintError;
use crate::row::Row;
use crate::value::Value;
use std::fmt::Debug;
use std::sync::Arc;

/// Gives CHECK text its meaning; set once by the SQL layer.
pub trait CheckCompiler: Send + Sync + Debug {
    /// The checks of a table, ready to run.
    ///
    /// # Errors
    /// Why the text has no meaning, in words for the user.
    fn compile(&self, table: &TableDef) -> Result<Arc<dyn RowChecks>, String>;
}

/// The checks of one table definition.
pub trait RowChecks: Send + Sync + Debug {
    /// Whether the row passes; an unknown result (NULL) passes.
    ///
    /// # Errors
    /// The constraint that is false, or why one cannot be computed.
    fn check(&self, table: &TableDef, row: &Row) -> Result<(), ConstraintError>;

    /// The default of a column, for a foreign key that sets it; NULL if there is none.
    ///
    /// # Errors
    /// Why it cannot be computed.
    fn default_value(&self, table: &TableDef, column: usize) -> Result<Value, ConstraintError>;

    /// The values of the generated columns, by column, of a row whose other columns are these.
    ///
    /// # Errors
    /// Why one cannot be computed.
    fn generated(&self, table: &TableDef, row: &Row) -> Result<Vec<(usize, Value)>, ConstraintError>;
}
