// SPDX-License-Identifier: Apache-2.0
//! Columns that have what their sequence will give, wherever the sequence is named.

use crate::brick_def::{BrickDef, BrickDimension};
use crate::catalog::{CatalogChange, ColumnDef, ColumnState, QualifiedName, SequenceDef, TableDef};
use crate::files::SimulatedFiles;
use crate::options::{CheckpointPolicy, StoreOptions};
use crate::repair::repair;
use crate::row::RowWriter;
use crate::store::Store;
use crate::transaction::{AccessMode, Transaction};
use crate::types::ColumnType;
use crate::value::Value;
use crate::verify::{VerifyReport, verify};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use coeval_txn::Isolation;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";

fn open(files: &SimulatedFiles) -> Store {
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    Store::open_with(Arc::new(files.clone()), Path::new(DIR), options).unwrap()
}

fn begin(store: &Store) -> Transaction {
    store.begin(Isolation::Snapshot, AccessMode::ReadWrite)
}

fn check(files: &SimulatedFiles) -> VerifyReport {
    verify(Arc::new(files.clone()), Path::new(DIR), None).unwrap()
}

fn change(store: &Store, change: CatalogChange) {
    let mut tx = begin(store);
    tx.change_catalog(change).unwrap();
    tx.commit().unwrap();
}

/// A sequence `sq` from 1 on, or one that goes down from -1.
fn sequence(store: &Store, increment: i64) -> SequenceDef {
    let sequence = SequenceDef {
        id: store.new_sequence_id(),
        name: QualifiedName::new("public", "sq"),
        start: increment,
        increment,
        min: -1_000_000,
        max: 1_000_000,
        cycle: false,
        ty: Default::default(),
        owned_by: None,
        access: Default::default(),
    };
    change(store, CatalogChange::PutSequence(sequence.clone()));
    sequence
}

/// `t (id, v)` with the primary key `id`.
fn table(store: &Store, id: ColumnDef) -> TableDef {
    let columns = vec![id, ColumnDef::new("v", ColumnType::BigInt)];
    TableDef::new(store.new_space_id(), QualifiedName::new("public", "t"), columns, vec![0])
}

fn insert(store: &Store, def: &TableDef, id: i64) {
    let mut writer = RowWriter::new(def.layout());
    [id, 0].iter().for_each(|value| writer.push(Value::Int64(*value).borrow()).unwrap());
    let mut tx = begin(store);
    tx.insert(def.id, writer.finish()).unwrap();
    tx.commit().unwrap();
}

/// A default was no reason to look at a column: only the owner of a sequence was.
#[test]
fn a_column_whose_default_is_nextval_is_looked_at() {
    for (default, is_seen) in [
        ("nextval('sq')", true),
        ("nextval('public.sq')", true),
        ("NEXTVAL('Public.\"sq\"'::REGCLASS)", true),
        ("nextval('other.sq')", false),
        ("nextval('sq') * 10", false),
        ("nextval('sq'", false),
        ("currval('sq')", false),
        ("7", false),
    ] {
        let files = SimulatedFiles::new(1);
        let store = open(&files);
        sequence(&store, 1);
        let mut id = ColumnDef::new("id", ColumnType::BigInt);
        id.default = Some(default.to_owned());
        let def = table(&store, id);
        change(&store, CatalogChange::PutTable(Box::new(def.clone())));
        insert(&store, &def, 50);
        drop(store);
        let report = check(&files.restart());
        assert!(report.is_clean(), "{:?}", report.problems);
        let warning =
            "sequence sq goes on at 1, and column id of table t has 50: setval() moves it".to_owned();
        let expected = if is_seen { vec![warning] } else { Vec::new() };
        assert_eq!(report.warnings, expected, "{default}");
    }
}

