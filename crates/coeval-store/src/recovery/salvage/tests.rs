// SPDX-License-Identifier: Apache-2.0
//! One damaged table keeps no other from being read.

use crate::brick_def::{BrickDef, BrickDimension};
use crate::catalog::{CatalogChange, ColumnDef, IndexDef, QualifiedName, SequenceDef, TableDef, Uniqueness};
use crate::error::StoreError;
use crate::files::{FileSystem, SimulatedFiles};
use crate::log::{ChecksumPolicy, LogError, LogOptions};
use crate::manifest::Manifest;
use crate::options::{CheckpointPolicy, DamagedTables, Sizes, StoreOptions};
use crate::range::{Direction, KeyRange};
use crate::row::RowWriter;
use crate::segment::{SEGMENT_DIR, parse_segment_name, round_path, segment_path};
use crate::store::{SetValue, Store};
use crate::transaction::{AccessMode, Transaction};
use crate::types::ColumnType;
use crate::value::Value;
use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use coeval_txn::Isolation;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIR: &str = "/db";

fn try_open(files: &SimulatedFiles, damaged: DamagedTables) -> Result<Store, StoreError> {
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, damaged, ..StoreOptions::default() };
    let log = LogOptions { segment_bytes: 10_000, extend_bytes: 128, checksums: ChecksumPolicy::Verified };
    let sizes = Sizes { chunk_rows: 16, direct_load_rows_min: 8, ..Sizes::default() };
    Store::open_tuned(Arc::new(files.clone()), Path::new(DIR), options, log, sizes)
}

fn salvaged(files: &SimulatedFiles) -> Store {
    try_open(files, DamagedTables::ServeOthersReadOnly).unwrap()
}

fn begin(store: &Store) -> Transaction {
    store.begin(Isolation::Snapshot, AccessMode::ReadWrite)
}

/// How rows are kept.
#[derive(PartialEq, Eq)]
enum Kind {
    Rows,
    Bricks,
}

/// `(id bigint primary key, v bigint)` with an index on `v`, or partitioned by `id`.
fn table(store: &Store, name: &str, kind: Kind) -> TableDef {
    let columns =
        vec![ColumnDef::new("id", ColumnType::BigInt).not_null(), ColumnDef::new("v", ColumnType::BigInt)];
    let name = QualifiedName::new("public", name);
    let mut def = TableDef::new(store.new_space_id(), name, columns, vec![0]);
    if kind == Kind::Bricks {
        let mut hidden = ColumnDef::new("row id", ColumnType::BigInt);
        hidden.state = crate::catalog::ColumnState::Hidden;
        def = TableDef::new(def.id, def.name, [def.columns, vec![hidden]].concat(), vec![2]);
        let dimension = BrickDimension { column: 0, cardinality: 1_000, range_size: 10, origin: 0 };
        def.bricks = Some(BrickDef { dimensions: vec![dimension], retention: None, replicas: None });
    } else {
        def.indexes.push(IndexDef {
            id: store.new_space_id(),
            name: format!("{}_v", def.name.name),
            columns: vec![1],
            uniqueness: Uniqueness::Any,
            declared_order: Vec::new(),
        });
    }
    let mut tx = begin(store);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    def
}

fn row(def: &TableDef, id: i64) -> crate::row::Row {
    let mut writer = RowWriter::new(def.layout());
    [id, id * 10].iter().for_each(|value| writer.push(Value::Int64(*value).borrow()).unwrap());
    writer.finish()
}

fn insert(store: &Store, def: &TableDef, ids: impl Iterator<Item = i64>) {
    let mut tx = begin(store);
    if def.bricks.is_some() {
        let ids: Int64Array = ids.collect();
        let batch =
            RecordBatch::try_from_iter([("id", Arc::new(ids.clone()) as _), ("v", Arc::new(ids) as _)]);
        tx.append(def.id, &batch.unwrap(), 0).unwrap();
    } else {
        ids.for_each(|id| drop(tx.insert(def.id, row(def, id)).unwrap()));
    }
    tx.commit().unwrap();
}

