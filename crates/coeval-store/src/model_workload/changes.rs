// SPDX-License-Identifier: Apache-2.0
//! What a step changes: rows, definitions, sequences, in a transaction and in the model alike.

use super::model::{Draft, TableModel, encode};
use super::{IDS, Workload};
use crate::catalog::{
    CatalogChange, ColumnDef, IndexDef, QualifiedName, SequenceDef, TableDef, Uniqueness, ViewDef,
};
use crate::column::ColumnBuilder;
use crate::error::{ConstraintError, StoreError};
use crate::store::Store;
use crate::table::Table;
use crate::transaction::Transaction;
use crate::types::ColumnType;
use crate::value::{KeyWriter, Value};
use crate::view::TableView;
use arrow::array::RecordBatch;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// The column that unique indexes are made on; its values are rarely met twice.
const UNIQUE_COLUMN: usize = 3;
/// Columns of a new table.
const FIRST_COLUMNS: usize = 4;
const COLUMNS_MAX: usize = 7;

impl Workload {
    fn pick_table<'d>(&mut self, draft: &'d mut Draft) -> &'d mut TableModel {
        let at = self.dice.random_range(0..draft.model.tables.len());
        draft.model.tables.values_mut().nth(at).unwrap()
    }

    pub(super) fn create_table(&mut self, store: &Store, tx: &mut Transaction, draft: &mut Draft) {
        let key_type = [ColumnType::BigInt, ColumnType::Text][self.dice.random_range(0..2)];
        let columns = vec![
            ColumnDef::new("id", key_type),
            ColumnDef::new("v", ColumnType::Int),
            ColumnDef::new("t", ColumnType::Text),
            ColumnDef::new("u", ColumnType::BigInt),
        ];
        let name = QualifiedName::new("public", self.new_name("t"));
        let mut def = TableDef::new(store.new_space_id(), name, columns, vec![0]);
        for (column, uniqueness) in [(1, Uniqueness::Any), (UNIQUE_COLUMN, Uniqueness::Constraint)] {
            if self.dice.random() {
                let name = self.new_name("i");
                def.indexes.push(index(store, name, column, uniqueness));
            }
        }
        put_table(tx, &def).unwrap();
        draft.model.tables.insert(def.id, TableModel { def, rows: BTreeMap::new() });
    }

    pub(super) fn create_index(&mut self, store: &Store, tx: &mut Transaction, draft: &mut Draft) {
        let name = self.new_name("i");
        let column = self.dice.random_range(0..FIRST_COLUMNS);
        let is_unique = column == UNIQUE_COLUMN && self.dice.random();
        let uniqueness = if is_unique { Uniqueness::Unique } else { Uniqueness::Any };
        let table = self.pick_table(draft);
        let before = table.def.clone();
        table.def.indexes.push(index(store, name, column, uniqueness));
        let outcome = put_table(tx, &table.def);
        if table.is_unique() {
            outcome.unwrap();
        } else {
            assert!(is_second_owner(&outcome), "{outcome:?}");
            table.def = before;
        }
    }

    pub(super) fn drop_index(&mut self, tx: &mut Transaction, draft: &mut Draft) {
        let table = self.pick_table(draft);
        table.def.indexes.pop();
        put_table(tx, &table.def).unwrap();
    }

    pub(super) fn add_column(&mut self, tx: &mut Transaction, draft: &mut Draft) {
        let name = self.new_name("c");
        let number = self.dice.random_range(0..1_000);
        let table = self.pick_table(draft);
        if table.def.columns.len() >= COLUMNS_MAX {
            return;
        }
        let mut column = ColumnDef::new(name, ColumnType::Int);
        let mut missing = KeyWriter::new();
        missing.push(Value::Int32(number).borrow());
        column.missing = Some(missing.as_slice().to_vec());
        table.def.add_column(column);
        table.rows.values_mut().for_each(|row| row.push(Value::Int32(number)));
        put_table(tx, &table.def).unwrap();
    }

    /// Renames a table or column, or drops one of the columns that were added.
    pub(super) fn alter_table(&mut self, tx: &mut Transaction, draft: &mut Draft) {
        let name = self.new_name("n");
        let kind = self.dice.random_range(0..3);
        let table = self.pick_table(draft);
        match (kind, table.def.columns.len() > FIRST_COLUMNS) {
            (0, _) => table.def.name = QualifiedName::new("public", name),
            (1, true) => table.def.drop_column(FIRST_COLUMNS),
            _ => table.def.columns[2].name = name,
        }
        put_table(tx, &table.def).unwrap();
    }

    pub(super) fn truncate(&mut self, tx: &mut Transaction, draft: &mut Draft) {
        let table = self.pick_table(draft);
        table.rows.clear();
        tx.change_catalog(CatalogChange::Truncate(table.def.id)).unwrap();
    }

    pub(super) fn drop_table(&mut self, tx: &mut Transaction, draft: &mut Draft) {
        let id = self.pick_table(draft).def.id;
        draft.model.tables.remove(&id);
        tx.change_catalog(CatalogChange::RemoveTable(id)).unwrap();
    }

    pub(super) fn change_views(&mut self, tx: &mut Transaction, draft: &mut Draft) {
        let views = &mut draft.model.views;
        if let Some(name) = views.keys().next().cloned().filter(|_| self.dice.random_ratio(1, 3)) {
            tx.change_catalog(CatalogChange::RemoveView(QualifiedName::new("public", &name))).unwrap();
            views.remove(&name);
            return;
        }
        let (name, query) = (self.new_name("v"), format!("SELECT {}", self.name_count));
        let view = ViewDef {
            name: QualifiedName::new("public", &name),
            columns: vec![],
            query: query.clone(),
            access: Default::default(),
            comment: None,
            output: None,
            check: None,
        };
        tx.change_catalog(CatalogChange::PutView(view)).unwrap();
        views.insert(name, query);
    }

    pub(super) fn change_sequences(&mut self, store: &Store, tx: &mut Transaction, draft: &mut Draft) {
        let sequences = &mut draft.model.sequences;
        if let Some(id) = sequences.keys().next().copied().filter(|_| self.dice.random_ratio(1, 4)) {
            tx.change_catalog(CatalogChange::RemoveSequence(id)).unwrap();
            sequences.remove(&id);
            return;
        }
        // Upwards without an end to speak of, upwards to a near end, downwards.
        let (start, increment, min, max) =
            [(1, 1, 1, i64::MAX), (1, 7, 1, 20_000), (-5, -3, i64::MIN, 0)][self.dice.random_range(0..3)];
        let def = SequenceDef {
            id: store.new_sequence_id(),
            name: QualifiedName::new("public", self.new_name("s")),
            start,
            increment,
            min,
            max,
            cycle: false,
            ty: Default::default(),
            owned_by: None,
            access: Default::default(),
        };
        // What was handed out for a sequence of this number that was never committed does not count.
        self.handed_out.remove(&def.id);
        tx.change_catalog(CatalogChange::PutSequence(def.clone())).unwrap();
        sequences.insert(def.id, def);
    }

    /// Puts and deletes rows of several tables; some of it may be undone to a savepoint.
    pub(super) fn change_rows(&mut self, tx: &mut Transaction, draft: &mut Draft) {
        for _ in 0..self.dice.random_range(1..4) {
            let savepoint = self.dice.random_ratio(1, 8).then(|| (tx.savepoint(), draft.clone()));
            self.change_rows_of_one(tx, draft);
            if let Some((savepoint, before)) = savepoint {
                tx.rollback_to(&savepoint);
                *draft = before;
            }
        }
    }

    fn change_rows_of_one(&mut self, tx: &mut Transaction, draft: &mut Draft) {
        let changes = self.dice.random_range(1..12);
        let near = self.dice.random_range(0..IDS);
        let mut dice = StdRng::seed_from_u64(self.dice.random());
        let id = self.pick_table(draft).def.id;
        for step in 0..changes {
            let table = &draft.model.tables[&id];
            let row_id = if dice.random() { (near + step) % IDS } else { dice.random_range(0..IDS) };
            let values = random_row(&mut dice, &table.def, row_id);
            let key = table.def.key_of(|column| values[column].borrow());
            if dice.random_ratio(1, 3) {
                let is_there = table.rows.contains_key(&key);
                assert_eq!(tx.delete(id, &key).unwrap(), is_there, "a delete tells what was there");
                if is_there {
                    draft.set(id, key, None);
                }
                continue;
            }
            let outcome = tx.put(id, encode(&table.def, &values));
            if table.has_other_owner(&key, &values) {
                assert!(is_second_owner(&outcome), "{outcome:?}");
                self.note("second owner");
            } else {
                outcome.unwrap();
                draft.set(id, key, Some(values));
            }
        }
    }

    /// Loads rows of ids that are not there yet.
    pub(super) fn load(&mut self, tx: &mut Transaction, draft: &mut Draft) {
        let first = self.dice.random_range(0..IDS);
        let count = self.dice.random_range(1..120);
        let mut dice = StdRng::seed_from_u64(self.dice.random());
        let table = self.pick_table(draft);
        let before = table.rows.clone();
        let def = table.def.clone();
        let mut builders: Vec<_> =
            def.columns.iter().map(|column| ColumnBuilder::new(column.ty, 0)).collect();
        for id in first..first + count {
            let values = random_row(&mut dice, &def, id);
            let key = def.key_of(|column| values[column].borrow());
            if let Entry::Vacant(place) = table.rows.entry(key) {
                builders.iter_mut().zip(&values).for_each(|(builder, value)| builder.push(value.borrow()));
                place.insert(values);
            }
        }
        let rows = table.rows.len() - before.len();
        if rows == 0 {
            return;
        }
        let schema = TableView::new(Arc::new(Table::new(Arc::new(def.clone())))).schema();
        let columns = builders.iter_mut().map(ColumnBuilder::finish).collect();
        let batch = RecordBatch::try_new(schema, columns).unwrap();
        let savepoint = tx.savepoint();
        let batches = [batch];
        let appended = if count % 2 == 0 { tx.bulk_append(def.id, &batches) } else { Ok(false) };
        let outcome = match appended {
            Ok(true) => Ok(rows as u64),
            Ok(false) => tx.bulk_insert(def.id, &batches),
            Err(error) => Err(error),
        };
        if table.is_unique() {
            assert_eq!(outcome.unwrap(), rows as u64);
        } else {
            assert!(is_second_owner(&outcome), "{outcome:?}");
            tx.rollback_to(&savepoint);
            table.rows = before;
        }
    }
}

