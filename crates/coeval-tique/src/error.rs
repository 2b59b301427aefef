// SPDX-License-Identifier: Apache-2.0
//! What can go wrong, with PostgreSQL's SQLSTATEs.

use crate::engine::{EngineError, EngineErrorKind};
use crate::place;
use datafusion::sql::sqlparser::ast::{Ident, Statement};
use datafusion::sql::sqlparser::tokenizer::Location;
use std::fmt;
use std::ops::ControlFlow;

/// The kinds of failure that clients tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SqlState {
    /// 08006: the engine went away; the statement had no effect, except that a DROP TABLE may have had one.
    ConnectionFailure,
    /// 08007: the engine went away while a commit was being written; recovery decides.
    TransactionResolutionUnknown,
    /// 08007: the transaction has committed, and the wait for others before which nobody sees it was ended.
    CommittedUnseen,
    /// 0A000: not supported.
    FeatureNotSupported,
    /// 21000: a statement would touch a row twice.
    CardinalityViolation,
    /// 22001: text longer than its column.
    StringTooLong,
    /// 22003: a number that its column cannot hold.
    OutOfRange,
    /// 22P02: a text that is no value of the type.
    InvalidText,
    /// 23502: NULL in a NOT NULL column.
    NotNullViolation,
    /// 23503: a parent is missing, or a child is still there.
    ForeignKeyViolation,
    /// 23505: a key or unique value that exists.
    UniqueViolation,
    /// 23514: a CHECK that is false.
    CheckViolation,
    /// 25001: not inside a transaction block.
    ActiveTransaction,
    /// 25006: a write in a read-only transaction.
    ReadOnlyTransaction,
    /// 25P02: the block failed before; only ROLLBACK helps.
    InFailedTransaction,
    /// 25P01: inside a transaction block only.
    NoActiveTransaction,
    /// 3B001: no savepoint of that name.
    InvalidSavepoint,
    /// 40001: another transaction committed a conflicting write first; run it again.
    SerializationFailure,
    /// 42601: not SQL.
    SyntaxError,
    /// 42704: no such constraint.
    UndefinedObject,
    /// 42703: no such column.
    UndefinedColumn,
    /// 42622: a name with more bytes than the engine looks at.
    NameTooLong,
    /// 42939: a name that the physical schema needs.
    ReservedName,
    /// 42P01: no such table.
    UndefinedTable,
    /// 42P07: a table of that name exists.
    DuplicateTable,
    /// 42P10: ON CONFLICT names columns that no constraint has.
    InvalidColumnReference,
    /// 42P16: a definition that makes no sense.
    InvalidTableDefinition,
    /// 53300: the engine takes no further connection.
    TooManyConnections,
    /// 54000: a key with more bytes than the engine's indexes take.
    ProgramLimitExceeded,
    /// 55006: in use by others.
    ObjectInUse,
    /// 55P03: a query keeps the engine from writing what was to be committed; nothing took effect.
    LockNotAvailable,
    /// 57014: a wait was ended, and nothing took effect.
    QueryCanceled,
    /// 57P03: the database has to be opened again first.
    CannotConnectNow,
    /// HV000: the engine refused the statement.
    EngineRefused,
}

impl SqlState {
    /// The five characters.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::ConnectionFailure => "08006",
            Self::TransactionResolutionUnknown | Self::CommittedUnseen => "08007",
            Self::FeatureNotSupported => "0A000",
            Self::CardinalityViolation => "21000",
            Self::StringTooLong => "22001",
            Self::OutOfRange => "22003",
            Self::InvalidText => "22P02",
            Self::NotNullViolation => "23502",
            Self::ForeignKeyViolation => "23503",
            Self::UniqueViolation => "23505",
            Self::CheckViolation => "23514",
            Self::ActiveTransaction => "25001",
            Self::ReadOnlyTransaction => "25006",
            Self::NoActiveTransaction => "25P01",
            Self::InFailedTransaction => "25P02",
            Self::InvalidSavepoint => "3B001",
            Self::SerializationFailure => "40001",
            Self::SyntaxError => "42601",
            Self::UndefinedColumn => "42703",
            Self::UndefinedObject => "42704",
            Self::NameTooLong => "42622",
            Self::ReservedName => "42939",
            Self::UndefinedTable => "42P01",
            Self::DuplicateTable => "42P07",
            Self::InvalidColumnReference => "42P10",
            Self::InvalidTableDefinition => "42P16",
            Self::TooManyConnections => "53300",
            Self::ProgramLimitExceeded => "54000",
            Self::ObjectInUse => "55006",
            Self::LockNotAvailable => "55P03",
            Self::QueryCanceled => "57014",
            Self::CannotConnectNow => "57P03",
            Self::EngineRefused => "HV000",
        }
    }
}

