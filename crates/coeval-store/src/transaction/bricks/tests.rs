// SPDX-License-Identifier: Apache-2.0
mod added_columns;
mod last_load;
mod offsets;
mod reads;

use crate::brick_def::{BrickDef, BrickDimension, Retention};
use crate::catalog::{CatalogChange, ColumnDef, QualifiedName, TableDef};
use crate::error::StoreError;
use crate::files::{Fault, FileSystem, SimulatedFiles};
use crate::log::{ChecksumPolicy, LogOptions};
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::row::RowWriter;
use crate::store::Store;
use crate::transaction::{AccessMode, Transaction, expire_bricks};
use crate::types::ColumnType;
use crate::value::Value;
use crate::verify::verify;
use arrow::array::{AsArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use coeval_brick::RejectReason;
use coeval_txn::ssi::SessionFloor;
use coeval_txn::{Epoch, Isolation};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const DIR: &str = "/db";

fn options() -> StoreOptions {
    StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() }
}

fn try_open(files: &SimulatedFiles) -> Result<Store, StoreError> {
    let log = LogOptions { segment_bytes: 5_000, extend_bytes: 128, checksums: ChecksumPolicy::Verified };
    let sizes = Sizes { brick_rounds_max: 3, ..Sizes::default() };
    Store::open_tuned(Arc::new(files.clone()), Path::new(DIR), options(), log, sizes)
}

fn begin(store: &Store) -> Transaction {
    store.begin(Isolation::Snapshot, AccessMode::ReadWrite)
}

/// `events (region text, day bigint, id bigint)`, partitioned by region (8 of 2) and day (100 of 10).
fn events(store: &Store, name: &str) -> TableDef {
    let day = BrickDimension { column: 1, cardinality: 100, range_size: 10, origin: 0 };
    events_by(store, name, day, None)
}

/// The same with days that are partitioned and kept as is said.
fn events_by(store: &Store, name: &str, day: BrickDimension, retention: Option<Retention>) -> TableDef {
    let mut hidden = ColumnDef::new("row id", ColumnType::BigInt);
    hidden.state = crate::catalog::ColumnState::Hidden;
    let columns = vec![
        ColumnDef::new("region", ColumnType::Text).not_null(),
        ColumnDef::new("day", ColumnType::BigInt).not_null(),
        ColumnDef::new("id", ColumnType::BigInt),
        hidden,
    ];
    let mut def = TableDef::new(store.new_space_id(), QualifiedName::new("public", name), columns, vec![3]);
    let region = BrickDimension { column: 0, cardinality: 8, range_size: 2, origin: 0 };
    def.bricks = Some(BrickDef { dimensions: vec![region, day], retention, replicas: None });
    let mut tx = begin(store);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    def
}

/// An ordinary table with the key `id`.
fn rows_table(store: &Store) -> TableDef {
    let columns = vec![ColumnDef::new("id", ColumnType::BigInt)];
    let def = TableDef::new(store.new_space_id(), QualifiedName::new("public", "r"), columns, vec![0]);
    let mut tx = begin(store);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    def
}

fn batch(rows: &[(&str, i64, i64)]) -> RecordBatch {
    let regions: StringArray = rows.iter().map(|row| Some(row.0)).collect();
    let days: Int64Array = rows.iter().map(|row| row.1).collect();
    let ids: Int64Array = rows.iter().map(|row| row.2).collect();
    RecordBatch::try_from_iter([
        ("region", Arc::new(regions) as _),
        ("day", Arc::new(days) as _),
        ("id", Arc::new(ids) as _),
    ])
    .unwrap()
}

fn append(tx: &mut Transaction, def: &TableDef, rows: &[(&str, i64, i64)]) {
    assert_eq!(tx.append(def.id, &batch(rows), 0).unwrap().rows, rows.len() as u64);
}

/// The rows that a transaction sees.
fn rows(tx: &Transaction, def: &TableDef) -> BTreeSet<(String, i64, i64)> {
    let snapshot = tx.brick_view(def.id, |all| all).unwrap();
    let mut rows = BTreeSet::new();
    for brick in snapshot.bricks() {
        for batch in snapshot.batches(brick, &[0, 1, 2]) {
            let regions = cast(batch.column(0), &DataType::Utf8).unwrap();
            let numbers = |column: usize| batch.column(column).as_primitive::<Int64Type>().values().iter();
            let regions = regions.as_string::<i32>().iter().map(|region| region.unwrap().to_owned());
            rows.extend(
                regions.zip(numbers(1).zip(numbers(2))).map(|(region, (day, id))| (region, *day, *id)),
            );
        }
    }
    rows
}

