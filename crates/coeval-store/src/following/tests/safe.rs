// SPDX-License-Identifier: Apache-2.0
//! Who follows the log makes the same safe worlds as the store that wrote it, and nothing else is needed.

use super::{COPY, copy, feed_of, open_follower, take, take_all};
use crate::catalog::{CatalogChange, TableDef};
use crate::delta::{Change, DeltaEntry};
use crate::files::SimulatedFiles;
use crate::following::{Follower, LogFeed};
use crate::id_value::{key, row, table};
use crate::key::Key;
use crate::log::{Log, LogOptions, Lsn};
use crate::options::{SafeLogging, Sizes, StoreOptions};
use crate::range::{Direction, KeyRange};
use crate::record::{MalformedRecord, Record, decode};
use crate::store::Store;
use crate::table::RowRef;
use crate::transaction::{AccessMode, Transaction};
use coeval_txn::ssi::SessionFloor;
use coeval_txn::{Isolation, Version};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";
const KEYS: u64 = 6;
const CLIENTS: usize = 4;
const STEPS: usize = 1_500;

/// Values by key.
type Rows = BTreeMap<Key, i64>;

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn rows_of(transaction: &Transaction, def: &TableDef) -> Rows {
    let rows = transaction.scan(def.id, &KeyRange::all(), Direction::Forward).unwrap();
    rows.map(|row| row.map(|(key, row)| (key, row.get(1).as_i64().unwrap())).unwrap()).collect()
}

/// What a store has shown of its safe worlds.
struct Shown {
    def: TableDef,
    /// By boundary.
    safe: BTreeMap<Version, Rows>,
    /// The version at the end, when nobody was active.
    end: Version,
}

/// Clients that read and write a few keys at SERIALIZABLE, at random; a look at the safe world after each step, and a
/// heartbeat now and then.
fn run(files: &SimulatedFiles, seed: u64) -> Shown {
    run_beside(files, seed, |_, _| {})
}

/// The same, with something else after each step.
fn run_beside(files: &SimulatedFiles, seed: u64, mut beside: impl FnMut(&Store, &mut Numbers)) -> Shown {
    let store = Store::open_tuned(
        Arc::new(files.clone()),
        Path::new(DIR),
        StoreOptions::default(),
        LogOptions::default(),
        Sizes::default(),
    )
    .unwrap();
    let def = table(&store, "items");
    let mut transaction = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    transaction.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    transaction.commit().unwrap();

    let mut numbers = Numbers(seed);
    let mut clients: Vec<Option<Transaction>> = (0..CLIENTS).map(|_| None).collect();
    let mut safe = BTreeMap::new();
    for step in 0..STEPS {
        let client = &mut clients[numbers.below(CLIENTS as u64) as usize];
        let (id, what) = (numbers.below(KEYS) as i32, numbers.below(8));
        match (client.as_mut(), what) {
            (None, _) => *client = Some(store.begin(Isolation::Serializable, AccessMode::ReadWrite)),
            (Some(open), 0..3) => assert!(open.get(def.id, &key(id)).is_ok()),
            (Some(open), 3..5) => open.put(def.id, row(&def, id, step as i32)).unwrap(),
            (Some(_), 7) => *client = None,
            // It may be refused.
            (Some(_), _) => drop(client.take().unwrap().commit()),
        }
        if let Some(reader) = store.begin_safe(&SessionFloor::default())
            && reader.world().table(def.id).is_some()
        {
            let before = safe.insert(reader.begin_version(), rows_of(&reader, &def));
            let now = &safe[&reader.begin_version()];
            assert!(before.is_none_or(|before| before == *now), "the safe world of a boundary is final");
        }
        if numbers.below(20) == 0 {
            store.shared.pipeline.log_boundary(&store.shared);
        }
        beside(&store, &mut numbers);
    }
    clients.clear();
    assert!(store.shared.pipeline.log_boundary(&store.shared), "nobody is active, so the log knows all");
    let end = store.world().version();
    Shown { def, safe, end }
}

/// What a record says.
enum Followed {
    Batch { version: Version, boundary: Version, transactions: Vec<Changes> },
    Boundary(Version),
}

struct Changes {
    first_out: Option<Version>,
    rows: Vec<(Key, DeltaEntry)>,
}

