// SPDX-License-Identifier: Apache-2.0
//! What can go wrong, for users of the library.

use coeval_sql::{SqlError, SqlState};
use coeval_store::StoreError;

/// An operation failed. [`Error::is_conflict`] says whether running the transaction again may help.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A key-level operation failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A statement failed; carries the SQLSTATE, detail and hint.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// There is no such table.
    #[error("table \"{0}\" does not exist")]
    UnknownTable(String),
    /// The table has no such column.
    #[error("column \"{0}\" does not exist")]
    UnknownColumn(String),
    /// The table has no such index.
    #[error("table \"{table}\" has no index \"{index}\"")]
    UnknownIndex {
        /// The table.
        table: String,
        /// The index.
        index: String,
    },
    /// A row or key has another number of values than its table or index has columns.
    #[error("{what} takes {expected} values, {given} were given")]
    ValueCount {
        /// What the values are for.
        what: String,
        /// How many it takes.
        expected: usize,
        /// How many were given.
        given: usize,
    },
}

impl Error {
    /// Its SQLSTATE.
    #[must_use]
    pub fn state(&self) -> SqlState {
        match self {
            Self::Store(error) => SqlState::of(error),
            Self::Sql(error) => error.state,
            Self::UnknownTable(_) => SqlState::UndefinedTable,
            Self::UnknownColumn(_) => SqlState::UndefinedColumn,
            Self::UnknownIndex { .. } => SqlState::UndefinedObject,
            Self::ValueCount { .. } => SqlState::SyntaxError,
        }
    }

    /// Whether a statement was refused because nobody said of what types its parameters are, or something else than they are.
    #[must_use]
    pub fn is_about_parameter_types(&self) -> bool {
        matches!(
            self.state(),
            SqlState::IndeterminateDatatype
                | SqlState::AmbiguousParameter
                | SqlState::UndefinedFunction
                | SqlState::AmbiguousFunction
                | SqlState::DatatypeMismatch
        )
    }

    /// Whether another transaction was first: nothing took effect, and running this one again may succeed.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.state() == SqlState::SerializationFailure
    }
}