/// The ids that a transaction sees, in order.
fn ids(tx: &Transaction, def: &TableDef) -> Vec<i64> {
    let snapshot = tx.brick_view(def.id, |all| all).unwrap();
    let mut ids = Vec::new();
    for brick in snapshot.bricks() {
        for batch in snapshot.batches(brick, &[2]) {
            ids.extend(batch.column(0).as_primitive::<Int64Type>().values().iter());
        }
    }
    ids.sort_unstable();
    ids
}

#[test]
fn rows_are_visible_to_their_transaction_at_once_and_to_others_with_its_commit() {
    let store = Store::in_memory(options());
    let def = events(&store, "e");
    let (mut tx, before) = (begin(&store), begin(&store));
    append(&mut tx, &def, &[("north", 1, 10), ("south", 55, 11)]);
    append(&mut tx, &def, &[("north", 99, 12)]);
    assert_eq!((ids(&tx, &def), ids(&before, &def)), (vec![10, 11, 12], vec![]));
    assert_eq!(ids(&begin(&store), &def), Vec::<i64>::new());
    tx.commit().unwrap();
    assert_eq!((ids(&begin(&store), &def), ids(&before, &def)), (vec![10, 11, 12], vec![]));
}

#[test]
fn what_is_rolled_back_is_gone() {
    let store = Store::in_memory(options());
    let def = events(&store, "e");
    let mut tx = begin(&store);
    append(&mut tx, &def, &[("a", 1, 1)]);
    let first = tx.savepoint();
    append(&mut tx, &def, &[("a", 1, 2), ("b", 1, 3)]);
    let second = tx.savepoint();
    append(&mut tx, &def, &[("a", 1, 4)]);
    tx.rollback_to(&second);
    assert_eq!(ids(&tx, &def), [1, 2, 3]);
    append(&mut tx, &def, &[("c", 1, 5)]);
    tx.rollback_to(&first);
    assert_eq!(ids(&tx, &def), [1]);
    append(&mut tx, &def, &[("c", 1, 6)]);
    let lost = {
        let mut lost = begin(&store);
        append(&mut lost, &def, &[("c", 1, 7)]);
        drop(lost);
        ids(&begin(&store), &def)
    };
    assert_eq!(lost, Vec::<i64>::new());
    tx.commit().unwrap();
    assert_eq!(ids(&begin(&store), &def), [1, 6]);
    let world = store.world();
    let stored = world.table(def.id).unwrap().bricks().unwrap().table().memory().rows;
    assert_eq!(stored, 2, "no row of an epoch that was rolled back is left");
    assert!(world.shared_bricks().clock().status().pending.is_empty());
}

#[test]
fn a_refused_commit_leaves_no_row_of_any_table() {
    let store = Store::in_memory(options());
    let (def, rows) = (events(&store, "e"), rows_table(&store));
    let insert = |tx: &mut Transaction, id| {
        let mut writer = RowWriter::new(rows.layout());
        writer.push(Value::Int64(id).borrow()).unwrap();
        tx.insert(rows.id, writer.finish())
    };
    let (mut first, mut second) = (begin(&store), begin(&store));
    for (tx, id) in [(&mut first, 1), (&mut second, 2)] {
        insert(tx, 7).unwrap();
        append(tx, &def, &[("a", 1, id)]);
    }
    first.commit().unwrap();
    assert!(matches!(second.commit(), Err(StoreError::Conflict(_))));
    assert_eq!(ids(&begin(&store), &def), [1]);
    assert!(store.world().shared_bricks().clock().status().pending.is_empty());
}

#[test]
fn bad_rows_are_counted_and_beyond_the_limit_nothing_is_loaded() {
    let store = Store::in_memory(options());
    let def = events(&store, "e");
    let mut tx = begin(&store);
    let bad = batch(&[("a", 1, 1), ("a", 100, 2), ("a", -1, 3), ("a", 99, 4)]);
    assert!(matches!(tx.append(def.id, &bad, 1), Err(StoreError::BrickLoad(_))));
    assert_eq!(ids(&tx, &def), Vec::<i64>::new());
    let appended = tx.append(def.id, &bad, 2).unwrap();
    assert_eq!((appended.rows, appended.rejected.len()), (2, 2));
    assert!(matches!(appended.rejected[0].reason, RejectReason::OutsideCardinality { value: 100, .. }));
    tx.commit().unwrap();
    assert_eq!(ids(&begin(&store), &def), [1, 4]);
}

