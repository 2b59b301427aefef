// SPDX-License-Identifier: Apache-2.0
//! The changes of one piece of a scan, laid out for merging with a chunk: which of its rows are as they were, where
//! new ones go, and the new rows' columns as arrays.
//!
//! A row that replaces one of the chunk is put into its place where all columns that are read allow it (`patch.rs`): then only rows that
//! were inserted are read beside the chunk.

use super::new_rows::NewRows;
use super::patch::{ColumnPatch, Patch};
use crate::catalog::TableDef;
use crate::chunk::Chunk;
use crate::chunk_column::ChunkColumn;
use crate::chunk_stats::{ChunkStats, ColumnStats, column_stats};
use crate::column::ColumnBuilder;
use crate::delta::{BasePosition, Change, Delta};
use crate::key::Key;
use crate::range::KeyRange;
use crate::value::Value;
use arrow::array::{ArrayRef, BooleanArray, BooleanBufferBuilder, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter, not};
use arrow::error::ArrowError;
use std::sync::{Arc, OnceLock};

/// The changes of a piece's key range.
#[derive(Debug)]
pub(crate) struct Changes {
    /// The table's delta, which has the new rows in this range. Read where they are: to count another user of each would cost
    /// more than to read it.
    delta: Delta,
    range: KeyRange,
    /// For each new row the chunk's row that it takes the place of, or that it goes before.
    places: Arc<[u32]>,
    /// Which of the new rows replace one of the chunk.
    replacing: BooleanArray,
    /// The places of those that do.
    replaced: UInt32Array,
    /// The places of those that do not.
    inserted: Arc<[u32]>,
    /// Which of the chunk's rows are neither replaced nor deleted.
    unchanged: BooleanBuffer,
    /// Which of the chunk's rows are not deleted.
    not_deleted: BooleanBuffer,
    /// The new rows' columns, in the order of the definition, each made when a scan first wants it.
    columns: Box<[OnceLock<ArrayRef>]>,
    /// What is known of these columns, in the same order.
    stats: Box<[OnceLock<ColumnStats>]>,
    /// What rows that replace others change in the chunk's columns, in the same order, found when a scan first wants it.
    patches: Box<[OnceLock<ColumnPatch>]>,
}

impl Changes {
    /// The changes that the delta has in this range, over this chunk.
    ///
    /// # Panics
    /// If a key that was replaced or deleted is not in the chunk, or the chunk's keys cannot be read.
    pub(super) fn collect(delta: &Delta, range: &KeyRange, chunk: Option<&Chunk>, columns: usize) -> Self {
        let (mut places, mut replacing) = (Vec::new(), Vec::new());
        let chunk_rows = chunk.map_or(0, Chunk::rows);
        let all = || {
            let mut rows = BooleanBufferBuilder::new(chunk_rows);
            rows.append_n(chunk_rows, true);
            rows
        };
        let (mut unchanged, mut not_deleted) = (all(), all());
        for (key, entry) in delta.iter_range(range.clone()) {
            let place = match (chunk, entry.change()) {
                (None, change) => {
                    assert!(change == Change::Inserted, "only a chunk has rows to replace or delete");
                    0
                }
                (Some(chunk), Change::Inserted) => place_of_new(chunk, key),
                (Some(chunk), Change::Replaced | Change::Deleted) => {
                    let place = place_of_old(chunk, key, entry.position());
                    unchanged.set_bit(place, false);
                    not_deleted.set_bit(place, entry.row().is_some());
                    place
                }
            };
            if entry.row().is_some() {
                places.push(narrow(place));
                replacing.push(entry.change() == Change::Replaced);
            }
        }
        assert!(places.is_sorted(), "changes are in key order");
        let of_those = |wanted: bool| {
            let new_rows = places.iter().zip(&replacing);
            new_rows.filter(move |(_, replaces)| **replaces == wanted).map(|(place, _)| *place)
        };
        Self {
            delta: delta.clone(),
            range: range.clone(),
            replaced: of_those(true).collect::<Vec<u32>>().into(),
            inserted: of_those(false).collect(),
            places: places.as_slice().into(),
            replacing: replacing.into(),
            unchanged: unchanged.finish(),
            not_deleted: not_deleted.finish(),
            columns: (0..columns).map(|_| OnceLock::new()).collect(),
            stats: (0..columns).map(|_| OnceLock::new()).collect(),
            patches: (0..columns).map(|_| OnceLock::new()).collect(),
        }
    }

    /// How many new rows.
    pub(crate) fn rows(&self) -> usize {
        self.places.len()
    }

    /// These columns of the new rows.
    pub(crate) fn columns(&self, def: &TableDef, missing: &[Value], projection: &[usize]) -> Vec<ArrayRef> {
        let wanted: Vec<usize> =
            projection.iter().copied().filter(|&column| self.columns[column].get().is_none()).collect();
        if !wanted.is_empty() {
            self.make_columns(def, missing, &wanted);
        }
        let made = |&column: &usize| self.columns[column].get().cloned().expect("it was just made");
        projection.iter().map(made).collect()
    }

