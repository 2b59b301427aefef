// SPDX-License-Identifier: Apache-2.0
//! A check finds what is wrong, names it once, and nothing else.

use super::{Problem, VerifyReport, verify};
use crate::brick_def::{BrickDef, BrickDimension};
use crate::catalog::{
    CatalogChange, CheckDef, ColumnDef, ColumnState, Deferral, ForeignKeyDef, IndexDef, QualifiedName,
    ReferentialAction, SequenceDef, TableDef, Uniqueness, Validity,
};
use crate::checks::{CheckCompiler, RowChecks};
use crate::delta::{BasePosition, Delta, DeltaEntry};
use crate::error::{ConstraintError, StoreError};
use crate::files::{FileSystem, SimulatedFiles};
use crate::key::Key;
use crate::log::{ChecksumPolicy, Log, LogOptions, Lsn};
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::record::{encode_batch, encode_body};
use crate::row::{Row, RowWriter};
use crate::store::Store;
use crate::submission::Submission;
use crate::table::{RowRef, missing_values};
use crate::table_writes::TableWrites;
use crate::transaction::AccessMode;
use crate::types::ColumnType;
use crate::value::{Value, ValueRef};
use crate::world::World;
use arrow::array::{Int64Array, RecordBatch, StringArray};
use coeval_txn::{Isolation, Version};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIR: &str = "/db";
const LOG: LogOptions =
    LogOptions { segment_bytes: 100_000, extend_bytes: 128, checksums: ChecksumPolicy::Verified };

fn check(files: &SimulatedFiles) -> VerifyReport {
    verify(Arc::new(files.clone()), Path::new(DIR), None).unwrap()
}

fn open(files: &SimulatedFiles) -> Store {
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let sizes = Sizes { chunk_rows: 16, direct_load_rows_min: 8, ..Sizes::default() };
    Store::open_tuned(Arc::new(files.clone()), Path::new(DIR), options, LOG, sizes).unwrap()
}

/// `parents (id)` and `children (id, name, code not null unique, parent references parents)`.
fn tables(store: &Store) -> (TableDef, TableDef) {
    let column = |name: &str| ColumnDef::new(name, ColumnType::BigInt);
    let name = |name: &str| QualifiedName::new("public", name);
    let parents = TableDef::new(store.new_space_id(), name("parents"), vec![column("id")], vec![0]);
    let columns = vec![
        column("id"),
        ColumnDef::new("name", ColumnType::Text),
        column("code").not_null(),
        column("parent"),
    ];
    let mut children = TableDef::new(store.new_space_id(), name("children"), columns, vec![0]);
    for (name, column, uniqueness) in [("by_name", 1, Uniqueness::Any), ("by_code", 2, Uniqueness::Unique)] {
        let id = store.new_space_id();
        children.indexes.push(IndexDef {
            id,
            name: name.into(),
            columns: vec![column],
            uniqueness,
            declared_order: Vec::new(),
        });
    }
    children.foreign_keys.push(ForeignKeyDef {
        name: "fk".into(),
        columns: vec![3],
        parent: parents.id,
        parent_columns: vec![0],
        on_delete: ReferentialAction::NoAction,
        on_update: ReferentialAction::NoAction,
        deferral: Deferral::Never,
        validity: Default::default(),
    });
    (parents, children)
}

fn row(def: &TableDef, values: &[Value]) -> Row {
    let mut writer = RowWriter::new(def.layout());
    values.iter().for_each(|value| writer.push(value.borrow()).unwrap());
    writer.finish()
}

fn child(def: &TableDef, id: i64, code: Option<i64>, parent: i64) -> Row {
    let values =
        [id.into(), Value::from("name"), code.map_or(Value::Null, Value::Int64), Value::Int64(parent)];
    row(def, &values)
}

fn key(id: i64) -> Key {
    let mut writer = crate::value::KeyWriter::new();
    writer.push(ValueRef::Int64(id));
    writer.finish()
}