#[test]
fn a_delete_removes_what_its_transaction_saw_and_refuses_to_cut_a_brick() {
    let store = Store::in_memory(options());
    let def = events(&store, "e");
    let mut load = begin(&store);
    append(&mut load, &def, &[("a", 1, 1), ("a", 11, 2), ("a", 21, 3)]);
    load.commit().unwrap();
    let (mut tx, mut beside) = (begin(&store), begin(&store));
    append(&mut beside, &def, &[("a", 12, 4)]);
    append(&mut tx, &def, &[("a", 13, 5)]);
    let days = |from: i64, to: i64| move |all: coeval_brick::Selection| all.within(1, &[from..=to]);
    let cut = tx.delete_bricks(def.id, days(10, 24)).unwrap_err();
    assert!(cut.to_string().contains("would cut brick"), "{cut}");
    assert_eq!(ids(&tx, &def), [1, 2, 3, 5]);
    assert_eq!(tx.delete_bricks(def.id, days(10, 19)).unwrap(), 2);
    append(&mut tx, &def, &[("a", 14, 6)]);
    assert_eq!(ids(&tx, &def), [1, 3, 6]);
    beside.commit().unwrap();
    tx.commit().unwrap();
    assert_eq!(ids(&begin(&store), &def), [1, 3, 4, 6], "what was loaded beside the delete stays");
    let entries = || {
        let entries = store.world().table(def.id).unwrap().bricks().unwrap().table().memory();
        (entries.rows, entries.epochs_entries)
    };
    // The keeper holds buried worlds for moments, beside this thread.
    while entries() != (4, 3) {
        store.shared.sweep_graves();
        store.shared.purge_bricks();
        assert_eq!(ids(&begin(&store), &def), [1, 3, 4, 6]);
    }
}

#[test]
fn purge_stays_behind_a_world_that_somebody_holds() {
    let store = Store::in_memory(options());
    let def = events(&store, "e");
    let load = |id| {
        let mut tx = begin(&store);
        append(&mut tx, &def, &[("a", 1, id)]);
        tx.commit().unwrap();
    };
    load(1);
    let reader = begin(&store);
    load(2);
    let mut tx = begin(&store);
    tx.delete_bricks(def.id, |all| all).unwrap();
    tx.commit().unwrap();
    load(3);
    store.shared.purge_bricks();
    assert_eq!((ids(&reader, &def), ids(&begin(&store), &def)), (vec![1], vec![3]));
    drop(reader);
    let rows = || store.world().table(def.id).unwrap().bricks().unwrap().table().memory().rows;
    // The keeper holds buried worlds for moments, beside this thread.
    while rows() > 1 {
        store.shared.sweep_graves();
        store.shared.purge_bricks();
    }
    assert_eq!(rows(), 1);
}

#[test]
fn a_checkpoint_with_nothing_to_write_purges_what_a_reader_has_held() {
    let store = Store::in_memory(options());
    let def = events(&store, "e");
    let load = |id| {
        let mut tx = begin(&store);
        append(&mut tx, &def, &[("a", 1, id)]);
        tx.commit().unwrap();
    };
    load(1);
    let reader = begin(&store);
    assert_eq!(ids(&reader, &def), [1]);
    (2..10).for_each(load);
    let entries = || store.world().table(def.id).unwrap().bricks().unwrap().table().memory().epochs_entries;
    store.checkpoint().unwrap();
    store.shared.purge_bricks();
    assert!(entries() > 1, "the reader's world keeps the entries apart");
    drop(reader);
    // The keeper purges beside this thread.
    while entries() > 1 {
        store.checkpoint().unwrap();
        std::thread::yield_now();
    }
    assert_eq!(ids(&begin(&store), &def), (1..10).collect::<Vec<_>>());
}

