// SPDX-License-Identifier: Apache-2.0
//! Errors of the store as SQL errors.

use crate::error::{SqlError, SqlState};
use coeval_store::{ConstraintError, StoreError};

impl From<ConstraintError> for SqlError {
    fn from(error: ConstraintError) -> Self {
        let message = error.to_string();
        match error {
            ConstraintError::Unique { key, .. } => Self::new(SqlState::UniqueViolation, message)
                .with_detail(format!("Key {key} already exists.")),
            ConstraintError::NotNull { .. } => Self::new(SqlState::NotNullViolation, message),
            ConstraintError::ForeignKeyMissing { parent, key, .. } => {
                Self::new(SqlState::ForeignKeyViolation, message)
                    .with_detail(format!("Key {key} is not present in table \"{parent}\"."))
            }
            ConstraintError::ForeignKeyReferenced { table, key, .. } => {
                Self::new(SqlState::ForeignKeyViolation, message)
                    .with_detail(format!("Key {key} is still referenced from table \"{table}\"."))
            }
            ConstraintError::Check { .. } => Self::new(SqlState::CheckViolation, message),
            other => Self::new(SqlState::IntegrityConstraintViolation, other.to_string()),
        }
    }
}

impl From<StoreError> for SqlError {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        match error {
            StoreError::Constraint(error) => error.into(),
            StoreError::Conflict(conflict) => Self::new(SqlState::SerializationFailure, message)
                .with_detail(conflict.detail)
                .with_hint("The transaction might succeed if retried."),
            StoreError::ReadOnly(_) => Self::new(SqlState::ReadOnlySqlTransaction, message),
            StoreError::SequenceExhausted(_) => Self::new(SqlState::SequenceGeneratorLimitExceeded, message),
            StoreError::UnknownSequence => Self::new(SqlState::UndefinedTable, message),
            StoreError::Stopped(_) | StoreError::Log(_) | StoreError::File(_) => {
                Self::new(SqlState::IoError, message)
            }
            StoreError::KeyDamage(_) | StoreError::Corrupt { .. } => {
                Self::new(SqlState::DataCorrupted, message)
            }
            StoreError::Arrow(error) => error.into(),
            other => Self::internal(other.to_string()),
        }
    }
}
