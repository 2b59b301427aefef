// SPDX-License-Identifier: Apache-2.0
//! Which state of each server goes with which world of the database, so that a transaction reads one snapshot of all.
//!
//! A world is the newest from the moment at which it is published until the next one is. A transaction reads each server as it
//! was at one moment of that time: the one at which it first looks at a server, if its world is the newest still, and
//! otherwise the last one, which was noted when the next world was published.
//!
//! ```text
//! worlds       5 |--------------------| 7 |---------------| 8
//! server       1 1 2 2 3 3 4 4 4 4 4 4 5  5 5 6 6 6 6 6 6 7 7
//! noted                               {5..7: 4}          {7..8: 6}      what whoever reads world 5 or 7 reads of the server
//! ```
//!
//! # Why it is one snapshot
//! Let a transaction read world W, and servers as they were at moment m, at which W was the newest published (or applied and not
//! yet replaced).
//!
//! - *Committed here, then there, by one client or by one that was told:* A was acknowledged here before B began on the server. If B is
//!   seen, it was there at m, so A was published before m and is in a world up to W.
//! - *There, then here:* A was acknowledged on the server before B began here. If B is in W, A was there before W was, so before m.
//! - *On one server, then on another:* all servers are looked at at one moment: their clocks, which only go forward, are
//!   read twice and were the same.
//! - *Before the transaction began:* m comes behind that, so whatever was acknowledged by then on a server is seen.
//! - *Both at once*: a commit that spans both is in W before the server shows it. Whoever would see it here alone is refused
//!   or waits (`spans.rs`).
//!
//! # What is kept
//! For an open transaction the server keeps what was noted for its world ([`Moments::oldest_needed`]), whether or not it will ever look:
//! as the database keeps the world. Notes that no transaction needs are forgotten, except the latest ones: a transaction that has
//! moved on to a newer world may still need them. So there are little more notes than open transactions. A transaction that finds
//! no note is refused (40001), and so is one that comes so late that a checkpoint of the server has passed its state (which
//! `coeval-tique` knows).

use coeval_store::{Companion, HeldVersions};
use coeval_tique::Clock;
use coeval_txn::Version;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};

/// So many notes are kept whether or not they are known to be needed.
const NOTES_LEAST: usize = 64;

/// The states of the servers at one moment: each server's number, and the start timestamp that a transaction gets there.
type Starts = Arc<[(u64, i64)]>;

/// A server that is open.
struct Watched {
    number: u64,
    clock: Clock,
    /// The world that was the newest when it was opened.
    since: Version,
    /// What it showed then.
    first: i64,
}

/// What goes with worlds that are the newest no more: those of `from` up to `to`, which came next.
struct Note {
    from: Version,
    to: Version,
    starts: Starts,
}

#[derive(Default)]
struct State {
    servers: Vec<Watched>,
    last_number: u64,
    /// Worlds before this one are the newest no more.
    newest: Option<Version>,
    notes: VecDeque<Note>,
    /// So many notes are worth a look at which of them are needed.
    notes_max: usize,
    /// What transactions read that looked at a server while their world was the newest, as long as they are open.
    begun: Vec<Weak<[(u64, i64)]>>,
    /// So many of them are worth a look at which have ended.
    begun_max: usize,
}

impl State {
    /// What the servers show at one moment.
    fn now(&self) -> Starts {
        let look =
            || self.servers.iter().map(|server| (server.number, server.clock.newest())).collect::<Starts>();
        let mut seen = look();
        loop {
            let again = look();
            // One clock alone shows a moment by itself. None goes back, so what is the same was so in between.
            if again == seen || self.servers.len() == 1 {
                return seen;
            }
            seen = again;
        }
    }

    /// The moment of a transaction that looks at a server now.
    fn begin(&mut self) -> Starts {
        let starts = self.now();
        // What it reads of the one server it begins there at once.
        if self.servers.len() > 1 {
            if self.begun.len() >= self.begun_max {
                self.begun.retain(|starts| starts.strong_count() > 0);
                self.begun_max = 2 * self.begun.len().max(NOTES_LEAST);
            }
            self.begun.push(Arc::downgrade(&starts));
        }
        starts
    }

    fn is_newest(&self, version: Version) -> bool {
        self.newest.is_none_or(|newest| version >= newest)
    }

    fn note_of(&self, version: Version) -> Option<&Note> {
        let at = self.notes.partition_point(|note| note.to <= version);
        self.notes.get(at).filter(|note| note.from <= version)
    }

