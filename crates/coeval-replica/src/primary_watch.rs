// SPDX-License-Identifier: Apache-2.0
//! What a primary does about others that are, or were, primaries: it tells those of lower timelines that they have been
//! superseded, and stops its own commits once it hears of a higher one.
//!
//! Nothing that was acknowledged with replicas' say depends on it: that is up to promises alone. It ends the time in which two
//! machines take commits that ask for no replica.
//!
//! Two of one timeline should not be: a copy of a directory was opened, or a loss was accepted on two machines. Neither has come after
//! the other, so both stop their commits, and somebody has to say which of them counts: that one is promoted with the loss accepted,
//! into a timeline beyond both.

use crate::link::{Identity, Role};
use crate::peer::{Peer, ask_all};
use coeval_store::{Promise, Store, TermHistory, Timeline};
use parking_lot::{Condvar, Mutex};
use std::cmp::Ordering;
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
    let own = store.terms();
    if store.superseded_by().is_some() {
        return;
    }
    let found = ask_all(peers, Peer::identify);
    for (peer, found) in peers.iter().zip(found).filter_map(|(peer, found)| Some((peer, found.ok()?))) {
        match standing(&own, &found) {
            Standing::NoRival => {}
            Standing::Later => note_higher(store, &peer.name, found.timeline),
            Standing::Earlier => tell(store, peer, own.timeline()),
            Standing::Equal => note_equal(store, &peer.name, own.timeline()),
        }
    }
}

/// What another machine is to a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It writes no log of this database, or it is this machine.
    NoRival,
    /// A primary that has come after this one.
    Later,
    /// A former primary that does not know.
    Earlier,
    /// A primary of which nobody knows who has come after whom.
    Equal,
}

/// What a machine is to a primary that has these terms.
fn standing(own: &TermHistory, found: &Identity) -> Standing {
    if found.database != own.database_id() || found.role != Role::Primary {
        return Standing::NoRival;
    }
    match found.timeline.cmp(&own.timeline()) {
        Ordering::Greater => Standing::Later,
        Ordering::Less => Standing::Earlier,
        // Whoever opens a database to write begins a term with an id that nobody else has.
        Ordering::Equal if found.term_id == own.last().map(|term| term.id) => Standing::NoRival,
        Ordering::Equal => Standing::Equal,
    }
}

/// Another machine is the primary by now.
fn note_higher(store: &Store, name: &str, timeline: Timeline) {
    tracing::error!(peer = name, %timeline, "another machine has been promoted: this one takes no commits any more");
    take_no_commits(store, Promise::of_begun(timeline));
}

/// Another machine is a primary, too.
fn note_equal(store: &Store, name: &str, timeline: Timeline) {
    tracing::error!(
        peer = name,
        %timeline,
        "another machine writes a log of the same timeline: this one takes no commits any more, until it is said which one counts"
    );
    take_no_commits(store, Promise::asked_for(timeline.next()));
}

/// No commits from here on, over a restart as well, unless it is promoted beyond what is promised.
fn take_no_commits(store: &Store, promise: Promise) {
    if let Err(error) = store.promise(promise) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Compares;
    use crate::link::tests::primary_that_says;
    use coeval_store::files::DiskFiles;
    use coeval_store::{LogStanding, StoreOptions, Term};

    #[test]
    fn whoever_writes_the_log_of_this_database_beside_this_one_is_a_rival() {
        let second = (1 << 32) + 1;
        let own = TermHistory::of(&[(1, 11, 0), (second, 12, 100)].map(Term::from));
        let timeline = own.timeline().get();
        let of = |database, role, timeline, term_id| {
            let timeline = Timeline::new(timeline);
            let standing = LogStanding::new(second, 0, coeval_store::log::Lsn::new(300));
            let (promised, format, compares) = (timeline, 0, Compares::Candidates);
            let found = Identity { database, standing, term_id, timeline, promised, role, format, compares };
            super::standing(&own, &found)
        };
        assert_eq!(of(11, Role::Primary, timeline, Some(12)), Standing::NoRival, "it is this one");
        assert_eq!(of(11, Role::Primary, timeline, Some(13)), Standing::Equal);
        assert_eq!(of(11, Role::Primary, timeline, Some(11)), Standing::Equal, "one of before runs on");
        assert_eq!(of(11, Role::Primary, timeline + 1, Some(13)), Standing::Later);
        assert_eq!(of(11, Role::Primary, timeline - 1, Some(13)), Standing::Earlier);
        for (database, role) in [(12, Role::Primary), (11, Role::Replica), (11, Role::Superseded)] {
            assert_eq!(of(database, role, timeline, Some(13)), Standing::NoRival);
        }
        // A copy of the directory from before the last start, say: it stopped the commits of the primary.
        assert_eq!(of(11, Role::Salvaged, timeline, Some(13)), Standing::NoRival);
    }

    /// Fails when only higher and lower timelines are looked at: two primaries of one timeline took commits side by side.
    #[test]
    fn of_two_primaries_of_one_timeline_each_stops_its_commits() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Store::open_with(Arc::new(DiskFiles), dir.path(), StoreOptions::default()).unwrap();
        let store = open();
        let terms = store.terms();
        let last = terms.last().unwrap();
        let (database, timeline) = (terms.database_id().to_string(), terms.timeline().to_string());
        let look_at = |id: u64| {
            let (id, term) = (format!("{id:016x}"), last.number.to_string());
            let identity = [&*database, &*timeline, "0/100", "", &*id, &*term, &*timeline, "primary", "1"];
            let (address, other) = primary_that_says(&identity);
            let peer = Peer { name: "other".to_owned(), address };
            look(&store, std::slice::from_ref(&peer));
            other.join().unwrap();
            store.superseded_by()
        };
        assert_eq!(look_at(last.id), None, "it is itself");
        assert_eq!(look_at(last.id ^ 1), Some(terms.timeline().next()));
        assert!(store.check_running().is_err());
        drop(store);
        assert_eq!(open().superseded_by(), Some(terms.timeline().next()), "over a restart, too");
    }
}