/// A closed database: parent 1, children 1 to 20 of it, 15 of them in chunks. Its next version is 5.
fn database() -> (SimulatedFiles, TableDef) {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let begin = || store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    let (parents, children) = tables(&store);
    let mut tx = begin();
    for def in [&parents, &children] {
        tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    }
    tx.commit().unwrap();
    let mut tx = begin();
    tx.insert(parents.id, row(&parents, &[Value::Int64(1)])).unwrap();
    for id in 1..=15 {
        tx.insert(children.id, child(&children, id, Some(id), 1)).unwrap();
    }
    tx.commit().unwrap();
    store.checkpoint().unwrap();
    let mut tx = begin();
    for id in 16..=20 {
        tx.insert(children.id, child(&children, id, Some(id), 1)).unwrap();
    }
    tx.commit().unwrap();
    let mut tx = begin();
    assert!(tx.delete(children.id, &key(3)).unwrap());
    tx.commit().unwrap();
    drop(store);
    (files.restart(), children)
}

#[test]
fn a_sound_database_is_clean_and_everything_in_it_is_counted() {
    let (files, _) = database();
    let report = check(&files);
    assert!(report.is_clean(), "{:?}", report.problems);
    assert_eq!((report.tables, report.rows, report.index_entries), (2, 20, 38));
    assert_eq!((report.segments, report.chunks, report.log_records), (4, 4, 3));
    assert_eq!(report.torn_tail_bytes, 0);
    assert_eq!(check(&files), report, "a check changes nothing");
}

#[test]
fn a_directory_that_is_open_is_refused() {
    let (files, _) = database();
    let _store = open(&files);
    let refused = verify(Arc::new(files.clone()), Path::new(DIR), None);
    assert!(matches!(refused, Err(StoreError::File(_))));
}

/// Changes of the children, rows and entries of both indexes.
#[derive(Default)]
struct Changes {
    rows: Vec<(Key, DeltaEntry)>,
    by_name: Vec<(Key, DeltaEntry)>,
    by_code: Vec<(Key, DeltaEntry)>,
}

impl Changes {
    fn insert_row(mut self, id: i64, row: &Row) -> Self {
        self.rows.push((key(id), DeltaEntry::inserted(Some(row.clone()))));
        self
    }

    fn insert_entry(mut self, def: &TableDef, index: usize, id: i64, row: &Row) -> Self {
        let missing = missing_values(def);
        let entry = RowRef::of_row(def, &missing, row).index_entry(&def.indexes[index], &key(id));
        let list = if index == 0 { &mut self.by_name } else { &mut self.by_code };
        list.push((entry, DeltaEntry::inserted(None)));
        self
    }
}

/// Appends a commit with these changes to the log, as if a faulty program had written it.
fn commit(files: &SimulatedFiles, def: &TableDef, changes: Changes) {
    let delta = |mut entries: Vec<(Key, DeltaEntry)>| {
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        Delta::from_sorted(entries)
    };
    let writes = TableWrites {
        table: def.id,
        rows: delta(changes.rows),
        indexes: vec![delta(changes.by_name), delta(changes.by_code)],
    };
    let submission = Submission {
        priority: None,
        transaction: coeval_txn::TransactionId::default(),
        party: crate::conflicts::Party {
            transaction: coeval_txn::TransactionId::default(),
            origin: None,
            is_declared_reader: false,
        },
        written: Arc::default(),
        certification: None,
        begin: Version::ZERO,
        snapshot_version: Version::ZERO,
        footprint: Vec::new(),
        large_footprint: None,
        names_age: false,
        catalog_changes: Vec::new(),
        loads: Vec::new(),
        bricks: Default::default(),
        writes: vec![writes],
        snapshot: Arc::new(World::empty()),
        rebuilt: Vec::new(),
        synchronous_commit: crate::replicas::SynchronousCommit::On,
        body_checksum: None,
        body: Vec::new(),
    };
    let (mut body, mut record) = (Vec::new(), Vec::new());
    encode_body(&submission, &mut body);
    encode_batch(Version::new(5), Version::ZERO, [(None, body.as_slice())].into_iter(), &mut record);
    let mut ignore = |_: Lsn, _: &[u8]| Ok::<(), String>(());
    let dir = Path::new(DIR).join("log");
    let mut log = Log::open_with(Arc::new(files.clone()), &dir, Lsn::START, LOG, &mut ignore).unwrap();
    let lsn = log.append(&record).unwrap();
    log.handle().sync(lsn).unwrap();
}

