// SPDX-License-Identifier: Apache-2.0
//! What an expression is evaluated over: rows, parameters, and the statement around it.

use crate::error::SqlError;
use chrono_tz::Tz;
use coeval_store::{Row, SequenceDef, TableDef, Value, ValueRef};

/// Rows by their place in the scope.
pub(crate) trait RowSource {
    /// The value of a column of the scope's table with this number.
    ///
    /// # Panics
    /// May panic if the scope has no such table or column: the compiler has looked.
    fn value(&self, table: usize, column: usize) -> ValueRef<'_>;
}

/// No rows at all: for defaults and for `VALUES`.
pub(crate) struct NoRows;

impl RowSource for NoRows {
    fn value(&self, _table: usize, _column: usize) -> ValueRef<'_> {
        ValueRef::Null
    }
}

impl RowSource for [Value] {
    #[inline]
    fn value(&self, _table: usize, column: usize) -> ValueRef<'_> {
        self[column].borrow()
    }
}

impl RowSource for Vec<Value> {
    #[inline]
    fn value(&self, _table: usize, column: usize) -> ValueRef<'_> {
        self[column].borrow()
    }
}

/// A row that is about to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRow<'a> {
    /// Its table.
    pub(crate) table: &'a TableDef,
    /// The row, with all columns of the table.
    pub(crate) row: &'a Row,
}

impl RowSource for NewRow<'_> {
    #[inline]
    fn value(&self, _table: usize, column: usize) -> ValueRef<'_> {
        self.row.get(self.table.layout(), column).expect("a new row has all columns of its table")
    }
}

/// What an expression may ask of the statement it belongs to.
pub(crate) trait Environment {
    /// `now()`: when the transaction began, in microseconds since 1970-01-01 UTC.
    fn transaction_time(&self) -> i64;

    /// The session's time zone.
    fn zone(&self) -> Tz;

    /// The next value of a sequence.
    ///
    /// # Errors
    /// If the sequence is gone or has no further value.
    fn next_value(&self, sequence: &SequenceDef) -> Result<i64, SqlError>;
}

/// All that an expression sees when it is evaluated.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    /// The rows of the scope's tables.
    pub(crate) rows: &'a dyn RowSource,
    /// The statement's parameters, already of the types the compiler inferred.
    pub(crate) parameters: &'a [Value],
    /// The statement around it.
    pub(crate) environment: &'a dyn Environment,
}
