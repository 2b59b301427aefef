// SPDX-License-Identifier: Apache-2.0
//! Commits that were refused, and what each has to wait for before its transaction runs again.
//!
//! A transaction that met what is reserved for another one would meet it again at once, so it waits first. Whoever holds something
//! that others need while it commits lets go of that before it waits: the wait is the loser's alone.

use super::{Committed, LockWaits};
use crate::conflicts::ConflictReason;
use crate::error::StoreError;
use crate::reservations::Accessed;
use crate::shared::Shared;
use coeval_txn::TransactionId;
use std::fmt;
use std::sync::Arc;

/// Why a commit did not succeed. The transaction has ended and holds no locks; [`Transaction::commit`](super::Transaction::commit)
/// says what became of it with each error.
#[must_use = "its transaction is to wait before it runs again"]
pub struct Refused {
    error: StoreError,
    reservation: Option<Reservation>,
}

/// What was met, and how it is waited for.
struct Reservation {
    shared: Arc<Shared>,
    winner: TransactionId,
    waits: LockWaits,
}

impl Refused {
    /// The error, before anything is waited for.
    #[must_use]
    pub fn error(&self) -> &StoreError {
        &self.error
    }

    /// The error, once nothing is in the way of another attempt. Waits only if the commit met a reservation: as long as that lasts,
    /// which is five seconds at most, and no longer than the transaction's [`LockWaits`] say.
    ///
    /// [`StoreError::RowLock`] in the place of the conflict says that the wait was cut short.
    #[must_use]
    pub fn waited(self) -> StoreError {
        let Some(Reservation { shared, winner, waits }) = self.reservation else { return self.error };
        let interrupt = waits.interrupt.as_deref();
        let wait = || shared.pipeline.reservations.wait_for(winner, waits.timeout, interrupt);
        match shared.aside(wait) {
            Ok(()) => self.error,
            Err(cut_short) => cut_short.into(),
        }
    }
}

impl From<StoreError> for Box<Refused> {
    /// A refusal that there is nothing to wait for.
    fn from(error: StoreError) -> Self {
        Self::new(Refused { error, reservation: None })
    }
}

impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused")
            .field("error", &self.error)
            .field("meets_reservation", &self.reservation.is_some())
            .finish()
    }
}

/// What becomes of reservations when a transaction has got its verdict: its own is made or has been of use, and another's that it has
/// met is to be waited for.
pub(super) fn settle_priority(
    shared: Arc<Shared>,
    transaction: TransactionId,
    accessed: Option<(u64, Accessed)>,
    verdict: Result<Committed, StoreError>,
    waits: LockWaits,
) -> Result<Committed, Box<Refused>> {
    let mut conflict = match verdict {
        Err(StoreError::Conflict(conflict)) => conflict,
        Err(other) => return Err(other.into()),
        Ok(committed) => {
            if let Some((priority, _)) = &accessed {
                shared.pipeline.reservations.release(*priority);
            }
            return Ok(committed);
        }
    };
    if let Some((priority, accessed)) = accessed {
        let newest = shared.pipeline.reserve(&shared, priority, transaction, accessed);
        conflict.version = conflict.version.max(newest);
    }
    let winner = conflict.cause.winner.as_ref().map(|winner| winner.transaction);
    let met = winner.filter(|_| conflict.cause.reason == ConflictReason::Reserved);
    let reservation = met.map(|winner| Reservation { shared, winner, waits });
    Err(Box::new(Refused { error: StoreError::Conflict(conflict), reservation }))
}
