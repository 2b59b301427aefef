// SPDX-License-Identifier: Apache-2.0
//! The changes of one piece of a scan, laid out for merging with a chunk: which of its rows are replaced or
//! deleted, where new ones go, and the new rows' columns as arrays.

use crate::catalog::TableDef;
use crate::chunk::Chunk;
use crate::column::ColumnBuilder;
use crate::delta::{Change, Delta};
use crate::key::Key;
use crate::range::KeyRange;
use crate::row::Row;
use crate::value::Value;
use arrow::array::ArrayRef;
use std::ops::Range;
use std::sync::OnceLock;

/// A changed row and its place in the chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    /// The chunk's row that it takes the place of, or that it goes before.
    pub(crate) at: u32,
    /// Which of the changed rows.
    pub(crate) row: u32,
}

/// The changes of a piece's key range, each list in key order.
#[derive(Debug)]
pub(crate) struct Changes {
    /// The new rows.
    rows: Box<[Row]>,
    replaced: Box<[Placed]>,
    inserted: Box<[Placed]>,
    /// Rows of the chunk that are no more.
    deleted: Box<[u32]>,
    /// The new rows' columns, in the order of the definition, each made when a scan first wants it.
    columns: Box<[OnceLock<ArrayRef>]>,
}

/// What happens to some rows of a chunk that follow one another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowChanges<'a> {
    pub(crate) replaced: &'a [Placed],
    pub(crate) inserted: &'a [Placed],
    pub(crate) deleted: &'a [u32],
}

impl Changes {
    /// The changes that the delta has in this range, over this chunk.
    ///
    /// # Panics
    /// If a key that was replaced or deleted is not in the chunk, or the chunk's keys cannot be read.
    pub(super) fn collect(delta: &Delta, range: &KeyRange, chunk: Option<&Chunk>, columns: usize) -> Self {
        let mut rows = Vec::new();
        let (mut replaced, mut inserted, mut deleted) = (Vec::new(), Vec::new(), Vec::new());
        for (key, entry) in delta.iter_range(range.clone()) {
            let row = narrow(rows.len());
            rows.extend(entry.row().cloned());
            let Some(chunk) = chunk else {
                assert!(entry.change() == Change::Inserted, "only a chunk has rows to replace or delete");
                continue;
            };
            let old = || {
                let search = || chunk.keys().search(key.as_slice()).ok();
                let found = entry.position().index().or_else(search);
                narrow(found.expect("a key that was replaced or deleted is in the base"))
            };
            match entry.change() {
                Change::Inserted => inserted.push(Placed { at: place_of_new(chunk, key), row }),
                Change::Replaced => replaced.push(Placed { at: old(), row }),
                Change::Deleted => deleted.push(old()),
            }
        }
        let ascend = |placed: &[Placed]| placed.is_sorted_by_key(|placed| placed.at);
        assert!(ascend(&replaced) && ascend(&inserted) && deleted.is_sorted(), "changes are in key order");
        Self {
            rows: rows.into(),
            replaced: replaced.into(),
            inserted: inserted.into(),
            deleted: deleted.into(),
            columns: (0..columns).map(|_| OnceLock::new()).collect(),
        }
    }

    /// How many new rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// These columns of the new rows.
    pub(crate) fn columns(&self, def: &TableDef, missing: &[Value], projection: &[usize]) -> Vec<ArrayRef> {
        let wanted: Vec<usize> =
            projection.iter().copied().filter(|&column| self.columns[column].get().is_none()).collect();
        let mut builders: Vec<_> = wanted
            .iter()
            .map(|&column| ColumnBuilder::new(def.columns[column].ty.stored(), self.rows.len()))
            .collect();
        // Row by row: the rows lie scattered, and each is visited once.
        for row in &self.rows {
            for (&column, builder) in wanted.iter().zip(&mut builders) {
                builder.push(row.get(def.layout(), column).unwrap_or_else(|| missing[column].borrow()));
            }
        }
        for (&column, builder) in wanted.iter().zip(&mut builders) {
            // Whoever made the same array at the same time may come first.
            let _ = self.columns[column].set(builder.finish());
        }
        let made = |&column: &usize| self.columns[column].get().cloned().expect("it was just made");
        projection.iter().map(made).collect()
    }

    /// What happens to these rows of the chunk, which has `chunk_rows`. Rows that go behind the last one belong
    /// to the last window.
    pub(crate) fn of_window(&self, window: Range<usize>, chunk_rows: usize) -> WindowChanges<'_> {
        let (start, end) = (narrow(window.start), narrow(window.end));
        let inserted_end = if window.end == chunk_rows { u32::MAX } else { end };
        WindowChanges {
            replaced: part(&self.replaced, start, end, |placed| placed.at),
            inserted: part(&self.inserted, start, inserted_end, |placed| placed.at),
            deleted: part(&self.deleted, start, end, |deleted| *deleted),
        }
    }
}

impl WindowChanges<'_> {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.replaced.is_empty() && self.keeps_places()
    }

    /// Whether every row stays or is replaced where it is.
    pub(crate) fn keeps_places(&self) -> bool {
        self.inserted.is_empty() && self.deleted.is_empty()
    }
}

/// How many of the chunk's keys are smaller than a key that is not among them.
fn place_of_new(chunk: &Chunk, key: &Key) -> u32 {
    if *key > chunk.last_key() {
        return narrow(chunk.rows());
    }
    narrow(chunk.keys().search(key.as_slice()).expect_err("a key that was inserted is not in the base"))
}

fn part<T>(items: &[T], start: u32, end: u32, at: impl Fn(&T) -> u32) -> &[T] {
    let first = items.partition_point(|item| at(item) < start);
    let behind = items.partition_point(|item| at(item) < end);
    &items[first..behind]
}

fn narrow(index: usize) -> u32 {
    u32::try_from(index).expect("a chunk and its changes have fewer than 2^32 rows")
}