fn ids(store: &Store, def: &TableDef) -> Result<Vec<i64>, StoreError> {
    let tx = begin(store);
    if def.bricks.is_some() {
        let snapshot = tx.brick_view(def.id, |all| all)?;
        let batches = snapshot.bricks().iter().flat_map(|brick| snapshot.batches(brick, &[0]));
        let mut ids: Vec<i64> =
            batches.flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
        ids.sort_unstable();
        return Ok(ids);
    }
    let entries = tx.scan_index(def.id, def.indexes[0].id, &KeyRange::all(), Direction::Forward)?;
    let count = entries.map(|entry| entry.map(drop)).collect::<Result<Vec<()>, _>>()?.len();
    let rows = tx.scan(def.id, &KeyRange::all(), Direction::Forward)?;
    let ids: Vec<i64> =
        rows.map(|row| row.map(|row| row.1.get(0).as_i64().unwrap())).collect::<Result<_, _>>()?;
    assert_eq!(ids.len(), count, "the index has an entry for each row");
    Ok(ids)
}

/// Tables `a` and `b` and brick table `e`, each with 1 to 20 in files and 21 to 23 in the log; closed.
fn database() -> (SimulatedFiles, [TableDef; 3]) {
    let files = SimulatedFiles::new(1);
    let store = try_open(&files, DamagedTables::Refuse).unwrap();
    let defs =
        [table(&store, "a", Kind::Rows), table(&store, "b", Kind::Rows), table(&store, "e", Kind::Bricks)];
    defs.iter().for_each(|def| insert(&store, def, 1..=20));
    store.checkpoint().unwrap();
    defs.iter().for_each(|def| insert(&store, def, 21..=23));
    drop(store);
    (files.restart(), defs)
}

fn manifest(files: &SimulatedFiles) -> Manifest {
    Manifest::read(files, Path::new(DIR), ChecksumPolicy::Verified).unwrap().unwrap()
}

fn contents(files: &SimulatedFiles) -> BTreeMap<PathBuf, Vec<u8>> {
    let dirs = ["", "log", "segments"].map(|dir| Path::new(DIR).join(dir));
    let paths = dirs.iter().flat_map(|dir| files.list(dir).unwrap().into_iter().map(|name| dir.join(name)));
    paths.map(|path| (path.clone(), files.read(&path).unwrap())).collect()
}

fn damage(files: &SimulatedFiles, path: &Path, from_end: u64) {
    files.damage(path, files.len(path).unwrap() - from_end, 0x20);
}

/// Whether reading fails because of a file, by an error that names the table.
#[track_caller]
fn assert_damaged(store: &Store, def: &TableDef, path: &Path) {
    let error = ids(store, def).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, StoreError::DamagedTable { .. }), "{text}");
    assert!(text.contains(&path.display().to_string()) && text.contains("is damaged at offset"), "{text}");
    assert!(text.contains(&format!("table \"{}\" cannot be read", def.name)), "{text}");
    assert_eq!(store.damaged_tables()[0].0, def.name);
}

#[test]
fn a_damaged_table_is_named_and_the_others_are_served_read_only() {
    for damaged_table in 0..3 {
        let (files, defs) = database();
        let entry = &manifest(&files).tables[damaged_table];
        let path = match &entry.bricks {
            Some(bricks) => round_path(Path::new(DIR), bricks.rounds[0].number),
            None => segment_path(Path::new(DIR), entry.rows[0].segment),
        };
        damage(&files, &path, 40);
        let refused = try_open(&files, DamagedTables::Refuse).unwrap_err();
        assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused}");
        let before = contents(&files);
        let store = salvaged(&files);
        for (number, def) in defs.iter().enumerate() {
            if number == damaged_table {
                assert_damaged(&store, def, &path);
            } else {
                assert_eq!(ids(&store, def).unwrap(), (1..=23).collect::<Vec<_>>());
            }
        }
        drop(store);
        assert_eq!(contents(&files), before, "nothing is written");
    }
}

#[test]
fn a_file_that_is_gone_is_damage_of_its_table_alone() {
    let (files, defs) = database();
    let path = segment_path(Path::new(DIR), manifest(&files).tables[0].rows[0].segment);
    files.remove(&path).unwrap();
    let store = salvaged(&files);
    assert_damaged(&store, &defs[0], &path);
    assert_eq!(ids(&store, &defs[1]).unwrap().len(), 23);
}

#[test]
fn a_damaged_index_alone_is_built_again_in_memory() {
    let (files, defs) = database();
    let path = segment_path(Path::new(DIR), manifest(&files).tables[1].indexes[0][0].segment);
    damage(&files, &path, 40);
    assert!(try_open(&files, DamagedTables::Refuse).is_err());
    let store = salvaged(&files);
    assert_eq!(store.damaged_tables(), []);
    assert_eq!(ids(&store, &defs[1]).unwrap(), (1..=23).collect::<Vec<_>>());
}