    fn note(&mut self, from: Version, to: Version, held: Option<&HeldVersions>) {
        let starts = self.now();
        match self.notes.back_mut() {
            Some(last) if last.to == from && last.starts == starts => last.to = to,
            _ => self.notes.push_back(Note { from, to, starts }),
        }
        if self.notes.len() > self.notes_max.max(2 * NOTES_LEAST) {
            let held = held.map(HeldVersions::list).unwrap_or_default();
            let recent = self.notes.len() - NOTES_LEAST;
            let mut place = 0;
            self.notes.retain(|note| {
                place += 1;
                let first = held.partition_point(|version| *version < note.from);
                place > recent || held.get(first).is_some_and(|version| *version < note.to)
            });
            self.notes_max = 2 * self.notes.len();
        }
    }
}

/// See the module.
///
/// # Locking
/// `state` is held for moments: while a world is published, and while states are looked up. Inside of it only the store's
/// registries of snapshots are locked.
#[derive(Default)]
pub(crate) struct Moments {
    state: Mutex<State>,
    held: OnceLock<HeldVersions>,
}

/// The moment at which a transaction reads servers.
pub(crate) struct Moment {
    /// Of the world that goes with it.
    pub(crate) version: Version,
    /// What the servers showed then that were open; nothing if that is not known.
    starts: Option<Starts>,
}

/// A server that is open, as [`Moments`] know it.
pub(crate) struct Place {
    moments: Arc<Moments>,
    number: u64,
    since: Version,
    first: i64,
    opened: Opened,
}

/// Whether a server was open before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    First,
    /// What was seen of it the last time is not known any more.
    Again,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.moments.state.lock().servers.retain(|server| server.number != self.number);
    }
}

impl Place {
    /// Where who reads at this moment begins on the server; nothing if that is not known.
    pub(crate) fn at(&self, moment: &Moment) -> Option<i64> {
        let noted = moment.starts.iter().flat_map(|starts| starts.iter());
        let noted = noted.copied().find(|(number, _)| *number == self.number);
        // Without a note the moment is one before the server was opened: its state was then what it was when it was opened.
        let is_before =
            || self.opened == Opened::First && (moment.starts.is_some() || moment.version < self.since);
        noted.map(|(_, start)| start).or_else(|| is_before().then_some(self.first))
    }

    /// The number by which [`Moments`] know it.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Moments {
    /// Sets the source that tells which worlds are being read.
    pub(crate) fn set_held(&self, held: HeldVersions) {
        let _ = self.held.set(held);
    }

    /// Notes a server that was just opened, before anybody uses it. `newest` gives the newest world's version.
    pub(crate) fn opened(
        self: &Arc<Self>,
        clock: Clock,
        opened: Opened,
        newest: impl FnOnce() -> Version,
    ) -> Place {
        let mut state = self.state.lock();
        state.last_number += 1;
        // No world is published meanwhile.
        let (number, since, first) = (state.last_number, newest(), clock.newest());
        state.newest = Some(since);
        state.servers.push(Watched { number, clock, since, first });
        Place { moments: Arc::clone(self), number, since, first, opened }
    }

    /// The oldest place on a server that an open transaction may still begin at, if it is an earlier one than the newest.
    pub(crate) fn oldest_needed(&self, number: u64) -> Option<i64> {
        let state = self.state.lock();
        let server = state.servers.iter().find(|server| server.number == number)?;
        let on_server = |starts: &Starts| {
            let start = starts.iter().find(|(known, _)| *known == number);
            start.map_or(server.first, |(_, start)| *start)
        };
        let of_world = |version: Version| match version < server.since {
            true => Some(server.first),
            false => state.note_of(version).map(|note| on_server(&note.starts)),
        };
        let held = self.held.get().map(HeldVersions::list).unwrap_or_default();
        let begun = state.begun.iter().filter_map(Weak::upgrade).map(|starts| on_server(&starts)).min();
        held.into_iter().filter_map(of_world).chain(begun).min()
    }

    /// The moment for a transaction that reads this world and now looks at a server for the first time.
    pub(crate) fn of(&self, version: Version) -> Moment {
        let mut state = self.state.lock();
        let starts = match state.is_newest(version) {
            // The next world is not published before this is over.
            true => Some(state.begin()),
            false => state.note_of(version).map(|note| Arc::clone(&note.starts)),
        };
        Moment { version, starts }
    }
}

