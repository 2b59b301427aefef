// SPDX-License-Identifier: Apache-2.0
//! Functions about advisory locks.

use super::{Call, Entry, Gives, called, strict};
use crate::advisory::{AdvisoryKey, Lasting, Sharing};
use crate::catalog::rows::Cell;
use crate::error::{SqlError, SqlState};
use Lasting::{Session, Transaction};
use Sharing::{Exclusive, Shared};

pub(super) const ENTRIES: &[Entry] = &[
    strict("pg_advisory_lock", 1..=2, Gives::Text, |call| lock(call, Exclusive, Session)),
    strict("pg_advisory_lock_shared", 1..=2, Gives::Text, |call| lock(call, Shared, Session)),
    strict("pg_advisory_xact_lock", 1..=2, Gives::Text, |call| lock(call, Exclusive, Transaction)),
    strict("pg_advisory_xact_lock_shared", 1..=2, Gives::Text, |call| lock(call, Shared, Transaction)),
    strict("pg_try_advisory_lock", 1..=2, Gives::Bool, |call| try_lock(call, Exclusive, Session)),
    strict("pg_try_advisory_lock_shared", 1..=2, Gives::Bool, |call| try_lock(call, Shared, Session)),
    strict("pg_try_advisory_xact_lock", 1..=2, Gives::Bool, |call| try_lock(call, Exclusive, Transaction)),
    strict("pg_try_advisory_xact_lock_shared", 1..=2, Gives::Bool, |call| {
        try_lock(call, Shared, Transaction)
    }),
    strict("pg_advisory_unlock", 1..=2, Gives::Bool, |call| unlock(call, Exclusive)),
    strict("pg_advisory_unlock_shared", 1..=2, Gives::Bool, |call| unlock(call, Shared)),
    called("pg_advisory_unlock_all", 0..=0, Gives::Text, |call| {
        call.access()?.advisory_locks().unlock_all();
        Ok("".into())
    }),
];

/// One `bigint`, or two `int`.
fn key(call: &Call<'_>) -> Result<AdvisoryKey, SqlError> {
    let out_of_range =
        || SqlError::new(SqlState::NumericValueOutOfRange, "the key of an advisory lock is out of range");
    match (call.int(0), call.int(1)) {
        (Some(one), Some(two)) => match (i32::try_from(one), i32::try_from(two)) {
            (Ok(one), Ok(two)) => Ok(AdvisoryKey::Pair(one, two)),
            (_, _) => Err(out_of_range()),
        },
        (Some(number), None) => Ok(AdvisoryKey::Number(number)),
        (None, _) => Err(out_of_range()),
    }
}

fn lock(call: &Call<'_>, sharing: Sharing, lasting: Lasting) -> Result<Cell, SqlError> {
    let access = call.access()?;
    access.advisory_locks().lock(access.settings(), key(call)?, sharing, lasting)?;
    Ok("".into())
}

fn try_lock(call: &Call<'_>, sharing: Sharing, lasting: Lasting) -> Result<Cell, SqlError> {
    Ok(call.access()?.advisory_locks().try_lock(key(call)?, sharing, lasting)?.into())
}

/// PostgreSQL warns of a lock that is not held, and so does the result.
fn unlock(call: &Call<'_>, sharing: Sharing) -> Result<Cell, SqlError> {
    Ok(call.access()?.advisory_locks().unlock(key(call)?, sharing).into())
}
