// SPDX-License-Identifier: Apache-2.0
//! Scans against a model: whatever the delta holds over whatever chunks, the rows come out once each, newest,
//! in key order.

use super::*;
use crate::catalog::{CatalogChange, ColumnDef, QualifiedName};
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::row::{Row, RowWriter};
use crate::store::Store;
use crate::transaction::{AccessMode, Transaction};
use crate::types::ColumnType;
use crate::value::{Value, value_at};
use arrow::array::{Array, RecordBatch};
use arrow::buffer::BooleanBuffer;
use coeval_txn::Isolation;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

/// Columns of all shapes that merging treats differently: numbers, with NULLs, text kept inline and not, bits,
/// fixed bytes.
fn columns() -> Vec<ColumnDef> {
    let mut id = ColumnDef::new("id", ColumnType::BigInt);
    id.not_null = true;
    vec![
        id,
        ColumnDef::new("number", ColumnType::Int),
        ColumnDef::new("amount", ColumnType::Numeric { precision: 12, scale: 2 }),
        ColumnDef::new("name", ColumnType::Text),
        ColumnDef::new("flag", ColumnType::Boolean),
        ColumnDef::new("token", ColumnType::Uuid),
    ]
}

/// A row whose values all follow from its key and its generation.
fn values(id: i64, generation: u8) -> Vec<Value> {
    let mix = (id as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(generation.into());
    let or_null = |value: Value, part: u64| if part.is_multiple_of(7) { Value::Null } else { value };
    let long = if mix.is_multiple_of(3) { "" } else { " and a tail that no view holds inline" };
    vec![
        Value::Int64(id),
        or_null(Value::Int32(mix as i32), mix),
        or_null(Value::Decimal(i128::from(mix % 1_000_000)), mix >> 8),
        or_null(Value::from(format!("{generation}-{}{long}", mix % 1_000).as_str()), mix >> 16),
        or_null(Value::Boolean(mix & 1 == 0), mix >> 24),
        or_null(Value::Uuid([(mix >> 32) as u8; 16]), mix >> 32),
    ]
}

fn row(def: &TableDef, id: i64, generation: u8) -> Row {
    let mut writer = RowWriter::new(def.layout());
    for value in values(id, generation) {
        writer.push(value.borrow()).unwrap();
    }
    writer.finish()
}

struct Fixture {
    store: Store,
    def: TableDef,
    /// Generation by key.
    model: BTreeMap<i64, u8>,
    dice: StdRng,
}

impl Fixture {
    fn new(seed: u64, chunk_rows: usize) -> Self {
        let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
        let store = Store::in_memory_tuned(
            options,
            Sizes { chunk_rows, direct_load_rows_min: 1_000_000, ..Sizes::default() },
        );
        let name = QualifiedName::new("public", "t");
        let def = TableDef::new(store.new_space_id(), name, columns(), vec![0]);
        let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
        tx.commit().unwrap();
        Self { store, def, model: BTreeMap::new(), dice: StdRng::seed_from_u64(seed) }
    }

    fn key(&self, id: i64) -> Key {
        self.def.key_of(|_| crate::value::ValueRef::Int64(id))
    }

    fn insert_all(&mut self, ids: impl Iterator<Item = i64>) {
        let mut tx = self.store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        for id in ids {
            tx.insert(self.def.id, row(&self.def, id, 0)).unwrap();
            self.model.insert(id, 0);
        }
        tx.commit().unwrap();
    }

    /// Inserts, updates and deletes at random keys below `keys`, into this transaction and the model.
    fn change(&mut self, tx: &mut Transaction, count: usize, keys: i64, generation: u8) {
        for _ in 0..count {
            let id = self.dice.random_range(0..keys);
            let new = row(&self.def, id, generation);
            if !self.model.contains_key(&id) {
                tx.insert(self.def.id, new).unwrap();
                self.model.insert(id, generation);
            } else if self.dice.random_ratio(1, 4) {
                tx.delete(self.def.id, &self.key(id)).unwrap();
                self.model.remove(&id);
            } else {
                tx.update(self.def.id, &self.key(id), new).unwrap();
                self.model.insert(id, generation);
            }
        }
    }

    fn checkpoint(&self) {
        crate::checkpoint::run(&self.store.shared).unwrap();
    }

    /// The scan of this transaction's view, in `parts` parts, against the model.
    fn check(&mut self, tx: &Transaction, parts: usize) {
        let view = tx.view(self.def.id).unwrap();
        let mut projection: Vec<usize> = (0..self.def.columns.len()).collect();
        if self.dice.random_ratio(1, 3) {
            projection = vec![3, 1];
        }
        let mut expected = self.model.iter();
        for part in view.partition(parts) {
            for batch in view.scan(part, &projection, |_: &ChunkStats| true) {
                let batch = batch.unwrap();
                assert!(batch.num_rows() > 0 && batch.num_rows() <= 2 * SCAN_BATCH_ROWS);
                for index in 0..batch.num_rows() {
                    let (&id, &generation) = expected.next().expect("no row too many");
                    let values = values(id, generation);
                    for (array, &column) in batch.columns().iter().zip(&projection) {
                        assert_eq!(value_at(array, index).to_owned(), values[column], "row {id}");
                    }
                }
            }
        }
        assert_eq!(expected.next(), None, "no row too few");
    }

    /// The windows of this transaction's view against the model: both sides of each together, and rows of both that the dice pick.
    fn check_windows(&mut self, tx: &Transaction) {
        let view = tx.view(self.def.id).unwrap();
        let projection: Vec<usize> = (0..self.def.columns.len()).collect();
        let mut seen = BTreeMap::new();
        for part in view.partition(2) {
            let mut scan = view.scan(part, &projection, |_: &ChunkStats| true);
            while let Some(window) = scan.next_window().unwrap() {
                let rows = window.rows();
                let before = seen.len();
                match window {
                    ScanWindow::Plain(batch) => seen.extend(rows_of(&batch, |_| true)),
                    ScanWindow::Changed(changed) => {
                        let (old, new) = (changed.old_rows().unwrap(), changed.new_rows().unwrap());
                        let places = changed.new_places();
                        let new = new.slice(places.start, places.len());
                        seen.extend(rows_of(&old, |row| changed.unchanged().value(row)));
                        seen.extend(rows_of(&new, |_| true));
                        let share = [0.0, 0.02, 0.5, 0.98][self.dice.random_range(0..4)];
                        let mut pick = |_: usize| self.dice.random_bool(share);
                        let picked_new = BooleanBuffer::collect_bool(new.num_rows(), &mut pick);
                        let picked_old = BooleanBuffer::collect_bool(old.num_rows(), &mut pick);
                        let picked_old = &picked_old & changed.unchanged();
                        check_picked(&changed, (&old, &picked_old), (&new, &picked_new));
                    }
                }
                assert_eq!(seen.len() - before, rows, "a window says how many rows it has");
            }
        }
        let expected = self.model.iter().map(|(&id, &generation)| (id, values(id, generation)));
        assert!(seen.into_iter().eq(expected), "windows have every row once, the newest");
    }
}

/// These rows of a batch, by id.
fn rows_of(batch: &RecordBatch, wanted: impl Fn(usize) -> bool) -> BTreeMap<i64, Vec<Value>> {
    let values = |row: usize| -> Vec<Value> {
        batch.columns().iter().map(|array| value_at(array, row).to_owned()).collect()
    };
    let rows = (0..batch.num_rows()).filter(|row| wanted(*row));
    rows.map(|row| (value_at(batch.column(0), row).as_i64().unwrap(), values(row))).collect()
}

/// What is picked of both sides comes in key order, all columns or the first ones.
fn check_picked(
    changed: &ChangedRows,
    (old, picked_old): (&RecordBatch, &BooleanBuffer),
    (new, picked_new): (&RecordBatch, &BooleanBuffer),
) {
    let mut expected = rows_of(old, |row| picked_old.value(row));
    expected.extend(rows_of(new, |row| picked_new.value(row)));
    for count in [old.num_columns(), 2, 0] {
        let columns = changed.picked(count, picked_old, picked_new).unwrap();
        assert_eq!(columns.len(), count);
        for (place, column) in columns.iter().enumerate() {
            let values = (0..column.len()).map(|row| value_at(column, row).to_owned());
            assert!(values.eq(expected.values().map(|row| row[place].clone())), "column {place}");
        }
    }
}

#[test]
fn a_scan_gives_every_row_once_in_key_order() {
    for seed in 0..12 {
        let mut fixture = Fixture::new(seed, 10_000);
        let chunk_keys = fixture.dice.random_range(0..30_000);
        fixture.insert_all((0..chunk_keys).map(|id| id * 3));
        fixture.checkpoint();
        for generation in 1..4 {
            let store = fixture.store.clone();
            let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
            let count = [3, 400, 5_000][fixture.dice.random_range(0..3)];
            fixture.change(&mut tx, count, chunk_keys * 3 + 2_000, generation);
            // The writer's own rows lie on top; then the same rows, committed.
            fixture.check(&tx, 2);
            fixture.check_windows(&tx);
            tx.commit().unwrap();
            let reader = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
            fixture.check_windows(&reader);
            for parts in [1, 3] {
                fixture.check(&reader, parts);
            }
        }
    }
}

#[test]
fn a_window_without_changes_is_slices_of_its_chunk() {
    let mut fixture = Fixture::new(4, 65_536);
    fixture.insert_all(0..40_000);
    fixture.checkpoint();
    let store = fixture.store.clone();
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.update(fixture.def.id, &fixture.key(9_000), row(&fixture.def, 9_000, 1)).unwrap();
    fixture.model.insert(9_000, 1);
    fixture.check_windows(&tx);
    let view = tx.view(fixture.def.id).unwrap();
    let part = view.partition(1).pop().unwrap();
    let mut scan = view.scan(part, &[0], |_: &ChunkStats| true);
    let mut changed = Vec::new();
    while let Some(window) = scan.next_window().unwrap() {
        changed.push(matches!(window, ScanWindow::Changed(_)));
    }
    assert_eq!(changed, [false, true, false, false, false]);
}

#[test]
fn a_table_that_is_only_delta_is_cut_into_parts_too() {
    let mut fixture = Fixture::new(1, 10_000);
    fixture.insert_all(0..150_000);
    let reader = fixture.store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
    let view = reader.view(fixture.def.id).unwrap();
    assert_eq!(view.partition(2).len(), 2);
    fixture.check(&reader, 2);
}

#[test]
fn a_chunk_that_is_passed_over_leaves_its_changed_rows() {
    let mut fixture = Fixture::new(2, 100);
    fixture.insert_all(0..1_000);
    fixture.checkpoint();
    let store = fixture.store.clone();
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    for id in [5, 555, 999] {
        tx.update(fixture.def.id, &fixture.key(id), row(&fixture.def, id, 1)).unwrap();
    }
    tx.insert(fixture.def.id, row(&fixture.def, 2_000, 1)).unwrap();
    tx.delete(fixture.def.id, &fixture.key(7)).unwrap();
    let view = tx.view(fixture.def.id).unwrap();
    let mut found = Vec::new();
    for part in view.partition(1) {
        let mut scan = view.scan(part, &[0], |_: &ChunkStats| false);
        for batch in scan.by_ref() {
            let batch = batch.unwrap();
            let ids = (0..batch.num_rows()).map(|index| value_at(batch.column(0), index).as_i64().unwrap());
            found.extend(ids);
        }
        assert_eq!(scan.counters().chunks_read, 0);
        assert_eq!(scan.counters().chunks_pruned, 10);
    }
    assert_eq!(found, [5, 555, 999, 2_000]);
}

#[test]
fn bounds_of_the_base_are_estimates_once_there_is_a_delta() {
    let mut fixture = Fixture::new(3, 100);
    fixture.insert_all(10..20);
    fixture.checkpoint();
    let store = fixture.store.clone();
    let summary = |table| {
        let transaction = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
        Arc::clone(transaction.view(table).unwrap().summary())
    };
    let before = summary(fixture.def.id);
    assert!(before.exact);
    assert_eq!(before.columns[0].max, Some(Value::Int64(19)));
    assert!(Arc::ptr_eq(&before, &summary(fixture.def.id)), "it is kept with the version");
    fixture.insert_all(30..31);
    let after = summary(fixture.def.id);
    assert!(!after.exact);
    assert_eq!(after.rows, 11);
    assert_eq!(after.columns[0].max, Some(Value::Int64(19)));
    assert_eq!(after.columns[0].null_count, Some(0), "NOT NULL says so");
    assert_eq!(after.columns[1].null_count, None);
}