#[test]
fn purge_passes_what_was_rolled_back_without_a_commit_behind_it() {
    let load = |store: &Store, def: &TableDef, id| {
        let mut tx = begin(store);
        append(&mut tx, def, &[("a", 1, id)]);
        tx.commit().unwrap();
    };
    for store in [Store::in_memory(options()), try_open(&SimulatedFiles::new(5)).unwrap()] {
        let def = events(&store, "e");
        load(&store, &def, 1);
        let mut pending = begin(&store);
        append(&mut pending, &def, &[("a", 1, 2)]);
        let (epoch, writer) = store.oldest_brick_writer().unwrap();
        assert_eq!((writer, store.epochs().pending), (pending.id(), vec![epoch]));
        load(&store, &def, 3);
        load(&store, &def, 4);
        store.checkpoint().unwrap();
        store.shared.purge_bricks();
        let entries =
            || store.world().table(def.id).unwrap().bricks().unwrap().table().memory().epochs_entries;
        assert!(entries() > 1, "what is pending keeps the commits behind it apart");
        drop(pending);
        assert_eq!(store.oldest_brick_writer(), None);
        store.checkpoint().unwrap();
        // The keeper holds buried worlds for moments, beside this thread.
        while entries() > 1 {
            store.shared.sweep_graves();
            store.shared.purge_bricks();
            std::thread::yield_now();
        }
        assert_eq!(ids(&begin(&store), &def), [1, 3, 4]);
    }
}

#[test]
fn tables_are_emptied_and_dropped_with_what_the_transaction_did_to_them() {
    let files = SimulatedFiles::new(3);
    let store = try_open(&files).unwrap();
    let def = events(&store, "e");
    let mut tx = begin(&store);
    append(&mut tx, &def, &[("a", 1, 1)]);
    tx.commit().unwrap();
    let mut tx = begin(&store);
    append(&mut tx, &def, &[("b", 1, 2)]);
    tx.change_catalog(CatalogChange::Truncate(def.id)).unwrap();
    append(&mut tx, &def, &[("c", 1, 3)]);
    assert_eq!(ids(&tx, &def), [3]);
    let mut beside = begin(&store);
    append(&mut beside, &def, &[("d", 1, 4)]);
    tx.commit().unwrap();
    assert!(matches!(beside.commit(), Err(StoreError::Conflict(_))), "its table was emptied");
    assert_eq!(ids(&begin(&store), &def), [3]);
    let files = files.crash();
    drop(store);
    let store = try_open(&files).unwrap();
    assert_eq!(ids(&begin(&store), &def), [3]);
}

#[test]
fn rows_of_bricks_are_reached_by_no_key() {
    let store = Store::in_memory(options());
    let (def, rows) = (events(&store, "e"), rows_table(&store));
    let mut tx = begin(&store);
    assert!(matches!(tx.view(def.id), Err(StoreError::BrickTable { .. })));
    assert!(matches!(tx.get(def.id, &crate::key::Key::from_slice(b"k")), Err(StoreError::BrickTable { .. })));
    assert!(matches!(tx.append(rows.id, &batch(&[]), 0), Err(StoreError::NoBrickTable(_))));
}

/// Break: have `rows_here` look at no definition; then a reader finds an empty table, and a load goes where nobody looks.
#[test]
fn rows_of_a_spread_table_are_neither_read_nor_written_here() {
    let store = Store::in_memory(options());
    let mut def = events(&store, "e");
    def.id = store.new_space_id();
    def.name = QualifiedName::new("public", "spread");
    def.bricks.as_mut().unwrap().replicas = Some(2);
    let mut tx = begin(&store);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    let mut tx = begin(&store);
    assert!(matches!(tx.append(def.id, &batch(&[("a", 1, 1)]), 0), Err(StoreError::SpreadTable(_))));
    assert!(matches!(tx.delete_bricks(def.id, |all| all), Err(StoreError::SpreadTable(_))));
    assert!(matches!(tx.brick_view(def.id, |all| all), Err(StoreError::SpreadTable(_))));
    assert!(matches!(tx.view(def.id), Err(StoreError::BrickTable { .. })));
    let mut here = def.clone();
    here.bricks.as_mut().unwrap().replicas = None;
    let changed = tx.change_catalog(CatalogChange::PutTable(Box::new(here)));
    assert!(matches!(changed, Err(StoreError::BrickDefinition { .. })), "its rows would be left behind");
}

/// AOSI IV-B: two loads that each count what is there and load that number.
#[test]
fn write_skew_is_refused_at_serializable_and_allowed_below() {
    for (isolation, is_refused) in [(Isolation::Snapshot, false), (Isolation::Serializable, true)] {
        let store = Store::in_memory(options());
        let def = events(&store, "e");
        let mut transactions: Vec<_> =
            (0..2).map(|_| store.begin(isolation, AccessMode::ReadWrite)).collect();
        for tx in &mut transactions {
            let count = ids(tx, &def).len() as i64;
            append(tx, &def, &[("a", 1, count)]);
        }
        let outcomes: Vec<_> = transactions.into_iter().map(Transaction::commit).collect();
        let refused =
            outcomes.iter().filter(|outcome| matches!(outcome, Err(StoreError::Conflict(_)))).count();
        assert_eq!(refused, usize::from(is_refused), "{isolation:?}");
        assert_eq!(ids(&begin(&store), &def).len(), 2 - refused);
    }
}

