// SPDX-License-Identifier: Apache-2.0
//! [`Tab`]: a tab of the editor: a session of its own, and the results of what ran there last.

use crate::results::{ResultSet, Room};
use crate::wire::{self, CancelKey, Connection, Identity, TransactionState};
use coeval_server::Entrance;
use parking_lot::Mutex;
use serde::Serialize;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// A tab ends about which its page has not asked for so long: nobody sees it any more, and a transaction that is open there
/// would hold others up.
const UNSEEN_MAX: Duration = Duration::from_secs(3 * 60);

/// Where a tab stands, as the page gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Standing {
    running: bool,
    /// Of the session between two runs; nothing while one runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction: Option<TransactionState>,
}

/// The session of a tab: opened when first something runs, and again when it has ended.
pub(crate) type Slot = Option<Connection>;

/// See the module.
///
/// # Locking
/// `session` is held by whatever runs; the others are leaves.
pub(crate) struct Tab {
    pub(crate) entrance: Entrance,
    pub(crate) identity: Identity,
    pub(crate) room: Arc<Room>,
    session: Arc<AsyncMutex<Slot>>,
    cancel_key: Mutex<Option<CancelKey>>,
    results: Mutex<Results>,
    last_seen: Mutex<Instant>,
}

/// Results by number: those of one run, from `first` on.
#[derive(Default)]
struct Results {
    first: u64,
    sets: Vec<Arc<ResultSet>>,
}

impl Tab {
    pub(crate) fn new(entrance: Entrance, identity: Identity, room: Arc<Room>) -> Self {
        Self {
            entrance,
            identity,
            room,
            session: Arc::default(),
            cancel_key: Mutex::default(),
            results: Mutex::default(),
            last_seen: Mutex::new(Instant::now()),
        }
    }

    /// Notes that its page is there.
    pub(crate) fn note_seen(&self) {
        *self.last_seen.lock() = Instant::now();
    }

    /// Whether its page has gone, and nothing runs.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now.duration_since(*self.last_seen.lock()) > UNSEEN_MAX && !self.is_running()
    }

    pub(crate) fn standing(&self) -> Standing {
        match self.session.try_lock() {
            Ok(session) => {
                let state = session.as_ref().map_or(TransactionState::Idle, Connection::state);
                Standing { running: false, transaction: Some(state) }
            }
            Err(_) => Standing { running: true, transaction: None },
        }
    }

    /// The session, for a run; nothing while another one has it.
    pub(crate) fn begin_run(&self) -> Option<OwnedMutexGuard<Slot>> {
        let session = Arc::clone(&self.session).try_lock_owned().ok()?;
        let mut results = self.results.lock();
        results.first += results.sets.len() as u64;
        results.sets.clear();
        Some(session)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.session.try_lock().is_err()
    }

    /// Notes by what the statement that runs can be ended; nothing runs without one.
    pub(crate) fn note_cancel_key(&self, key: Option<CancelKey>) {
        *self.cancel_key.lock() = key;
    }

    /// Ends the statement that runs, if one does.
    ///
    /// # Errors
    /// If the system has no more sockets.
    pub(crate) async fn cancel(&self) -> io::Result<()> {
        let key = *self.cancel_key.lock();
        match key {
            Some(key) => wire::cancel(&self.entrance, &self.identity, key).await,
            None => Ok(()),
        }
    }

    /// Takes in a result of the run; its number.
    pub(crate) fn add_result(&self, set: Arc<ResultSet>) -> u64 {
        let mut results = self.results.lock();
        results.sets.push(set);
        results.first + results.sets.len() as u64 - 1
    }

    /// A result of the latest run.
    pub(crate) fn result(&self, number: u64) -> Option<Arc<ResultSet>> {
        let results = self.results.lock();
        let index = usize::try_from(number.checked_sub(results.first)?).ok()?;
        results.sets.get(index).cloned()
    }
}
