// SPDX-License-Identifier: Apache-2.0
//! Merging the delta of a space into new chunks.
//!
//! # Terms
//! Each chunk owns the keys from its first key up to the next chunk's; the first chunk also owns all before it.
//! A chunk is *changed* if the delta has an entry among the keys it owns. A *run* is a stretch of neighbouring
//! chunks that are written anew; everything else is kept as it is.
//!
//! ```text
//! chunks    [ a ][ b ][ c ][d][e][ f ]          d and e are small: they join
//! delta          ^ ^                  ^ ^ ^
//! plan      keep  run  keep  run   run
//! ```
//!
//! # Steps
//! 1. Plan: a chunk is in a run if it is changed, if the caller does not keep it, or if it is small and so is a
//!    neighbour or a neighbour is in a run.
//! 2. Each run is merged in key order and cut into chunks of equal size near the size of a full one.
//!
//! # Damage
//! A chunk of a run that cannot be read is kept as it is, if no change is of a key between its first and its last: what
//! comes before and behind it goes into chunks of its own. Writers of keys between these read the chunk first, and are
//! refused.
//!
//! # Cost
//! Memory for one new chunk at a time; time for the rows of the runs and the entries of the delta. A column is
//! put together from stretches of the old chunks' arrays and one array of the delta's rows.

use crate::catalog::TableDef;
use crate::chunk::{Chunk, ChunkSize};
use crate::column::{ColumnBuilder, compact, constant_column, dropped_column};
use crate::delta::{Change, Delta, DeltaEntry};
use crate::error::StoreError;
use crate::key::Key;
use crate::key_column::KeyColumnBuilder;
use crate::range::KeyRange;
use crate::row::Row;
use crate::space::Space;
use crate::value::Value;
use arrow::array::{Array, ArrayRef, MutableArrayData, make_array};
use std::ops::{Bound, Range};
use std::sync::Arc;

/// A chunk with less than this share (one in so many) of a full one's rows is small.
const SMALL_CHUNK_SHARE: usize = 2;

/// What a chunk of a merged space is.
#[derive(Debug)]
pub(crate) enum Merged {
    /// The old one.
    Kept(Arc<Chunk>),
    /// The next one of those that were given to the sink.
    New,
}

/// What the rows of a space look like: a table's definition and the values of columns that were added later;
/// `None` for an index.
pub(crate) type RowShape<'a> = Option<(&'a TableDef, &'a [Value])>;

/// Merges the delta of a space into its base, in chunks of about this size. New ones go to `sink` in key order; the result says where they
/// stand among the kept ones.
///
/// # Errors
/// What `sink` says; a chunk that cannot be read and has changes within.
pub(crate) fn merge(
    space: &Space,
    shape: RowShape<'_>,
    size: impl Into<ChunkSize>,
    keep: impl Fn(&Chunk) -> bool,
    mut sink: impl FnMut(Chunk) -> Result<(), StoreError>,
) -> Result<Vec<Merged>, StoreError> {
    let size = size.into();
    let mut merged = Vec::new();
    for part in plan(space, size, keep) {
        match part {
            Part::Keep(chunk) => merged.push(Merged::Kept(chunk)),
            Part::Run(run) => {
                let mut merge = RunMerge::new(shape, run.rows(space.delta()), size, |made| match made {
                    Made::New(chunk) => {
                        merged.push(Merged::New);
                        sink(*chunk)
                    }
                    Made::Kept(chunk) => {
                        merged.push(Merged::Kept(chunk));
                        Ok(())
                    }
                });
                for owner in &run.owners {
                    merge.add(owner, space.delta())?;
                }
                merge.flush()?;
            }
        }
    }
    Ok(merged)
}

/// A piece of the plan.
enum Part {
    Keep(Arc<Chunk>),
    Run(Run),
}

/// Neighbouring chunks that are written anew.
#[derive(Default)]
struct Run {
    owners: Vec<Owner>,
}

/// A chunk (none if the base is empty) and the keys it owns.
struct Owner {
    chunk: Option<Arc<Chunk>>,
    range: KeyRange,
}