fn follow(files: &SimulatedFiles) -> Vec<Followed> {
    let mut found = Vec::new();
    let log_dir = Path::new(DIR).join(crate::disk::LOG_DIR);
    let mut note = |_, payload: &[u8]| -> Result<(), MalformedRecord> {
        match decode(payload)? {
            Record::Batch { version, boundary, transactions } => {
                let of = |transaction: crate::record::Replayed| Changes {
                    first_out: transaction.first_out,
                    rows: transaction.writes.into_iter().flat_map(|writes| writes.rows).collect(),
                };
                let transactions = transactions.into_iter().map(of).collect();
                found.push(Followed::Batch { version, boundary, transactions });
            }
            Record::Boundary(boundary) => found.push(Followed::Boundary(boundary)),
            Record::Sequence { .. } | Record::Term(_) | Record::Time(_) | Record::Ended(_) => {}
        }
        Ok(())
    };
    Log::open_with(Arc::new(files.clone()), &log_dir, Lsn::START, LogOptions::default(), &mut note).unwrap();
    found
}

fn apply(rows: &mut Rows, changes: &Changes, def: &TableDef) {
    for (key, entry) in &changes.rows {
        match entry.change() {
            Change::Deleted => drop(rows.remove(key)),
            Change::Inserted | Change::Replaced => {
                let row = RowRef::of_row(def, &[], entry.row().unwrap());
                rows.insert(key.clone(), row.get(1).as_i64().unwrap());
            }
        }
    }
}

/// The safe snapshot of a boundary, and how many of its members lie beyond.
fn safe_rows(log: &[Followed], boundary: Version, def: &TableDef) -> (Rows, usize) {
    let (mut rows, mut members) = (Rows::new(), 0);
    for record in log {
        let Followed::Batch { version, transactions, .. } = record else { continue };
        for changes in transactions {
            let is_member = changes.first_out.is_some_and(|first_out| first_out <= boundary);
            if *version <= boundary || is_member {
                members += usize::from(*version > boundary);
                apply(&mut rows, changes, def);
            }
        }
    }
    (rows, members)
}

#[test]
fn safe_worlds_made_of_the_log_alone_are_those_of_the_store() {
    let mut members = 0;
    for seed in 0..12 {
        let files = SimulatedFiles::new(seed);
        let shown = run(&files, seed);
        let log = follow(&files);
        for (boundary, rows) in &shown.safe {
            let (made, beyond) = safe_rows(&log, *boundary, &shown.def);
            assert_eq!(made, *rows, "seed {seed}, boundary {boundary}");
            members += beyond;
        }
    }
    assert!(members > 10, "safe worlds that are more than the world of a version: {members}");
}

#[test]
fn a_boundary_in_the_log_is_final_there_and_the_last_one_holds_everything() {
    for seed in 0..12 {
        let files = SimulatedFiles::new(seed);
        let shown = run(&files, seed);
        let log = follow(&files);
        let mut last = Version::ZERO;
        for (place, record) in log.iter().enumerate() {
            let boundary = match record {
                Followed::Batch { boundary, .. } | Followed::Boundary(boundary) => *boundary,
            };
            assert!(boundary >= last, "seed {seed}: it does not go back");
            last = boundary;
            let (known, _) = safe_rows(&log[..=place], boundary, &shown.def);
            assert_eq!(known, safe_rows(&log, boundary, &shown.def).0, "seed {seed}, boundary {boundary}");
        }
        assert_eq!(last, shown.end, "seed {seed}");
    }
}

