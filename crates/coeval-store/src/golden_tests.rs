// SPDX-License-Identifier: Apache-2.0
//! Golden files: a small database as it is written now, committed as `tests/golden/v2`. It is read as what it
//! holds, and written anew byte for byte; and one with a brick table, `tests/golden/bricks`. Whoever has to change these files changes a version number.
//! `tests/golden/v1` is the same database with segments of version 1, which are only read: nobody writes it again.
//!
//! `COEVAL_WRITE_GOLDEN=1 cargo test --release -p coeval-store golden` writes the others.

mod bricks;
mod mutation;

use crate::catalog::{
    CatalogChange, ColumnDef, IndexDef, QualifiedName, SequenceDef, TableDef, Uniqueness, ViewDef,
};
use crate::column::ColumnBuilder;
use crate::error::StoreError;
use crate::files::{FileSystem, OpenMode, SimulatedFiles};
use crate::ids::SequenceId;
use crate::log::{ChecksumPolicy, LogOptions};
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::range::{Direction, KeyRange};
use crate::row::RowWriter;
use crate::store::{SetValue, Store};
use crate::transaction::{AccessMode, Transaction};
use crate::types::ColumnType;
use crate::value::{IntervalValue, KeyWriter, Value, ValueRef};
use crate::verify::verify;
use arrow::array::RecordBatch;
use coeval_txn::Isolation;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIR: &str = "/db";

/// Cargo runs tests in their package's directory. A path that is compiled in may be that of another checkout with the same cache.
fn golden_dir() -> PathBuf {
    PathBuf::from("tests/golden/v2")
}

/// The same database with segments of version 1.
fn old_golden_dir() -> PathBuf {
    PathBuf::from("tests/golden/v1")
}

fn open(files: &SimulatedFiles) -> Store {
    try_open(files).unwrap()
}

fn try_open(files: &SimulatedFiles) -> Result<Store, StoreError> {
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    // No room ahead: a golden file is small.
    let log = LogOptions { extend_bytes: 1, checksums: ChecksumPolicy::Verified, ..LogOptions::default() };
    let sizes = Sizes { chunk_rows: 16, direct_load_rows_min: 8, ..Sizes::default() };
    Store::open_tuned(Arc::new(files.clone()), Path::new(DIR), options, log, sizes)
}

fn begin(store: &Store) -> Transaction {
    store.begin(Isolation::Snapshot, AccessMode::ReadWrite)
}

fn name(name: &str) -> QualifiedName {
    QualifiedName::new("house", name)
}

/// `kinds`: a column of each type, an index and a unique one.
fn kinds(store: &Store) -> TableDef {
    let types = [
        ("id", ColumnType::BigInt),
        ("small", ColumnType::SmallInt),
        ("int", ColumnType::Int),
        ("real", ColumnType::Real),
        ("double", ColumnType::Double),
        ("short", ColumnType::Numeric { precision: 10, scale: 2 }),
        ("long", ColumnType::Numeric { precision: 30, scale: 4 }),
        ("flag", ColumnType::Boolean),
        ("text", ColumnType::Text),
        ("varchar", ColumnType::Varchar(20)),
        ("char", ColumnType::Char(4)),
        ("bytes", ColumnType::Bytea),
        ("date", ColumnType::Date),
        ("time", ColumnType::Time),
        ("stamp", ColumnType::Timestamp),
        ("zoned", ColumnType::TimestampTz),
        ("span", ColumnType::Interval),
        ("uuid", ColumnType::Uuid),
        ("json", ColumnType::Json),
    ];
    let columns = types.map(|(name, ty)| ColumnDef::new(name, ty)).to_vec();
    let mut def = TableDef::new(store.new_space_id(), name("kinds"), columns, vec![0]);
    for (name, column, uniqueness) in [("by_text", 8, Uniqueness::Any), ("by_int", 2, Uniqueness::Constraint)]
    {
        let id = store.new_space_id();
        def.indexes.push(IndexDef {
            id,
            name: name.into(),
            columns: vec![column],
            uniqueness,
            declared_order: Vec::new(),
        });
    }
    def
}

fn full_row(id: i64) -> Vec<Value> {
    vec![
        Value::Int64(id),
        Value::Int16(-2),
        Value::Int32(id as i32 * 1_000),
        Value::Float32(1.5),
        Value::Float64(-2.25),
        Value::Decimal(-123_456),
        Value::Decimal(12_345_678_901_234_567_890_123),
        Value::Boolean(true),
        Value::from(format!("a text of more than twelve bytes: {id}")),
        Value::from("zero \0 inside"),
        Value::from("four"),
        Value::Bytes([0, 1, 0xff].into()),
        Value::Int32(20_000),
        Value::Int64(3_600_000_000),
        Value::Int64(1_700_000_000_000_000),
        Value::Int64(-1),
        Value::Interval(IntervalValue { months: 1, days: -2, nanoseconds: 3 }),
        Value::Uuid([7; 16]),
        Value::from("{\"a\": 1}"),
    ]
}

fn null_row(id: i64) -> Vec<Value> {
    std::iter::once(Value::Int64(id)).chain(std::iter::repeat_n(Value::Null, 18)).collect()
}

