// SPDX-License-Identifier: Apache-2.0
//! Brick tables of the workload: what steps change in them, and what they must hold.

use super::Workload;
use super::changes::put_table;
use super::model::Draft;
use crate::brick_def::{BrickDef, BrickDimension};
use crate::catalog::{CatalogChange, ColumnDef, ColumnState, QualifiedName, TableDef};
use crate::ids::SpaceId;
use crate::store::Store;
use crate::table::Table;
use crate::transaction::Transaction;
use crate::types::ColumnType;
use crate::world::World;
use arrow::array::{AsArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use coeval_brick::Reader;
use rand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const TABLES_MAX: usize = 2;
const REGIONS: i64 = 8;
const DAYS: i64 = 40;
/// So many days share a brick.
const DAYS_OF_BRICK: i64 = 10;

/// A brick table: its definition, and region and day of each row by its id, which none has twice.
#[derive(Clone, Debug)]
pub(crate) struct BrickModel {
    pub(super) def: TableDef,
    pub(crate) rows: BTreeMap<i64, (String, i64)>,
}

impl BrickModel {
    /// Whether the table of this world holds exactly this.
    ///
    /// # Errors
    /// What differs.
    pub(super) fn check(&self, table: &Table, world: &World) -> Result<(), String> {
        let name = &self.def.name;
        if **table.def() != self.def {
            return Err(format!("brick table {name} is defined otherwise"));
        }
        let rows = table.bricks().ok_or_else(|| format!("{name} is no brick table"))?;
        let view = rows.table().view(&rows.table().selection());
        let reader = Reader::of(world.epochs().clone());
        let mut expected = self.rows.clone();
        for batch in view.bricks().iter().flat_map(|brick| view.batches(brick, &reader, &[0, 1, 2])) {
            let regions = cast(batch.column(0), &DataType::Utf8).map_err(|error| error.to_string())?;
            let numbers = |column: usize| batch.column(column).as_primitive::<Int64Type>().values();
            for (row, region) in regions.as_string::<i32>().iter().enumerate() {
                let (day, id) = (numbers(1)[row], numbers(2)[row]);
                let found = (region.unwrap_or_default().to_owned(), day);
                if expected.remove(&id).as_ref() != Some(&found) {
                    return Err(format!("brick table {name} has {found:?} for {id}"));
                }
            }
        }
        match expected.first_key_value() {
            None => Ok(()),
            Some((id, row)) => Err(format!("brick table {name} lacks {row:?} for {id}")),
        }
    }
}

impl BrickModel {
    /// Forgets the rows that the table of this world does not have.
    pub(super) fn keep_found(&mut self, table: &Table, world: &World) {
        let rows = table.bricks().expect("a brick table stays one");
        let view = rows.table().view(&rows.table().selection());
        let reader = Reader::of(world.epochs().clone());
        let batches = view.bricks().iter().flat_map(|brick| view.batches(brick, &reader, &[2]));
        let found = batches.flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
        let found: BTreeSet<i64> = found.collect();
        self.rows.retain(|id, _| found.contains(id));
    }
}

impl Workload {
    /// Makes a brick table, drops one, loads rows or deletes bricks.
    pub(super) fn change_bricks(&mut self, store: &Store, tx: &mut Transaction, draft: &mut Draft) {
        let tables: Vec<SpaceId> = draft.model.bricks.keys().copied().collect();
        if tables.is_empty() || (tables.len() < TABLES_MAX && self.dice.random_ratio(1, 6)) {
            return self.create_brick_table(store, tx, draft);
        }
        let id = tables[self.dice.random_range(0..tables.len())];
        match self.dice.random_range(0..24) {
            0 => {
                tx.change_catalog(CatalogChange::RemoveTable(id)).unwrap();
                draft.model.bricks.remove(&id);
            }
            1 => {
                tx.change_catalog(CatalogChange::Truncate(id)).unwrap();
                draft.model.bricks.get_mut(&id).unwrap().rows.clear();
            }
            2..8 => self.delete_bricks(id, tx, draft),
            8..11 => {
                self.append(id, tx, draft);
                self.delete_bricks(id, tx, draft);
                self.append(id, tx, draft);
            }
            _ => self.append(id, tx, draft),
        }
    }

    fn create_brick_table(&mut self, store: &Store, tx: &mut Transaction, draft: &mut Draft) {
        let mut hidden = ColumnDef::new("row id", ColumnType::BigInt);
        hidden.state = ColumnState::Hidden;
        let columns = vec![
            ColumnDef::new("region", ColumnType::Text).not_null(),
            ColumnDef::new("day", ColumnType::BigInt).not_null(),
            ColumnDef::new("id", ColumnType::BigInt),
            hidden,
        ];
        let name = QualifiedName::new("public", self.new_name("b"));
        let mut def = TableDef::new(store.new_space_id(), name, columns, vec![3]);
        let dimension = |column, cardinality: i64, range_size: i64| BrickDimension {
            column,
            cardinality: cardinality.unsigned_abs(),
            range_size: range_size.unsigned_abs(),
            origin: 0,
        };
        let dimensions = vec![dimension(0, REGIONS, 2), dimension(1, DAYS, DAYS_OF_BRICK)];
        def.bricks = Some(BrickDef { dimensions, retention: None, replicas: None });
        put_table(tx, &def).unwrap();
        draft.model.bricks.insert(def.id, BrickModel { def, rows: BTreeMap::new() });
    }

    fn append(&mut self, table: SpaceId, tx: &mut Transaction, draft: &mut Draft) {
        let count = self.dice.random_range(1..25);
        let mut rows = Vec::new();
        for _ in 0..count {
            self.brick_row_count += 1;
            let region = format!("region {}", self.dice.random_range(0..REGIONS));
            rows.push((self.brick_row_count, (region, self.dice.random_range(0..DAYS))));
        }
        let regions: StringArray = rows.iter().map(|(_, (region, _))| Some(region)).collect();
        let days: Int64Array = rows.iter().map(|(_, (_, day))| *day).collect();
        let ids: Int64Array = rows.iter().map(|(id, _)| *id).collect();
        let batch = RecordBatch::try_from_iter([
            ("region", Arc::new(regions) as _),
            ("day", Arc::new(days) as _),
            ("id", Arc::new(ids) as _),
        ])
        .unwrap();
        assert_eq!(tx.append(table, &batch, 0).unwrap().rows, rows.len() as u64);
        draft.model.bricks.get_mut(&table).unwrap().rows.extend(rows);
    }

    /// Deletes the bricks of some days, or all of them.
    fn delete_bricks(&mut self, table: SpaceId, tx: &mut Transaction, draft: &mut Draft) {
        let first = self.dice.random_range(0..DAYS / DAYS_OF_BRICK) * DAYS_OF_BRICK;
        let end = if self.dice.random_ratio(1, 4) { DAYS } else { first + DAYS_OF_BRICK };
        let first = if end == DAYS && self.dice.random() { 0 } else { first };
        let rows = &mut draft.model.bricks.get_mut(&table).unwrap().rows;
        let before = rows.len();
        rows.retain(|_, (_, day)| !(first..end).contains(day));
        let deleted = tx.delete_bricks(table, |all| all.within(1, &[first..=end - 1])).unwrap();
        assert_eq!(deleted, (before - rows.len()) as u64, "a delete tells what was there");
    }
}
