// SPDX-License-Identifier: Apache-2.0
//! For tests: random transactions, definitions, bulk loads and sequences against a store and a model of it.

use crate::catalog::{
    CatalogChange, ColumnDef, IndexDef, QualifiedName, SequenceDef, TableDef, Uniqueness, ViewDef,
};
use crate::column::ColumnBuilder;
use crate::cursor::SpaceCursor;
use crate::error::StoreError;
use crate::ids::{SequenceId, SpaceId};
use crate::key::{Key, KeyWriter};
use crate::range::{Direction, KeyRange};
use crate::row::RowWriter;
use crate::store::{SetValue, Store};
use crate::table::{RowRef, Table};
use crate::transaction::{AccessMode, Transaction};
use crate::types::ColumnType;
use crate::value::Value;
use crate::view::TableView;
use crate::world::World;
use arrow::array::RecordBatch;
use coeval_txn::Isolation;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Row ids are below this, so that rows are met again.
const IDS: i64 = 400;
const TABLES_MAX: usize = 4;

/// What a store must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    tables: BTreeMap<SpaceId, TableModel>,
    views: BTreeMap<String, String>,
    sequences: BTreeMap<SequenceId, SequenceDef>,
}

#[derive(Clone, Debug)]
struct TableModel {
    def: TableDef,
    /// Values of all columns of the definition, by key.
    rows: BTreeMap<Key, Vec<Value>>,
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is acknowledged.
    Committed,
    /// It has no effect.
    Refused,
    /// Nobody knows; the log has stopped.
    Unknown(String),
}

/// Random steps and what they must lead to.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) dice: StdRng,
    pub(crate) model: Model,
    /// The model if the last step, whose fate is unknown, took effect.
    pub(crate) possible: Option<Model>,
    /// Every number that a sequence has handed out.
    handed_out: BTreeMap<SequenceId, BTreeSet<i64>>,
    name_count: u32,
    /// What steps have met, by kind.
    pub(crate) met: BTreeMap<&'static str, u64>,
}