impl Run {
    /// How many rows the run will have.
    fn rows(&self, delta: &Delta) -> usize {
        let of_owner = |owner: &Owner| {
            let base = owner.chunk.as_ref().map_or(0, |chunk| chunk.rows());
            let growth: isize = delta
                .iter_range(owner.range.clone())
                .map(|(_, entry)| match entry.change() {
                    Change::Inserted => 1,
                    Change::Replaced => 0,
                    Change::Deleted => -1,
                })
                .sum();
            base.checked_add_signed(growth).expect("no more keys are deleted than the chunk has")
        };
        self.owners.iter().map(of_owner).sum()
    }
}

fn plan(space: &Space, size: ChunkSize, keep: impl Fn(&Chunk) -> bool) -> Vec<Part> {
    let delta = space.delta();
    let owners = owners(space);
    let changed: Vec<bool> = owners
        .iter()
        .map(|owner| {
            delta.iter_range(owner.range.clone()).next().is_some()
                || owner.chunk.as_ref().is_some_and(|chunk| !keep(chunk))
        })
        .collect();
    let is_small = |index: usize| {
        owners.get(index).and_then(|owner| owner.chunk.as_ref()).is_some_and(|chunk| {
            chunk.rows() < size.rows / SMALL_CHUNK_SHARE && chunk.bytes() < size.bytes / SMALL_CHUNK_SHARE
        })
    };
    let is_written = |index: usize| {
        let neighbour = |other: usize| is_small(other) || changed.get(other).copied().unwrap_or(false);
        changed[index]
            || (is_small(index) && (neighbour(index + 1) || index.checked_sub(1).is_some_and(neighbour)))
    };
    let written: Vec<bool> = (0..owners.len()).map(is_written).collect();
    let mut parts: Vec<Part> = Vec::new();
    for (owner, written) in owners.into_iter().zip(written) {
        match (owner.chunk, written) {
            (Some(chunk), false) => parts.push(Part::Keep(chunk)),
            // An empty base with an empty delta.
            (None, false) => {}
            (chunk, true) => {
                let owner = Owner { chunk, range: owner.range };
                if let Some(Part::Run(run)) = parts.last_mut() {
                    run.owners.push(owner);
                } else {
                    parts.push(Part::Run(Run { owners: vec![owner] }));
                }
            }
        }
    }
    parts
}

/// The chunks with the keys they own; together they own every key.
fn owners(space: &Space) -> Vec<Owner> {
    let chunks: Vec<_> = space.base().iter().map(|(_, chunk)| Arc::clone(chunk)).collect();
    if chunks.is_empty() {
        return vec![Owner { chunk: None, range: KeyRange::all() }];
    }
    let starts: Vec<Key> = chunks.iter().map(|chunk| chunk.first_key()).collect();
    chunks
        .into_iter()
        .enumerate()
        .map(|(index, chunk)| {
            let lower = if index == 0 { Bound::Unbounded } else { Bound::Included(starts[index].clone()) };
            let upper = starts.get(index + 1).map_or(Bound::Unbounded, |next| Bound::Excluded(next.clone()));
            Owner { chunk: Some(chunk), range: KeyRange { lower, upper } }
        })
        .collect()
}

/// What comes of a run, piece by piece.
enum Made {
    New(Box<Chunk>),
    /// One that cannot be read.
    Kept(Arc<Chunk>),
}

/// Merges one run and cuts it into chunks.
struct RunMerge<'a, S> {
    shape: RowShape<'a>,
    sink: S,
    size: ChunkSize,
    /// Rows that are still to come, and chunks to put them in.
    rows_left: usize,
    chunks_left: usize,
    /// The chunk that is being put together.
    keys: KeyColumnBuilder,
    target: usize,
    /// The bytes of its rows, those of chunks by their average, and how many it may have.
    bytes: usize,
    bytes_max: usize,
    sources: Vec<Arc<Chunk>>,
    rows: Vec<Row>,
    stretches: Vec<Stretch>,
}

/// Rows of a new chunk that lie one behind the other in the same place.
struct Stretch {
    /// An index into `sources`; `None`: `rows`.
    source: Option<usize>,
    range: Range<usize>,
}

