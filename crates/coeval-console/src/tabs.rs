// SPDX-License-Identifier: Apache-2.0
//! [`Tab`]: a tab of the editor: a session of its own, and the results of what ran there last.

use crate::columnar::Copy;
use crate::results::{ResultSet, Room};
use crate::wire::{self, CancelKey, Connection, Identity, TransactionState};
use coeval_server::Entrance;
use parking_lot::Mutex;
use serde::Serialize;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio_util::sync::CancellationToken;

/// How sessions of tabs begin.
pub(crate) const TAB_SETTINGS: [(&str, &str); 1] = [("application_name", "coeval console (query)")];

/// A tab ends about which its page has not asked for so long: nobody sees it any more, and what runs or is open there would
/// hold others up.
const UNSEEN_MAX: Duration = Duration::from_secs(3 * 60);

/// Results of a run that are kept; each may have an open file.
const RESULTS_MAX: usize = 50;

/// Where a tab stands, as the page gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Standing {
    pub(crate) running: bool,
    /// Of the session between two runs; nothing while one runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) transaction: Option<TransactionState>,
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
    /// Whether the tab has been closed, or its login has ended: what runs ends then.
    pub(crate) ended: CancellationToken,
    session: Arc<AsyncMutex<Slot>>,
    standing: Mutex<Standing>,
    cancel_key: Mutex<Option<CancelKey>>,
    results: Mutex<Results>,
    /// A file that is being made and that nobody has asked for yet, and since when.
    prepared: Mutex<Option<(Copy, Instant)>>,
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
            ended: CancellationToken::new(),
            session: Arc::default(),
            standing: Mutex::new(Standing { running: false, transaction: Some(TransactionState::Idle) }),
            cancel_key: Mutex::default(),
            results: Mutex::default(),
            prepared: Mutex::default(),
            last_seen: Mutex::new(Instant::now()),
        }
    }

    /// Notes that its page is there.
    pub(crate) fn note_seen(&self) {
        *self.last_seen.lock() = Instant::now();
    }

    /// Whether its page has gone.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now.duration_since(*self.last_seen.lock()) > UNSEEN_MAX
    }

    pub(crate) fn standing(&self) -> Standing {
        *self.standing.lock()
    }

    /// The session, for a file that is made of a query; the results stay. Nothing as for [`begin_run`](Self::begin_run).
    pub(crate) fn begin_copy(&self) -> Option<OwnedMutexGuard<Slot>> {
        let session =
            Arc::clone(&self.session).try_lock_owned().ok().filter(|_| !self.ended.is_cancelled())?;
        *self.standing.lock() = Standing { running: true, transaction: None };
        Some(session)
    }

    /// Keeps a file that is being made until it is asked for.
    pub(crate) fn prepare(&self, copy: Copy) {
        *self.prepared.lock() = Some((copy, Instant::now()));
    }

    /// The file that is being made, for whoever asks first.
    pub(crate) fn take_prepared(&self) -> Option<Copy> {
        self.prepared.lock().take().map(|(copy, _)| copy)
    }

    /// Lets go of a file that nobody has asked for in `time_max`: its query ends.
    pub(crate) fn forget_prepared(&self, now: Instant, time_max: Duration) {
        self.prepared.lock().take_if(|(_, since)| now.duration_since(*since) > time_max);
    }

    /// The session, for a run; nothing while another one has it, and none if the tab has ended.
    pub(crate) fn begin_run(&self) -> Option<OwnedMutexGuard<Slot>> {
        let session = self.begin_copy()?;
        let mut results = self.results.lock();
        results.first += results.sets.len() as u64;
        let former = std::mem::take(&mut results.sets);
        // Their files are let go of where nobody waits for the disk.
        tokio::task::spawn_blocking(move || drop(former));
        Some(session)
    }

    /// Gives back the session of a run; where its transaction stands.
    pub(crate) fn end_run(&self, session: OwnedMutexGuard<Slot>) -> TransactionState {
        let state = session.as_ref().map_or(TransactionState::Idle, Connection::state);
        self.note_cancel_key(None);
        // The next run may begin as soon as the page hears of the end of this one.
        drop(session);
        *self.standing.lock() = Standing { running: false, transaction: Some(state) };
        state
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

    /// How many results of the run are kept already.
    pub(crate) fn result_count(&self) -> usize {
        self.results.lock().sets.len()
    }

    /// Takes in a result of the run; its number. Nothing if there are as many as there may be.
    pub(crate) fn add_result(&self, set: Arc<ResultSet>) -> Option<u64> {
        let mut results = self.results.lock();
        if results.sets.len() >= RESULTS_MAX {
            return None;
        }
        results.sets.push(set);
        Some(results.first + results.sets.len() as u64 - 1)
    }

    /// A result of the latest run.
    pub(crate) fn result(&self, number: u64) -> Option<Arc<ResultSet>> {
        let results = self.results.lock();
        let index = usize::try_from(number.checked_sub(results.first)?).ok()?;
        results.sets.get(index).cloned()
    }
}