/// The read-only anomaly: a reader of the current world would see the second load without the first, which the first
/// writer's snapshot forbids; the safe world has neither or both in an order that explains everything.
#[test]
fn a_safe_snapshot_has_the_rows_of_exactly_its_members() {
    let store = Store::in_memory(options());
    let (left, right) = (events(&store, "l"), events(&store, "r"));
    let mut slow = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
    assert_eq!(ids(&slow, &right), Vec::<i64>::new());
    // `fast` writes what `slow` has read: `slow` comes before it.
    let mut fast = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
    append(&mut fast, &right, &[("a", 1, 1)]);
    fast.commit().unwrap();
    let safe = store.begin_safe(&SessionFloor::default()).expect("a safe snapshot");
    assert_eq!(ids(&safe, &right), Vec::<i64>::new(), "the boundary is before both");
    append(&mut slow, &left, &[("a", 1, 2)]);
    slow.commit().unwrap();
    drop(safe);
    let safe = store.begin_safe(&SessionFloor::default()).expect("a safe snapshot");
    assert_eq!((ids(&safe, &left), ids(&safe, &right)), (vec![2], vec![1]));
}

/// `U ->rw C` with C in Clear: U belongs to the safe snapshot though it is behind the boundary, and so do its rows.
#[test]
fn a_member_behind_the_boundary_brings_its_rows() {
    let store = Store::in_memory(options());
    let (left, right) = (events(&store, "l"), events(&store, "r"));
    let mut member = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
    assert_eq!(ids(&member, &right), Vec::<i64>::new());
    let mut clear = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
    append(&mut clear, &right, &[("a", 1, 1)]);
    clear.commit().unwrap();
    // Holds the boundary at the version of `clear`.
    let mut holder = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
    append(&mut holder, &left, &[("a", 1, 9)]);
    append(&mut member, &left, &[("a", 1, 2)]);
    member.commit().unwrap();
    let safe = store.begin_safe(&SessionFloor::default()).expect("a safe snapshot");
    assert_eq!((ids(&safe, &left), ids(&safe, &right)), (vec![2], vec![1]));
    holder.commit().unwrap();
    assert_eq!(ids(&safe, &left), [2]);
    assert_eq!(ids(&begin(&store), &left), [2, 9]);
}

#[test]
fn everything_is_found_again_from_the_log_and_from_flush_rounds() {
    let files = SimulatedFiles::new(1);
    let store = try_open(&files).unwrap();
    let def = events(&store, "e");
    let load = |store: &Store, rows: &[(&str, i64, i64)]| {
        let mut tx = begin(store);
        append(&mut tx, &def, rows);
        tx.commit().unwrap();
    };
    load(&store, &[("a", 1, 1), ("b", 15, 2)]);
    let mut pending = begin(&store);
    append(&mut pending, &def, &[("z", 1, 3)]);
    store.checkpoint().unwrap();
    load(&store, &[("c", 1, 4)]);
    pending.commit().unwrap();
    let files = files.crash();
    drop(store);
    let store = try_open(&files).unwrap();
    assert_eq!(ids(&begin(&store), &def), [1, 2, 3, 4]);
    let mut tx = begin(&store);
    assert_eq!(tx.delete_bricks(def.id, |all| all.within(1, &[10..=19])).unwrap(), 1);
    tx.commit().unwrap();
    store.checkpoint().unwrap();
    load(&store, &[("b", 16, 5)]);
    // The keeper holds buried worlds for moments, beside this thread.
    let rows = || store.world().table(def.id).unwrap().bricks().unwrap().table().memory().rows;
    while rows() > 4 {
        store.shared.sweep_graves();
        store.shared.purge_bricks();
        std::thread::yield_now();
    }
    assert_eq!(rows(), 4, "what the checkpoint has flushed is purged, and nothing else");
    assert_eq!(ids(&begin(&store), &def), [1, 3, 4, 5]);
}

