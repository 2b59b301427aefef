// SPDX-License-Identifier: Apache-2.0
//! What the transactions of a log record changed, row by row, for one who takes a feed of them.
//!
//! The log has the row behind a change and not the one before: that is looked up in the world of the transaction before, which
//! the replay has at that moment. A brick table's rows are told by their epochs: those of the transaction's own have come, and
//! those that its deletes hide have gone.

use super::change_token::FeedPlace;
use super::{ChangeSink, ChangeToken, ChangedRow, FedChange, FedTransaction};
use crate::bricks::{BrickChange, BrickRows};
use crate::bulk_load::BulkLoad;
use crate::catalog::{CatalogChange, TableDef};
use crate::clock::LogTime;
use crate::delta::Change as KeyChange;
use crate::error::StoreError;
use crate::ids::SpaceId;
use crate::key::Key;
use crate::log::Lsn;
use crate::record::ReplayedWrites;
use crate::recovery::{BatchPlace, ObserveReplay, ReplayError};
use crate::space::Found;
use crate::table::{RowRef, Table};
use crate::terms::Term;
use crate::world::World;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use coeval_brick::Reader;
use coeval_txn::{Epoch, EpochSet};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Where the record stands whose changes are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordPlace {
    pub(super) term: Term,
    pub(super) end: Lsn,
    pub(super) time: Option<LogTime>,
}

/// Gives changes to a sink while a record is replayed.
pub(super) struct ChangeReader<'s> {
    place: RecordPlace,
    /// What lies behind the first and not behind the second place is given.
    between: (FeedPlace, Option<FeedPlace>),
    sink: &'s mut dyn ChangeSink,
    /// The transaction that is being replayed, if it is given.
    transaction: Option<FedTransaction>,
}

impl<'s> ChangeReader<'s> {
    pub(super) fn new(
        place: RecordPlace,
        between: (FeedPlace, Option<FeedPlace>),
        sink: &'s mut dyn ChangeSink,
    ) -> Self {
        Self { place, between, sink, transaction: None }
    }

    fn give(&mut self, change: &FedChange<'_>) -> Result<(), ReplayError> {
        let Some(transaction) = &self.transaction else { return Ok(()) };
        if !self.sink.wants(change.table()) {
            return Ok(());
        }
        self.sink.change(transaction, change).map_err(ReplayError::Observer)
    }

    /// Whether changes of a table are to be read.
    fn wants(&self, table: &TableDef) -> bool {
        self.transaction.is_some() && self.sink.wants(table)
    }

    fn definitions(&mut self, world: &World, definitions: &[CatalogChange]) -> Result<(), ReplayError> {
        // As the transaction has left them so far; none for a table that it has dropped.
        let mut left: BTreeMap<SpaceId, Option<Arc<TableDef>>> = BTreeMap::new();
        let in_world = |id: &SpaceId| world.table(*id).map(|table| Arc::clone(table.def()));
        for definition in definitions {
            let (CatalogChange::Truncate(id) | CatalogChange::RemoveTable(id)) = definition else {
                if let CatalogChange::PutTable(def) = definition {
                    let before = left.get(&def.id).cloned().unwrap_or_else(|| in_world(&def.id));
                    let new = Arc::new(def.as_ref().clone());
                    if before.as_ref().is_none_or(|before| !looks_alike(before, &new)) {
                        self.give(&FedChange::Defined { before: before.as_deref(), table: &new })?;
                    }
                    left.insert(def.id, Some(new));
                }
                continue;
            };
            let Some(table) = left.get(id).cloned().unwrap_or_else(|| in_world(id)) else { continue };
            if matches!(definition, CatalogChange::Truncate(_)) {
                self.give(&FedChange::Emptied { table: &table })?;
            } else {
                self.give(&FedChange::Dropped { table: &table })?;
                left.insert(*id, None);
            }
        }
        Ok(())
    }

    fn rows(&mut self, table: &Table, rows: &ReplayedWrites) -> Result<(), ReplayError> {
        let def = table.def();
        for (key, entry) in &rows.rows {
            // What was inserted was not there: that was certified.
            let before = if entry.change() == KeyChange::Inserted { None } else { table.get(key)? };
            let before = before.map(ChangedRow::of_row);
            let after = entry.row().map(|row| ChangedRow::of_row(RowRef::of_row(def, table.missing(), row)));
            let change = match (before, after) {
                (None, Some(after)) => FedChange::Inserted { table: def, key: Some(key), after },
                (Some(before), Some(after)) => FedChange::Updated { table: def, key, before, after },
                (Some(before), None) => FedChange::Deleted { table: def, key: Some(key), before },
                (None, None) => {
                    let what = format!("table {} has no row that could be deleted", def.name);
                    return Err(ReplayError::Malformed(what));
                }
            };
            self.give(&change)?;
        }
        Ok(())
    }

