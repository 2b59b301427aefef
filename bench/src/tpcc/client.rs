// SPDX-License-Identifier: Apache-2.0
//! What the SQL transactions need of a session: prepared statements, and answers row by row. Embedded sessions and
//! connections to servers both give it, so each transaction is written once.

use super::statements::Statement;
use crate::error::BenchError;
use coeval::Value;

/// A statement and its parameters.
pub(super) type Call = (Statement, Vec<Value>);

/// A session in which all statements are prepared.
pub(super) trait Client: Send {
    /// The rows of one answer.
    type Answer: Answer;

    /// Begins a transaction. It may only be told to the server with the next statement.
    fn begin(&mut self) -> Result<(), BenchError>;

    /// Commits it. After a conflict there is no transaction any more.
    fn commit(&mut self) -> Result<(), BenchError>;

    /// Leaves the transaction; nothing happens if there is none.
    fn roll_back(&mut self) -> Result<(), BenchError>;

    /// Runs a statement.
    fn call(&mut self, statement: Statement, parameters: &[Value]) -> Result<Self::Answer, BenchError>;

    /// Runs statements of which none depends on another's answer, in this order: their answers, or the first error,
    /// behind which nothing has been done.
    fn call_all(&mut self, calls: &[Call]) -> Result<Vec<Self::Answer>, BenchError> {
        calls.iter().map(|(statement, parameters)| self.call(*statement, parameters)).collect()
    }
}

/// The rows of one answer. A column that is not what is asked for, or NULL, is a mistake of the workload: a panic.
pub(super) trait Answer: Sized {
    /// How many rows.
    fn row_count(&self) -> usize;

    /// The whole number or unscaled decimal in a row and column.
    fn number(&self, row: usize, column: usize) -> i64;

    /// The text in a row and column.
    fn text(&self, row: usize, column: usize) -> &str;

    /// All rows.
    fn rows(&self) -> impl Iterator<Item = RowAt<'_, Self>> {
        (0..self.row_count()).map(|row| RowAt { answer: self, row })
    }

    /// The first row, which the population promises.
    fn first(&self) -> RowAt<'_, Self> {
        self.rows().next().expect("the population has this row and no transaction deletes it")
    }
}

/// One row of an answer.
pub(super) struct RowAt<'a, A> {
    answer: &'a A,
    row: usize,
}

impl<'a, A: Answer> RowAt<'a, A> {
    /// The whole number or unscaled decimal in a column.
    pub(super) fn number(&self, column: usize) -> i64 {
        self.answer.number(self.row, column)
    }

    /// The number in a column of type `int`.
    pub(super) fn int(&self, column: usize) -> i32 {
        i32::try_from(self.number(column)).expect("the statement asked for an int")
    }

    /// The text in a column.
    pub(super) fn text(&self, column: usize) -> &'a str {
        self.answer.text(self.row, column)
    }
}