fn pairs(store: &Store, table: &str) -> TableDef {
    let columns = vec![ColumnDef::new("id", ColumnType::Int), ColumnDef::new("name", ColumnType::Text)];
    TableDef::new(store.new_space_id(), name(table), columns, vec![0])
}

fn put_table(tx: &mut Transaction, def: &TableDef) {
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
}

fn put(tx: &mut Transaction, def: &TableDef, values: &[Value]) {
    let mut writer = RowWriter::new(def.layout());
    values.iter().for_each(|value| writer.push(value.borrow()).unwrap());
    tx.put(def.id, writer.finish()).unwrap();
}

fn load(tx: &mut Transaction, def: &TableDef, ids: Range<i32>) {
    let mut builders = [ColumnBuilder::new(ColumnType::Int, 0), ColumnBuilder::new(ColumnType::Text, 0)];
    for id in ids {
        builders[0].push(Value::Int32(id).borrow());
        builders[1].push(Value::from(format!("row {id}")).borrow());
    }
    let schema = tx.view(def.id).unwrap().schema();
    let columns = builders.iter_mut().map(ColumnBuilder::finish).collect();
    tx.bulk_insert(def.id, &[RecordBatch::try_new(schema, columns).unwrap()]).unwrap();
}

fn sequence(store: &Store) -> SequenceDef {
    SequenceDef {
        id: store.new_sequence_id(),
        name: name("numbers"),
        start: 5,
        increment: 2,
        min: 1,
        max: 100_000,
        cycle: false,
        ty: Default::default(),
        owned_by: None,
        access: Default::default(),
    }
}

/// Writes the database: everything that a manifest, a segment or a record can hold, half of it before a
/// checkpoint.
fn build(files: &SimulatedFiles) -> SimulatedFiles {
    let store = open(files);
    let (mut kinds, loaded, emptied) = (kinds(&store), pairs(&store, "loaded"), pairs(&store, "emptied"));
    let numbers = sequence(&store);
    let mut tx = begin(&store);
    tx.change_catalog(CatalogChange::PutSchema("house".into())).unwrap();
    for def in [&kinds, &loaded, &emptied] {
        put_table(&mut tx, def);
    }
    tx.change_catalog(CatalogChange::PutSequence(numbers.clone())).unwrap();
    for (view, query) in [("kept", "SELECT 1"), ("dropped", "SELECT 2")] {
        let view = ViewDef {
            name: name(view),
            columns: vec!["a".into()],
            query: query.into(),
            access: Default::default(),
            comment: None,
            output: None,
            check: None,
        };
        tx.change_catalog(CatalogChange::PutView(view)).unwrap();
    }
    tx.commit().unwrap();
    let mut tx = begin(&store);
    [full_row(1), null_row(2), full_row(3), full_row(4)].iter().for_each(|row| put(&mut tx, &kinds, row));
    put(&mut tx, &emptied, &[Value::Int32(1), Value::from("gone soon")]);
    tx.commit().unwrap();
    assert_eq!(store.next_value(&numbers).unwrap(), 5);
    let mut tx = begin(&store);
    load(&mut tx, &loaded, 0..20);
    tx.commit().unwrap();
    store.checkpoint().unwrap();

    let mut tx = begin(&store);
    put(&mut tx, &kinds, &full_row(2));
    assert!(tx.delete(kinds.id, &kinds.key_of(|_| ValueRef::Int64(3))).unwrap());
    put(&mut tx, &kinds, &null_row(5));
    tx.commit().unwrap();
    let mut tx = begin(&store);
    load(&mut tx, &loaded, 100..110);
    tx.commit().unwrap();
    let mut tx = begin(&store);
    tx.change_catalog(CatalogChange::Truncate(emptied.id)).unwrap();
    tx.change_catalog(CatalogChange::RemoveView(name("dropped"))).unwrap();
    let mut added = ColumnDef::new("added", ColumnType::Int);
    let mut missing = KeyWriter::new();
    missing.push(Value::Int32(77).borrow());
    added.missing = Some(missing.as_slice().to_vec());
    kinds.add_column(added);
    put_table(&mut tx, &kinds);
    tx.commit().unwrap();
    store.set_value(&numbers, 99, SetValue::Used).unwrap();
    // As a process leaves them that ends without closing the store.
    let written = files.copy();
    drop(store);
    written
}

/// The files of a database but the lock, by their path in it.
fn contents(files: &SimulatedFiles) -> BTreeMap<String, Vec<u8>> {
    let mut contents = BTreeMap::new();
    for dir in ["", "log", "segments"] {
        let path = Path::new(DIR).join(dir);
        for name in files.list(&path).unwrap() {
            let inside = Path::new(dir).join(&name).display().to_string();
            contents.insert(inside, files.read(&path.join(&name)).unwrap());
        }
    }
    contents
}

fn golden_contents() -> BTreeMap<String, Vec<u8>> {
    stored_contents(&golden_dir())
}