/// When a round was to keep everything of a table, and everything was its strings, a checkpoint wrote none. The log went,
/// codes went on, and the next load was logged behind strings that no file had: the database did not open again.
#[test]
fn strings_of_a_table_without_rows_are_found_again() {
    let files = SimulatedFiles::new(1);
    let store = try_open(&files).unwrap();
    let (def, other) = (events(&store, "e"), events(&store, "other"));
    let load = |store: &Store, def: &TableDef, rows: &[(&str, i64, i64)]| {
        let mut tx = begin(store);
        append(&mut tx, def, rows);
        tx.commit().unwrap();
    };
    for id in 0..2 {
        load(&store, &def, &[("a", 1, id), ("b", 15, id)]);
        store.checkpoint().unwrap();
    }
    let mut tx = begin(&store);
    assert_eq!(tx.delete_bricks(def.id, |all| all).unwrap(), 4);
    tx.commit().unwrap();
    store.checkpoint().unwrap();
    let bricks = || store.world().table(def.id).unwrap().bricks().unwrap().table().memory().rows;
    while bricks() > 0 {
        store.shared.sweep_graves();
        store.shared.purge_bricks();
        std::thread::yield_now();
    }
    load(&store, &other, &[("z", 1, 1)]);
    store.checkpoint().unwrap();
    load(&store, &def, &[("b", 1, 7), ("c", 1, 8)]);
    let files = files.crash();
    drop(store);
    let store = try_open(&files).unwrap();
    let expected = [("b".to_owned(), 1, 7), ("c".to_owned(), 1, 8)];
    assert_eq!(rows(&begin(&store), &def), BTreeSet::from(expected));
}

/// Random transactions, checkpoints, faults and crashes, against sets of rows of two tables: one may stay as it is while
/// the other is flushed.
#[test]
fn after_any_crash_the_rows_of_acknowledged_transactions_are_there_and_no_others() {
    let (mut crashes, mut checkpoints, mut deletes) = (0, 0, 0_u64);
    for seed in 0..240 {
        let mut dice = StdRng::seed_from_u64(seed);
        let mut files = SimulatedFiles::new(seed);
        let mut model: [BTreeSet<(String, i64, i64)>; 2] = Default::default();
        let mut next = 0;
        let store = try_open(&files).unwrap();
        let defs = [events(&store, "e"), events(&store, "f")];
        drop(store);
        for _ in 0..3 {
            let store = try_open(&files).unwrap();
            assert_eq!(both(&begin(&store), &defs), model, "seed {seed}");
            if dice.random_ratio(1, 2) {
                files.fail_after(
                    dice.random_range(1..60),
                    if dice.random() { Fault::Io } else { Fault::DiskFull },
                );
            }
            let mut unknown = None;
            for _ in 0..dice.random_range(1..25) {
                if dice.random_ratio(1, 4) {
                    checkpoints += usize::from(store.checkpoint().is_ok());
                    store.shared.sweep_graves();
                    store.shared.purge_bricks();
                    continue;
                }
                let mut tx = begin(&store);
                let mut after = model.clone();
                for _ in 0..dice.random_range(1..4) {
                    let savepoint = tx.savepoint();
                    let kept = after.clone();
                    let table = dice.random_range(0..2);
                    let (def, rows) = (&defs[table], &mut after[table]);
                    deletes += u64::from(step(&mut tx, def, &mut dice, rows, &mut next));
                    if dice.random_ratio(1, 5) {
                        tx.rollback_to(&savepoint);
                        after = kept;
                    }
                }
                assert_eq!(both(&tx, &defs), after, "seed {seed}");
                if dice.random_ratio(1, 5) {
                    continue;
                }
                match tx.commit() {
                    Ok(_) => model = after,
                    Err(_) => {
                        // Whether it survives the crash is unknown; it does so as a whole or not at all.
                        unknown = Some(after);
                        break;
                    }
                }
            }
            files.heal();
            files = files.crash();
            drop(store);
            crashes += 1;
            let store = try_open(&files).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let found = both(&begin(&store), &defs);
            drop(store);
            if let Some(after) = unknown.filter(|after| found == *after) {
                model = after;
            }
            assert_eq!(found, model, "seed {seed}");
            let report = verify(Arc::new(files.clone()), Path::new(DIR), None).unwrap();
            assert!(report.is_clean(), "seed {seed}: {:?}", report.problems);
        }
    }
    assert!(crashes > 200 && checkpoints > 100 && deletes > 100, "{crashes} {checkpoints} {deletes}");
}

