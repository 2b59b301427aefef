// SPDX-License-Identifier: Apache-2.0
//! Errors of the store as SQL errors.

use crate::error::{ErrorObject, Secrets, SqlError, SqlState, TableName};
use coeval_store::files::FileError;
use coeval_store::log::LogError;
use coeval_store::{
    ConflictError, ConstraintError, LoadError, RejectReason, RowLockError, SlotError, StoreError,
};

impl From<ConstraintError> for SqlError {
    fn from(error: ConstraintError) -> Self {
        let (made, object) = (Self::new(of_constraint(&error), error.to_string()), object_of(&error));
        let made = match error {
            ConstraintError::Unique { table, key, .. } => {
                made.with_detail(format!("Key {key} already exists.")).with_secrets(Secrets::key_of(*table))
            }
            ConstraintError::ForeignKeyMissing { table, parent, key, .. } => {
                let said = |key: &str| format!("Key{key} is not present in table \"{parent}\".");
                let secrets = Secrets { instead: Some(said("")), ..Secrets::key_of(*table) };
                made.with_detail(said(&format!(" {key}"))).with_secrets(secrets)
            }
            ConstraintError::ForeignKeyReferenced { table, parent, key, .. } => {
                let said = |key: &str| format!("Key{key} is still referenced from table \"{table}\".");
                let secrets = Secrets { instead: Some(said("")), ..Secrets::key_of(*parent) };
                made.with_detail(said(&format!(" {key}"))).with_secrets(secrets)
            }
            _ => made,
        };
        match object {
            Some(object) => made.with_object(object),
            None => made,
        }
    }
}

/// What the detail of a conflict shows: keys of a table, and what the winner ran.
fn secrets_of(conflict: &ConflictError) -> Secrets {
    let cause = &conflict.cause;
    let origin = cause.winner.as_ref().and_then(|winner| winner.origin.as_ref());
    Secrets {
        tables: cause.place.space.map(TableName::Space).into_iter().collect(),
        session: origin.map(|origin| origin.session()),
        instead: Some("Another transaction changed or relied on the same rows.".to_owned()),
    }
}

/// What a violated constraint is about; the table is the one whose constraint it is.
fn object_of(error: &ConstraintError) -> Option<ErrorObject> {
    if let ConstraintError::DomainCheck { domain, constraint } = error {
        let (schema, constraint) = (Some(domain.schema.clone()), Some(constraint.clone()));
        return Some(ErrorObject { schema, constraint, ..ErrorObject::default() });
    }
    let (table, column, constraint) = match error {
        ConstraintError::NotNull { table, column } => (table, Some(column), None),
        ConstraintError::Unique { table, constraint, .. }
        | ConstraintError::ForeignKeyMissing { table, constraint, .. }
        | ConstraintError::ForeignKeyReferenced { table, constraint, .. }
        | ConstraintError::Check { table, constraint } => (table, None, Some(constraint)),
        _ => return None,
    };
    Some(ErrorObject {
        schema: Some(table.schema.clone()),
        table: Some(table.name.clone()),
        column: column.cloned(),
        constraint: constraint.cloned(),
    })
}

impl From<StoreError> for SqlError {
    fn from(error: StoreError) -> Self {
        let made = Self::new(SqlState::of(&error), error.to_string());
        match error {
            StoreError::Constraint(error) => error.into(),
            StoreError::Conflict(conflict) => {
                let secrets = secrets_of(&conflict);
                made.with_detail(conflict.detail)
                    .with_hint("The transaction might succeed if retried.")
                    .with_secrets(secrets)
            }
            StoreError::RowLock(RowLockError::Deadlock { tables, detail }) => {
                let tables = tables.into_iter().map(TableName::Space).collect();
                made.with_detail(detail).with_secrets(Secrets { tables, session: None, instead: None })
            }
            StoreError::Arrow(error) => error.into(),
            StoreError::BrickTable { .. } => made.with_hint(
                "Rows of brick tables are appended, and deleted by whole bricks. Use a table without USING brick for \
                 rows that are found or changed one by one.",
            ),
            StoreError::BrickDefinition { .. } => {
                made.with_hint("Make another table with CREATE TABLE and fill it with INSERT ... SELECT.")
            }
            StoreError::BrickLoad(error) => of_load(&error),
            StoreError::CutBrick(_) => made
                .with_hint("Widen or narrow the condition to the borders of the ranges of the table's dimensions."),
            StoreError::OutcomeUnknown(_) => {
                made.with_hint("Look for what it did once the database is open again, before you run it again.")
            }
            StoreError::NotReplicated => made.with_hint(
                "Do not run it again: it is on disk here, and is seen once enough of the replicas that synchronous_standby_names \
                 names have it. pg_stat_replication shows those that are connected.",
            ),
            StoreError::Stopped(reason) if reason.is_superseded() => {
                made.with_hint("Connect to the machine that was promoted; start this one with --replica-of it.")
            }
            StoreError::OutOfMemory(what) => super::memory::out_of_memory_for_changes(what),
            StoreError::DamagedTable { .. } => {
                made.with_hint("\"coeval check --repair\" makes anew what can be derived, and says what is lost.")
            }
            StoreError::TransactionSize { .. } => {
                made.with_hint("Commit after fewer rows: a COPY or INSERT of all of them can be several.")
            }
            _ => made,
        }
    }
}