impl<'a, S: FnMut(Made) -> Result<(), StoreError>> RunMerge<'a, S> {
    fn new(shape: RowShape<'a>, rows: usize, size: ChunkSize, sink: S) -> Self {
        let chunks_left = chunks_of(rows, size);
        let target = rows.div_ceil(chunks_left);
        Self {
            shape,
            sink,
            size,
            rows_left: rows,
            chunks_left,
            keys: KeyColumnBuilder::with_capacity(target),
            target,
            bytes: 0,
            bytes_max: size.bytes,
            sources: Vec::new(),
            rows: Vec::new(),
            stretches: Vec::new(),
        }
    }

    /// Merges a chunk with its changes.
    fn add(&mut self, owner: &Owner, delta: &Delta) -> Result<(), StoreError> {
        // What is read of old chunks goes when the new one is written.
        let chunk = owner.chunk.as_ref().map(Chunk::to_read_once);
        if let Some(chunk) = &chunk
            && let Err(damage) = chunk.check_whole()
        {
            return self.add_unreadable(chunk, owner, delta, damage);
        }
        // What a row of the chunk takes, on average.
        let row_bytes = chunk.as_ref().map_or(1, |chunk| (chunk.bytes() / chunk.rows()).max(1));
        let mut next = 0;
        for (key, entry) in delta.iter_range(owner.range.clone()) {
            if let Some(chunk) = &chunk {
                let place = position(chunk, key, entry);
                let (until, behind) = match place {
                    Ok(index) => (index, index + 1),
                    Err(index) => (index, index),
                };
                self.add_base(chunk, next..until, row_bytes)?;
                next = behind;
            }
            if entry.is_present() {
                self.add_row(key, entry.row())?;
            }
        }
        match &chunk {
            Some(chunk) => self.add_base(chunk, next..chunk.rows(), row_bytes),
            None => Ok(()),
        }
    }

    /// Keeps a chunk that cannot be read, between the keys that came before and behind it.
    ///
    /// # Errors
    /// Why it cannot be read, if there are changes of its own keys or the disk may give it the next time.
    fn add_unreadable(
        &mut self,
        chunk: &Arc<Chunk>,
        owner: &Owner,
        delta: &Delta,
        damage: StoreError,
    ) -> Result<(), StoreError> {
        let (first, last) = (Bound::Included(chunk.first_key()), Bound::Included(chunk.last_key()));
        let within = KeyRange { lower: first, upper: last };
        let is_damaged = matches!(damage, StoreError::Corrupt { .. }) && chunk.place().is_some();
        if !is_damaged || delta.iter_range(within).next().is_some() {
            return Err(damage);
        }
        let before = KeyRange { upper: Bound::Excluded(chunk.first_key()), ..owner.range.clone() };
        let behind = KeyRange { lower: Bound::Excluded(chunk.last_key()), ..owner.range.clone() };
        self.add_rows(delta, before)?;
        self.flush()?;
        self.rows_left -= chunk.rows();
        self.chunks_left = chunks_of(self.rows_left, self.size);
        self.target = self.rows_left.div_ceil(self.chunks_left);
        (self.sink)(Made::Kept(Arc::clone(chunk)))?;
        self.add_rows(delta, behind)
    }

    /// Adds what was inserted where no chunk has keys.
    fn add_rows(&mut self, delta: &Delta, range: KeyRange) -> Result<(), StoreError> {
        let mut inserted = delta.iter_range(range).filter(|(_, entry)| entry.is_present());
        inserted.try_for_each(|(key, entry)| self.add_row(key, entry.row()))
    }

    fn add_base(
        &mut self,
        chunk: &Arc<Chunk>,
        mut range: Range<usize>,
        row_bytes: usize,
    ) -> Result<(), StoreError> {
        while !range.is_empty() {
            let fitting = (self.bytes_max.saturating_sub(self.bytes) / row_bytes).max(1);
            let room = (self.target - self.keys.len()).min(fitting);
            let end = range.end.min(range.start + room);
            self.bytes += row_bytes * (end - range.start);
            if self.sources.last().is_none_or(|last| !Arc::ptr_eq(last, chunk)) {
                self.sources.push(Arc::clone(chunk));
            }
            let source = Some(self.sources.len() - 1);
            self.stretches.push(Stretch { source, range: range.start..end });
            for index in range.start..end {
                self.keys.push(chunk.keys().get(index));
            }
            range.start = end;
            self.flush_full()?;
        }
        Ok(())
    }

