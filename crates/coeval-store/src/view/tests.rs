// SPDX-License-Identifier: Apache-2.0
//! Scans against a model: whatever the delta holds over whatever chunks, the rows come out once each, newest,
//! in key order.

use super::codes::texts_of;
use super::*;
use crate::catalog::{CatalogChange, ColumnDef, QualifiedName};
use crate::files::SimulatedFiles;
use crate::log::LogOptions;
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::row::{Row, RowWriter};
use crate::store::Store;
use crate::transaction::{AccessMode, Transaction};
use crate::types::ColumnType;
use crate::value::{Value, value_at};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter, filter_record_batch};
use arrow::datatypes::{DataType, Decimal128Type, Int32Type, UInt16Type};
use coeval_txn::Isolation;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::path::Path;

/// The column of decimals.
const AMOUNT: usize = 2;

/// The column of texts.
const NAME: usize = 3;

/// Columns of which new values are put into the places of old ones; the name only where it is read as codes.
const WITH_PLACES: [usize; 5] = [0, 4, NAME, 1, 2];

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

fn options() -> StoreOptions {
    StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() }
}

fn sizes(chunk_rows: usize) -> Sizes {
    Sizes { chunk_rows, direct_load_rows_min: 1_000_000, ..Sizes::default() }
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
        Self::over(seed, Store::in_memory_tuned(options(), sizes(chunk_rows)))
    }

    /// The same with files, which have texts as dictionaries.
    fn with_files(seed: u64, chunk_rows: usize) -> Self {
        let (files, log) = (Arc::new(SimulatedFiles::new(seed)), LogOptions::default());
        let store = Store::open_tuned(files, Path::new("/db"), options(), log, sizes(chunk_rows));
        Self::over(seed, store.unwrap())
    }

    fn over(seed: u64, store: Store) -> Self {
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

    /// The scan of this transaction's view, in `parts` parts, against the model; names as codes or not, and amounts as 64-bit integers or not.
    fn check(&mut self, tx: &Transaction, parts: usize) {
        let view = tx.view(self.def.id).unwrap();
        let all: Vec<usize> = (0..self.def.columns.len()).collect();
        let projections: [&[usize]; 4] = [&all, &[NAME, 1], &WITH_PLACES, &[4, 2]];
        let projection = projections[self.dice.random_range(0..4)];
        let name = projection.iter().position(|column| *column == NAME);
        let coded: Vec<usize> = name.filter(|_| self.dice.random()).into_iter().collect();
        let amount = projection.iter().position(|column| *column == AMOUNT);
        let narrow: Vec<usize> = amount.filter(|_| self.dice.random()).into_iter().collect();
        let mut expected = self.model.iter();
        for part in view.partition(parts) {
            let scan = view.scan(part, projection, |_: &ChunkStats| true);
            for batch in scan.with_codes(&coded).with_narrow(&narrow) {
                let batch = batch.unwrap();
                let are_narrow =
                    |place: &usize| batch.column(*place).data_type() == &DataType::Decimal64(12, 2);
                assert!(narrow.iter().all(are_narrow));
                assert!(batch.num_rows() > 0 && batch.num_rows() <= 2 * SCAN_BATCH_ROWS);
                let columns: Vec<ArrayRef> =
                    batch.columns().iter().map(|column| texts_of(column).unwrap()).collect();
                for index in 0..batch.num_rows() {
                    let (&id, &generation) = expected.next().expect("no row too many");
                    let values = values(id, generation);
                    for (array, &column) in columns.iter().zip(projection) {
                        assert_eq!(value_at(array, index).to_owned(), values[column], "row {id}");
                    }
                }
            }
        }
        assert_eq!(expected.next(), None, "no row too few");
    }

    /// The windows of this transaction's view against the model: both sides of each together, and rows of both that the dice pick, without
    /// codes and with them, with decimals of both kinds, of all columns and of those into whose places new values are put.
    fn check_windows(&mut self, tx: &Transaction) {
        let all: Vec<usize> = (0..self.def.columns.len()).collect();
        for projection in [all.as_slice(), &WITH_PLACES, &[0, 2]] {
            self.check_windows_of(tx, projection, &[], &[]);
            let place_of = |wanted: usize| projection.iter().position(|column| *column == wanted);
            let (name, amount) = (place_of(NAME), place_of(AMOUNT));
            if let Some(name) = name {
                self.check_windows_of(tx, projection, &[name], &[]);
            }
            if let Some(amount) = amount {
                self.check_windows_of(tx, projection, &[], &[amount]);
            }
        }
    }

    fn check_windows_of(
        &mut self,
        tx: &Transaction,
        projection: &[usize],
        coded: &[usize],
        narrow: &[usize],
    ) {
        let view = tx.view(self.def.id).unwrap();
        let mut seen = BTreeMap::new();
        for part in view.partition(2) {
            let scan = view.scan(part, projection, |_: &ChunkStats| true);
            let late: Vec<usize> = (1..projection.len()).filter(|_| self.dice.random()).collect();
            let mut scan = scan.with_codes(coded).with_narrow(narrow).with_late(&late);
            while let Some(window) = scan.next_window().unwrap() {
                let rows = window.rows();
                let before = seen.len();
                match window {
                    ScanWindow::Plain(plain) => {
                        let marked = BooleanBuffer::collect_bool(rows, |_| self.dice.random());
                        seen.extend(rows_of(&with_late(plain, &marked), |_| true));
                    }
                    ScanWindow::Changed(changed) => {
                        let old = changed.old_rows().unwrap();
                        let new = changed.new_rows(changed.new_places()).unwrap();
                        assert!(old.num_rows().max(new.num_rows()) <= SCAN_BATCH_ROWS);
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
        let projected = |values: Vec<Value>| -> Vec<Value> {
            projection.iter().map(|column| values[*column].clone()).collect()
        };
        let expected = self.model.iter().map(|(&id, &generation)| (id, projected(values(id, generation))));
        assert!(seen.into_iter().eq(expected), "windows have every row once, the newest");
    }
}

/// These rows of a batch, by id.
fn rows_of(batch: &RecordBatch, wanted: impl Fn(usize) -> bool) -> BTreeMap<i64, Vec<Value>> {
    let columns: Vec<ArrayRef> = batch.columns().iter().map(|column| texts_of(column).unwrap()).collect();
    let values =
        |row: usize| -> Vec<Value> { columns.iter().map(|array| value_at(array, row).to_owned()).collect() };
    let rows = (0..batch.num_rows()).filter(|row| wanted(*row));
    rows.map(|row| (value_at(batch.column(0), row).as_i64().unwrap(), values(row))).collect()
}

/// All rows of a window. Columns that come late have the same values there as if only marked rows had been asked for.
fn with_late(plain: PlainRows, marked: &BooleanBuffer) -> RecordBatch {
    let are_marked = BooleanArray::new(marked.clone(), None);
    let mut columns = filter_record_batch(plain.batch(), &are_marked).unwrap().columns().to_vec();
    plain.put_late(&mut columns, Some(marked)).unwrap();
    let all = plain.into_batch().unwrap();
    assert_eq!(columns, filter_record_batch(&all, &are_marked).unwrap().columns());
    all
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
            assert_eq!(column.data_type(), old.column(place).data_type());
            let column = texts_of(column).unwrap();
            let values = (0..column.len()).map(|row| value_at(column.as_ref(), row).to_owned());
            assert!(values.eq(expected.values().map(|row| row[place].clone())), "column {place}");
        }
    }
}

#[test]
fn a_scan_gives_every_row_once_in_key_order() {
    for seed in 0..12 {
        let make = if seed % 2 == 0 { Fixture::new } else { Fixture::with_files };
        let mut fixture = make(seed, 10_000);
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

/// The codes of a scan of names, and what they are codes of.
fn coded_names(fixture: &Fixture, tx: &Transaction) -> Vec<RecordBatch> {
    let view = tx.view(fixture.def.id).unwrap();
    let part = view.partition(1).remove(0);
    let batches = view.scan(part, &[NAME], |_: &ChunkStats| true).with_codes(&[0]);
    batches.collect::<Result<_, _>>().unwrap()
}

fn texts(batch: &RecordBatch) -> ArrayRef {
    texts_behind(batch.column(0))
}

fn texts_behind(codes: &ArrayRef) -> ArrayRef {
    Arc::clone(codes.as_dictionary::<UInt16Type>().values())
}

#[test]
fn batches_of_a_chunk_have_codes_of_the_same_texts() {
    let mut fixture = Fixture::with_files(4, 20_000);
    fixture.insert_all(0..20_000);
    fixture.checkpoint();
    let store = fixture.store.clone();
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    let batches = coded_names(&fixture, &tx);
    let entries = texts(&batches[0]);
    assert_eq!(batches.len(), 3);
    assert!(batches.iter().all(|batch| Arc::ptr_eq(&texts(batch), &entries)));
    assert!(entries.len() <= 2_001, "a thousand names, short and long, and none: {}", entries.len());
    assert!(Arc::ptr_eq(&texts(&coded_names(&fixture, &tx)[0]), &entries), "they stay in memory");
    // New rows have texts behind those of the chunk.
    tx.update(fixture.def.id, &fixture.key(5), row(&fixture.def, 5, 1)).unwrap();
    tx.insert(fixture.def.id, row(&fixture.def, 30_000, 1)).unwrap();
    let merged = coded_names(&fixture, &tx);
    assert_eq!(texts(&merged[0]).len(), entries.len() + 1);
    assert!(merged[..3].iter().all(|batch| Arc::ptr_eq(&texts(batch), &texts(&merged[0]))));
}

/// To break it: number the texts of a chunk and its new rows together, however many there are.
#[test]
fn more_texts_than_codes_are_numbered_batch_by_batch() {
    let mut fixture = Fixture::with_files(5, 200);
    fixture.insert_all((0..200).map(|id| id * 1_000));
    fixture.checkpoint();
    let store = fixture.store.clone();
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    for id in 1_001..1_500 {
        tx.insert(fixture.def.id, row(&fixture.def, id, 0)).unwrap();
    }
    // All of them come before the chunk's first row, more than one window has room for.
    for id in -70_000..0 {
        tx.insert(fixture.def.id, row(&fixture.def, id, 0)).unwrap();
    }
    let batches = coded_names(&fixture, &tx);
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 200 + 499 + 70_000);
    let expected = (-70_000..0).chain([0, 1_000]).map(|id| values(id, 0)[NAME].clone());
    let found = batches.iter().flat_map(|batch| {
        let names = texts_of(batch.column(0)).unwrap();
        (0..names.len()).map(move |index| value_at(names.as_ref(), index).to_owned()).collect::<Vec<_>>()
    });
    assert!(found.zip(expected).all(|(found, expected)| found == expected));
    fixture.model.extend((1_001..1_500).chain(-70_000..0).map(|id| (id, 0)));
    fixture.check_windows(&tx);
}

/// To break it: give either side texts of its own.
#[test]
fn both_sides_of_a_window_have_codes_of_the_same_texts() {
    let mut fixture = Fixture::with_files(6, 20_000);
    fixture.insert_all((0..20_000).map(|id| id * 2));
    fixture.checkpoint();
    let store = fixture.store.clone();
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    fixture.change(&mut tx, 2_000, 39_999, 1);
    let view = tx.view(fixture.def.id).unwrap();
    let part = view.partition(1).remove(0);
    let mut scan = view.scan(part, &[NAME], |_: &ChunkStats| true).with_codes(&[0]);
    let mut seen: Vec<ArrayRef> = Vec::new();
    while let Some(window) = scan.next_window().unwrap() {
        let ScanWindow::Changed(changed) = window else { panic!("rows have changed everywhere") };
        let new = changed.new_rows(0..changed.new_row_count()).unwrap();
        let all_new = BooleanBuffer::new_set(changed.new_places().len());
        let picked = changed.picked(1, changed.unchanged(), &all_new).unwrap();
        seen.extend([texts(&changed.old_rows().unwrap()), texts(&new), texts_behind(&picked[0])]);
    }
    assert_eq!(seen.len(), 9, "three windows");
    assert!(seen.iter().all(|texts| Arc::ptr_eq(texts, &seen[0])));
}

#[test]
fn a_window_without_changes_is_slices_of_its_chunk() {
    let mut fixture = Fixture::new(4, 65_536);
    fixture.insert_all(0..40_000);
    fixture.checkpoint();
    let store = fixture.store.clone();
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.delete(fixture.def.id, &fixture.key(9_000)).unwrap();
    fixture.model.remove(&9_000);
    fixture.check_windows(&tx);
    assert_eq!(changed_windows(&fixture, &tx, &[0], &[]), [false, true, false, false, false]);
}

/// Which windows of a scan of these columns have rows that are not read, or new rows beside them.
fn changed_windows(fixture: &Fixture, tx: &Transaction, projection: &[usize], coded: &[usize]) -> Vec<bool> {
    let view = tx.view(fixture.def.id).unwrap();
    let part = view.partition(1).pop().unwrap();
    let mut scan = view.scan(part, projection, |_: &ChunkStats| true).with_codes(coded);
    let mut changed = Vec::new();
    while let Some(window) = scan.next_window().unwrap() {
        changed.push(matches!(window, ScanWindow::Changed(_)));
    }
    changed
}

/// To break it: give the rows of a window that were updated beside it.
#[test]
fn new_values_are_in_the_places_of_old_ones() {
    let mut fixture = Fixture::with_files(7, 20_000);
    fixture.insert_all(0..20_000);
    fixture.checkpoint();
    let store = fixture.store.clone();
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    for id in (0..20_000).step_by(7) {
        tx.update(fixture.def.id, &fixture.key(id), row(&fixture.def, id, 1)).unwrap();
        fixture.model.insert(id, 1);
    }
    for parts in [1, 2] {
        fixture.check(&tx, parts);
    }
    fixture.check_windows(&tx);
    assert_eq!(changed_windows(&fixture, &tx, &WITH_PLACES, &[2]), [false; 3]);
    assert_eq!(changed_windows(&fixture, &tx, &WITH_PLACES, &[]), [true; 3], "texts have no places");
    // A row that was deleted and comes back is in its place again; one that is gone is left out.
    tx.delete(fixture.def.id, &fixture.key(5)).unwrap();
    tx.delete(fixture.def.id, &fixture.key(17_000)).unwrap();
    tx.insert(fixture.def.id, row(&fixture.def, 5, 1)).unwrap();
    fixture.model.insert(5, 1);
    fixture.model.remove(&17_000);
    fixture.check_windows(&tx);
    assert_eq!(changed_windows(&fixture, &tx, &WITH_PLACES, &[2]), [false, false, true]);
}

/// To break it: take all columns of a row that was updated for changed.
#[test]
fn a_column_that_no_update_has_changed_is_that_of_the_chunk() {
    let mut fixture = Fixture::with_files(8, 20_000);
    fixture.insert_all(0..20_000);
    fixture.checkpoint();
    let store = fixture.store.clone();
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    let batches = |tx: &Transaction| {
        let view = tx.view(fixture.def.id).unwrap();
        let part = view.partition(1).remove(0);
        let batches = view.scan(part, &[0, 1, NAME, 5], |_: &ChunkStats| true).with_codes(&[2]);
        batches.collect::<Result<Vec<RecordBatch>, _>>().unwrap()
    };
    let before = batches(&tx);
    for id in (0..20_000).step_by(50) {
        let mut new = values(id, 0);
        new[1] = Value::Int32(7);
        let mut writer = RowWriter::new(fixture.def.layout());
        new.iter().for_each(|value| writer.push(value.borrow()).unwrap());
        tx.update(fixture.def.id, &fixture.key(id), writer.finish()).unwrap();
    }
    let behind = batches(&tx);
    assert_eq!(before.len(), behind.len());
    for (before, behind) in before.iter().zip(&behind) {
        let is_same = |place: usize| behind.column(place).to_data().ptr_eq(&before.column(place).to_data());
        assert_eq!([1, 2, 3].map(is_same), [false, true, true]);
        // Of integers in few bytes arrays are made each time.
        assert_eq!(before.column(0), behind.column(0));
        assert!(Arc::ptr_eq(&texts_behind(before.column(2)), &texts_behind(behind.column(2))));
    }
    let sevens = behind.iter().flat_map(|batch| {
        let numbers = batch.column(1).as_primitive::<Int32Type>().clone();
        (0..numbers.len()).filter(move |row| numbers.is_valid(*row) && numbers.value(*row) == 7)
    });
    assert_eq!(sevens.count(), 400);
}

/// To break it: make arrays of all columns when rows are read.
#[test]
fn columns_that_come_late_hold_zeros_until_it_is_known_which_rows_are_left() {
    let mut fixture = Fixture::with_files(9, 20_000);
    fixture.insert_all(0..20_000);
    fixture.checkpoint();
    let reader = fixture.store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
    let view = reader.view(fixture.def.id).unwrap();
    let part = view.partition(1).remove(0);
    let mut scan = view.scan(part, &[0, AMOUNT], |_: &ChunkStats| true).with_late(&[1]);
    let mut rows = BTreeMap::new();
    while let Some(window) = scan.next_window().unwrap() {
        let ScanWindow::Plain(plain) = window else { panic!("nothing has changed") };
        assert!(plain.has_late());
        let amounts = plain.batch().column(1).as_primitive::<Decimal128Type>();
        assert!(amounts.null_count() == 0 && amounts.values().iter().all(|amount| *amount == 0));
        let marked = BooleanBuffer::collect_bool(plain.batch().num_rows(), |row| row % 9 == 4);
        let mut columns = plain.batch().columns().to_vec();
        plain.put_late(&mut columns, Some(&marked)).unwrap();
        let all = plain.into_batch().unwrap();
        let expected = filter(all.column(1), &BooleanArray::new(marked, None)).unwrap();
        assert_eq!(&columns[1], &expected);
        rows.extend(rows_of(&all, |_| true));
    }
    let expected = |id| [0, AMOUNT].map(|column| values(id, 0)[column].clone()).to_vec();
    assert!(rows.into_iter().eq((0..20_000).map(|id| (id, expected(id)))));
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

/// Break: give each part the pieces that are behind those of the one before.
#[test]
fn parts_that_are_dealt_out_share_rows_that_lie_together() {
    let mut fixture = Fixture::new(7, 100);
    fixture.insert_all(0..1_000);
    fixture.checkpoint();
    fixture.insert_all(2_000..2_030);
    let reader = fixture.store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
    let view = reader.view(fixture.def.id).unwrap();
    // Two chunks beside each other, in the middle of the table.
    let is_wanted = |stats: &ChunkStats| {
        (Some(Value::Int64(400))..=Some(Value::Int64(599))).contains(&stats.columns[0].max)
    };
    for part in view.dealt(2) {
        let wanted = view.scan(part, &[0], is_wanted).map(|batch| batch.unwrap().num_rows());
        assert_eq!(wanted.sum::<usize>(), 100);
    }
    let mut all = Vec::new();
    for part in view.dealt(3) {
        let mut ids = Vec::new();
        for batch in view.scan(part, &[0], |_: &ChunkStats| true) {
            let batch = batch.unwrap();
            let rows = 0..batch.num_rows();
            ids.extend(rows.map(|index| value_at(batch.column(0), index).as_i64().unwrap()));
        }
        assert!(ids.is_sorted() && (300..=430).contains(&ids.len()), "{} rows", ids.len());
        all.extend(ids);
    }
    all.sort_unstable();
    assert!(all.into_iter().eq(fixture.model.keys().copied()));
    assert_eq!(view.dealt(100).len(), 11, "ten chunks, and new rows behind them");
    let nothing = Fixture::new(8, 100);
    let reader = nothing.store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
    assert_eq!(reader.view(nothing.def.id).unwrap().dealt(2).len(), 1);
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
    let found = |may_match: fn(&ChunkStats) -> bool| {
        let view = tx.view(fixture.def.id).unwrap();
        let part = view.partition(1).remove(0);
        let mut scan = view.scan(part, &[0], may_match);
        let mut found = Vec::new();
        for batch in scan.by_ref() {
            let batch = batch.unwrap();
            let ids = (0..batch.num_rows()).map(|index| value_at(batch.column(0), index).as_i64().unwrap());
            found.extend(ids);
        }
        assert_eq!(scan.counters().chunks_read, 0);
        assert_eq!(scan.counters().chunks_pruned, 10);
        assert_eq!(scan.counters().delta_rows, found.len());
        found
    };
    let is_no_chunk = |stats: &ChunkStats| stats.rows < 100;
    assert_eq!(found(is_no_chunk), [5, 555, 999, 2_000]);
    let is_above = |stats: &ChunkStats| stats.rows < 100 && stats.columns[0].max >= Some(Value::Int64(999));
    assert_eq!(found(is_above), [999, 2_000], "bounds of new rows are asked, too");
    assert!(found(|_| false).is_empty());
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

#[test]
fn a_short_chunk_has_its_share_of_a_sample() {
    let mut fixture = Fixture::new(4, 100);
    fixture.insert_all(0..110);
    fixture.checkpoint();
    let reader = fixture.store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
    let sample = reader.view(fixture.def.id).unwrap().sample(&[0], 22).unwrap();
    let ids: Vec<i64> = (0..sample.batch.num_rows())
        .map(|row| value_at(sample.batch.column(0), row).as_i64().unwrap())
        .collect();
    assert!(!sample.is_whole);
    assert!((20..=24).contains(&ids.len()), "{ids:?}");
    assert!(ids.iter().filter(|id| **id >= 100).count() <= 3, "{ids:?}");
}

/// Of 1,050 rows before they are in chunks of a hundred, and in these: some of them, and all that are looked at.
#[test]
fn rows_of_a_sample_stand_beside_their_neighbours() {
    let mut fixture = Fixture::new(5, 100);
    fixture.insert_all(0..1_050);
    let ids = |batch: &RecordBatch| -> Vec<i64> {
        (0..batch.num_rows()).map(|row| value_at(batch.column(0), row).as_i64().unwrap()).collect()
    };
    for place in ["new", "in chunks"] {
        for count in [60, 2_000] {
            let reader = fixture.store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
            let view = reader.view(fixture.def.id).unwrap();
            let (sample, neighbours) = view.sample_with_neighbours(&[0], count).unwrap();
            let (ids, others) = (ids(&sample.batch), ids(&neighbours));
            assert_eq!(ids.len(), others.len(), "{count} {place}");
            assert!(ids.len() >= 50, "{count} {place}: {ids:?}");
            let are_beside = ids.iter().zip(&others).all(|(id, other)| id.abs_diff(*other) == 1);
            assert!(are_beside, "{count} {place}: {ids:?} {others:?}");
        }
        fixture.checkpoint();
    }
}
