// SPDX-License-Identifier: Apache-2.0
//! Which sessions follow the log of the database: what `pg_stat_replication` shows.

mod lag;

use coeval_store::log::Lsn;
use coeval_store::{LogTime, ReplicaSession, ReplicaStanding, Store};
use lag::LagTracker;
pub use lag::{Lags, Reply};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// All who follow, by the numbers of their sessions.
///
/// # Locking
/// A leaf lock, held for moments.
#[derive(Clone, Debug, Default)]
pub struct Followers(Arc<Mutex<BTreeMap<i32, Arc<Follower>>>>);

/// One who follows.
///
/// # Locking
/// `lags` is a leaf lock, held for moments.
#[derive(Debug)]
struct Follower {
    session: ReplicaSession,
    slot: Option<String>,
    lags: Mutex<LagTracker>,
}

impl Followers {
    /// A session begins to follow from this place in the log on, under the name of its application, and by this slot if it has
    /// one.
    #[must_use = "it follows until this is dropped"]
    pub fn add(&self, store: &Store, pid: i32, name: &str, slot: Option<&str>, from: Lsn) -> Following {
        let (session, slot) = (store.replica_session(name), slot.map(str::to_owned));
        session.note(|progress| progress.sent = from);
        let follower = Arc::new(Follower { session, slot, lags: Mutex::default() });
        self.0.lock().insert(pid, Arc::clone(&follower));
        Following { all: self.clone(), pid, follower }
    }

    /// How far a session has come that follows, and what it is to commits.
    #[must_use]
    pub fn standing(&self, pid: i32) -> Option<ReplicaStanding> {
        self.get(pid).map(|follower| follower.session.standing())
    }

    /// How late a session is that follows; none of one that does not.
    #[must_use]
    pub fn lags(&self, pid: i32) -> Lags {
        self.get(pid).map(|follower| follower.lags.lock().lags(Instant::now())).unwrap_or_default()
    }

    /// The session that follows by a slot.
    #[must_use]
    pub fn by_slot(&self, slot: &str) -> Option<i32> {
        let all = self.0.lock();
        all.iter().find(|(_, follower)| follower.slot.as_deref() == Some(slot)).map(|(pid, _)| *pid)
    }

    /// Of all of them, with the number of the session.
    #[must_use]
    pub fn standings(&self) -> Vec<(i32, ReplicaStanding)> {
        let all: Vec<_> = self.0.lock().iter().map(|(pid, follower)| (*pid, Arc::clone(follower))).collect();
        all.iter().map(|(pid, follower)| (*pid, follower.session.standing())).collect()
    }

    fn get(&self, pid: i32) -> Option<Arc<Follower>> {
        self.0.lock().get(&pid).cloned()
    }
}

/// Keeps a session listed among those that follow.
#[derive(Debug)]
pub struct Following {
    all: Followers,
    pid: i32,
    follower: Arc<Follower>,
}

impl Following {
    /// The log up to `end` is sent, of a log that is durable up to `durable`.
    pub fn note_sent(&self, end: Lsn, durable: Lsn) {
        self.follower.session.note(|progress| progress.sent = end);
        self.follower.lags.lock().note_sent(durable, Instant::now());
    }

    /// It says how far it is: commits that waited for that go on. It is believed, and this gives back, no more than it was sent:
    /// nobody has log that has not left this machine, and commits are acknowledged by its word.
    pub fn note_reply(&self, reply: Reply) -> Reply {
        let mut believed = reply;
        self.follower.session.note(|progress| {
            believed = reply.up_to(progress.sent);
            (progress.written, progress.flushed) = (believed.written, believed.flushed);
            progress.applied = believed.applied;
            progress.replied_micros = i64::try_from(LogTime::now().micros()).unwrap_or(i64::MAX);
        });
        self.follower.lags.lock().note_reply(believed, Instant::now());
        believed
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_store::StoreOptions;

    fn reply(place: u64) -> Reply {
        let place = Lsn::new(place);
        Reply { written: place, flushed: place, applied: place }
    }

    /// Whoever followed could say that it had what was never sent: commits were acknowledged that no replica had.
    #[test]
    fn one_who_follows_has_no_more_than_was_sent_to_it() {
        let store = Store::in_memory(StoreOptions::default());
        let followers = Followers::default();
        let following = followers.add(&store, 7, "west", None, Lsn::new(40));
        let places = || {
            let progress = followers.standing(7).unwrap().progress;
            [progress.sent, progress.written, progress.flushed, progress.applied].map(Lsn::get)
        };
        assert_eq!(following.note_reply(reply(u64::MAX)), reply(40), "what it had when it came");
        assert_eq!(places(), [40; 4]);
        following.note_sent(Lsn::new(100), Lsn::new(300));
        assert_eq!(following.note_reply(reply(101)), reply(100), "durable here is not sent");
        assert_eq!(places(), [100; 4]);
        let some = Reply { written: Lsn::new(90), flushed: Lsn::new(1_000), applied: Lsn::new(50) };
        assert_eq!(following.note_reply(some), Reply { flushed: Lsn::new(100), ..some });
        assert_eq!(places(), [100, 90, 100, 50]);
    }
}
