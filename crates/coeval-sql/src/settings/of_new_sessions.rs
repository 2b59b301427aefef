// SPDX-License-Identifier: Apache-2.0
//! Settings that may be kept for sessions that are yet to come.

use super::Settings;
use super::known::{
    MAX_SLOT_WAL_KEEP_SIZE, SAFE_SNAPSHOT_MAX_LAG, WAL_KEEP_SIZE, WAL_SENDER_TIMEOUT, canonical, find,
    is_custom, written_name,
};
use crate::error::{SqlError, SqlState};
use crate::standby_names::SYNCHRONOUS_STANDBY_NAMES;
use coeval_store::DefaultSetting;

/// Those of the whole database, of one transaction, and what a session does once.
const NOT_OF_SESSIONS: &[&str] = &[
    MAX_SLOT_WAL_KEEP_SIZE,
    SAFE_SNAPSHOT_MAX_LAG,
    SYNCHRONOUS_STANDBY_NAMES,
    WAL_KEEP_SIZE,
    WAL_SENDER_TIMEOUT,
    "coeval.wait_for_token",
    "session_authorization",
    "transaction_deferrable",
    "transaction_isolation",
    "transaction_read_only",
];

/// The role that a session takes on, which is no text among its settings.
const ROLE: &str = "role";

/// The name under which a setting is kept for sessions that are yet to come: as the catalog shows it.
///
/// # Errors
/// `42704` for a setting that does not exist, `55P02` for one that no session begins with.
pub(crate) fn name_of_default(name: &str) -> Result<String, SqlError> {
    let name = canonical(name);
    if NOT_OF_SESSIONS.contains(&name.as_str()) {
        let message = format!("parameter \"{name}\" cannot be changed now");
        return Err(SqlError::new(SqlState::CannotChangeRuntimeParameter, message));
    }
    if name != ROLE && !is_custom(&name) {
        find(&name)?;
    }
    Ok(written_name(&name).to_owned())
}

impl Settings {
    /// Refuses what a session could not begin with. All are tried together, as one takes them; which roles its user may take on is
    /// found when it begins.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub(crate) fn check_defaults(&self, defaults: &[DefaultSetting]) -> Result<(), SqlError> {
        let mut session = self.clone();
        session.reset_all();
        let mut texts = defaults.iter().filter(|setting| setting.name != ROLE);
        texts.try_for_each(|setting| session.set(&setting.name, &setting.value))
    }
}
