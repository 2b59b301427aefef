// SPDX-License-Identifier: Apache-2.0
//! What a primary does about others that are, or were, primaries: it tells those of lower timelines that they have been
//! superseded, and stops its own commits once it hears of a higher one.
//!
//! Nothing that was acknowledged with replicas' say depends on it: that is up to promises alone. It ends the time in which two
//! machines take commits that ask for no replica.

use crate::link::Role;
use crate::peer::{Peer, ask_all};
use coeval_store::{Promise, Store, Timeline};
use parking_lot::{Condvar, Mutex};
use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the others are asked.
const INTERVAL: Duration = Duration::from_secs(1);

/// Watches as long as it is there.
///
/// # Locking
/// `stopping.is_set` is a leaf lock, held for moments: not while others are asked.
pub struct PrimaryWatch {
    stopping: Arc<Stopping>,
    thread: Option<JoinHandle<()>>,
}

/// # Locking
/// See [`PrimaryWatch`].
#[derive(Default)]
struct Stopping {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl fmt::Debug for PrimaryWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrimaryWatch")
    }
}

impl PrimaryWatch {
    /// Looks once, waiting for answers for some seconds at most, and then goes on by itself.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(store: &Store, peers: Vec<Peer>) -> std::io::Result<Self> {
        let store = store.clone();
        look(&store, &peers);
        let stopping = Arc::new(Stopping::default());
        let thread = std::thread::Builder::new().name("coeval-watch".to_owned()).spawn({
            let stopping = Arc::clone(&stopping);
            move || {
                let mut is_set = stopping.is_set.lock();
                while !*is_set {
                    stopping.changed.wait_for(&mut is_set, INTERVAL);
                    if !*is_set {
                        parking_lot::MutexGuard::unlocked(&mut is_set, || look(&store, &peers));
                    }
                }
            }
        })?;
        Ok(Self { stopping, thread: Some(thread) })
    }
}

impl Drop for PrimaryWatch {
    fn drop(&mut self) {
        *self.stopping.is_set.lock() = true;
        self.stopping.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // Its own panic has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

/// Asks all others once.
fn look(store: &Store, peers: &[Peer]) {
    let (database, own) = (store.terms().database_id(), store.terms().timeline());
    if store.superseded_by().is_some() {
        return;
    }
    let found = ask_all(peers, Peer::identify);
    let of_database = peers.iter().zip(found).filter_map(|(peer, found)| Some((peer, found.ok()?)));
    for (peer, found) in of_database.filter(|(_, found)| found.database == database) {
        if found.role == Role::Primary && found.timeline > own {
            note_higher(store, &peer.name, found.timeline);
        } else if found.role == Role::Primary && found.timeline < own {
            tell(store, peer, own);
        }
    }
}

/// Another machine is the primary by now.
fn note_higher(store: &Store, name: &str, timeline: Timeline) {
    tracing::error!(peer = name, %timeline, "another machine has been promoted: this one takes no commits any more");
    if let Err(error) = store.promise(Promise::of_begun(timeline)) {
        tracing::error!(%error, "that could not be written down");
    }
}

/// Tells a former primary that it is one.
fn tell(store: &Store, peer: &Peer, own: Timeline) {
    let promise = store.own_promise().unwrap_or_else(|| Promise::of_begun(own));
    match peer.ask_for(promise) {
        Ok(_) => tracing::info!(peer = %peer.name, "the former primary takes no commits any more"),
        Err(error) if error.has_promised_another() => {}
        Err(error) => tracing::warn!(peer = %peer.name, %error, "the former primary could not be told"),
    }
}