/// What a check says of a database with this commit.
fn problems(changes: impl FnOnce(&TableDef) -> Changes) -> Vec<String> {
    let (files, def) = database();
    commit(&files, &def, changes(&def));
    check(&files).problems.iter().map(Problem::to_string).collect()
}

#[test]
fn a_row_that_fits_in_every_way_is_no_problem() {
    let found = problems(|def| {
        let row = child(def, 50, Some(50), 1);
        Changes::default().insert_row(50, &row).insert_entry(def, 0, 50, &row).insert_entry(def, 1, 50, &row)
    });
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_row_without_its_entry_is_named() {
    let found = problems(|def| {
        let row = child(def, 50, Some(50), 1);
        Changes::default().insert_row(50, &row).insert_entry(def, 1, 50, &row)
    });
    assert_eq!(found, [format!("index by_name of table children: the row at {:?} has no entry", key(50))]);
}

#[test]
fn an_entry_without_its_row_is_named() {
    let found = problems(|def| Changes::default().insert_entry(def, 0, 50, &child(def, 50, Some(50), 1)));
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("index by_name of table children: the entry Key("), "{found:?}");
}

#[test]
fn an_entry_of_another_value_is_a_row_without_an_entry_and_an_entry_without_a_row() {
    let found = problems(|def| {
        let row = child(def, 50, Some(50), 1);
        let other = child(def, 50, Some(51), 1);
        Changes::default()
            .insert_row(50, &row)
            .insert_entry(def, 0, 50, &row)
            .insert_entry(def, 1, 50, &other)
    });
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn a_second_owner_of_a_unique_key_is_named() {
    let found = problems(|def| {
        let row = child(def, 50, Some(7), 1);
        Changes::default().insert_row(50, &row).insert_entry(def, 0, 50, &row).insert_entry(def, 1, 50, &row)
    });
    assert_eq!(found, ["table children: duplicate key value violates unique constraint \"by_code\""]);
}

#[test]
fn null_in_a_not_null_column_and_a_child_without_a_parent_are_named() {
    let found = problems(|def| {
        let row = child(def, 50, None, 99);
        Changes::default().insert_row(50, &row).insert_entry(def, 0, 50, &row).insert_entry(def, 1, 50, &row)
    });
    let expected = [
        format!("table children: NULL in column code of the row at {:?}", key(50)),
        format!("table children: fk of the row at {:?} has no parent", key(50)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_row_under_another_key_is_named() {
    let found = problems(|def| {
        let row = child(def, 51, Some(50), 1);
        Changes::default().insert_row(50, &row).insert_entry(def, 0, 50, &row).insert_entry(def, 1, 50, &row)
    });
    assert_eq!(found, [format!("table children: the row at {:?} belongs under another key", key(50))]);
}

#[test]
fn changes_that_do_not_fit_the_base_are_named() {
    let deleted = |id| (key(id), DeltaEntry::deleted(BasePosition::UNKNOWN));
    let found = problems(|_| Changes { rows: vec![deleted(99)], ..Changes::default() });
    let what = format!("table children: key {:?} is Deleted without regard to the base", key(99));
    assert_eq!(found[0], what);
}

/// Refuses rows whose code is above 10.
#[derive(Debug)]
struct CodeAtMostTen;

impl CheckCompiler for CodeAtMostTen {
    fn compile(&self, _: &TableDef) -> Result<Arc<dyn RowChecks>, String> {
        Ok(Arc::new(CodeAtMostTen))
    }
}

impl RowChecks for CodeAtMostTen {
    fn check(&self, def: &TableDef, row: &Row) -> Result<(), ConstraintError> {
        if row.get(def.layout(), 2).and_then(|value| value.as_i64()).is_some_and(|code| code <= 10) {
            return Ok(());
        }
        let (table, constraint) = (Box::new(def.name.clone()), "small".to_owned());
        Err(ConstraintError::Check { table, constraint })
    }

    fn default_value(&self, _: &TableDef, _: usize) -> Result<Value, ConstraintError> {
        Ok(Value::Null)
    }

    fn generated(&self, _: &TableDef, _: &Row) -> Result<Vec<(usize, Value)>, ConstraintError> {
        Ok(Vec::new())
    }
}

#[test]
fn check_constraints_are_looked_at_if_somebody_says_what_they_mean() {
    let (files, mut def) = database();
    let store = open(&files);
    let small = CheckDef { name: "small".into(), expression: "code <= 10".into(), validity: Validity::Valid };
    def.checks.push(small);
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def))).unwrap();
    tx.commit().unwrap();
    drop(store);
    let files = files.restart();
    assert!(check(&files).is_clean());
    let report = verify(Arc::new(files), Path::new(DIR), Some(Arc::new(CodeAtMostTen))).unwrap();
    assert_eq!(report.problem_count, 10, "{:?}", report.problems);
    assert!(report.problems[0].what.contains("check constraint \"small\""));
}

/// Rows that were there before a constraint NOT VALID may be against it.
#[test]
fn constraints_that_are_not_valid_are_not_looked_at() {
    let (files, mut def) = database();
    let store = open(&files);
    let expression = "code <= 10".into();
    def.checks.push(CheckDef { name: "small".into(), expression, validity: Validity::NotValid });
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def))).unwrap();
    tx.commit().unwrap();
    drop(store);
    let report = verify(Arc::new(files.restart()), Path::new(DIR), Some(Arc::new(CodeAtMostTen))).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
}

