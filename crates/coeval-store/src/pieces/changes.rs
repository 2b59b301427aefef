// SPDX-License-Identifier: Apache-2.0
//! The changes of one piece of a scan, laid out for merging with a chunk: which of its rows are as they were, where
//! new ones go, and the new rows' columns as arrays.

use crate::catalog::TableDef;
use crate::chunk::Chunk;
use crate::column::ColumnBuilder;
use crate::delta::{BasePosition, Change, Delta};
use crate::key::Key;
use crate::range::KeyRange;
use crate::value::Value;
use arrow::array::{ArrayRef, BooleanBufferBuilder};
use arrow::buffer::BooleanBuffer;
use std::ops::Range;
use std::sync::OnceLock;

/// The changes of a piece's key range.
#[derive(Debug)]
pub(crate) struct Changes {
    /// The table's delta, which has the new rows in this range. Read where they are: to count another user of each would cost
    /// more than to read it.
    delta: Delta,
    range: KeyRange,
    /// For each new row the chunk's row that it takes the place of, or that it goes before.
    places: Box<[u32]>,
    /// Which of the chunk's rows are neither replaced nor deleted.
    unchanged: BooleanBuffer,
    /// The new rows' columns, in the order of the definition, each made when a scan first wants it.
    columns: Box<[OnceLock<ArrayRef>]>,
}

impl Changes {
    /// The changes that the delta has in this range, over this chunk.
    ///
    /// # Panics
    /// If a key that was replaced or deleted is not in the chunk, or the chunk's keys cannot be read.
    pub(super) fn collect(delta: &Delta, range: &KeyRange, chunk: Option<&Chunk>, columns: usize) -> Self {
        let mut places = Vec::new();
        let chunk_rows = chunk.map_or(0, Chunk::rows);
        let mut unchanged = BooleanBufferBuilder::new(chunk_rows);
        unchanged.append_n(chunk_rows, true);
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
                    place
                }
            };
            if entry.row().is_some() {
                places.push(narrow(place));
            }
        }
        assert!(places.is_sorted(), "changes are in key order");
        Self {
            delta: delta.clone(),
            range: range.clone(),
            places: places.into(),
            unchanged: unchanged.finish(),
            columns: (0..columns).map(|_| OnceLock::new()).collect(),
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

    /// How many new rows are read with the rows of the chunk before this one, of `chunk_rows`. Those that go behind the last one are
    /// read with it.
    pub(crate) fn new_rows_before(&self, row: usize, chunk_rows: usize) -> usize {
        if row == chunk_rows {
            self.rows()
        } else {
            self.places.partition_point(|place| (*place as usize) < row)
        }
    }

    /// Which of these rows of the chunk are neither replaced nor deleted.
    pub(crate) fn unchanged_in(&self, window: &Range<usize>) -> BooleanBuffer {
        self.unchanged.slice(window.start, window.len())
    }

    /// The chunk's row that a new row takes the place of, or that it goes before.
    pub(crate) fn place(&self, new_row: usize) -> usize {
        self.places[new_row] as usize
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
