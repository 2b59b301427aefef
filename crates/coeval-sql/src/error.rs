// SPDX-License-Identifier: Apache-2.0
//! What a statement can answer instead of rows: an error with a SQLSTATE, as PostgreSQL words it.

mod columns;
mod datafusion;
mod file;
mod instead;
mod memory;
mod parser;
mod secrets;
mod state;
mod store;
mod texts;

pub(crate) use store::of_rejection;

pub(crate) use columns::unknown_column;
pub(crate) use datafusion::{division_by_zero, is_in_words, out_of_range, own_error, place_in};
pub(crate) use file::{cannot_read, file_error, not_plain};
pub(crate) use memory::out_of_memory;
pub(crate) use parser::{character_position, syntax_error};
pub(crate) use secrets::{Secrets, TableName};
pub use state::SqlState;

use std::fmt;

/// What tells `42P01` of a table that is missing in FROM from that of one that is nowhere.
const MISSING_FROM: &str = "missing FROM-clause entry";

/// A statement failed. Nothing of it remains in the database once its transaction ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// The class of error.
    pub state: SqlState,
    /// What was wrong, one sentence.
    pub message: String,
    /// More about it: the key, the row, the line.
    pub detail: Option<String>,
    /// What to do.
    pub hint: Option<Box<str>>,
    /// Where in the statement, in characters from 1.
    pub position: Option<usize>,
    /// What it is about, if that has a name.
    pub object: Option<Box<ErrorObject>>,
    /// Where in what the client sent it arose, if that is not the statement: the line of a COPY.
    pub context: Option<Box<str>>,
    /// What its detail shows that not everybody may see.
    pub(crate) secrets: Option<Box<Secrets>>,
    /// Whether nothing but a node is the matter that has gone with a part of the answer: others have what it had.
    has_lost_node: bool,
}

/// The object that an error is about, in names: what drivers ask for so that they need not read the message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorObject {
    /// The schema.
    pub schema: Option<String>,
    /// The table in it.
    pub table: Option<String>,
    /// The column of the table.
    pub column: Option<String>,
    /// The constraint.
    pub constraint: Option<String>,
}

/// A statement's own result, where `Result` is that of DataFusion.
pub(crate) type SqlResult<T> = Result<T, SqlError>;

impl ErrorObject {
    /// A column of a table.
    pub(crate) fn column(table: &coeval_store::QualifiedName, column: &str) -> Self {
        Self { column: Some(column.to_owned()), ..Self::of_table(table) }
    }

    /// A constraint of a table.
    pub(crate) fn constraint(table: &coeval_store::QualifiedName, constraint: &str) -> Self {
        Self { constraint: Some(constraint.to_owned()), ..Self::of_table(table) }
    }

    fn of_table(table: &coeval_store::QualifiedName) -> Self {
        Self { schema: Some(table.schema.clone()), table: Some(table.name.clone()), ..Self::default() }
    }
}

impl SqlError {
    /// An error with a message and nothing more.
    #[must_use]
    pub fn new(state: SqlState, message: impl Into<String>) -> Self {
        Self {
            state,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            object: None,
            context: None,
            secrets: None,
            has_lost_node: false,
        }
    }

    /// `0A000`: what is not supported, named.
    #[must_use]
    pub fn unsupported(what: impl fmt::Display) -> Self {
        let what = what.to_string();
        let error = Self::new(SqlState::FeatureNotSupported, format!("{what} is not supported"));
        match instead::instead(&what) {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    /// `42601`: the statement cannot be read.
    #[must_use]
    pub fn syntax(message: impl Into<String>) -> Self {
        Self::new(SqlState::SyntaxError, message)
    }

    /// `XX000`: a bug of ours.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(SqlState::InternalError, message)
    }

    /// The same error with this detail.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The same error with this hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into().into_boxed_str());
        self
    }

    /// The same error with this position.
    #[must_use]
    pub fn with_position(mut self, position: usize) -> Self {
        self.position = Some(position);
        self
    }

    /// The same error, of a statement that the client did not send.
    #[must_use]
    pub(crate) fn without_position(mut self) -> Self {
        self.position = None;
        self
    }

    /// The same error at this place of the statement, both from 1, of which [`place_in`] makes a position.
    pub(crate) fn at(mut self, line: u64, column: u64) -> Self {
        self.position = datafusion::packed_place(line, column);
        self
    }

    /// The same error about this object.
    #[must_use]
    pub fn with_object(mut self, object: ErrorObject) -> Self {
        self.object = Some(Box::new(object));
        self
    }

    /// `42P01`: a table's name in front of a column, of a table that is not in FROM.
    pub(crate) fn missing_from(table: &str) -> Self {
        Self::new(SqlState::UndefinedTable, format!("{MISSING_FROM} for table \"{table}\""))
    }

    /// `21000`: a subquery that stands for a value has more than its only row.
    pub(crate) fn several_rows() -> Self {
        let message = "more than one row returned by a subquery used as an expression";
        Self::new(SqlState::CardinalityViolation, message)
    }

    /// Whether it may be about a column of a query around the one that was planned alone.
    pub(crate) fn may_name_outer_row(&self) -> bool {
        self.state == SqlState::UndefinedColumn
            || (self.state == SqlState::UndefinedTable && self.message.starts_with(MISSING_FROM))
    }

    /// Whether it is about values: about one, or about how many there are.
    pub(crate) fn is_of_values(&self) -> bool {
        let code = self.state.code();
        code.starts_with("21") || code.starts_with("22")
    }

    /// The same error, because a node has gone with a part of the answer.
    #[must_use]
    pub(crate) fn of_lost_node(mut self) -> Self {
        self.has_lost_node = true;
        self
    }

    /// Whether a node has gone with a part of the answer, so that the statement may succeed on the others.
    pub(crate) fn has_lost_node(&self) -> bool {
        self.has_lost_node
    }

    /// Whether the same statement may succeed when it is run again.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.state == SqlState::SerializationFailure
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.state.code())?;
        if let Some(detail) = &self.detail {
            write!(f, "\nDETAIL: {detail}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nHINT: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SqlError {}

#[cfg(test)]
mod tests;