fn segment(files: &SimulatedFiles, at: usize) -> PathBuf {
    let dir = Path::new(DIR).join("segments");
    dir.join(&files.list(&dir).unwrap()[at])
}

#[test]
fn a_damaged_chunk_is_named_once_and_the_rest_is_checked_all_the_same() {
    let (files, _) = database();
    let path = segment(&files, 1);
    // The chunk lies at the beginning of the file.
    let place = 20;
    files.damage(&path, place, 1);
    let report = check(&files);
    assert_eq!(report.problem_count, 1, "{:?}", report.problems);
    let Problem { file, offset, .. } = &report.problems[0];
    assert_eq!(file.as_deref(), path.to_str());
    assert!(offset.is_some_and(|offset| offset <= place));
    assert_eq!((report.segments, report.chunks), (4, 4));
}

/// A brick table with two flush rounds, of which the second has strings behind those of the first, and a load in the log.
fn database_of_bricks() -> SimulatedFiles {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let mut hidden = ColumnDef::new("row id", ColumnType::BigInt);
    hidden.state = ColumnState::Hidden;
    let columns = vec![
        ColumnDef::new("id", ColumnType::BigInt).not_null(),
        ColumnDef::new("word", ColumnType::Text),
        hidden,
    ];
    let name = QualifiedName::new("public", "bricks");
    let mut def = TableDef::new(store.new_space_id(), name, columns, vec![2]);
    let dimension = BrickDimension { column: 0, cardinality: 100, range_size: 10, origin: 0 };
    def.bricks = Some(BrickDef { dimensions: vec![dimension], retention: None, replicas: None });
    let begin = || store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    let mut tx = begin();
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    for load in 0..3 {
        let ids: Int64Array = (load * 20..load * 20 + 15).map(Some).collect();
        let words: StringArray = ids.iter().map(|id| id.map(|id| format!("word {id}"))).collect();
        let batch = RecordBatch::try_from_iter([("id", Arc::new(ids) as _), ("word", Arc::new(words) as _)]);
        let mut tx = begin();
        tx.append(def.id, &batch.unwrap(), 0).unwrap();
        tx.commit().unwrap();
        if load < 2 {
            store.checkpoint().unwrap();
        }
    }
    drop(store);
    files.restart()
}