    /// Rows of a brick table that were there with the first epochs, and are not with the second.
    fn brick_rows_gone(
        &mut self,
        def: &TableDef,
        rows: &BrickRows,
        [before, after]: [&EpochSet; 2],
    ) -> Result<(), ReplayError> {
        let view = rows.table().view(&rows.table().selection());
        let (before, after) = (Reader::of(before.clone()), Reader::of(after.clone()));
        let projection: Vec<usize> = (0..def.live_columns().count()).collect();
        for brick in view.bricks() {
            for batch in view.batches_gone(brick, &before, &after, &projection) {
                self.batch(def, &batch, Moves::Out)?;
            }
        }
        Ok(())
    }

    /// Rows of a brick table with these epochs.
    fn brick_rows_come(
        &mut self,
        def: &TableDef,
        rows: &BrickRows,
        own: &[Epoch],
    ) -> Result<(), ReplayError> {
        let view = rows.table().view(&rows.table().selection());
        let reader = Reader::writing(EpochSet::none(), own.to_vec());
        let projection: Vec<usize> = (0..def.live_columns().count()).collect();
        for brick in view.bricks() {
            for batch in view.batches(brick, &reader, &projection) {
                self.batch(def, &batch, Moves::In)?;
            }
        }
        Ok(())
    }

    /// Gives a change for each row of a batch of the live columns.
    fn batch(&mut self, def: &TableDef, batch: &RecordBatch, moves: Moves) -> Result<(), ReplayError> {
        let mut columns: Vec<Option<ArrayRef>> = vec![None; def.columns.len()];
        for ((index, column), array) in def.live_columns().zip(batch.columns()) {
            // Bricks keep strings by dictionary.
            let array = cast(array, &column.ty.arrow()).map_err(|error| {
                ReplayError::Malformed(format!("a column of brick table {}: {error}", def.name))
            })?;
            columns[index] = Some(array);
        }
        for row in 0..batch.num_rows() {
            let row = ChangedRow::of_columns(&columns, row);
            self.give(&match moves {
                Moves::In => FedChange::Inserted { table: def, key: None, after: row },
                Moves::Out => FedChange::Deleted { table: def, key: None, before: row },
            })?;
        }
        Ok(())
    }
}

/// Where rows of a brick table go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moves {
    In,
    Out,
}

/// Whether rows of both look the same to who takes them.
fn looks_alike(before: &TableDef, after: &TableDef) -> bool {
    let columns = |def: &TableDef| {
        let live = def.live_columns();
        live.map(|(index, column)| (index, column.name.clone(), column.ty, column.not_null))
            .collect::<Vec<_>>()
    };
    before.name == after.name && before.primary_key == after.primary_key && columns(before) == columns(after)
}

impl ObserveReplay for ChangeReader<'_> {
    fn begin(
        &mut self,
        place: BatchPlace,
        world: &World,
        definitions: &[CatalogChange],
    ) -> Result<(), ReplayError> {
        let BatchPlace { version, position, count } = place;
        let (behind, transactions) = FeedPlace::behind_one(version, position, count);
        let (from, to) = self.between;
        let is_given = behind > from && to.is_none_or(|to| behind <= to);
        let RecordPlace { term, end, time } = self.place;
        let token = ChangeToken { number: term.number, term: term.id, end, version, transactions };
        self.transaction = is_given.then_some(FedTransaction { token, version, position, time });
        self.definitions(world, definitions)
    }

    fn load(&mut self, table: &Table, load: &BulkLoad) -> Result<(), ReplayError> {
        let def = table.def();
        if !self.wants(def) {
            return Ok(());
        }
        for chunk in load.chunks() {
            chunk.check_whole()?;
            for index in 0..chunk.rows() {
                let row = RowRef::new(def, table.missing(), Found::Base(chunk, index));
                let key = Key::from_slice(chunk.keys().get(index));
                let after = ChangedRow::of_row(row);
                self.give(&FedChange::Inserted { table: def, key: Some(&key), after })?;
            }
        }
        Ok(())
    }

    fn writes(&mut self, world: &World, writes: &[ReplayedWrites]) -> Result<(), ReplayError> {
        for rows in writes {
            if let Some(table) = world.table(rows.table).filter(|table| self.wants(table.def())) {
                self.rows(table, rows)?;
            }
        }
        Ok(())
    }

    fn bricks(
        &mut self,
        world: &World,
        changes: &[BrickChange],
        epochs: [&EpochSet; 2],
    ) -> Result<(), ReplayError> {
        let mut own: Vec<Epoch> = changes.iter().map(|change| change.epoch).collect();
        own.dedup();
        let tables: BTreeSet<SpaceId> = changes.iter().map(|change| change.table).collect();
        for id in tables {
            let Some(table) = world.table(id).filter(|table| self.wants(table.def())) else { continue };
            let rows =
                table.bricks().ok_or_else(|| StoreError::NoBrickTable(Box::new(table.def().name.clone())))?;
            if changes.iter().any(|change| change.table == id && change.is_delete()) {
                self.brick_rows_gone(table.def(), rows, epochs)?;
            }
            self.brick_rows_come(table.def(), rows, &own)?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), ReplayError> {
        match self.transaction.take() {
            Some(transaction) => self.sink.end(&transaction).map_err(ReplayError::Observer),
            None => Ok(()),
        }
    }
}