impl Workload {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            dice: StdRng::seed_from_u64(seed),
            model: Model::default(),
            possible: None,
            handed_out: BTreeMap::new(),
            name_count: 0,
            met: BTreeMap::new(),
        }
    }

    fn new_name(&mut self, kind: &str) -> String {
        self.name_count += 1;
        format!("{kind}{}", self.name_count)
    }

    /// One random step.
    pub(crate) fn step(&mut self, store: &Store) -> Outcome {
        let kind = self.dice.random_range(0..100);
        if self.model.tables.is_empty() || (kind < 4 && self.model.tables.len() < TABLES_MAX) {
            return self.transact(store, "create table", |workload, tx, model| {
                workload.create_table(store, tx, model);
            });
        }
        match kind {
            0..60 => self.transact(store, "rows", Self::change_rows),
            60..72 => self.transact(store, "bulk load", Self::load),
            72..76 => self.transact(store, "create index", |workload, tx, model| {
                workload.create_index(store, tx, model);
            }),
            76..78 => self.transact(store, "drop index", Self::drop_index),
            78..82 => self.transact(store, "add column", Self::add_column),
            82..85 => self.transact(store, "truncate", Self::truncate),
            85..86 => self.transact(store, "drop table", Self::drop_table),
            86..88 => self.transact(store, "view", Self::change_views),
            88..90 => self.transact(store, "sequence", |workload, tx, model| {
                workload.change_sequences(store, tx, model);
            }),
            90..92 => self.transact(store, "load and rows", |workload, tx, model| {
                workload.truncate(tx, model);
                workload.load(tx, model);
                workload.change_rows(tx, model);
            }),
            _ => self.next_value(store),
        }
    }

    fn transact(
        &mut self,
        store: &Store,
        kind: &'static str,
        change: impl FnOnce(&mut Self, &mut Transaction, &mut Model),
    ) -> Outcome {
        let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        let mut model = self.model.clone();
        change(self, &mut tx, &mut model);
        *self.met.entry(kind).or_default() += 1;
        match tx.commit() {
            Ok(_) => {
                self.model = model;
                Outcome::Committed
            }
            Err(StoreError::Conflict(_) | StoreError::Constraint(_)) => Outcome::Refused,
            Err(error) => {
                self.possible = Some(model);
                Outcome::Unknown(error.to_string())
            }
        }
    }

    fn next_value(&mut self, store: &Store) -> Outcome {
        let Some(def) = self.pick(|model| model.sequences.values().cloned().collect()) else {
            return self.transact(store, "sequence", |workload, tx, model| {
                workload.change_sequences(store, tx, model);
            });
        };
        *self.met.entry("next value").or_default() += 1;
        if self.dice.random_ratio(1, 8) {
            // Forward only, so that no number is handed out twice.
            let highest =
                self.handed_out.get(&def.id).and_then(|numbers| numbers.last().copied()).unwrap_or(0);
            return match store.set_value(&def, highest + 5_000, SetValue::Used) {
                Ok(()) => Outcome::Committed,
                Err(error) => Outcome::Unknown(error.to_string()),
            };
        }
        match store.next_value(&def) {
            Ok(number) => {
                let is_new = self.handed_out.entry(def.id).or_default().insert(number);
                assert!(is_new, "sequence {} handed {number} out twice", def.name);
                Outcome::Committed
            }
            Err(error) => Outcome::Unknown(error.to_string()),
        }
    }

    fn pick<T>(&mut self, choices: impl FnOnce(&Model) -> Vec<T>) -> Option<T> {
        let mut choices = choices(&self.model);
        if choices.is_empty() {
            return None;
        }
        let at = self.dice.random_range(0..choices.len());
        Some(choices.swap_remove(at))
    }

    fn pick_table<'m>(&mut self, model: &'m mut Model) -> &'m mut TableModel {
        let at = self.dice.random_range(0..model.tables.len());
        model.tables.values_mut().nth(at).unwrap()
    }

    fn create_table(&mut self, store: &Store, tx: &mut Transaction, model: &mut Model) {
        let key_type = [ColumnType::BigInt, ColumnType::Text][self.dice.random_range(0..2)];
        let columns = vec![
            ColumnDef::new("id", key_type),
            ColumnDef::new("v", ColumnType::Int),
            ColumnDef::new("t", ColumnType::Text),
        ];
        let name = QualifiedName::new("public", self.new_name("t"));
        let mut def = TableDef::new(store.new_space_id(), name, columns, vec![0]);
        if self.dice.random() {
            let name = self.new_name("i");
            def.indexes.push(index(store, name, 1));
        }
        tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
        model.tables.insert(def.id, TableModel { def, rows: BTreeMap::new() });
    }

    fn create_index(&mut self, store: &Store, tx: &mut Transaction, model: &mut Model) {
        let name = self.new_name("i");
        let column = self.dice.random_range(0..3);
        let table = self.pick_table(model);
        table.def.indexes.push(index(store, name, column));
        tx.change_catalog(CatalogChange::PutTable(Box::new(table.def.clone()))).unwrap();
    }

    fn drop_index(&mut self, tx: &mut Transaction, model: &mut Model) {
        let table = self.pick_table(model);
        table.def.indexes.pop();
        tx.change_catalog(CatalogChange::PutTable(Box::new(table.def.clone()))).unwrap();
    }

    fn add_column(&mut self, tx: &mut Transaction, model: &mut Model) {
        let name = self.new_name("c");
        let number = self.dice.random_range(0..1_000);
        let table = self.pick_table(model);
        if table.def.columns.len() >= 6 {
            return;
        }
        let mut column = ColumnDef::new(name, ColumnType::Int);
        let mut missing = KeyWriter::new();
        missing.push(Value::Int32(number).borrow());
        column.missing = Some(missing.as_slice().to_vec());
        table.def.add_column(column);
        table.rows.values_mut().for_each(|row| row.push(Value::Int32(number)));
        tx.change_catalog(CatalogChange::PutTable(Box::new(table.def.clone()))).unwrap();
    }

    fn truncate(&mut self, tx: &mut Transaction, model: &mut Model) {
        let table = self.pick_table(model);
        table.rows.clear();
        tx.change_catalog(CatalogChange::Truncate(table.def.id)).unwrap();
    }

    fn drop_table(&mut self, tx: &mut Transaction, model: &mut Model) {
        let id = self.pick_table(model).def.id;
        model.tables.remove(&id);
        tx.change_catalog(CatalogChange::RemoveTable(id)).unwrap();
    }

    fn change_views(&mut self, tx: &mut Transaction, model: &mut Model) {
        if let Some(name) = model.views.keys().next().cloned().filter(|_| self.dice.random_ratio(1, 3)) {
            tx.change_catalog(CatalogChange::RemoveView(QualifiedName::new("public", &name))).unwrap();
            model.views.remove(&name);
            return;
        }
        let (name, query) = (self.new_name("v"), format!("SELECT {}", self.name_count));
        let view =
            ViewDef { name: QualifiedName::new("public", &name), columns: vec![], query: query.clone() };
        tx.change_catalog(CatalogChange::PutView(view)).unwrap();
        model.views.insert(name, query);
    }

    fn change_sequences(&mut self, store: &Store, tx: &mut Transaction, model: &mut Model) {
        if let Some(id) = model.sequences.keys().next().copied().filter(|_| self.dice.random_ratio(1, 4)) {
            tx.change_catalog(CatalogChange::RemoveSequence(id)).unwrap();
            model.sequences.remove(&id);
            return;
        }
        let def = SequenceDef {
            id: store.new_sequence_id(),
            name: QualifiedName::new("public", self.new_name("s")),
            start: 1,
            increment: 1,
            min: 1,
            max: i64::MAX,
            cycle: false,
            owned_by: None,
        };
        // A number that was handed out for a sequence of this number that was never committed does not count.
        self.handed_out.remove(&def.id);
        tx.change_catalog(CatalogChange::PutSequence(def.clone())).unwrap();
        model.sequences.insert(def.id, def);
    }

    fn change_rows(&mut self, tx: &mut Transaction, model: &mut Model) {
        for _ in 0..self.dice.random_range(1..4) {
            let changes = self.dice.random_range(1..12);
            let near = self.dice.random_range(0..IDS);
            let mut dice = StdRng::seed_from_u64(self.dice.random());
            let table = self.pick_table(model);
            for step in 0..changes {
                let id = if dice.random() { (near + step) % IDS } else { dice.random_range(0..IDS) };
                let values = random_row(&mut dice, &table.def, id);
                let key = table.def.key_of(|column| values[column].borrow());
                if dice.random_ratio(1, 3) {
                    let was_there = tx.delete(table.def.id, &key).unwrap();
                    assert_eq!(was_there, table.rows.remove(&key).is_some(), "a delete tells what was there");
                } else {
                    tx.put(table.def.id, row(&table.def, &values)).unwrap();
                    table.rows.insert(key, values);
                }
            }
        }
    }

    /// Loads rows of ids that are not there yet.
    fn load(&mut self, tx: &mut Transaction, model: &mut Model) {
        let first = self.dice.random_range(0..IDS);
        let count = self.dice.random_range(1..120);
        let mut dice = StdRng::seed_from_u64(self.dice.random());
        let table = self.pick_table(model);
        let def = table.def.clone();
        let mut builders: Vec<_> =
            def.columns.iter().map(|column| ColumnBuilder::new(column.ty, 0)).collect();
        let mut rows = 0;
        for id in first..first + count {
            let values = random_row(&mut dice, &def, id);
            let key = def.key_of(|column| values[column].borrow());
            if table.rows.contains_key(&key) {
                continue;
            }
            builders.iter_mut().zip(&values).for_each(|(builder, value)| builder.push(value.borrow()));
            table.rows.insert(key, values);
            rows += 1;
        }
        if rows == 0 {
            return;
        }
        let schema = TableView::new(Arc::new(Table::new(Arc::new(def.clone())))).schema();
        let columns = builders.iter_mut().map(ColumnBuilder::finish).collect();
        let batch = RecordBatch::try_new(schema, columns).unwrap();
        assert_eq!(tx.bulk_insert(def.id, &[batch]).unwrap(), rows);
    }

    /// Takes over what was found after an open: the model, or the model with the last unknown step.
    ///
    /// # Errors
    /// If it is neither.
    pub(crate) fn take_recovered(&mut self, world: &World) -> Result<(), String> {
        let Some(possible) = self.possible.take() else { return self.model.check(world) };
        let Err(without) = self.model.check(world) else { return Ok(()) };
        possible
            .check(world)
            .map_err(|with| format!("neither without the last step ({without}) nor with it ({with})"))?;
        self.model = possible;
        *self.met.entry("kept unacknowledged").or_default() += 1;
        Ok(())
    }
}