#[test]
fn every_damaged_byte_of_a_flush_round_is_named_once() {
    let files = database_of_bricks();
    assert!(check(&files).is_clean());
    for at in 0..2 {
        let path = segment(&files, at);
        assert!(path.extension().is_some_and(|suffix| suffix == "bricks"));
        for offset in 0..files.len(&path).unwrap() {
            files.damage(&path, offset, 1 << (offset % 8));
            let report = check(&files);
            assert_eq!(report.problem_count, 1, "{offset}: {:?}", report.problems);
            assert_eq!(report.problems[0].file.as_deref(), path.to_str(), "{offset}");
            files.damage(&path, offset, 1 << (offset % 8));
        }
        assert!(check(&files).is_clean());
    }
    let path = segment(&files, 0);
    files.remove(&path).unwrap();
    let problems: Vec<String> = check(&files).problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems, [format!("{}, offset 0: the file is missing", path.display())]);
}

#[test]
fn a_missing_segment_and_a_missing_or_damaged_manifest_are_problems_and_no_errors() {
    let (files, _) = database();
    let path = segment(&files, 0);
    files.remove(&path).unwrap();
    let report = check(&files);
    assert_eq!(report.problem_count, 1);
    assert_eq!(report.problems[0].to_string(), format!("{}, offset 0: the file is missing", path.display()));

    let (files, _) = database();
    let manifest = Path::new(DIR).join("MANIFEST");
    files.damage(&manifest, 100, 1);
    let report = check(&files);
    assert_eq!(
        report.problems[0].to_string(),
        "/db/MANIFEST, offset 0: the contents do not fit the checksum"
    );
    files.remove(&manifest).unwrap();
    let what = check(&files).problems[0].to_string();
    assert!(what.contains("segments/") && what.contains("but /db/MANIFEST is not there"), "{what}");
}

#[test]
fn a_torn_tail_is_counted_and_is_no_problem_but_behind_a_clean_close() {
    let (files, _) = database();
    let path = Path::new(DIR).join("log/00000000000000000000.log");
    let bytes = files.read(&path).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64;
    files.damage(&path, end, 0xff);
    let report = check(&files);
    let named: Vec<_> = report.problems.iter().map(|problem| problem.file.clone()).collect();
    assert_eq!(named, [Some(path.display().to_string())], "{:?}", report.problems);
    // As a crash before the end of the close would leave it.
    files.remove(&Path::new(DIR).join("log/end")).unwrap();
    let report = check(&files);
    assert!(report.is_clean(), "{:?}", report.problems);
    assert_eq!(report.log_records, 2, "the torn record is the one of the clean close");
    assert!(report.torn_tail_bytes > 0);
}

/// A row that somebody gave a number of its own: the sequence of the column will come to it.
#[test]
fn a_sequence_behind_the_values_of_its_column_is_a_warning_and_no_problem() {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let begin = || store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    let (parents, _) = tables(&store);
    let sequence = SequenceDef {
        id: store.new_sequence_id(),
        name: QualifiedName::new("public", "numbers"),
        start: 1,
        increment: 1,
        min: 1,
        max: 1_000_000,
        cycle: false,
        ty: Default::default(),
        owned_by: Some((parents.id, 0)),
        access: Default::default(),
    };
    let mut tx = begin();
    tx.change_catalog(CatalogChange::PutTable(Box::new(parents.clone()))).unwrap();
    tx.change_catalog(CatalogChange::PutSequence(sequence.clone())).unwrap();
    tx.insert(parents.id, row(&parents, &[Value::Int64(1)])).unwrap();
    tx.commit().unwrap();
    store.next_value(&sequence).unwrap();
    assert_eq!(check(&files.copy()).warnings, Vec::<String>::new());
    let mut tx = begin();
    tx.insert(parents.id, row(&parents, &[Value::Int64(5_000)])).unwrap();
    tx.commit().unwrap();
    store.checkpoint().unwrap();
    drop(store);
    let report = check(&files.restart());
    assert!(report.is_clean(), "{:?}", report.problems);
    assert_eq!(report.warnings.len(), 1);
    let expected = "and column id of table parents has 5000: setval() moves it";
    assert!(report.warnings[0].starts_with("sequence numbers goes on at "), "{:?}", report.warnings);
    assert!(report.warnings[0].ends_with(expected), "{:?}", report.warnings);
}
