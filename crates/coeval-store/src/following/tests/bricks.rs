// SPDX-License-Identifier: Apache-2.0
//! Brick tables on a follower: which loads are seen, and what is purged.

use super::{copy, feed_of, open_follower, open_primary, take, take_all};
use crate::brick_def::{BrickDef, BrickDimension};
use crate::catalog::{CatalogChange, ColumnDef, ColumnState, QualifiedName, TableDef};
use crate::clock::LogTime;
use crate::files::SimulatedFiles;
use crate::following::{Follower, LogFeed};
use crate::store::Store;
use crate::transaction::{AccessMode, Transaction};
use crate::types::ColumnType;
use crate::world::World;
use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use coeval_brick::Reader;
use coeval_txn::{Epoch, Isolation, Version};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;

const CLIENTS: usize = 4;

/// `events (day bigint, id bigint)`: 40 days, of which ten share a brick.
fn events(store: &Store) -> TableDef {
    let mut hidden = ColumnDef::new("row id", ColumnType::BigInt);
    hidden.state = ColumnState::Hidden;
    let day = ColumnDef::new("day", ColumnType::BigInt).not_null();
    let columns = vec![day, ColumnDef::new("id", ColumnType::BigInt), hidden];
    let mut def =
        TableDef::new(store.new_space_id(), QualifiedName::new("public", "events"), columns, vec![2]);
    let dimension = BrickDimension { column: 0, cardinality: 40, range_size: 10, origin: 0 };
    def.bricks = Some(BrickDef { dimensions: vec![dimension], retention: None, replicas: None });
    let mut tx = begin(store);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    def
}

fn begin(store: &Store) -> Transaction {
    store.begin(Isolation::Snapshot, AccessMode::ReadWrite)
}

fn append(tx: &mut Transaction, def: &TableDef, day: i64, ids: &[i64]) {
    let days: Int64Array = ids.iter().map(|_| day).collect();
    let numbers: Int64Array = ids.iter().copied().collect();
    let batch = RecordBatch::try_from_iter([("day", Arc::new(days) as _), ("id", Arc::new(numbers) as _)]);
    assert_eq!(tx.append(def.id, &batch.unwrap(), 0).unwrap().rows, ids.len() as u64);
}

/// A load of its own.
fn load(store: &Store, def: &TableDef, day: i64, ids: &[i64]) {
    let mut tx = begin(store);
    append(&mut tx, def, day, ids);
    tx.commit().unwrap();
}

fn delete(tx: &mut Transaction, def: &TableDef, first_day: i64) -> u64 {
    tx.delete_bricks(def.id, |all| all.within(0, &[first_day..=first_day + 9])).unwrap()
}

/// The ids that a world has, in order.
fn ids(world: &World, def: &TableDef) -> Vec<i64> {
    let rows = world.table(def.id).unwrap().bricks().unwrap();
    let view = rows.table().view(&rows.table().selection());
    let reader = Reader::of(world.epochs().clone());
    let batches = view.bricks().iter().flat_map(|brick| view.batches(brick, &reader, &[1]));
    let mut ids: Vec<i64> =
        batches.flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
    ids.sort_unstable();
    ids
}

/// Rows in memory, visible or not, and what tells their epochs apart.
fn memory(store: &Store, def: &TableDef) -> (usize, usize) {
    let memory = store.world().table(def.id).unwrap().bricks().unwrap().table().memory();
    (memory.rows, memory.epochs_entries)
}

/// Purges a store, and has its log say how far.
fn purge(store: &Store) -> Epoch {
    // Worlds that checkpoints have replaced hold their epochs.
    store.shared.sweep_graves();
    store.shared.purge_bricks();
    let safe = store.epochs().latest_safe;
    if safe > Epoch::ZERO {
        store.shared.pipeline.log_ended_epochs(&store.shared, safe);
    }
    safe
}