    fn make_columns(&self, def: &TableDef, missing: &[Value], wanted: &[usize]) {
        let builder = |&column: &usize| ColumnBuilder::new(def.columns[column].ty.stored(), self.rows());
        let mut builders: Vec<_> = wanted.iter().map(builder).collect();
        // Row by row: the rows lie scattered, and each is visited once.
        for row in self.delta.iter_range(self.range.clone()).filter_map(|(_, entry)| entry.row()) {
            for (&column, builder) in wanted.iter().zip(&mut builders) {
                builder.push(row.get(def.layout(), column).unwrap_or_else(|| missing[column].borrow()));
            }
        }
        for (&column, builder) in wanted.iter().zip(&mut builders) {
            // Whoever made the same array at the same time may come first.
            let _ = self.columns[column].set(builder.finish());
        }
    }

    /// What is known of the new rows by these columns of theirs, which [`columns`](Self::columns) gave; nothing of their other columns.
    pub(crate) fn stats(&self, projection: &[usize], columns: &[ArrayRef]) -> ChunkStats {
        let mut stats = vec![ColumnStats::default(); self.columns.len()];
        for (&column, array) in projection.iter().zip(columns) {
            stats[column] = self.stats[column].get_or_init(|| column_stats(array.as_ref())).clone();
        }
        ChunkStats { rows: self.rows(), columns: stats }
    }

    /// All new rows, to be read beside the chunk's rows that are as they were. Their columns are those that [`columns`](Self::columns) gave.
    pub(crate) fn all_rows(&self, columns: Vec<ArrayRef>) -> NewRows {
        NewRows::new(columns, &self.places, &self.unchanged)
    }

    /// The new rows that replace none, to be read beside the chunk's rows into whose columns the others were put.
    ///
    /// # Errors
    /// If Arrow cannot leave out rows of a column: a bug.
    pub(crate) fn inserted_rows(&self, columns: Vec<ArrayRef>) -> Result<NewRows, ArrowError> {
        if self.replaced.is_empty() {
            return Ok(self.all_rows(columns));
        }
        let inserted = not(&self.replacing)?;
        let columns = columns.iter().map(|column| filter(column, &inserted));
        Ok(NewRows::new(columns.collect::<Result<_, _>>()?, &self.inserted, &self.not_deleted))
    }

    /// What rows that replace others change in these columns of the chunk, by the place in the projection, and these columns in the form
    /// that it can be put into; `None` if one of them has none: then new rows are read beside the chunk's.
    ///
    /// # Errors
    /// If new values are of another type than the chunk's: a bug.
    pub(crate) fn patches(
        &self,
        projection: &[usize],
        chunk: &mut [ChunkColumn],
        new: &[ArrayRef],
    ) -> Result<Option<Vec<(usize, Patch)>>, ArrowError> {
        if self.replaced.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let mut fitted = Vec::new();
        for (place, column) in projection.iter().enumerate() {
            let patch = self.patch(*column, &chunk[place], &new[place])?;
            if patch.is_empty() {
                continue;
            }
            let of_column = match &chunk[place] {
                ChunkColumn::Array(array) => {
                    patch.fitted(array)?.map(|(array, patch)| (ChunkColumn::Array(array), patch))
                }
                ChunkColumn::Packed(packed) => {
                    Some((ChunkColumn::Packed(packed.clone()), patch.of_numbers(packed.data_type())?))
                }
                // They go out as texts, which have no places for others.
                ChunkColumn::Coded(_) => None,
            };
            let Some((column, patch)) = of_column else { return Ok(None) };
            fitted.push((place, column, patch));
        }
        let patches = fitted.into_iter().map(|(place, column, patch)| {
            chunk[place] = column;
            (place, patch)
        });
        Ok(Some(patches.collect()))
    }

    fn patch(&self, column: usize, chunk: &ChunkColumn, new: &ArrayRef) -> Result<&ColumnPatch, ArrowError> {
        if let Some(patch) = self.patches[column].get() {
            return Ok(patch);
        }
        let new = if self.inserted.is_empty() { Arc::clone(new) } else { filter(new, &self.replacing)? };
        let taken = chunk.taken(&self.replaced)?;
        let patch = ColumnPatch::between(&taken, &self.replaced, new)?;
        // Whoever found the same at the same time may come first.
        Ok(self.patches[column].get_or_init(|| patch))
    }
}

/// How many of the chunk's keys are smaller than a key that is not among them.
fn place_of_new(chunk: &Chunk, key: &Key) -> usize {
    if *key > chunk.last_key() {
        return chunk.rows();
    }
    chunk.keys().search(key.as_slice()).expect_err("a key that was inserted is not in the base")
}

/// Where the chunk has a key that was there before the change.
fn place_of_old(chunk: &Chunk, key: &Key, position: BasePosition) -> usize {
    let search = || chunk.keys().search(key.as_slice()).ok();
    position.index().or_else(search).expect("a key that was replaced or deleted is in the base")
}

fn narrow(index: usize) -> u32 {
    u32::try_from(index).expect("a chunk and its changes have fewer than 2^32 rows")
}
