// SPDX-License-Identifier: Apache-2.0
//! Writers, readers and checkpoints on threads of their own, and a machine that stops under them. What the
//! threads do is not repeatable, so the check does not need to know it: each transaction raises the counters of
//! some accounts by one and says so in a journal, and counters and journal must tell the same story in every
//! snapshot and after every crash.

use super::lives::{DIR, SMALL};
use crate::catalog::{CatalogChange, ColumnDef, IndexDef, QualifiedName, SequenceDef, TableDef, Uniqueness};
use crate::error::StoreError;
use crate::files::{FileSystem, SimulatedFiles};
use crate::key::Key;
use crate::log::{ChecksumPolicy, LogOptions};
use crate::options::{CheckpointPolicy, Durability, StoreOptions};
use crate::range::{Direction, KeyRange};
use crate::row::{Row, RowWriter};
use crate::store::Store;
use crate::transaction::{AccessMode, Transaction};
use crate::types::ColumnType;
use crate::value::{Value, ValueRef};
use crate::verify::verify;
use coeval_txn::Isolation;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const ACCOUNTS: i64 = 12;
const WRITERS: u64 = 3;

/// What the threads of all lives have been told.
#[derive(Default)]
struct Told {
    /// The version of each acknowledged transaction.
    acknowledged: BTreeMap<i64, u64>,
    /// Those of unknown fate.
    unknown: BTreeSet<i64>,
}

fn open(files: &SimulatedFiles, durability: Durability) -> Store {
    let checkpoint = CheckpointPolicy::Automatic { delta_entries: 30, delta_percent: 1, log_bytes: 4_000 };
    let log = LogOptions { segment_bytes: 3_000, extend_bytes: 512, checksums: ChecksumPolicy::Verified };
    let files: Arc<dyn FileSystem> = Arc::new(files.clone());
    Store::open_tuned(
        files,
        Path::new(DIR),
        StoreOptions { durability, checkpoint, ..StoreOptions::default() },
        log,
        SMALL,
    )
    .unwrap()
}

/// `accounts (id, count, last)` with an index on `count`, `journal (transaction, account, count, parts)`, and
/// the sequence that numbers transactions.
#[derive(Clone)]
struct Tables {
    accounts: TableDef,
    journal: TableDef,
    numbers: SequenceDef,
}

fn table(store: &Store, name: &str, columns: [&str; 3], key: Vec<usize>) -> TableDef {
    let columns = columns.map(|column| ColumnDef::new(column, ColumnType::BigInt)).to_vec();
    TableDef::new(store.new_space_id(), QualifiedName::new("public", name), columns, key)
}

fn make_tables(store: &Store) -> Tables {
    let mut accounts = table(store, "accounts", ["id", "count", "last"], vec![0]);
    let id = store.new_space_id();
    accounts.indexes.push(IndexDef {
        id,
        name: "by_count".into(),
        columns: vec![1],
        uniqueness: Uniqueness::Any,
        declared_order: Vec::new(),
    });
    let mut journal = table(store, "journal", ["transaction", "account", "count"], vec![0, 1]);
    journal.add_column(ColumnDef::new("parts", ColumnType::BigInt));
    let numbers = SequenceDef {
        id: store.new_sequence_id(),
        name: QualifiedName::new("public", "numbers"),
        start: 1,
        increment: 1,
        min: 1,
        max: i64::MAX,
        cycle: false,
        ty: Default::default(),
        owned_by: None,
        access: Default::default(),
    };
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    for def in [&accounts, &journal] {
        tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    }
    tx.change_catalog(CatalogChange::PutSequence(numbers.clone())).unwrap();
    for id in 0..ACCOUNTS {
        tx.insert(accounts.id, row(&accounts, &[id, 0, 0])).unwrap();
    }
    tx.commit().unwrap();
    Tables { accounts, journal, numbers }
}

fn row(def: &TableDef, values: &[i64]) -> Row {
    let mut writer = RowWriter::new(def.layout());
    values.iter().for_each(|value| writer.push(Value::Int64(*value).borrow()).unwrap());
    writer.finish()
}