/// The files that are committed in a directory.
fn stored_contents(golden: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut contents = BTreeMap::new();
    for dir in ["", "log", "segments"] {
        for entry in std::fs::read_dir(golden.join(dir)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                let inside = Path::new(dir).join(entry.file_name()).display().to_string();
                contents.insert(inside, std::fs::read(entry.path()).unwrap());
            }
        }
    }
    contents
}

fn files_of(contents: BTreeMap<String, Vec<u8>>) -> SimulatedFiles {
    let files = SimulatedFiles::new(1);
    for dir in [DIR, "/db/log", "/db/segments"] {
        files.create_dir_all(Path::new(dir)).unwrap();
    }
    for (name, bytes) in contents {
        let file = files.open(&Path::new(DIR).join(name), OpenMode::Create).unwrap();
        file.write_all_at(0, &bytes).unwrap();
    }
    files.copy()
}

fn rows(tx: &Transaction, table: &str) -> Vec<Vec<Value>> {
    let def = tx.resolve_table(&name(table)).unwrap();
    let rows = tx.scan(def.id, &KeyRange::all(), Direction::Forward).unwrap();
    rows.map(|row| row.unwrap().1)
        .map(|row| (0..def.columns.len()).map(|column| row.get(column).to_owned()).collect())
        .collect()
}

#[test]
fn the_golden_database_is_written_byte_for_byte() {
    let written = contents(&build(&SimulatedFiles::new(1)));
    write_golden(&golden_dir(), &written);
    assert_same_files(written, &golden_contents());
}

/// Writes golden files, if that is asked for.
fn write_golden(golden: &Path, written: &BTreeMap<String, Vec<u8>>) {
    if std::env::var_os("COEVAL_WRITE_GOLDEN").is_none() {
        return;
    }
    for (name, bytes) in written {
        let path = golden.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

fn assert_same_files(written: BTreeMap<String, Vec<u8>>, golden: &BTreeMap<String, Vec<u8>>) {
    assert_eq!(written.keys().collect::<Vec<_>>(), golden.keys().collect::<Vec<_>>());
    for (name, bytes) in written {
        let first = bytes.iter().zip(&golden[&name]).position(|(written, golden)| written != golden);
        assert!(bytes == golden[&name], "{name} differs at {first:?}; its format has changed");
    }
}

/// Whether the store holds what the golden database holds.
fn assert_golden(store: &Store) {
    let tx = begin(store);
    let with = |mut row: Vec<Value>, added: Value| {
        row.push(added);
        row
    };
    let expected =
        [full_row(1), full_row(2), full_row(4), null_row(5)].map(|row| with(row, Value::Int32(77)));
    assert_eq!(rows(&tx, "kinds"), expected);
    let loaded = (0..20).chain(100..110).map(|id| vec![Value::Int32(id), Value::from(format!("row {id}"))]);
    assert_eq!(rows(&tx, "loaded"), loaded.collect::<Vec<_>>());
    assert_eq!(rows(&tx, "emptied"), Vec::<Vec<Value>>::new());
    let def = tx.resolve_table(&name("kinds")).unwrap();
    for index in &def.indexes {
        let entries = tx.scan_index(def.id, index.id, &KeyRange::all(), Direction::Forward).unwrap();
        let keys: Vec<_> = entries.map(|entry| entry.unwrap().primary_key).collect();
        assert_eq!(keys, [1, 2, 4, 5].map(|id| def.key_of(|_| ValueRef::Int64(id))));
    }
    let views: Vec<_> = tx.catalog().views().map(|view| (view.name.clone(), view.query.clone())).collect();
    assert_eq!(views, [(name("kept"), "SELECT 1".to_owned())]);
    assert!(tx.catalog().has_schema("house") && tx.catalog().has_schema("public"));
}

fn assert_read_as_what_it_holds(contents: BTreeMap<String, Vec<u8>>) -> SimulatedFiles {
    let files = files_of(contents);
    let report = verify(Arc::new(files.clone()), Path::new(DIR), None).unwrap();
    assert_eq!(report.problems, []);
    let store = open(&files);
    assert_golden(&store);
    let numbers = Arc::clone(begin(&store).catalog().sequence(SequenceId::new(1)).unwrap());
    assert_eq!(store.next_value(&numbers).unwrap(), 101);
    drop(store);
    files
}

#[test]
fn the_golden_database_is_read_as_what_it_holds() {
    assert_read_as_what_it_holds(golden_contents());
}

#[test]
fn the_golden_database_of_version_1_is_read_and_goes_on() {
    let old = stored_contents(&old_golden_dir());
    let files = assert_read_as_what_it_holds(old.clone()).restart();
    let is_kept = |(name, bytes): (&String, &Vec<u8>)| {
        name.ends_with(".arrow") && files.read(&Path::new(DIR).join(name)).is_ok_and(|now| now == *bytes)
    };
    assert!(old.iter().any(is_kept), "what nobody changes stays as it is");
    // Chunks of both versions beside each other, and then merged into new ones.
    let store = open(&files);
    store.checkpoint().unwrap();
    assert_golden(&store);
    drop(store);
    let store = open(&files.restart());
    assert_golden(&store);
}
