// SPDX-License-Identifier: Apache-2.0
//! SET of what is not the session's but the database's.

use super::variables::{Assigned, refused};
use crate::error::SqlError;
use crate::settings::{
    MAX_SLOT_WAL_KEEP_SIZE, SAFE_SNAPSHOT_MAX_LAG, SENDER_TIMEOUT_DEFAULT, SLOT_SIZE_DEFAULT, Settings,
    WAL_KEEP_SIZE, WAL_SENDER_TIMEOUT, limit, log_bytes, slot_bytes,
};
use crate::standby_names::{self, SYNCHRONOUS_STANDBY_NAMES};
use coeval_store::Store;

/// Assigns it; without a value, what it was when the server was started. `settings` are the session's, which say what a value means.
///
/// # Errors
/// `22023` for a value that the setting does not take; that of `allowed`, which is asked for settings of the database alone.
pub(super) fn assign(
    store: &Store,
    settings: &Settings,
    allowed: impl Fn() -> Result<(), SqlError>,
    (name, value): (&str, Option<&str>),
) -> Result<Assigned, SqlError> {
    match name {
        SAFE_SNAPSHOT_MAX_LAG => {
            allowed()?;
            let mut checked = settings.clone();
            checked.set(name, value.unwrap_or("0"))?;
            store.set_safe_snapshot_lag_max(limit(checked.get(name)?));
        }
        SYNCHRONOUS_STANDBY_NAMES => {
            allowed()?;
            store.require_replicas(standby_names::parse(value.unwrap_or(""))?)?;
        }
        MAX_SLOT_WAL_KEEP_SIZE => {
            allowed()?;
            let value = value.unwrap_or(SLOT_SIZE_DEFAULT);
            store.set_slot_bytes_max(
                slot_bytes(value).ok_or_else(|| refused(name, value, "It is a size, or -1."))?,
            );
        }
        WAL_KEEP_SIZE => {
            allowed()?;
            store.set_log_keep_bytes(match value {
                None => store.options().log_keep_bytes,
                Some(value) => log_bytes(value).ok_or_else(|| refused(name, value, "It is a size."))?,
            });
        }
        WAL_SENDER_TIMEOUT => {
            allowed()?;
            let mut checked = settings.clone();
            checked.set(name, value.unwrap_or(SENDER_TIMEOUT_DEFAULT))?;
            store.set_follower_silence_max(limit(checked.get(name)?));
        }
        _ => return Ok(Assigned::No),
    }
    Ok(Assigned::Yes)
}