fn rows(tx: &Transaction, def: &TableDef) -> Result<Vec<Vec<i64>>, StoreError> {
    let columns = 0..def.columns.len();
    let rows = tx.scan(def.id, &KeyRange::all(), Direction::Forward)?;
    rows.map(|row| {
        row.map(|(_, row)| columns.clone().map(|column| row.get(column).as_i64().unwrap()).collect())
    })
    .collect()
}

/// Whether counters and journal tell one story, which has all of every transaction or nothing; the transactions
/// in it.
///
/// # Errors
/// If the machine has stopped.
fn check(tx: &Transaction, tables: &Tables) -> Result<BTreeSet<i64>, StoreError> {
    let mut counts: BTreeMap<i64, BTreeMap<i64, i64>> = BTreeMap::new();
    let mut parts: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for entry in rows(tx, &tables.journal)? {
        let [transaction, account, count, expected] = entry[..] else { unreachable!("four columns") };
        let twice = counts.entry(account).or_default().insert(count, transaction);
        assert_eq!(twice, None, "two transactions made account {account} {count}");
        let seen = parts.entry(transaction).or_insert((0, expected));
        seen.0 += 1;
    }
    for (transaction, (seen, expected)) in &parts {
        assert_eq!(seen, expected, "transaction {transaction} is there in part");
    }
    let mut index: Vec<(i64, i64)> = Vec::new();
    for account in rows(tx, &tables.accounts)? {
        let [id, count, last] = account[..] else { unreachable!("three columns") };
        let history = counts.remove(&id).unwrap_or_default();
        let newest = history.last_key_value().map_or((0, 0), |(count, transaction)| (*count, *transaction));
        assert_eq!((count, last), newest, "account {id} is not what its journal says");
        assert_eq!(history.len() as i64, count, "account {id} misses an update");
        index.push((count, id));
    }
    assert_eq!(index.len() as i64, ACCOUNTS);
    index.sort_unstable();
    let def = &tables.accounts;
    let entries = tx.scan_index(def.id, def.indexes[0].id, &KeyRange::all(), Direction::Forward)?;
    let keys = entries.map(|entry| Ok(entry?.primary_key)).collect::<Result<Vec<Key>, StoreError>>()?;
    let expected: Vec<Key> = index.iter().map(|(_, id)| def.key_of(|_| ValueRef::Int64(*id))).collect();
    assert_eq!(keys, expected, "the index has other entries");
    Ok(parts.into_keys().collect())
}

/// One transaction of a writer: some accounts and their journal entries.
fn transfer(store: &Store, tables: &Tables, dice: &mut StdRng, number: i64) -> Result<u64, StoreError> {
    let mut tx = if dice.random() {
        store.begin_applied(Isolation::Snapshot)
    } else {
        store.begin(Isolation::Snapshot, AccessMode::ReadWrite)
    };
    let parts = dice.random_range(1..4);
    let mut touched = BTreeSet::new();
    while touched.len() < parts {
        touched.insert(dice.random_range(0..ACCOUNTS));
    }
    for id in &touched {
        let key = tables.accounts.key_of(|_| ValueRef::Int64(*id));
        let count = tx.get(tables.accounts.id, &key)?.unwrap().get(1).as_i64().unwrap() + 1;
        tx.update(tables.accounts.id, &key, row(&tables.accounts, &[*id, count, number]))?;
        tx.insert(tables.journal.id, row(&tables.journal, &[number, *id, count, parts as i64]))?;
    }
    tx.commit().map(|committed| committed.version.get())
}

/// Works until the machine stops; returns what it was told.
fn write(store: &Store, tables: &Tables, seed: u64, done: &AtomicU64) -> Told {
    let mut dice = StdRng::seed_from_u64(seed);
    let mut told = Told::default();
    loop {
        let Ok(number) = store.next_value(&tables.numbers) else { return told };
        match transfer(store, tables, &mut dice, number) {
            Ok(version) => {
                told.acknowledged.insert(number, version);
                done.fetch_add(1, Ordering::Relaxed);
            }
            Err(StoreError::Conflict(_)) => {}
            Err(_) => {
                told.unknown.insert(number);
                return told;
            }
        }
    }
}