/// Takes the log with any delay, in groups of any size, with restarts of the copy; every safe world that the follower shows
/// is that of its boundary, and later ones have all of earlier ones.
#[test]
fn what_a_follower_shows_as_safe_is_safe() {
    let (mut shown, mut members, mut behind) = (0, 0, 0);
    for seed in 0..12 {
        let (files, copied) = (SimulatedFiles::new(seed), SimulatedFiles::new(1_000 + seed));
        let mut following: Option<(Store, Follower, LogFeed)> = None;
        let mut safe: BTreeMap<Version, Rows> = BTreeMap::new();
        let mut last = Version::ZERO;
        let history = run_beside(&files, seed, |primary, numbers| {
            if following.is_none() && numbers.below(50) == 0 {
                copy(primary, &copied);
                let (store, follower) = open_follower(&copied);
                let feed = feed_of(primary, &follower).unwrap();
                following = Some((store, follower, feed));
                last = Version::ZERO;
            }
            if numbers.below(400) == 0
                && let Some((store, follower, feed)) = following.take()
            {
                drop((store, follower, feed));
                let (store, follower) = open_follower(&copied);
                let feed = feed_of(primary, &follower).unwrap();
                following = Some((store, follower, feed));
                last = Version::ZERO;
            }
            let Some((store, follower, feed)) = &mut following else { return };
            // Rarely, so that many batches are taken at once.
            if numbers.below(7) == 0 {
                for _ in 0..=numbers.below(3) {
                    take(feed, follower).unwrap();
                }
            }
            let Some(reader) = store.begin_safe(&SessionFloor::default()) else { return };
            let Some(table) = reader.world().tables().next() else { return };
            let boundary = reader.begin_version();
            let rows = rows_of(&reader, &table.def().clone());
            assert!(boundary >= last, "it does not go back");
            last = boundary;
            behind += u64::from(store.world().version() > boundary);
            shown += 1;
            let before = safe.insert(boundary, rows);
            assert!(
                before.is_none_or(|before| before == safe[&boundary]),
                "the safe world of a boundary is final"
            );
        });
        let log = follow(&files);
        for (boundary, rows) in &safe {
            let (made, beyond) = safe_rows(&log, *boundary, &history.def);
            assert_eq!(made, *rows, "seed {seed}, boundary {boundary}");
            members += beyond;
        }
    }
    assert!(
        shown > 1_000 && members > 10 && behind > 100,
        "{shown} shown, {members} members, {behind} behind"
    );
}

/// The benchmark's switch: who is told nothing of safe snapshots has all contents and no safe snapshot, and has the right ones as
/// soon as both sides are opened without it.
#[test]
fn who_is_told_nothing_of_safe_snapshots_has_none_and_misses_nothing_later() {
    let (files, copied) = (SimulatedFiles::new(1), SimulatedFiles::new(2));
    let options = |safe_logging| StoreOptions { safe_logging, ..StoreOptions::default() };
    let primary = |logging| {
        let dir = Path::new(DIR);
        let sizes = Sizes { begins_terms: true, ..Sizes::default() };
        Store::open_tuned(Arc::new(files.clone()), dir, options(logging), LogOptions::default(), sizes)
            .unwrap()
    };
    let follower = |logging| {
        let (files, dir) = (Arc::new(copied.clone()), Path::new(COPY));
        let (log, sizes) = (LogOptions::default(), Sizes::default());
        Store::open_follower_tuned(files, dir, options(logging), log, sizes).unwrap()
    };
    let change = |store: &Store, def: &TableDef, value: i32| {
        let mut first = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
        let mut second = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
        // Commits first, and the other one has not seen it: that has an out-edge.
        first.put(def.id, row(def, 1, value)).unwrap();
        assert!(second.get(def.id, &key(1)).is_ok());
        second.put(def.id, row(def, 2, value)).unwrap();
        first.commit().unwrap();
        second.commit().unwrap();
    };
    let contents =
        |store: &Store, def: &TableDef| rows_of(&store.begin(Isolation::Snapshot, AccessMode::ReadOnly), def);

    let store = primary(SafeLogging::Off);
    let def = table(&store, "items");
    let mut transaction = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    transaction.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    transaction.commit().unwrap();
    // A copy of nothing would be safe without a word: there is no transaction before it.
    store.checkpoint().unwrap();
    copy(&store, &copied);
    let (replica, mut following) = follower(SafeLogging::Off);
    let mut feed = feed_of(&store, &following).unwrap();
    change(&store, &def, 10);
    take_all(&mut feed, &mut following);
    assert_eq!(contents(&replica, &def), contents(&store, &def));
    assert!(!replica.has_safe_snapshot());
    drop((feed, following, replica, store));
    let silent = follow(&files).into_iter().all(|record| match record {
        Followed::Batch { boundary, transactions, .. } => {
            boundary == Version::ZERO && transactions.iter().all(|changes| changes.first_out.is_none())
        }
        // That of the opening and of the end, which nobody waits for.
        Followed::Boundary(_) => true,
    });
    assert!(silent, "the log says something of safe snapshots");

    let store = primary(SafeLogging::On);
    let (replica, mut following) = follower(SafeLogging::On);
    let mut feed = feed_of(&store, &following).unwrap();
    change(&store, &def, 20);
    take_all(&mut feed, &mut following);
    let reader = replica.begin_safe(&SessionFloor::default()).expect("it is told of them now");
    assert_eq!(rows_of(&reader, &def), contents(&store, &def));
}