    fn add_row(&mut self, key: &Key, row: Option<&Row>) -> Result<(), StoreError> {
        self.keys.push(key.as_slice());
        self.bytes += key.as_slice().len() + row.map_or(0, |row| row.as_bytes().len());
        let at = self.rows.len();
        match self.stretches.last_mut() {
            Some(Stretch { source: None, range }) => range.end += 1,
            _ => self.stretches.push(Stretch { source: None, range: at..at + 1 }),
        }
        // Entries of an index have no rows: their stretches are never looked at.
        self.rows.extend(row.cloned());
        self.flush_full()
    }

    fn flush_full(&mut self) -> Result<(), StoreError> {
        if self.keys.len() < self.target && self.bytes < self.bytes_max { Ok(()) } else { self.flush() }
    }

    /// Gives the chunk to the sink, if it has rows, and begins the next one.
    fn flush(&mut self) -> Result<(), StoreError> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let rows = self.keys.len();
        let columns = self.columns(rows)?;
        self.rows_left -= rows;
        self.chunks_left = (self.chunks_left - 1).max(1);
        self.target = self.rows_left.div_ceil(self.chunks_left);
        self.bytes = 0;
        let keys = std::mem::replace(&mut self.keys, KeyColumnBuilder::with_capacity(self.target));
        self.sources.clear();
        self.rows.clear();
        self.stretches.clear();
        (self.sink)(Made::New(Box::new(Chunk::new(keys.finish(), columns))))
    }

    fn columns(&self, rows: usize) -> Result<Vec<ArrayRef>, StoreError> {
        let Some((def, missing)) = self.shape else { return Ok(Vec::new()) };
        let all: Vec<usize> = (0..def.columns.len()).collect();
        all.iter().map(|&column| self.column(def, &missing[column], column, rows)).collect()
    }

    fn column(
        &self,
        def: &TableDef,
        missing: &Value,
        column: usize,
        rows: usize,
    ) -> Result<ArrayRef, StoreError> {
        if def.columns[column].dropped_at().is_some() {
            return Ok(dropped_column(rows));
        }
        let ty = def.columns[column].ty.stored();
        let mut builder = ColumnBuilder::new(ty, self.rows.len());
        for row in &self.rows {
            builder.push(row.get(def.layout(), column).unwrap_or_else(|| missing.borrow()));
        }
        let of_source = |source: &Arc<Chunk>| match source.column(column) {
            Some(array) => array.to_data(),
            None => constant_column(ty, missing, source.rows()).to_data(),
        };
        let mut arrays: Vec<_> = self.sources.iter().map(of_source).collect();
        arrays.push(builder.finish().to_data());
        let mut data = MutableArrayData::new(arrays.iter().collect(), false, rows);
        for stretch in &self.stretches {
            let source = stretch.source.unwrap_or(self.sources.len());
            data.try_extend(source, stretch.range.start, stretch.range.end)?;
        }
        Ok(compact(make_array(data.freeze())))
    }
}

/// In how many chunks so many rows go.
fn chunks_of(rows: usize, size: ChunkSize) -> usize {
    ((rows + size.rows / 2) / size.rows).max(1)
}

/// Where the key lies in its chunk, or would lie.
fn position(chunk: &Chunk, key: &Key, entry: &DeltaEntry) -> Result<usize, usize> {
    match (entry.change(), entry.position().index()) {
        (Change::Inserted, _) => {
            let place = chunk.keys().search(key.as_slice());
            assert!(place.is_err(), "a key that was inserted is not in the base");
            place
        }
        (Change::Replaced | Change::Deleted, Some(index)) => Ok(index),
        (Change::Replaced | Change::Deleted, None) => {
            let place = chunk.keys().search(key.as_slice());
            assert!(place.is_ok(), "a key that was replaced or deleted is in the base");
            place
        }
    }
}

#[cfg(test)]
mod tests;
