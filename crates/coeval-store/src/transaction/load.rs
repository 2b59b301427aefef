// SPDX-License-Identifier: Apache-2.0
//! Loading many rows at once.

use super::Transaction;
use crate::bulk::{index_chunks, is_free, ordered_chunks, sorted_chunks};
use crate::bulk_load::BulkLoad;
use crate::chunk::Chunk;
use crate::error::StoreError;
use crate::ids::SpaceId;
use crate::range::KeyRange;
use crate::space::{Found, Space};
use crate::table::{RowRef, Table};
use arrow::array::RecordBatch;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

impl Transaction {
    /// Adds all rows of the batches, which hold every column of the definition in its order (dropped ones as
    /// NULL). Returns how many.
    ///
    /// Sorts once by primary key. If the range between the smallest and the greatest new key holds no row,
    /// the rows become chunks directly, and parents are looked up once for each key that is referred to; otherwise
    /// the rows go in one by one, and foreign keys are checked by [`end_statement`](Self::end_statement).
    ///
    /// # Errors
    /// As [`insert`](Self::insert), and [`StoreError::BulkLoad`] if a batch has other columns than the table.
    /// Nothing is changed then.
    pub fn bulk_insert(&mut self, table: SpaceId, batches: &[RecordBatch]) -> Result<u64, StoreError> {
        self.bulk_insert_counted(table, batches, &AtomicU64::new(0))
    }

    /// As [`bulk_insert`](Self::bulk_insert). Rows that go in one by one are added to `written` as they do, for whoever looks on
    /// from another thread.
    ///
    /// # Errors
    /// As [`bulk_insert`](Self::bulk_insert).
    pub fn bulk_insert_counted(
        &mut self,
        table: SpaceId,
        batches: &[RecordBatch],
        written: &AtomicU64,
    ) -> Result<u64, StoreError> {
        self.writable("COPY")?;
        if self.table(table)?.bricks().is_some() {
            return self.append_whole(table, batches);
        }
        self.looked_at = self.begin_version();
        let table = Arc::clone(self.row_table(table)?);
        let batches: Vec<_> = batches.iter().filter(|batch| batch.num_rows() > 0).cloned().collect();
        let batches = self.batches_with_generated(&table, batches)?;
        let chunks = sorted_chunks(table.def(), &batches, &self.stop())?;
        let rows: usize = chunks.iter().map(|chunk| chunk.rows()).sum();
        let is_large = rows >= self.shared.sizes.direct_load_rows_min;
        let is_direct = is_large && self.takes_chunks(&table, &chunks)?;
        self.whole_or_not(|transaction| {
            if is_direct {
                transaction.take_chunks(&table, &chunks)
            } else {
                transaction.insert_chunks(&table, &chunks, written)
            }
        })?;
        Ok(rows as u64)
    }

    /// Adds all rows of the batches, as [`bulk_insert`](Self::bulk_insert), if they become chunks directly: if they
    /// come sorted by primary key, without one twice, their range is free, and the table has no indexes, which only
    /// take entries that are sorted as a whole. Whether they did; if not, nothing is changed. Several such loads one
    /// behind the other are what one of all rows would be.
    ///
    /// # Errors
    /// As [`bulk_insert`](Self::bulk_insert). Nothing is changed then.
    pub fn bulk_append(&mut self, table: SpaceId, batches: &[RecordBatch]) -> Result<bool, StoreError> {
        self.writable("COPY")?;
        if self.table(table)?.bricks().is_some() {
            return self.append_whole(table, batches).map(|_| true);
        }
        self.looked_at = self.begin_version();
        let table = Arc::clone(self.row_table(table)?);
        if !table.def().indexes.is_empty() {
            return Ok(false);
        }
        let batches = self.batches_with_generated(&table, batches.to_vec())?;
        let Some(chunks) = ordered_chunks(table.def(), &batches, &self.stop())? else { return Ok(false) };
        if !self.takes_chunks(&table, &chunks)? {
            return Ok(false);
        }
        self.whole_or_not(|transaction| transaction.take_chunks(&table, &chunks))?;
        Ok(true)
    }

    /// What the closure does, or nothing if it fails.
    fn whole_or_not(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let savepoint = self.savepoint();
        let outcome = change(self);
        if outcome.is_err() {
            self.rollback_to(&savepoint);
        }
        outcome
    }

    /// Makes the chunks a part of the base.
    fn take_chunks(&mut self, table: &Arc<Table>, chunks: &[Arc<Chunk>]) -> Result<(), StoreError> {
        self.check_chunks(table, chunks)?;
        self.load_chunks(table, chunks.to_vec())?;
        self.reference_parents(table, chunks)
    }

    /// Whether the chunks can become part of the base as they are: nothing lies in their range.
    fn takes_chunks(&self, table: &Table, chunks: &[Arc<Chunk>]) -> Result<bool, StoreError> {
        let (Some(first), Some(last)) = (chunks.first(), chunks.last()) else { return Ok(false) };
        let span =
            KeyRange { lower: Bound::Included(first.first_key()), upper: Bound::Included(last.last_key()) };
        self.note_range(table.id(), table.id(), &span);
        for index in table.def().indexes.iter().filter(|index| index.uniqueness.is_unique()) {
            self.note_range(table.id(), index.id, &KeyRange::all());
        }
        if table.def().foreign_keys.iter().any(|key| self.deferred.puts_off(table.id(), key)) {
            // Parents of rows that become chunks are looked up at once.
            return Ok(false);
        }
        let private = self.writes_of(table.id()).map(|writes| &writes.rows);
        let rows_free =
            is_free(table, &span)? && private.is_none_or(|rows| rows.iter_range(span).next().is_none());
        let indexes_free = table.indexes().iter().all(Space::has_no_parts)
            && self.writes_of(table.id()).is_none_or(|writes| writes.indexes.iter().all(|i| i.is_empty()));
        Ok(rows_free && indexes_free)
    }

    /// Checks the CHECK constraints of all rows.
    fn check_chunks(&self, table: &Arc<Table>, chunks: &[Arc<Chunk>]) -> Result<(), StoreError> {
        if !table.def().has_checks() {
            return Ok(());
        }
        let checks = self.shared.row_checks(table)?;
        for chunk in chunks {
            for index in 0..chunk.rows() {
                let row = RowRef::new(table.def(), table.missing(), Found::Base(chunk, index)).to_row();
                self.stop_if_asked()?;
                checks.check(table.def(), &row)?;
            }
        }
        Ok(())
    }

    fn load_chunks(&mut self, table: &Arc<Table>, chunks: Vec<Arc<Chunk>>) -> Result<(), StoreError> {
        let def = table.def();
        let stop = self.stop();
        let indexes: Result<Vec<_>, _> =
            def.indexes.iter().map(|index| index_chunks(def, index, &chunks, &stop)).collect();
        let load = BulkLoad::new(def.id, chunks, indexes?);
        self.keep(load.memory_bytes())?;
        self.reference_definition(def.id);
        Arc::make_mut(&mut self.world).update_table(def.id, |table| table.load(&load, &[]))?;
        Arc::make_mut(&mut self.loads).push(Arc::new(load));
        Ok(())
    }

    fn insert_chunks(
        &mut self,
        table: &Arc<Table>,
        chunks: &[Arc<Chunk>],
        written: &AtomicU64,
    ) -> Result<(), StoreError> {
        for chunk in chunks {
            for index in 0..chunk.rows() {
                let row = RowRef::new(table.def(), table.missing(), Found::Base(chunk, index)).to_row();
                self.stop_if_asked()?;
                self.insert(table.id(), row)?;
                written.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