/// The rows that a transaction sees of two tables.
fn both(tx: &Transaction, defs: &[TableDef; 2]) -> [BTreeSet<(String, i64, i64)>; 2] {
    defs.each_ref().map(|def| rows(tx, def))
}

/// Deletes the bricks of some days, or appends some rows; whether it deleted.
fn step(
    tx: &mut Transaction,
    def: &TableDef,
    dice: &mut StdRng,
    model: &mut BTreeSet<(String, i64, i64)>,
    next: &mut i64,
) -> bool {
    if dice.random_ratio(1, 6) {
        let first = dice.random_range(0..10) * 10;
        // Or all: then the strings are what is left of the table.
        let days = if dice.random() { first..=first + 9 } else { 0..=99 };
        tx.delete_bricks(def.id, |all| all.within(1, std::slice::from_ref(&days))).unwrap();
        model.retain(|row| !days.contains(&row.1));
        return true;
    }
    let count = dice.random_range(1..20);
    let rows = (0..count)
        .map(|number| (format!("r{}", dice.random_range(0..8)), dice.random_range(0..100), *next + number));
    let rows: Vec<(String, i64, i64)> = rows.collect();
    *next += count;
    let given: Vec<_> = rows.iter().map(|row| (row.0.as_str(), row.1, row.2)).collect();
    append(tx, def, &given);
    model.extend(rows);
    false
}

#[test]
fn an_epoch_that_is_rolled_back_is_never_in_a_world() {
    let store = Store::in_memory(options());
    let def = events(&store, "e");
    let mut pending = begin(&store);
    append(&mut pending, &def, &[("a", 1, 1)]);
    let mut tx = begin(&store);
    append(&mut tx, &def, &[("a", 1, 2)]);
    tx.commit().unwrap();
    let world = store.world();
    assert!(!world.epochs().contains(Epoch::new(1)) && world.epochs().contains(Epoch::new(2)));
    drop(pending);
    assert_eq!(ids(&begin(&store), &def), [2]);
}

#[test]
fn bricks_whose_rows_are_all_too_old_expire() {
    let store = Store::in_memory(options());
    let mut def = events(&store, "e");
    let micros_per_day = 86_400_000_000;
    let mut bricks = def.bricks.clone().unwrap();
    // The column is a number, so that its unit is that of timestamps; days are what a microsecond would be.
    bricks.retention = Some(Retention { column: 1, keep: 30 });
    let expired = |ty, now| bricks.expired(bricks.retention.as_ref().unwrap(), ty, now);
    assert_eq!(expired(ColumnType::Timestamp, 39), None);
    assert_eq!(expired(ColumnType::Timestamp, 40), Some((1, 9)));
    assert_eq!(expired(ColumnType::Date, 40 * micros_per_day - 1), None);
    assert_eq!(expired(ColumnType::Date, 55 * micros_per_day), Some((1, 19)));
    let mut tx = begin(&store);
    append(&mut tx, &def, &[("a", 9, 1), ("a", 10, 2), ("b", 19, 3), ("b", 20, 4)]);
    def.bricks = Some(bricks.clone());
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    expire_bricks(&store.shared, 49);
    assert_eq!(ids(&begin(&store), &def), [2, 3, 4]);
    expire_bricks(&store.shared, 55);
    assert_eq!(ids(&begin(&store), &def), [4]);
}

/// Old rows used to go only when something else woke the keeper: on a table that nobody loads into any more, never.
#[test]
fn bricks_expire_in_a_store_in_which_nothing_else_happens() {
    let sizes = Sizes { expiry: Duration::from_millis(10), ..Sizes::default() };
    let store = Store::in_memory_tuned(options(), sizes);
    let mut def = events(&store, "e");
    let mut tx = begin(&store);
    append(&mut tx, &def, &[("a", 9, 1), ("b", 19, 2)]);
    // The numbers are microseconds since 1970.
    def.bricks.as_mut().unwrap().retention = Some(Retention { column: 1, keep: 30 });
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    let begun = Instant::now();
    while !ids(&begin(&store), &def).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the rows are still there");
        std::thread::yield_now();
    }
}