/// Lets everything run until so many transactions are acknowledged, then stops the machine.
fn live(
    files: &SimulatedFiles,
    store: &Store,
    tables: &Tables,
    seed: u64,
    told: &mut Told,
) -> SimulatedFiles {
    let done = AtomicU64::new(0);
    let running = AtomicBool::new(true);
    let enough = StdRng::seed_from_u64(seed).random_range(20..200);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (done, seed) = (&done, seed * WRITERS + writer);
                scope.spawn(move || write(store, tables, seed, done))
            })
            .collect();
        scope.spawn(|| {
            while running.load(Ordering::Relaxed) {
                if let Err(error) = check(&store.begin(Isolation::Snapshot, AccessMode::ReadOnly), tables) {
                    assert!(matches!(error, StoreError::File(_)), "the machine has not stopped: {error}");
                    return;
                }
            }
        });
        scope.spawn(|| {
            while running.load(Ordering::Relaxed) {
                // It fails when the machine stops.
                let _ = store.checkpoint();
            }
        });
        while done.load(Ordering::Relaxed) < enough {
            std::thread::yield_now();
        }
        let after = files.crash();
        for writer in writers {
            let Told { acknowledged, unknown } = writer.join().unwrap();
            for (number, version) in acknowledged {
                assert_eq!(told.acknowledged.insert(number, version), None, "{number} was handed out twice");
            }
            for number in unknown {
                let is_new = told.unknown.insert(number) && !told.acknowledged.contains_key(&number);
                assert!(is_new, "{number} was handed out twice");
            }
        }
        running.store(false, Ordering::Relaxed);
        after
    })
}

/// Compares what is found with what was told, and forgets what the crash has taken legally.
fn compare(found: &BTreeSet<i64>, told: &mut Told, durability: Durability) {
    let newest = told.acknowledged.iter().filter(|(number, _)| found.contains(number)).map(|(_, v)| *v).max();
    for (number, version) in &told.acknowledged {
        let may_be_lost = durability == Durability::None && newest.is_none_or(|newest| *version > newest);
        assert!(found.contains(number) || may_be_lost, "transaction {number} of version {version} is lost");
    }
    for number in found {
        let is_told = told.acknowledged.contains_key(number) || told.unknown.contains(number);
        assert!(is_told, "transaction {number} was never committed");
    }
    told.acknowledged.retain(|number, _| found.contains(number));
    // What was of unknown fate and is there stays there; its version is not known, and need not be.
    told.unknown.retain(|number| found.contains(number));
}

fn run(seed: u64, durability: Durability) {
    let mut files = SimulatedFiles::new(seed);
    let store = open(&files, Durability::Fsync);
    let tables = make_tables(&store);
    drop(store);
    let mut told = Told::default();
    for life in 0..3 {
        let store = open(&files, durability);
        let found = check(&store.begin(Isolation::Snapshot, AccessMode::ReadOnly), &tables).unwrap();
        compare(&found, &mut told, durability);
        files = live(&files, &store, &tables, seed * 3 + life, &mut told);
        drop(store);
        let report = verify(Arc::new(files.clone()), Path::new(DIR), None).unwrap();
        assert_eq!(report.problems, [], "seed {seed}");
    }
    let store = open(&files, durability);
    let found = check(&store.begin(Isolation::Snapshot, AccessMode::ReadOnly), &tables).unwrap();
    compare(&found, &mut told, durability);
}

#[test]
fn threads_find_all_that_they_were_told_after_the_machine_stopped_under_them() {
    (0..30).for_each(|seed| run(seed, Durability::Fsync));
}

#[test]
fn threads_without_durability_find_all_up_to_some_commit() {
    (100..120).for_each(|seed| run(seed, Durability::None));
}