impl Companion for Moments {
    fn publish(&self, old: Version, new: Version, publish: &mut dyn FnMut()) {
        let mut state = self.state.lock();
        if !state.servers.is_empty() {
            state.note(old, new, self.held.get());
        }
        state.newest = Some(new);
        publish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_store::{AccessMode, CatalogChange, Store, StoreOptions, Transaction};
    use coeval_tique::{DataFusionEngine, Database, Options, Session};
    use coeval_txn::Isolation;

    /// A store with a server, each of which can make commits.
    struct Setup {
        store: Store,
        moments: Arc<Moments>,
        place: Place,
        on_server: Session,
        count: usize,
    }

    impl Setup {
        fn new() -> Self {
            let store = Store::in_memory(StoreOptions::default());
            let moments = Arc::<Moments>::default();
            moments.set_held(store.held_versions());
            store.set_companion(Arc::clone(&moments) as Arc<dyn Companion>);
            let engine = DataFusionEngine::in_memory().unwrap();
            let database = Database::open(Arc::new(engine), Options::default()).unwrap();
            let place = moments.opened(database.clock(), Opened::First, || store.world().version());
            let mut on_server = database.session().unwrap();
            on_server.execute("CREATE TABLE t (k int PRIMARY KEY)").unwrap();
            Self { store, moments, place, on_server, count: 0 }
        }

        fn begin(&self) -> Transaction {
            self.store.begin(Isolation::Snapshot, AccessMode::ReadWrite)
        }

        fn commit_there(&mut self) {
            self.count += 1;
            self.on_server.execute(&format!("INSERT INTO t VALUES ({})", self.count)).unwrap();
        }

        fn commit_here(&mut self) {
            self.count += 1;
            let mut writer = self.begin();
            writer.change_catalog(CatalogChange::PutSchema(format!("s{}", self.count))).unwrap();
            writer.commit().unwrap();
        }

        fn at(&self, reader: &Transaction) -> Option<i64> {
            self.place.at(&self.moments.of(reader.begin_version()))
        }

        fn needed(&self) -> Option<i64> {
            self.moments.oldest_needed(self.place.number())
        }
    }

    #[test]
    fn a_world_goes_with_what_the_server_showed_when_the_next_was_published() {
        let mut setup = Setup::new();
        let first = setup.begin();
        assert_eq!((setup.at(&first), setup.needed()), (Some(0), None), "the newest of both");
        setup.commit_there();
        assert_eq!((setup.at(&first), setup.needed()), (Some(1), None));
        setup.commit_here();
        setup.commit_there();
        assert_eq!((setup.at(&first), setup.needed()), (Some(1), Some(1)));
        let second = setup.begin();
        setup.commit_here();
        assert_eq!((setup.at(&first), setup.at(&second)), (Some(1), Some(2)));
        drop(first);
        assert_eq!(setup.needed(), Some(2));
        drop(second);
        assert_eq!(setup.needed(), None);
    }

    #[test]
    fn what_no_transaction_needs_is_forgotten() {
        let mut setup = Setup::new();
        setup.commit_there();
        let early = setup.begin();
        for _ in 0..4 * NOTES_LEAST {
            setup.commit_here();
            setup.commit_there();
        }
        let late = setup.begin();
        for _ in 0..4 * NOTES_LEAST {
            setup.commit_here();
            setup.commit_there();
        }
        let last = i64::try_from(4 * NOTES_LEAST + 1).unwrap();
        assert_eq!((setup.at(&early), setup.at(&late), setup.needed()), (Some(1), Some(last), Some(1)));
        let count = setup.moments.state.lock().notes.len();
        assert!(count <= 2 * (NOTES_LEAST + 2), "{count} notes for two transactions");
        let between = Version::new(early.begin_version().get() + 9);
        assert_eq!(setup.place.at(&setup.moments.of(between)), None, "nobody reads that, nobody may");
    }

    #[test]
    fn a_server_that_was_opened_later_was_before_as_it_was_then() {
        let mut setup = Setup::new();
        let early = setup.begin();
        setup.commit_here();
        let open = |setup: &Setup, opened| {
            let engine = DataFusionEngine::in_memory().unwrap();
            let database = Database::open(Arc::new(engine), Options::default()).unwrap();
            let mut session = database.session().unwrap();
            session.execute("CREATE TABLE t (k int PRIMARY KEY); INSERT INTO t VALUES (1)").unwrap();
            let place = setup.moments.opened(database.clock(), opened, || setup.store.world().version());
            session.execute("INSERT INTO t VALUES (2)").unwrap();
            place
        };
        let (first, again) = (open(&setup, Opened::First), open(&setup, Opened::Again));
        let moment = setup.moments.of(early.begin_version());
        assert_eq!((first.at(&moment), again.at(&moment)), (Some(1), None));
        assert_eq!(setup.moments.oldest_needed(first.number()), Some(1));
        let late = setup.moments.of(setup.begin().begin_version());
        assert_eq!((first.at(&late), again.at(&late)), (Some(2), Some(2)));
    }
}