/// So is one that a sequence fed before somebody said `OWNED BY NONE`, and a sequence that goes down.
#[test]
fn a_column_that_a_sequence_feeds_is_looked_at_though_it_owns_none() {
    for (id, is_seen) in [(-50, true), (50, false)] {
        let files = SimulatedFiles::new(1);
        let store = open(&files);
        let mut column = ColumnDef::new("id", ColumnType::BigInt);
        column.sequence = Some(sequence(&store, -1).id);
        let def = table(&store, column);
        change(&store, CatalogChange::PutTable(Box::new(def.clone())));
        insert(&store, &def, id);
        drop(store);
        assert_eq!(check(&files.restart()).warnings.len(), usize::from(is_seen));
    }
}

/// They were passed over.
#[test]
fn columns_of_brick_tables_are_looked_at_too() {
    for (id, is_seen) in [(50, true), (0, false)] {
        let files = SimulatedFiles::new(1);
        let store = open(&files);
        let mut hidden = ColumnDef::new("row id", ColumnType::BigInt);
        hidden.state = ColumnState::Hidden;
        let mut number = ColumnDef::new("id", ColumnType::BigInt);
        number.default = Some("nextval('sq')".to_owned());
        sequence(&store, 1);
        let columns = vec![ColumnDef::new("day", ColumnType::BigInt).not_null(), number, hidden];
        let name = QualifiedName::new("public", "b");
        let mut def = TableDef::new(store.new_space_id(), name, columns, vec![2]);
        let day = BrickDimension { column: 0, cardinality: 100, range_size: 10, origin: 0 };
        def.bricks = Some(BrickDef { dimensions: vec![day], retention: None, replicas: None });
        change(&store, CatalogChange::PutTable(Box::new(def.clone())));
        let days: ArrayRef = Arc::new(Int64Array::from(vec![5, 55, 99]));
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![Some(-1), Some(id), None]));
        let batch = RecordBatch::try_from_iter([("day", days), ("id", ids)]).unwrap();
        let mut tx = begin(&store);
        tx.append(def.id, &batch, 0).unwrap();
        tx.commit().unwrap();
        // Rows that were rolled back are none.
        let mut tx = begin(&store);
        tx.append(def.id, &batch, 0).unwrap();
        drop(tx);
        drop(store);
        let report = check(&files.restart());
        let warning = "sequence sq goes on at 1, and column id of table b has 50: setval() moves it";
        assert_eq!(report.warnings, if is_seen { vec![warning.to_owned()] } else { Vec::new() });
    }
}

/// A database with a table without a primary key, one row of which has a number that its sequence will come to.
fn behind_row_ids() -> (SimulatedFiles, TableDef, SequenceDef) {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let mut sequence = sequence(&store, 1);
    let mut id = ColumnDef::new("coeval_row_id", ColumnType::BigInt);
    (id.state, id.sequence) = (ColumnState::Hidden, Some(sequence.id));
    let def = table(&store, id);
    sequence.owned_by = Some((def.id, 0));
    change(&store, CatalogChange::PutTable(Box::new(def.clone())));
    change(&store, CatalogChange::PutSequence(sequence.clone()));
    insert(&store, &def, 1);
    store.checkpoint().unwrap();
    insert(&store, &def, 2);
    drop(store);
    (files.restart(), def, sequence)
}

/// It was a warning that told to use `setval()`, of numbers that nobody sees.
#[test]
fn hidden_row_ids_behind_the_rows_are_a_problem_which_a_repair_mends() {
    let (files, def, sequence) = behind_row_ids();
    let report = check(&files);
    let expected =
        "table t: its hidden row ids go on at 1, and a row has 2: an INSERT will find a duplicate key";
    assert_eq!(report.problems.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    assert_eq!(report.warnings, Vec::<String>::new());

    let repaired = repair(Arc::new(files.clone()), Path::new(DIR)).unwrap();
    assert_eq!(repaired.rebuilt, ["where the hidden row ids of table t go on"]);
    assert!(repaired.lost.is_empty() && repaired.kept.is_empty(), "{repaired:?}");
    assert!(check(&files).is_clean());
    let store = open(&files);
    let next = store.next_value(&sequence).unwrap();
    assert_eq!(next, 3);
    insert(&store, &def, next);
    drop(store);
    let files = files.restart();
    assert!(repair(Arc::new(files.clone()), Path::new(DIR)).unwrap().is_empty());
    assert!(check(&files).is_clean());
}