/// Rows that were young in everything that woke the keeper grow old while nobody does anything: time alone has them go, and
/// what they took.
#[test]
fn rows_grow_old_and_go_while_nobody_touches_the_store() {
    const RANGE_MICROS: i64 = 200_000;
    let sizes = Sizes { expiry: Duration::from_millis(10), ..Sizes::default() };
    let store = Store::in_memory_tuned(options(), sizes);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    // The numbers are microseconds since 1970.
    let now = i64::try_from(since.as_micros()).unwrap();
    let day =
        BrickDimension { column: 1, cardinality: 300_000_000, range_size: RANGE_MICROS as u64, origin: now };
    let def = events_by(&store, "e", day, Some(Retention { column: 1, keep: RANGE_MICROS }));
    let mut tx = begin(&store);
    // The second is older than it may be in four minutes only.
    append(&mut tx, &def, &[("a", now, 1), ("a", now + 240_000_000, 2)]);
    tx.commit().unwrap();
    let begun = Instant::now();
    // A look at what the table takes begins and ends nothing.
    let held = || store.world().table(def.id).unwrap().bricks().unwrap().table().memory().rows;
    while held() > 1 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the old row is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(ids(&begin(&store), &def), [2]);
}

/// They leave the disk, too, though nothing else makes a checkpoint due, and though there are fewer rounds than are kept.
#[test]
fn rows_that_have_expired_leave_the_disk_while_nobody_touches_the_store() {
    const RANGE_MICROS: i64 = 200_000;
    let sizes = Sizes { expiry: Duration::from_millis(10), ..Sizes::default() };
    let files = SimulatedFiles::new(1);
    // Only a large delta or a long log would make a checkpoint due.
    let automatic = StoreOptions::default();
    let store =
        Store::open_tuned(Arc::new(files.clone()), Path::new(DIR), automatic, LogOptions::default(), sizes)
            .unwrap();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = i64::try_from(since.as_micros()).unwrap();
    let day =
        BrickDimension { column: 1, cardinality: 300_000_000, range_size: RANGE_MICROS as u64, origin: now };
    let def = events_by(&store, "e", day, Some(Retention { column: 1, keep: RANGE_MICROS }));
    let load = |rows: &[(&str, i64, i64)]| {
        let mut tx = begin(&store);
        append(&mut tx, &def, rows);
        tx.commit().unwrap();
        store.checkpoint().unwrap();
    };
    let old: Vec<_> = (0..10_000).map(|id| ("a", now, id)).collect();
    load(&old);
    load(&[("a", now + 240_000_000, 10_000)]);
    let rounds = || {
        let directory = Path::new(DIR).join("segments");
        let names = files.list(&directory).unwrap();
        // One may go meanwhile.
        names
            .iter()
            .map(|name| files.read(&directory.join(name)).map_or(0, |bytes| bytes.len()))
            .sum::<usize>()
    };
    let before = rounds();
    assert!(before > 100_000, "{before}");
    let begun = Instant::now();
    while rounds() > before / 10 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the old rows are still on the disk");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(ids(&begin(&store), &def), [10_000]);
    let files = files.crash();
    drop(store);
    let store = try_open(&files).unwrap();
    assert_eq!(ids(&begin(&store), &def), [10_000]);
}

/// A checkpoint behind a reopening knows as well how much of the rounds is void.
#[test]
fn what_is_deleted_leaves_the_disk_with_the_next_checkpoint_also_when_the_store_was_opened_again() {
    let files = SimulatedFiles::new(1);
    let open = || {
        let (options, log) = (options(), LogOptions::default());
        Store::open_tuned(Arc::new(files.clone()), Path::new(DIR), options, log, Sizes::default()).unwrap()
    };
    let store = open();
    let def = events(&store, "e");
    let load = |store: &Store, rows: &[(&str, i64, i64)]| {
        let mut tx = begin(store);
        append(&mut tx, &def, rows);
        tx.commit().unwrap();
        store.checkpoint().unwrap();
    };
    let many: Vec<_> = (0..10_000).map(|id| ("a", 1, id)).collect();
    load(&store, &many);
    load(&store, &[("a", 15, 10_000)]);
    let bytes = || {
        let directory = Path::new(DIR).join("segments");
        let names = files.list(&directory).unwrap();
        names.iter().map(|name| files.read(&directory.join(name)).unwrap().len()).sum::<usize>()
    };
    let before = bytes();
    assert!(before > 80_000, "{before}");
    drop(store);
    let store = open();
    let mut tx = begin(&store);
    assert_eq!(tx.delete_bricks(def.id, |all| all.within(1, &[0..=9])).unwrap(), 10_000);
    tx.commit().unwrap();
    store.checkpoint().unwrap();
    assert!(bytes() < before / 10, "{} of {before}", bytes());
    drop(store);
    assert_eq!(ids(&begin(&open()), &def), [10_000]);
}