/// Its file is named by the log alone.
#[test]
fn a_damaged_file_of_a_new_index_is_refused_and_built_again_in_memory() {
    for is_gone in [false, true] {
        let (files, defs) = database();
        let store = try_open(&files, DamagedTables::Refuse).unwrap();
        let mut def = defs[0].clone();
        def.indexes[0].id = store.new_space_id();
        let mut tx = begin(&store);
        tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
        tx.commit().unwrap();
        insert(&store, &def, 24..=30);
        drop(store);
        let files = files.restart();
        let names = files.list(&Path::new(DIR).join(SEGMENT_DIR)).unwrap();
        let newest = names.iter().filter_map(|name| parse_segment_name(name)).max().unwrap();
        let path = segment_path(Path::new(DIR), newest);
        if is_gone {
            files.remove(&path).unwrap();
        } else {
            damage(&files, &path, 40);
        }
        let refused = try_open(&files, DamagedTables::Refuse).unwrap_err().to_string();
        assert!(refused.contains(&path.display().to_string()), "{refused}");
        let store = salvaged(&files);
        assert_eq!(store.damaged_tables(), []);
        assert_eq!(ids(&store, &def).unwrap(), (1..=30).collect::<Vec<_>>());
    }
}

#[test]
fn whatever_would_write_is_refused() {
    let (files, defs) = database();
    let store = salvaged(&files);
    let mut tx = begin(&store);
    let refused = |error: StoreError| {
        assert!(matches!(error, StoreError::ServedReadOnly(_)), "{error}");
        assert!(error.to_string().starts_with("cannot execute "), "{error}");
    };
    refused(tx.insert(defs[0].id, row(&defs[0], 99)).unwrap_err());
    refused(tx.change_catalog(CatalogChange::Truncate(defs[0].id)).unwrap_err());
    refused(store.checkpoint().unwrap_err());
    let sequence = SequenceDef {
        id: store.new_sequence_id(),
        name: QualifiedName::new("public", "s"),
        start: 1,
        increment: 1,
        min: 1,
        max: 9,
        cycle: false,
        ty: Default::default(),
        owned_by: None,
        access: Default::default(),
    };
    refused(store.next_value(&sequence).unwrap_err());
    refused(store.set_value(&sequence, 3, SetValue::Next).unwrap_err());
    tx.commit().unwrap();
}

#[test]
fn a_damaged_table_that_was_emptied_or_dropped_later_is_no_matter() {
    for change in [
        |def: &TableDef| CatalogChange::Truncate(def.id),
        |def: &TableDef| CatalogChange::RemoveTable(def.id),
    ] {
        let (files, defs) = database();
        let store = try_open(&files, DamagedTables::Refuse).unwrap();
        let mut tx = begin(&store);
        tx.change_catalog(change(&defs[0])).unwrap();
        tx.commit().unwrap();
        drop(store);
        let files = files.restart();
        damage(&files, &segment_path(Path::new(DIR), manifest(&files).tables[0].rows[0].segment), 40);
        let store = salvaged(&files);
        assert_eq!(store.damaged_tables(), []);
        assert_eq!(ids(&store, &defs[1]).unwrap().len(), 23);
    }
}

#[test]
fn damage_of_the_log_or_the_manifest_is_refused_as_ever() {
    let (files, _) = database();
    let log = Path::new(DIR).join("log/00000000000000000000.log");
    files.damage(&log, 30, 1);
    let error = try_open(&files, DamagedTables::ServeOthersReadOnly).unwrap_err();
    assert!(matches!(error, StoreError::Log(LogError::Damaged { .. })), "{error}");
    let (files, _) = database();
    files.damage(&Path::new(DIR).join("MANIFEST"), 30, 1);
    assert!(matches!(
        try_open(&files, DamagedTables::ServeOthersReadOnly).unwrap_err(),
        StoreError::Corrupt { .. }
    ));
    let files = SimulatedFiles::new(1);
    files.create_dir_all(Path::new(DIR)).unwrap();
    let error = try_open(&files, DamagedTables::ServeOthersReadOnly).unwrap_err();
    assert!(matches!(error, StoreError::IncompleteDatabase { .. }), "{error}");
}
