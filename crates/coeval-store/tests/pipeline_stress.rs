// SPDX-License-Identifier: Apache-2.0
//! Many threads on one pipeline: what is acknowledged is visible, worlds come in order and whole, whoever begins
//! on a world that is not published yet gives out nothing that is not durable. The choices are seeded, the
//! interleaving is the machine's.
// Helper functions of a test are a test too.
#![allow(clippy::unwrap_used)]

use coeval_store::{
    AccessMode, CatalogChange, ColumnDef, ColumnType, Direction, Durability, Key, KeyRange, KeyWriter,
    QualifiedName, RowWriter, Store, StoreError, StoreOptions, TableDef, Transaction, Value,
};
use coeval_txn::{Isolation, Version};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const ACCOUNTS: i64 = 40;
const WRITERS: u64 = 6;
const TRANSFERS: u64 = 150;
const START: i64 = 1_000;

fn make_accounts(store: &Store) -> TableDef {
    let columns =
        vec![ColumnDef::new("id", ColumnType::BigInt), ColumnDef::new("balance", ColumnType::BigInt)];
    let name = QualifiedName::new("public", "accounts");
    let def = TableDef::new(store.new_space_id(), name, columns, vec![0]);
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    (0..ACCOUNTS).for_each(|id| set(&mut tx, &def, id, START));
    tx.commit().unwrap();
    def
}

fn key(id: i64) -> Key {
    let mut writer = KeyWriter::new();
    writer.push(Value::Int64(id).borrow());
    writer.finish()
}

fn set(tx: &mut Transaction, def: &TableDef, id: i64, balance: i64) {
    let mut writer = RowWriter::new(def.layout());
    writer.push(Value::Int64(id).borrow()).unwrap();
    writer.push(Value::Int64(balance).borrow()).unwrap();
    tx.put(def.id, writer.finish()).unwrap();
}

fn balance(tx: &Transaction, def: &TableDef, id: i64) -> i64 {
    tx.get(def.id, &key(id)).unwrap().unwrap().get(1).as_i64().unwrap()
}

fn total(store: &Store, def: &TableDef) -> (Version, i64) {
    let tx = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
    let rows = tx.scan(def.id, &KeyRange::all(), Direction::Forward).unwrap();
    let sum = rows.map(|row| row.unwrap().1.get(1).as_i64().unwrap()).sum();
    (tx.begin_version(), sum)
}

/// Moves money until it has committed so often; returns how much account 0 has got by that.
fn transfer(store: &Store, def: &TableDef, seed: u64) -> i64 {
    let mut random = StdRng::seed_from_u64(seed);
    let mut gained = 0;
    for _ in 0..TRANSFERS {
        let (from, to) = (random.random_range(0..ACCOUNTS), random.random_range(0..ACCOUNTS / 4));
        if from == to {
            continue;
        }
        let applied = random.random::<bool>();
        let committed = loop {
            let mut tx = if applied {
                store.begin_applied(Isolation::Snapshot)
            } else {
                store.begin(Isolation::Snapshot, AccessMode::ReadWrite)
            };
            let begin = tx.begin_version();
            let (mine, theirs) = (balance(&tx, def, from), balance(&tx, def, to));
            set(&mut tx, def, from, mine - 1);
            set(&mut tx, def, to, theirs + 1);
            match tx.commit() {
                Ok(committed) => {
                    assert!(committed.version > begin);
                    break committed;
                }
                Err(StoreError::Conflict(conflict)) => {
                    assert!(conflict.version > begin, "only what a snapshot does not hold refuses it");
                    if !applied {
                        store.wait_published(conflict.version).unwrap();
                    }
                }
                Err(other) => panic!("{other}"),
            }
        };
        assert!(store.world().version() >= committed.version, "what is acknowledged is visible");
        gained += i64::from(to == 0) - i64::from(from == 0);
    }
    gained
}

fn stress(durability: Durability, seed: u64) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), StoreOptions { durability, ..StoreOptions::default() }).unwrap();
    let def = make_accounts(&store);
    let (stop, gained) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                scope.spawn({
                    let (store, def) = (&store, &def);
                    move || transfer(store, def, seed * WRITERS + number)
                })
            })
            .collect();
        scope.spawn(|| {
            let mut newest = Version::ZERO;
            loop {
                let is_last = stop.load(Ordering::Relaxed);
                let (version, sum) = total(&store, &def);
                assert!(version >= newest, "worlds are published in order");
                assert_eq!(sum, ACCOUNTS * START, "a world holds whole transactions");
                newest = version;
                if is_last {
                    break;
                }
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                store.checkpoint().unwrap();
                std::thread::yield_now();
            }
        });
        for writer in writers {
            let gain = writer.join().unwrap();
            gained.fetch_add(gain as u64, Ordering::Relaxed);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let expected = START + gained.into_inner() as i64;
    let tx = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
    assert_eq!(balance(&tx, &def, 0), expected, "no update is lost");
    drop(tx);
    assert_eq!(store.active_snapshots(), 0);
    drop(store);
    let store = Store::open(dir.path(), StoreOptions::default()).unwrap();
    assert_eq!(total(&store, &def).1, ACCOUNTS * START);
    let tx = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
    assert_eq!(balance(&tx, &def, 0), expected);
}

#[test]
fn acknowledged_transfers_are_visible_whole_and_in_order_when_commits_are_synced() {
    (0..4).for_each(|seed| stress(Durability::Fsync, seed));
}

#[test]
fn acknowledged_transfers_are_visible_whole_and_in_order_when_commits_are_not_synced() {
    (0..4).for_each(|seed| stress(Durability::None, seed));
}