/// A failure: what was wrong, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TiqueError {
    /// What kind it is.
    pub state: SqlState,
    /// What was wrong, in one sentence.
    pub message: String,
    /// Where, or with which values.
    pub detail: Option<String>,
    /// What to do.
    pub hint: Option<String>,
    /// The line and column, from 1, of what is wrong, if it is known: in the text that was parsed.
    pub place: Option<Location>,
}

/// The error of one who was not waited for.
pub(crate) fn canceled() -> TiqueError {
    TiqueError::new(SqlState::QueryCanceled, "the wait for other transactions was ended")
}

impl TiqueError {
    /// A failure without detail or hint.
    #[must_use]
    pub fn new(state: SqlState, message: impl Into<String>) -> Self {
        Self { state, message: message.into(), detail: None, hint: None, place: None }
    }

    /// At this name of the statement.
    pub(crate) fn at(mut self, name: &Ident) -> Self {
        self.place = Some(name.span.start).filter(|start| start.line > 0);
        self
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the place in the application's statement of the name that is missing or was refused. The engine's message is about
    /// the rewritten statement, so the application's is added to it. `is_of_table` says whether a name is a table's or a column's.
    pub(crate) fn of_statement(mut self, statement: &Statement, is_of_table: impl Fn(&str) -> bool) -> Self {
        let names = matches!(self.state, SqlState::EngineRefused | SqlState::UndefinedTable);
        if names && self.place.is_none() {
            self.place = place::of_named(&self.message, statement, is_of_table);
        }
        let is_engines = matches!(self.state, SqlState::EngineRefused | SqlState::ConnectionFailure)
            && self.detail.is_none();
        if is_engines { self.detail(format!("The statement was: {statement}")) } else { self }
    }

    pub(crate) fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(SqlState::FeatureNotSupported, format!("{what} is not supported by TiQuE"))
    }
}

impl fmt::Display for TiqueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.state.code(), self.message)?;
        if let Some(place) = self.place {
            write!(f, "\nAt line {}, column {}.", place.line, place.column)?;
        }
        for part in [&self.detail, &self.hint].into_iter().flatten() {
            write!(f, "\n{part}")?;
        }
        Ok(())
    }
}

impl std::error::Error for TiqueError {}

impl From<EngineError> for TiqueError {
    fn from(error: EngineError) -> Self {
        let state = match error.kind {
            EngineErrorKind::Refused => SqlState::EngineRefused,
            EngineErrorKind::Lost | EngineErrorKind::Gone => SqlState::ConnectionFailure,
            EngineErrorKind::Full => SqlState::TooManyConnections,
            EngineErrorKind::Busy => SqlState::LockNotAvailable,
        };
        // Excerpts of the statement that failed are of the rewritten one.
        let ends = ["\nLINE ", " in: \""].map(|excerpt| error.message.find(excerpt));
        let end = ends.into_iter().flatten().min().unwrap_or(error.message.len());
        Self::new(state, error.message[..end].trim_end())
    }
}

/// What most functions here return.
pub type Result<T> = std::result::Result<T, TiqueError>;

/// What a walk over a statement does next: a failure ends it.
pub(crate) fn flow(result: Result<()>) -> ControlFlow<TiqueError> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}
