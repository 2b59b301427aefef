// SPDX-License-Identifier: Apache-2.0
//! Who is connected and does what: the sessions that a server has opened for its clients.
//!
//! A session's entry is written by its own connection at the beginning and end of each statement and read by
//! whoever asks; it is never held while a statement runs.

use crate::cancel::{CancelHandle, CancelReason};
use crate::rights::{Principal, Standing};
use chrono::Utc;
use coeval_store::{AccessMode, Reading};
use coeval_txn::{Isolation, OwnerId, TransactionId, Version};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// Longest part of a statement that is shown, in bytes.
const SHOWN_BYTES_MAX: usize = 1024;

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// No transaction block is open.
    Idle,
    /// In a transaction block.
    Active,
    /// In a transaction block that only ROLLBACK leaves.
    Failed,
}

/// What a session is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityState {
    /// It runs a statement.
    Active,
    /// It waits for its client.
    Idle,
    /// It waits for its client inside a transaction block.
    IdleInTransaction,
    /// The same, and the block has failed.
    IdleInFailedTransaction,
}

impl ActivityState {
    /// As `pg_stat_activity` spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::IdleInTransaction => "idle in transaction",
            Self::IdleInFailedTransaction => "idle in transaction (aborted)",
        }
    }

    fn between_statements(status: TransactionStatus) -> Self {
        match status {
            TransactionStatus::Idle => Self::Idle,
            TransactionStatus::Active => Self::IdleInTransaction,
            TransactionStatus::Failed => Self::IdleInFailedTransaction,
        }
    }
}

/// A transaction block that is open.
#[derive(Clone, Debug)]
pub struct OpenTransaction {
    /// Its level.
    pub isolation: Isolation,
    /// Whether it may write.
    pub mode: AccessMode,
    /// The version of its snapshot; `None` before its first statement.
    pub begin: Option<Version>,
    /// Its number; `None` before its first statement.
    pub id: Option<TransactionId>,
    /// What it has read, if that is noted.
    pub reading: Option<Reading>,
}

/// What a session does or did last. Times are microseconds since 1970-01-01 UTC.
#[derive(Clone, Debug)]
pub struct Activity {
    /// What it is about.
    pub state: ActivityState,
    /// The beginning of the statement that it runs, or of its last one.
    pub statement: String,
    /// When that began; `None` if there has been none.
    pub statement_micros: Option<i64>,
    /// When its transaction block began, if one is open.
    pub transaction_micros: Option<i64>,
    /// The block, as it was when the last statement ended.
    pub transaction: Option<OpenTransaction>,
    /// Since when it is in this state.
    pub state_micros: i64,
    /// What its application calls itself.
    pub application: String,
}

/// Who a session belongs to. Does not change.
#[derive(Clone, Debug)]
pub struct Client {
    /// The role.
    pub user: String,
    /// What its rights come from.
    pub standing: Standing,
    /// The database that it asked for.
    pub database: String,
    /// Where it is.
    pub address: Option<SocketAddr>,
    /// What proves that somebody may cancel its statements.
    pub secret: i32,
}

/// One session of a client.
pub struct Registered {
    pid: i32,
    client: Client,
    started_micros: i64,
    cancel: CancelHandle,
    activity: Mutex<Activity>,
}

impl Registered {
    /// Its number.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Who it belongs to.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// When it began.
    #[must_use]
    pub fn started_micros(&self) -> i64 {
        self.started_micros
    }

    /// What it does.
    #[must_use]
    pub fn activity(&self) -> Activity {
        self.activity.lock().clone()
    }

    /// What it is about.
    #[must_use]
    pub fn state(&self) -> ActivityState {
        self.activity.lock().state
    }

    /// A statement begins.
    pub fn begin_statement(&self, sql: &str) {
        let now = Utc::now().timestamp_micros();
        let end = (0..=sql.len().min(SHOWN_BYTES_MAX)).rev().find(|&end| sql.is_char_boundary(end));
        let mut activity = self.activity.lock();
        activity.state = ActivityState::Active;
        activity.statement.clear();
        activity.statement.push_str(&sql[..end.unwrap_or(0)]);
        activity.statement_micros = Some(now);
        activity.state_micros = now;
    }