fn index(store: &Store, name: String, column: usize) -> IndexDef {
    IndexDef { id: store.new_space_id(), name, columns: vec![column], uniqueness: Uniqueness::Any }
}

fn random_row(dice: &mut StdRng, def: &TableDef, id: i64) -> Vec<Value> {
    let of_column = |column: usize| match (column, def.columns[column].ty) {
        (0, ColumnType::Text) => Value::from(format!("key {id}")),
        (0, _) => Value::Int64(id),
        (2, _) if dice.random_ratio(1, 6) => Value::Null,
        (2, _) => Value::from("text ".repeat(dice.random_range(0..9))),
        _ => Value::Int32(dice.random_range(0..50)),
    };
    (0..def.columns.len()).map(of_column).collect()
}

fn row(def: &TableDef, values: &[Value]) -> crate::row::Row {
    let mut writer = RowWriter::new(def.layout());
    values.iter().for_each(|value| writer.push(value.borrow()).unwrap());
    writer.finish()
}

impl Model {
    /// Whether the world holds exactly this: definitions, rows, and entries of indexes.
    ///
    /// # Errors
    /// What differs.
    pub(crate) fn check(&self, world: &World) -> Result<(), String> {
        let tables: Vec<_> = world.tables().map(|table| table.id()).collect();
        let expected: Vec<_> = self.tables.keys().copied().collect();
        if tables != expected {
            return Err(format!("tables {tables:?}, not {expected:?}"));
        }
        for table in world.tables() {
            self.tables[&table.id()].check(table)?;
        }
        let views = world.catalog().views().map(|view| (view.name.name.clone(), view.query.clone()));
        if views.collect::<BTreeMap<_, _>>() != self.views {
            return Err("other views".to_owned());
        }
        let sequences = world.catalog().sequences().map(|def| (def.id, def.as_ref().clone()));
        if sequences.collect::<BTreeMap<_, _>>() != self.sequences {
            return Err("other sequences".to_owned());
        }
        Ok(())
    }
}