impl SqlState {
    /// The class of an error of the store.
    #[must_use]
    pub fn of(error: &StoreError) -> Self {
        match error {
            StoreError::Constraint(error) => of_constraint(error),
            StoreError::Conflict(_) => Self::SerializationFailure,
            StoreError::RowLock(RowLockError::Deadlock { .. }) => Self::DeadlockDetected,
            StoreError::RowLock(RowLockError::NotAvailable(_) | RowLockError::Timeout) => {
                Self::LockNotAvailable
            }
            StoreError::RowLock(RowLockError::Interrupted) => Self::QueryCanceled,
            StoreError::UnknownSpace(_) | StoreError::UnknownSequence => Self::UndefinedTable,
            StoreError::ReadOnly(_) | StoreError::ServedReadOnly(_) | StoreError::OnReplica(_) => {
                Self::ReadOnlySqlTransaction
            }
            StoreError::SequenceExhausted(_) => Self::SequenceGeneratorLimitExceeded,
            StoreError::TransactionSize { .. } | StoreError::KeySize { .. } => Self::ProgramLimitExceeded,
            StoreError::OutOfMemory(_) => Self::OutOfMemory,
            StoreError::KeyDamage(_)
            | StoreError::Corrupt { .. }
            | StoreError::IncompleteDatabase { .. }
            | StoreError::DamagedTable { .. } => Self::DataCorrupted,
            StoreError::OutcomeUnknown(_) | StoreError::NotReplicated => Self::TransactionResolutionUnknown,
            StoreError::UnsupportedVersion { .. } => Self::FeatureNotSupported,
            StoreError::BrickTable { .. }
            | StoreError::BrickDefinition { .. }
            | StoreError::SpreadTable(_)
            | StoreError::CutBrick(_) => Self::FeatureNotSupported,
            StoreError::Brick(_) => Self::InvalidTableDefinition,
            StoreError::BrickLoad(_) => Self::CheckViolation,
            StoreError::Closing => Self::AdminShutdown,
            StoreError::Slot(error) => match error {
                SlotError::Name(_) => Self::InvalidName,
                SlotError::Exists(_) => Self::DuplicateObject,
                SlotError::Missing(_) => Self::UndefinedObject,
                SlotError::Active(_) => Self::ObjectInUse,
                SlotError::TooMany | SlotError::Outgrown(_) => Self::ConfigurationLimitExceeded,
                // What it kept has gone: whoever follows by it takes the log from an archive, as where it never was kept.
                SlotError::Lost(_) => Self::UndefinedFile,
                _ => Self::ObjectNotInPrerequisiteState,
            },
            StoreError::FollowerIsAhead { .. } => Self::CannotConnectNow,
            StoreError::ForeignHistory(_)
            | StoreError::NoDirectory
            | StoreError::FollowsAnother { .. }
            | StoreError::FollowsNobody { .. }
            | StoreError::PromisedAnother { .. }
            | StoreError::UnfinishedCopy { .. }
            | StoreError::UnfinishedRewinding { .. }
            | StoreError::NotRewindable { .. }
            | StoreError::ScanOrder(_)
            | StoreError::ForeignDirectory { .. } => Self::ObjectNotInPrerequisiteState,
            StoreError::File(FileError::DirectoryInUse { .. }) => Self::ObjectInUse,
            StoreError::File(error) if error.is_disk_full() => Self::DiskFull,
            StoreError::File(_) => Self::IoError,
            StoreError::Log(error) | StoreError::Stopped(error) => of_log(error),
            _ => Self::InternalError,
        }
    }
}

/// The class of a violation.
fn of_constraint(error: &ConstraintError) -> SqlState {
    match error {
        ConstraintError::Unique { .. } => SqlState::UniqueViolation,
        ConstraintError::NotNull { .. } | ConstraintError::DomainNull { .. } => SqlState::NotNullViolation,
        ConstraintError::ForeignKeyMissing { .. } | ConstraintError::ForeignKeyReferenced { .. } => {
            SqlState::ForeignKeyViolation
        }
        ConstraintError::Expression { state, .. } => {
            SqlState::of_code(state).unwrap_or(SqlState::CheckViolation)
        }
        ConstraintError::Check { .. } | ConstraintError::DomainCheck { .. } => SqlState::CheckViolation,
        _ => SqlState::IntegrityConstraintViolation,
    }
}

/// A load that a brick table does not take: about its first bad row.
fn of_load(error: &LoadError) -> SqlError {
    let LoadError::TooManyRejected { rejected, .. } = error else {
        return SqlError::new(SqlState::DatatypeMismatch, error.to_string());
    };
    match rejected.first() {
        Some(first) => of_rejection(&first.reason),
        None => SqlError::new(SqlState::CheckViolation, error.to_string()),
    }
}

/// Why a row is not one of a brick table.
pub(crate) fn of_rejection(reason: &RejectReason) -> SqlError {
    let (state, column) = match reason {
        RejectReason::NullDimension { column } | RejectReason::NullMetric { column } => {
            (SqlState::NotNullViolation, column)
        }
        RejectReason::OutsideCardinality { column, .. } | RejectReason::TooManyStrings { column, .. } => {
            (SqlState::CheckViolation, column)
        }
        RejectReason::StringTooLong { column, .. } => (SqlState::StringDataRightTruncation, column),
    };
    let object = ErrorObject { column: Some(column.clone()), ..ErrorObject::default() };
    SqlError::new(state, reason.to_string()).with_object(object)
}

fn of_log(error: &LogError) -> SqlState {
    match error {
        LogError::UnsupportedVersion { .. } => SqlState::FeatureNotSupported,
        LogError::Panicked { .. } => SqlState::InternalError,
        LogError::Gone { .. } => SqlState::UndefinedFile,
        LogError::Superseded { .. } => SqlState::ReadOnlySqlTransaction,
        LogError::Stopped { first } => of_log(first),
        error if error.is_damage() => SqlState::DataCorrupted,
        error if error.is_disk_full() => SqlState::DiskFull,
        _ => SqlState::IoError,
    }
}