pub(super) fn put_table(tx: &mut Transaction, def: &TableDef) -> Result<(), StoreError> {
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone())))
}

fn is_second_owner<T>(outcome: &Result<T, StoreError>) -> bool {
    matches!(outcome, Err(StoreError::Constraint(ConstraintError::Unique { .. })))
}

fn index(store: &Store, name: String, column: usize, uniqueness: Uniqueness) -> IndexDef {
    IndexDef { id: store.new_space_id(), name, columns: vec![column], uniqueness, declared_order: Vec::new() }
}

fn random_row(dice: &mut StdRng, def: &TableDef, id: i64) -> Vec<Value> {
    let of_column = |column: usize| match (column, def.columns[column].ty) {
        _ if !def.columns[column].is_live() => Value::Null,
        (0, ColumnType::Text) => Value::from(format!("key {id}")),
        (0, _) => Value::Int64(id),
        (2 | UNIQUE_COLUMN, _) if dice.random_ratio(1, 6) => Value::Null,
        (2, _) => Value::from("text ".repeat(dice.random_range(0..9))),
        (UNIQUE_COLUMN, _) => Value::Int64(dice.random_range(0..20_000)),
        _ => Value::Int32(dice.random_range(0..50)),
    };
    (0..def.columns.len()).map(of_column).collect()
}
