// SPDX-License-Identifier: Apache-2.0
//! Which sessions follow the log of the database: what `pg_stat_replication` shows.

use coeval_store::{Progress, ReplicaSession, ReplicaStanding, Store};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All who follow, by the numbers of their sessions.
///
/// # Locking
/// A leaf lock, held for moments.
#[derive(Clone, Debug, Default)]
pub struct Followers(Arc<Mutex<BTreeMap<i32, Arc<ReplicaSession>>>>);

impl Followers {
    /// A session begins to follow, under the name of its application.
    #[must_use = "it follows until this is dropped"]
    pub fn add(&self, store: &Store, pid: i32, name: &str) -> Following {
        let session = Arc::new(store.replica_session(name));
        self.0.lock().insert(pid, Arc::clone(&session));
        Following { all: self.clone(), pid, session }
    }

    /// How far a session has come that follows, and what it is to commits.
    #[must_use]
    pub fn standing(&self, pid: i32) -> Option<ReplicaStanding> {
        let session = self.0.lock().get(&pid).cloned();
        session.map(|session| session.standing())
    }

    /// Of all of them, with the number of the session.
    #[must_use]
    pub fn standings(&self) -> Vec<(i32, ReplicaStanding)> {
        let sessions: Vec<_> =
            self.0.lock().iter().map(|(pid, session)| (*pid, Arc::clone(session))).collect();
        sessions.iter().map(|(pid, session)| (*pid, session.standing())).collect()
    }
}

/// Keeps a session listed among those that follow.
#[derive(Debug)]
pub struct Following {
    all: Followers,
    pid: i32,
    session: Arc<ReplicaSession>,
}

impl Following {
    /// Changes how far it has come; commits that waited for it go on.
    pub fn note(&self, change: impl FnOnce(&mut Progress)) {
        self.session.note(change);
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.pid);
    }
}