/// Purges a store until it has come to this epoch: the keeper may hold a world for a moment.
#[track_caller]
fn purge_through(store: &Store, epoch: Epoch) {
    for _ in 0..1_000 {
        if purge(store) == epoch {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    panic!("it is to purge through {epoch}: {:?}", store.epochs());
}

/// A primary with a brick table, and one that follows it and has everything.
struct Pair {
    primary_files: SimulatedFiles,
    files: SimulatedFiles,
    primary: Store,
    def: TableDef,
    store: Store,
    follower: Follower,
    feed: LogFeed,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let (primary_files, files) = (SimulatedFiles::new(seed), SimulatedFiles::new(seed + 1));
        let primary = open_primary(&primary_files);
        let def = events(&primary);
        primary.checkpoint().unwrap();
        copy(&primary, &files);
        let (store, follower) = open_follower(&files);
        let feed = feed_of(&primary, &follower).unwrap();
        Self { primary_files, files, primary, def, store, follower, feed }
    }

    fn take_all(&mut self) {
        take_all(&mut self.feed, &mut self.follower);
    }

    /// The ids that both show.
    #[track_caller]
    fn same_ids(&self) -> Vec<i64> {
        let ids = |store: &Store| ids(&store.world(), &self.def);
        assert_eq!(ids(&self.primary), ids(&self.store));
        ids(&self.store)
    }

    fn restart_follower(self) -> Self {
        let Self { primary_files, files, primary, def, store, follower, feed } = self;
        drop((store, follower, feed));
        let files = files.restart();
        let (store, follower) = open_follower(&files);
        let feed = feed_of(&primary, &follower).unwrap();
        Self { primary_files, files, primary, def, store, follower, feed }
    }

    fn restart_primary(self) -> Self {
        let Self { primary_files, files, primary, def, store, follower, feed } = self;
        drop((primary, feed));
        let primary_files = primary_files.restart();
        let primary = open_primary(&primary_files);
        let feed = feed_of(&primary, &follower).unwrap();
        Self { primary_files, files, primary, def, store, follower, feed }
    }
}

/// A load that is pending on the primary has an epoch below that of one that has committed. A world of the follower that
/// counted it in would get its rows later, while somebody reads.
#[test]
fn a_world_of_a_follower_never_gets_rows_of_a_load_that_was_pending() {
    // A restart begins with a world of its own.
    for restarts in [false, true] {
        let mut pair = Pair::new(1);
        let mut pending = begin(&pair.primary);
        append(&mut pending, &pair.def, 1, &[1]);
        load(&pair.primary, &pair.def, 1, &[2]);
        pair.take_all();
        if restarts {
            pair = pair.restart_follower();
        }
        assert_eq!(pair.same_ids(), [2]);
        let held = pair.store.world();
        pending.commit().unwrap();
        pair.take_all();
        assert_eq!(pair.same_ids(), [1, 2]);
        assert_eq!(ids(&held, &pair.def), [2], "restarts: {restarts}");
    }
}

#[test]
fn a_follower_purges_what_its_primary_has_and_passes_loads_that_were_rolled_back() {
    let mut pair = Pair::new(3);
    for id in 0..20 {
        let mut rolled_back = begin(&pair.primary);
        append(&mut rolled_back, &pair.def, 1, &[1_000 + id]);
        load(&pair.primary, &pair.def, id, &[id]);
        drop(rolled_back);
    }
    let mut tx = begin(&pair.primary);
    assert_eq!(delete(&mut tx, &pair.def, 0), 10);
    tx.commit().unwrap();
    pair.take_all();
    assert_eq!(memory(&pair.store, &pair.def).0, 20, "deleted rows are there before purge");
    // Its own checkpoint comes before it knows what was rolled back.
    pair.store.checkpoint().unwrap();
    assert_eq!(purge(&pair.store), Epoch::ZERO, "it does not know how far the primary has gone");
    pair.primary.checkpoint().unwrap();
    let safe = pair.primary.epochs().latest_committed;
    assert!(safe > Epoch::new(20), "{safe}");
    purge_through(&pair.primary, safe);
    assert_eq!(pair.store.world().epochs().except().len(), 20);
    // A record that nobody waits for is synced by the feed, and sent when it is asked again.
    pair.take_all();
    pair.take_all();
    assert_eq!(pair.store.world().epochs().except(), [], "it hears of it while nobody commits");
    // The safe snapshot of before is held on both sides until the next one.
    load(&pair.primary, &pair.def, 39, &[39]);
    pair.take_all();
    purge_through(&pair.store, safe);
    assert_eq!(memory(&pair.store, &pair.def), memory(&pair.primary, &pair.def));
    assert_eq!(pair.same_ids(), (10..20).chain([39]).collect::<Vec<_>>());

    // A primary that ends with a load under way says with its next term that it never comes.
    let mut lost = begin(&pair.primary);
    append(&mut lost, &pair.def, 1, &[7]);
    load(&pair.primary, &pair.def, 5, &[5]);
    pair.take_all();
    assert_eq!(pair.store.world().epochs().except().len(), 1);
    std::mem::forget(lost);
    let mut pair = pair.restart_primary();
    load(&pair.primary, &pair.def, 6, &[6]);
    pair.take_all();
    assert_eq!(pair.store.world().epochs().except(), []);
    assert_eq!(pair.same_ids(), [5, 6].into_iter().chain(10..20).chain([39]).collect::<Vec<_>>());
}

/// The log carries times, and a follower takes them from it: its own clock says when it heard of a load.
#[test]
fn a_follower_knows_when_its_primary_loaded() {
    let begun = LogTime::now().micros();
    let mut pair = Pair::new(9);
    let loaded_at = |store: &Store| {
        let world = store.world();
        let rows = world.table(pair.def.id).unwrap().bricks().unwrap();
        let view = rows.table().view(&rows.table().selection());
        view.bricks().iter().map(|brick| brick.loaded_at().unwrap()).collect::<Vec<u64>>()
    };
    load(&pair.primary, &pair.def, 1, &[1]);
    // Two groups of records: the second one may say no time of its own.
    take_all(&mut pair.feed, &mut pair.follower);
    load(&pair.primary, &pair.def, 11, &[2]);
    let done = LogTime::now().micros();
    std::thread::sleep(std::time::Duration::from_millis(20));
    take_all(&mut pair.feed, &mut pair.follower);
    let (own, taken) = (loaded_at(&pair.primary), loaded_at(&pair.store));
    assert_eq!(taken.len(), 2);
    for (own, taken) in own.iter().zip(&taken) {
        assert!((begun..=done).contains(taken) && taken <= own, "{begun}..={done}: {own} {taken}");
    }
}

/// A delete covers what its transaction saw. The follower has nobody who reads a world as old, but must not forget which rows
/// came before it and which behind.
#[test]
fn a_follower_keeps_apart_what_a_delete_that_is_open_on_the_primary_tells_apart() {
    let mut pair = Pair::new(5);
    load(&pair.primary, &pair.def, 1, &[1]);
    let mut deleter = begin(&pair.primary);
    for id in 2..10 {
        load(&pair.primary, &pair.def, 1, &[id]);
    }
    pair.primary.checkpoint().unwrap();
    purge_through(&pair.primary, Epoch::new(1));
    pair.take_all();
    pair.store.checkpoint().unwrap();
    load(&pair.primary, &pair.def, 39, &[39]);
    pair.take_all();
    purge_through(&pair.store, Epoch::new(1));
    assert_eq!(delete(&mut deleter, &pair.def, 0), 1);
    deleter.commit().unwrap();
    pair.take_all();
    assert_eq!(pair.same_ids(), (2..10).chain([39]).collect::<Vec<_>>());
}

/// Random clients on a primary, and what each version of it had.
struct History {
    dice: StdRng,
    clients: Vec<Option<Transaction>>,
    next_id: i64,
    /// The ids of each version.
    shown: BTreeMap<Version, Vec<i64>>,
    held: Vec<Arc<World>>,
    rolled_back: u32,
}

impl History {
    /// One step of one client on the primary.
    fn step(&mut self, primary: &Store, def: &TableDef) {
        let client = self.dice.random_range(0..CLIENTS);
        let day = self.dice.random_range(0..40);
        let Some(tx) = &mut self.clients[client] else {
            self.clients[client] = Some(begin(primary));
            return;
        };
        match self.dice.random_range(0..10) {
            0..4 => {
                let ids: Vec<i64> = (self.next_id..self.next_id + self.dice.random_range(1..4)).collect();
                self.next_id += ids.len() as i64;
                append(tx, def, day, &ids);
            }
            4 => drop(delete(tx, def, day / 10 * 10)),
            5..8 => {
                let tx = self.clients[client].take().unwrap();
                // It may be refused: another one has deleted the same.
                drop(tx.commit());
                let world = primary.world();
                let had = self.shown.insert(world.version(), ids(&world, def));
                assert!(had.is_none_or(|had| had == self.shown[&world.version()]));
            }
            _ => {
                self.clients[client] = None;
                self.rolled_back += 1;
            }
        }
    }

    /// What a follower shows, and what its readers hold, is what the primary had.
    fn check(&mut self, store: &Store, def: &TableDef) {
        let world = store.world();
        if self.dice.random_ratio(1, 6) {
            self.held.push(Arc::clone(&world));
        }
        if self.held.len() > 3 {
            self.held.remove(0);
        }
        for world in self.held.iter().chain([&world]) {
            if let Some(expected) = self.shown.get(&world.version()) {
                assert_eq!(ids(world, def), *expected, "version {}", world.version());
            }
        }
    }
}

#[test]
fn whatever_is_loaded_deleted_rolled_back_and_purged_a_follower_has_what_its_primary_had() {
    let (mut purged, mut rolled_back, mut behind) = (0, 0, 0);
    for seed in 0..16 {
        let mut pair = Pair::new(100 + 2 * seed);
        let dice = StdRng::seed_from_u64(seed);
        let clients = (0..CLIENTS).map(|_| None).collect();
        let (shown, held) = (BTreeMap::new(), Vec::new());
        let mut history = History { dice, clients, next_id: 0, shown, held, rolled_back: 0 };
        for _ in 0..400 {
            match history.dice.random_range(0..100) {
                0..70 => history.step(&pair.primary, &pair.def),
                70..84 => drop(take(&mut pair.feed, &mut pair.follower).unwrap()),
                84..88 => drop(pair.primary.checkpoint().unwrap()),
                88..91 => drop(pair.store.checkpoint().unwrap()),
                91..94 => drop(purge(&pair.primary)),
                94..97 => {
                    purged += u64::from(purge(&pair.store) > Epoch::ZERO);
                    assert!(pair.store.epochs().latest_safe <= pair.primary.epochs().latest_safe);
                    behind += u64::from(!pair.store.world().epochs().except().is_empty());
                }
                97..99 => {
                    history.held.clear();
                    pair = pair.restart_follower();
                }
                _ => {
                    history.clients.fill_with(|| None);
                    pair = pair.restart_primary();
                }
            }
            history.check(&pair.store, &pair.def);
        }
        history.clients.fill_with(|| None);
        history.held.clear();
        pair.take_all();
        pair.store.checkpoint().unwrap();
        pair.primary.checkpoint().unwrap();
        let safe = pair.primary.epochs().latest_committed;
        purge_through(&pair.primary, safe);
        load(&pair.primary, &pair.def, 1, &[-1]);
        pair.take_all();
        pair.same_ids();
        // Loads that began behind the last commit and were rolled back: the next purge of the primary passes them.
        let left = pair.store.world();
        assert!(left.epochs().except().iter().all(|epoch| *epoch > safe), "{} behind {safe}", left.epochs());
        purge_through(&pair.store, safe);
        // The keeper may be in the middle of a purge of its own.
        for _ in 0..1_000 {
            if memory(&pair.store, &pair.def) == memory(&pair.primary, &pair.def) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
            purge(&pair.store);
        }
        assert_eq!(memory(&pair.store, &pair.def), memory(&pair.primary, &pair.def), "seed {seed}");
        rolled_back += history.rolled_back;
    }
    assert!(
        purged > 20 && rolled_back > 200 && behind > 10,
        "{purged} purges, {rolled_back} rolled back, {behind} purges beside loads that might come"
    );
}
