// SPDX-License-Identifier: Apache-2.0
//! Damage in one table keeps nobody's changes from becoming chunks, and failures are counted.

use crate::catalog::{CatalogChange, ColumnDef, IndexDef, QualifiedName, TableDef, Uniqueness};
use crate::error::StoreError;
use crate::files::{Fault, SimulatedFiles};
use crate::key::Key;
use crate::log::LogOptions;
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::range::{Direction, KeyRange};
use crate::row::RowWriter;
use crate::segment::Segment;
use crate::space::Space;
use crate::store::Store;
use crate::transaction::{AccessMode, Transaction};
use crate::types::ColumnType;
use crate::value::{KeyWriter, Value, ValueRef};
use crate::verify::verify;
use coeval_txn::Isolation;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";

fn open(files: &SimulatedFiles) -> Store {
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let sizes = Sizes { chunk_rows: 16, ..Sizes::default() };
    let files = Arc::new(files.clone());
    Store::open_tuned(files, Path::new(DIR), options, LogOptions::default(), sizes).unwrap()
}

fn begin(store: &Store) -> Transaction {
    store.begin(Isolation::Snapshot, AccessMode::ReadWrite)
}

fn key(id: i64) -> Key {
    let mut writer = KeyWriter::new();
    writer.push(ValueRef::Int64(id));
    writer.finish()
}

/// `(id, v)` with an index on `v`.
fn table(store: &Store, name: &str) -> TableDef {
    let columns = vec![ColumnDef::new("id", ColumnType::BigInt), ColumnDef::new("v", ColumnType::BigInt)];
    let mut def = TableDef::new(store.new_space_id(), QualifiedName::new("public", name), columns, vec![0]);
    def.indexes.push(IndexDef {
        id: store.new_space_id(),
        name: format!("{name}_v"),
        columns: vec![1],
        uniqueness: Uniqueness::Any,
        declared_order: Vec::new(),
    });
    let mut tx = begin(store);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    def
}

/// With v = -id, so that the index is in another order.
fn insert(store: &Store, def: &TableDef, ids: impl IntoIterator<Item = i64>) -> Result<(), StoreError> {
    let mut tx = begin(store);
    for id in ids {
        let mut writer = RowWriter::new(def.layout());
        [id, -id].iter().for_each(|value| writer.push(Value::Int64(*value).borrow()).unwrap());
        tx.insert(def.id, writer.finish())?;
    }
    tx.commit().map(drop)
}

fn ids(store: &Store, def: &TableDef) -> Result<Vec<i64>, StoreError> {
    let tx = begin(store);
    let rows = tx.scan(def.id, &KeyRange::all(), Direction::Forward)?;
    rows.map(|row| row.map(|(_, row)| row.get(0).as_i64().unwrap())).collect()
}

/// A closed database with the tables `hurt` and `sound`, ids 101 to 140 in chunks of some sixteen, of which one of the
/// first table is damaged: the first of its rows or of its index.
fn damaged(part: fn(&Store, &TableDef) -> Space) -> (SimulatedFiles, TableDef, TableDef) {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let (hurt, sound) = (table(&store, "hurt"), table(&store, "sound"));
    for def in [&hurt, &sound] {
        insert(&store, def, 101..=140).unwrap();
    }
    store.checkpoint().unwrap();
    let chunk = place(&part(&store, &hurt), 0);
    drop(store);
    let files = files.restart();
    damage(&files, &chunk);
    (files, hurt, sound)
}

/// The segment of a chunk, and its number there.
fn place(space: &Space, at: usize) -> (Arc<Segment>, u32) {
    let chunk = space.base().iter().nth(at).unwrap().1;
    (Arc::clone(chunk.segment().unwrap()), chunk.place().unwrap().batch)
}

fn damage(files: &SimulatedFiles, (segment, batch): &(Arc<Segment>, u32)) {
    files.damage(segment.path(), segment.chunk(*batch).part_offset(0) + 9, 1);
}

fn rows(store: &Store, def: &TableDef) -> Space {
    store.world().table(def.id).unwrap().rows().clone()
}

fn entries(store: &Store, def: &TableDef) -> Space {
    store.world().table(def.id).unwrap().indexes()[0].clone()
}

/// Changes that are in no chunk yet.
fn changes(store: &Store) -> usize {
    let world = store.world();
    world.tables().flat_map(|table| table.spaces()).map(|(_, space)| space.delta().len()).sum()
}