impl TableModel {
    fn check(&self, table: &Table) -> Result<(), String> {
        let name = &self.def.name;
        if **table.def() != self.def {
            return Err(format!("table {name} is defined otherwise"));
        }
        if table.row_count() != self.rows.len() as u64 {
            return Err(format!("table {name} has {} rows, not {}", table.row_count(), self.rows.len()));
        }
        let cursor = SpaceCursor::new(table.rows(), None, &KeyRange::all(), Direction::Forward);
        let mut expected = self.rows.iter();
        for found in cursor {
            let (key, found) = found.map_err(|error| error.to_string())?;
            let row = table.row_ref(found);
            let values: Vec<Value> =
                (0..self.def.columns.len()).map(|column| row.get(column).to_owned()).collect();
            if expected.next() != Some((&key, &values)) {
                return Err(format!("table {name} has {values:?} at {key:?}"));
            }
            if table.rows().find(&key).map_err(|error| error.to_string())?.is_none() {
                return Err(format!("table {name} scans {key:?} and does not find it"));
            }
        }
        for (index, space) in self.def.indexes.iter().zip(table.indexes()) {
            let missing = table.missing();
            let mut entries: Vec<Key> = self
                .rows
                .iter()
                .map(|(key, values)| {
                    let row = row(&self.def, values);
                    RowRef::of_row(&self.def, missing, &row).index_entry(index, key)
                })
                .collect();
            entries.sort();
            let there = SpaceCursor::new(space, None, &KeyRange::all(), Direction::Backward);
            let there: Result<Vec<Key>, _> = there.map(|entry| entry.map(|(entry, _)| entry)).collect();
            let mut there = there.map_err(|error| error.to_string())?;
            there.reverse();
            if there != entries || space.len() != entries.len() as u64 {
                return Err(format!("index {} of table {name} has other entries", index.name));
            }
        }
        Ok(())
    }
}