    /// It waits for its client; how long the statement took that it has run, in microseconds, if it has.
    pub fn end_statement(
        &self,
        status: TransactionStatus,
        transaction: Option<OpenTransaction>,
    ) -> Option<i64> {
        let now = Utc::now().timestamp_micros();
        let mut activity = self.activity.lock();
        let was_active = activity.state == ActivityState::Active;
        activity.state = ActivityState::between_statements(status);
        activity.transaction = transaction;
        let began = activity.statement_micros.unwrap_or(now);
        activity.transaction_micros = match status {
            TransactionStatus::Idle => None,
            TransactionStatus::Active | TransactionStatus::Failed => {
                activity.transaction_micros.or(Some(began))
            }
        };
        activity.state_micros = now;
        was_active.then(|| now - began)
    }

    /// Notes what its application calls itself.
    pub fn set_application(&self, name: &str) {
        name.clone_into(&mut self.activity.lock().application);
    }

    /// Whether it waits for a row lock.
    pub(crate) fn waits_for_lock(&self) -> bool {
        self.cancel.waits_for_lock()
    }

    /// Whether its queries wait until other statements have had their part of the threads.
    pub(crate) fn waits_for_turn(&self) -> bool {
        self.cancel.waits_for_turn()
    }

    /// Whether its commit waits for replicas.
    pub(crate) fn awaits_replicas(&self) -> bool {
        self.cancel.awaits_replicas()
    }

    /// Whether it holds advisory locks as this owner.
    pub(crate) fn is_lock_owner(&self, owner: OwnerId) -> bool {
        self.cancel.is_lock_owner(owner)
    }

    /// Who it acts for.
    pub(crate) fn principal(&self) -> Principal {
        Principal::new(&self.client.user, self.client.standing)
    }

    /// Ends the statement that it runs, if it runs one.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Ends the session.
    pub fn terminate(&self) {
        self.cancel.cancel_for(CancelReason::Termination);
    }
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered").field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// The sessions of a database's clients.
///
/// # Locking
/// One lock around the map, one in each entry; nobody takes both, and neither is held while anything waits.
#[derive(Debug, Default)]
pub struct Registry {
    sessions: Mutex<Sessions>,
    reload: Notify,
    promotion: Promotion,
    began: Began,
}

/// When a registry was made: microseconds since 1970.
#[derive(Debug)]
struct Began(i64);

impl Default for Began {
    fn default() -> Self {
        Self(Utc::now().timestamp_micros())
    }
}

/// Making the replica that a server has a database of its own.
#[derive(Debug, Default)]
struct Promotion {
    /// Whether there is somebody who can.
    is_possible: AtomicBool,
    asked: Notify,
}

#[derive(Debug, Default)]
struct Sessions {
    by_pid: BTreeMap<i32, Arc<Registered>>,
    last_pid: i32,
}

impl Registry {
    /// Adds a session, unless there are as many as there may be. It stays until the guard is dropped.
    pub fn add(
        self: &Arc<Self>,
        client: Client,
        cancel: CancelHandle,
        sessions_max: usize,
    ) -> Option<RegistryGuard> {
        let mut sessions = self.sessions.lock();
        if sessions.by_pid.len() >= sessions_max {
            return None;
        }
        let mut pid = sessions.last_pid;
        loop {
            // Numbers begin again after the last one; those in use are passed over.
            pid = pid.checked_add(1).unwrap_or(1);
            if !sessions.by_pid.contains_key(&pid) {
                break;
            }
        }
        sessions.last_pid = pid;
        let now = Utc::now().timestamp_micros();
        let activity = Activity {
            state: ActivityState::Idle,
            statement: String::new(),
            statement_micros: None,
            transaction_micros: None,
            transaction: None,
            state_micros: now,
            application: String::new(),
        };
        let registered =
            Arc::new(Registered { pid, client, started_micros: now, cancel, activity: Mutex::new(activity) });
        sessions.by_pid.insert(pid, Arc::clone(&registered));
        Some(RegistryGuard { registry: Arc::clone(self), registered })
    }

