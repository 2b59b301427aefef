// SPDX-License-Identifier: Apache-2.0
//! What a store must hold, as plain maps.

use super::bricks::BrickModel;
use crate::catalog::{SequenceDef, TableDef};
use crate::cursor::SpaceCursor;
use crate::ids::{SequenceId, SpaceId};
use crate::key::Key;
use crate::range::{Direction, KeyRange};
use crate::row::{Row, RowWriter};
use crate::table::{RowRef, Table};
use crate::value::{KeyWriter, Value};
use crate::world::World;
use std::collections::{BTreeMap, BTreeSet};

/// What a store must hold at one version.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) version: u64,
    pub(crate) tables: BTreeMap<SpaceId, TableModel>,
    pub(crate) bricks: BTreeMap<SpaceId, BrickModel>,
    pub(crate) views: BTreeMap<String, String>,
    pub(crate) sequences: BTreeMap<SequenceId, SequenceDef>,
}

/// A table: its definition and the values of all columns of the definition, by key.
#[derive(Clone, Debug)]
pub(crate) struct TableModel {
    pub(crate) def: TableDef,
    pub(crate) rows: BTreeMap<Key, Vec<Value>>,
}

/// A model that a transaction is changing, and which rows it has changed.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) model: Model,
    pub(crate) effects: BTreeMap<(SpaceId, Key), Option<Vec<Value>>>,
}

impl Draft {
    pub(crate) fn of(model: &Model) -> Self {
        Self { model: model.clone(), effects: BTreeMap::new() }
    }

    /// Puts a row, or removes it.
    pub(crate) fn set(&mut self, table: SpaceId, key: Key, row: Option<Vec<Value>>) {
        self.model.set(table, key.clone(), row.clone());
        self.effects.insert((table, key), row);
    }
}

/// The row as the store encodes it.
pub(crate) fn encode(def: &TableDef, values: &[Value]) -> Row {
    let mut writer = RowWriter::new(def.layout());
    values.iter().for_each(|value| writer.push(value.borrow()).unwrap());
    writer.finish()
}

impl Model {
    pub(crate) fn set(&mut self, table: SpaceId, key: Key, row: Option<Vec<Value>>) {
        let rows = &mut self.tables.get_mut(&table).unwrap().rows;
        match row {
            Some(row) => rows.insert(key, row),
            None => rows.remove(&key),
        };
    }

    /// Whether the world holds exactly this: version, definitions, rows, and entries of indexes.
    ///
    /// # Errors
    /// What differs.
    pub(crate) fn check(&self, world: &World) -> Result<(), String> {
        if world.version().get() != self.version {
            return Err(format!("version {}, not {}", world.version(), self.version));
        }
        let tables: Vec<_> = world.tables().map(|table| table.id()).collect();
        let mut expected: Vec<_> = self.tables.keys().chain(self.bricks.keys()).copied().collect();
        expected.sort_unstable();
        if tables != expected {
            return Err(format!("tables {tables:?}, not {expected:?}"));
        }
        for table in world.tables() {
            match self.bricks.get(&table.id()) {
                Some(bricks) => bricks.check(table, world)?,
                None => self.tables[&table.id()].check(table)?,
            }
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

    /// The same without the rows that the world does not have.
    pub(crate) fn as_far_as_in(&self, world: &World) -> Self {
        let mut left = self.clone();
        for table in world.tables() {
            if let Some(bricks) = left.bricks.get_mut(&table.id()) {
                bricks.keep_found(table, world);
            }
            if let Some(model) = left.tables.get_mut(&table.id()) {
                model.rows.retain(|key, _| table.rows().contains(key).unwrap());
            }
        }
        left
    }

    /// Whether no unique key has two owners.
    pub(crate) fn is_unique(&self) -> bool {
        self.tables.values().all(TableModel::is_unique)
    }
}

impl TableModel {
    /// Whether another row than the one at `key` owns a unique key of `values`.
    pub(crate) fn has_other_owner(&self, key: &Key, values: &[Value]) -> bool {
        let claims = self.claims(values);
        !claims.is_empty()
            && self.rows.iter().any(|(other, row)| other != key && !self.claims(row).is_disjoint(&claims))
    }

    /// Whether no unique key has two owners.
    pub(crate) fn is_unique(&self) -> bool {
        let mut owned = BTreeSet::new();
        self.rows.values().flat_map(|row| self.claims(row)).all(|claim| owned.insert(claim))
    }

    /// The unique keys that a row owns: index and encoded columns.
    fn claims(&self, values: &[Value]) -> BTreeSet<(SpaceId, Vec<u8>)> {
        let unique = self.def.indexes.iter().filter(|index| index.uniqueness.is_unique());
        let claim = |index: &crate::catalog::IndexDef| {
            let columns = index.columns.iter().map(|&column| &values[column]);
            if columns.clone().any(|value| *value == Value::Null) {
                return None;
            }
            let mut writer = KeyWriter::new();
            columns.for_each(|value| writer.push(value.borrow()));
            Some((index.id, writer.as_slice().to_vec()))
        };
        unique.filter_map(claim).collect()
    }

    /// The values of the columns that are there. What a row holds of a dropped one depends on when it was written.
    fn known_values(&self, value: impl Fn(usize) -> Value) -> Vec<Value> {
        let columns = self.def.columns.iter().enumerate();
        columns.filter(|(_, column)| !column.is_dropped()).map(|(index, _)| value(index)).collect()
    }

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
            let known = self.known_values(|column| row.get(column).to_owned());
            let is_expected = expected.next().is_some_and(|(expected_key, values)| {
                *expected_key == key && self.known_values(|column| values[column].clone()) == known
            });
            if !is_expected {
                return Err(format!("table {name} has {known:?} at {key:?}"));
            }
            if table.rows().find(&key).map_err(|error| error.to_string())?.is_none() {
                return Err(format!("table {name} scans {key:?} and does not find it"));
            }
        }
        for (index, space) in self.def.indexes.iter().zip(table.indexes()) {
            let missing = table.missing();
            let entry = |(key, values): (&Key, &Vec<Value>)| {
                RowRef::of_row(&self.def, missing, &encode(&self.def, values)).index_entry(index, key)
            };
            let mut entries: Vec<Key> = self.rows.iter().map(entry).collect();
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
