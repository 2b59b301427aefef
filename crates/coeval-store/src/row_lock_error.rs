// SPDX-License-Identifier: Apache-2.0
//! Why a row lock was not got.

use crate::ids::SpaceId;

/// Why a row lock was not got. The transaction is as before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowLockError {
    /// NOWAIT (55P03).
    #[error("could not obtain lock on row in relation \"{0}\"")]
    NotAvailable(String),
    /// It took too long (55P03).
    #[error("canceling statement due to lock timeout")]
    Timeout,
    /// The statement was cancelled meanwhile (57014).
    #[error("canceling statement due to user request")]
    Interrupted,
    /// It would wait for ever (40P01).
    #[error("deadlock detected")]
    Deadlock {
        /// The tables whose keys the detail names.
        tables: Vec<SpaceId>,
        /// Who waits for whom, a line for each.
        detail: String,
    },
}