    /// Asks the server that has these sessions to read again what it was configured with.
    pub fn ask_to_reload(&self) {
        self.reload.notify_one();
    }

    /// Ready once somebody has asked for that since the last time.
    pub async fn reload_asked(&self) {
        self.reload.notified().await;
    }

    /// Ready once somebody has asked for the promotion of the replica; from the first call on, that can be asked for.
    pub async fn promotion_asked(&self) {
        self.promotion.is_possible.store(true, Ordering::Release);
        self.promotion.asked.notified().await;
    }

    /// Whether there is a server that has a replica, and may be asked to promote it.
    pub(crate) fn can_promote(&self) -> bool {
        self.promotion.is_possible.load(Ordering::Acquire)
    }

    /// Asks the server that has a replica to promote it.
    pub(crate) fn ask_to_promote(&self) {
        self.promotion.asked.notify_one();
    }

    /// The session of this number.
    #[must_use]
    pub fn find(&self, pid: i32) -> Option<Arc<Registered>> {
        self.sessions.lock().by_pid.get(&pid).cloned()
    }

    /// The session that had this transaction open when its last statement ended.
    #[must_use]
    pub fn session_of(&self, transaction: TransactionId) -> Option<i32> {
        let has_it = |session: &Registered| {
            let activity = session.activity.lock();
            activity.transaction.as_ref().and_then(|open| open.id) == Some(transaction)
        };
        self.all().iter().find(|session| has_it(session)).map(|session| session.pid)
    }

    /// All sessions, by number.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Registered>> {
        self.sessions.lock().by_pid.values().cloned().collect()
    }

    /// When the database was opened, in microseconds since 1970.
    #[must_use]
    pub fn began_micros(&self) -> i64 {
        self.began.0
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.sessions.lock().by_pid.len()
    }
}

/// Keeps a session in its registry.
#[derive(Debug)]
pub struct RegistryGuard {
    registry: Arc<Registry>,
    registered: Arc<Registered>,
}

impl std::ops::Deref for RegistryGuard {
    type Target = Registered;

    fn deref(&self) -> &Registered {
        &self.registered
    }
}

impl Drop for RegistryGuard {
    fn drop(&mut self) {
        let removed = self.registry.sessions.lock().by_pid.remove(&self.registered.pid);
        debug_assert!(removed.is_some(), "a session is in its registry until it ends");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        Client {
            user: "u".to_owned(),
            standing: Standing::Administrator,
            database: "d".to_owned(),
            address: None,
            secret: 7,
        }
    }

    #[test]
    fn sessions_come_and_go_and_are_limited() {
        let registry = Arc::new(Registry::default());
        let first = registry.add(client(), CancelHandle::new(), 2).unwrap();
        let second = registry.add(client(), CancelHandle::new(), 2).unwrap();
        assert!(registry.add(client(), CancelHandle::new(), 2).is_none(), "two are the most");
        assert_ne!(first.pid(), second.pid());
        assert!(registry.find(first.pid()).is_some());
        let pid = first.pid();
        drop(first);
        assert!(registry.find(pid).is_none());
        assert_eq!(registry.count(), 1);
        let third = registry.add(client(), CancelHandle::new(), 2).unwrap();
        assert_ne!(third.pid(), pid, "a number is not given again at once");
    }

    #[test]
    fn a_session_shows_what_it_does() {
        let registry = Arc::new(Registry::default());
        let session = registry.add(client(), CancelHandle::new(), 1).unwrap();
        assert_eq!(session.activity().state, ActivityState::Idle);
        let long = "ä".repeat(SHOWN_BYTES_MAX);
        session.begin_statement(&long);
        let activity = session.activity();
        assert_eq!((activity.state, activity.statement.len()), (ActivityState::Active, SHOWN_BYTES_MAX));
        assert!(session.end_statement(TransactionStatus::Active, None).is_some());
        let activity = session.activity();
        assert_eq!(activity.state, ActivityState::IdleInTransaction);
        assert_eq!(activity.transaction_micros, activity.statement_micros);
        assert_eq!(session.end_statement(TransactionStatus::Idle, None), None, "it ran no statement");
        assert_eq!(session.activity().transaction_micros, None);
    }
}