/// Every checkpoint of the database failed until the table was emptied.
#[test]
fn a_damaged_chunk_stays_where_it_is_while_all_else_is_merged() {
    let (files, hurt, sound) = damaged(rows);
    let store = open(&files);
    // Before the first chunk and behind the last nothing is read that is damaged.
    insert(&store, &hurt, [1, 2, 500]).unwrap();
    insert(&store, &sound, [1, 110_000]).unwrap();
    assert!(matches!(insert(&store, &hurt, [105]), Err(StoreError::Corrupt { .. })), "there it is refused");
    store.checkpoint().unwrap();
    assert_eq!(changes(&store), 0);
    assert_eq!(store.checkpoint_failures(), None);
    let check = |store: &Store| {
        let tx = begin(store);
        for id in [1, 2, 130, 500] {
            assert!(tx.get(hurt.id, &key(id)).unwrap().is_some(), "{id}");
        }
        assert!(tx.get(hurt.id, &key(3)).unwrap().is_none());
        assert!(matches!(tx.get(hurt.id, &key(105)), Err(StoreError::Corrupt { .. })));
        assert!(matches!(ids(store, &hurt), Err(StoreError::Corrupt { .. })));
        assert_eq!(ids(store, &sound).unwrap().len(), 42);
    };
    check(&store);
    drop(store);
    let store = open(&files.restart());
    check(&store);
    // Beside a small chunk, which would take it in.
    insert(&store, &hurt, [50]).unwrap();
    store.checkpoint().unwrap();
    assert_eq!(changes(&store), 0);
    check(&store);
}

/// Nobody had written there: it was to be moved out of a segment of which little is in use.
#[test]
fn a_damaged_chunk_is_not_moved() {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let def = table(&store, "t");
    insert(&store, &def, 101..=148).unwrap();
    store.checkpoint().unwrap();
    let chunk = place(&rows(&store, &def), 1);
    let mut tx = begin(&store);
    for id in [101, 148] {
        assert!(tx.delete(def.id, &key(id)).unwrap());
    }
    tx.commit().unwrap();
    store.checkpoint().unwrap();
    assert_eq!(place(&rows(&store, &def), 1).0.number(), chunk.0.number());
    drop(store);
    let files = files.restart();
    damage(&files, &chunk);
    let store = open(&files);
    insert(&store, &def, [500]).unwrap();
    store.checkpoint().unwrap();
    assert_eq!(changes(&store), 0);
    for id in [102, 147, 500] {
        assert!(begin(&store).get(def.id, &key(id)).unwrap().is_some(), "{id}");
    }
    assert!(matches!(begin(&store).get(def.id, &key(124)), Err(StoreError::Corrupt { .. })));
}

/// So it did with a damaged chunk of an index, where no row was refused.
#[test]
fn a_damaged_index_is_built_again_by_the_next_checkpoint() {
    let (files, hurt, _) = damaged(entries);
    let store = open(&files);
    let entries = |store: &Store| -> Result<usize, StoreError> {
        let tx = begin(store);
        let entries = tx.scan_index(hurt.id, hurt.indexes[0].id, &KeyRange::all(), Direction::Forward)?;
        entries.map(|entry| entry.map(drop)).collect::<Result<Vec<()>, _>>().map(|all| all.len())
    };
    assert!(entries(&store).is_err());
    // Among the entries of the damaged chunk.
    let mut tx = begin(&store);
    assert!(tx.delete(hurt.id, &key(135)).unwrap());
    tx.commit().unwrap();
    insert(&store, &hurt, [1_000]).unwrap();
    let reader = begin(&store);
    store.checkpoint().unwrap();
    assert_eq!(changes(&store), 0);
    assert_eq!(entries(&store).unwrap(), 40);
    drop(reader);
    drop(store);
    let files = files.restart();
    let report = verify(Arc::new(files.clone()), Path::new(DIR), None).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    assert_eq!(entries(&open(&files)).unwrap(), 40);
}

#[test]
fn checkpoints_that_fail_are_counted_until_one_does_not() {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let def = table(&store, "t");
    assert_eq!(store.checkpoint_failures(), None);
    insert(&store, &def, [1]).unwrap();
    files.fail_from(0, Fault::DiskFull);
    for count in 1..=3 {
        let error = store.checkpoint().unwrap_err();
        let failures = store.checkpoint_failures().unwrap();
        assert_eq!((failures.count, failures.reason), (count, error.to_string()));
    }
    files.heal();
    store.checkpoint().unwrap();
    assert_eq!(store.checkpoint_failures(), None);
}
