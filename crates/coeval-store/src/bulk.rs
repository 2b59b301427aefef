// SPDX-License-Identifier: Apache-2.0
//! Bulk loads: batches of rows become chunks without a row in between.
//!
//! Where the key range of the load holds no key yet, its rows, sorted once, are chunks: nothing goes through
//! the delta, and the log holds a reference to the segment file that the chunks were written to (`bulk_load.rs`).

use crate::build_index::key_chunks;
use crate::bulk_load::BulkLoad;
use crate::catalog::{ColumnDef, IndexDef, TableDef};
use crate::chunk::{CHUNK_BYTES_MAX, CHUNK_ROWS, Chunk};
use crate::column::{compact, dropped_column, slice_bytes, stored};
use crate::cursor::SpaceCursor;
use crate::error::{ConstraintError, StoreError};
use crate::key::Key;
use crate::key_column::KeyColumnBuilder;
use crate::key_size::check_key_size;
use crate::range::{Direction, KeyRange};
use crate::stop::{Stop, sort};
use crate::table::{RowRef, Table, missing_values};
use crate::taken_keys::{primary_key_taken, unique_key_taken};
use crate::value::{KeyWriter, value_at};
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::interleave;
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};
use rayon::slice::ParallelSlice;
use std::ops::Bound;
use std::sync::Arc;

/// Whether the rows came sorted by primary key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InputOrder {
    Sorted,
    Mixed,
}

/// Where a row of the input lies.
type RowPlace = (u32, u32);

/// Checks the batches against the definition and sorts them into chunks by primary key.
///
/// # Errors
/// [`StoreError::BulkLoad`] if a batch has other columns than the table; [`StoreError::Constraint`] for NULL in
/// a NOT NULL column and for a key that is there twice.
pub(crate) fn sorted_chunks(
    def: &TableDef,
    batches: &[RecordBatch],
    stop: Stop<'_>,
) -> Result<Vec<Arc<Chunk>>, StoreError> {
    let mut rows = keyed_rows(def, batches, stop)?;
    let order = order_of(&rows);
    if order == InputOrder::Mixed {
        sort(&mut rows, stop)?;
        if let Some(pair) = rows.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let (batch, row) = pair[1].1;
            return Err(duplicate(def, &batches[batch as usize], row as usize).into());
        }
    }
    chunks_of_rows(def, batches, &rows, order, stop)
}

/// As [`sorted_chunks`] for rows that come sorted, without a key twice; `None` if they do not.
///
/// # Errors
/// As [`sorted_chunks`].
pub(crate) fn ordered_chunks(
    def: &TableDef,
    batches: &[RecordBatch],
    stop: Stop<'_>,
) -> Result<Option<Vec<Arc<Chunk>>>, StoreError> {
    let rows = keyed_rows(def, batches, stop)?;
    match order_of(&rows) {
        InputOrder::Sorted => chunks_of_rows(def, batches, &rows, InputOrder::Sorted, stop).map(Some),
        InputOrder::Mixed => Ok(None),
    }
}

/// Rows whose keys are made before somebody looks whether the statement is to end.
const ROWS_BETWEEN_LOOKS: usize = 4_096;

/// The key and the place of each row, as they come.
fn keyed_rows(
    def: &TableDef,
    batches: &[RecordBatch],
    stop: Stop<'_>,
) -> Result<Vec<(Key, RowPlace)>, StoreError> {
    for batch in batches {
        check_batch(def, batch)?;
    }
    let rows = batches.par_iter().enumerate().flat_map_iter(|(batch_index, batch)| {
        let mut writer = KeyWriter::new();
        (0..batch.num_rows()).map(move |row| {
            if row.is_multiple_of(ROWS_BETWEEN_LOOKS) {
                stop()?;
            }
            writer.clear();
            for &column in &def.primary_key {
                writer.push(value_at(batch.column(column).as_ref(), row));
            }
            check_key_size(&def.primary_key_name, writer.as_slice())?;
            Ok((writer.finish(), (batch_index as u32, row as u32)))
        })
    });
    rows.collect()
}

fn order_of(rows: &[(Key, RowPlace)]) -> InputOrder {
    let is_sorted = rows.windows(2).all(|pair| pair[0].0 < pair[1].0);
    if is_sorted { InputOrder::Sorted } else { InputOrder::Mixed }
}

fn chunks_of_rows(
    def: &TableDef,
    batches: &[RecordBatch],
    rows: &[(Key, RowPlace)],
    order: InputOrder,
    stop: Stop<'_>,
) -> Result<Vec<Arc<Chunk>>, StoreError> {
    let kept_of = |(index, column): (usize, &ColumnDef)| -> Vec<ArrayRef> {
        let of_batch = |batch: &RecordBatch| match column.dropped_at().is_some() {
            true => dropped_column(batch.num_rows()),
            false => stored(batch.column(index)),
        };
        batches.iter().map(of_batch).collect()
    };
    let kept: Vec<Vec<ArrayRef>> = def.columns.iter().enumerate().map(kept_of).collect();
    let columns: Vec<Vec<&dyn Array>> =
        kept.iter().map(|arrays| arrays.iter().map(AsRef::as_ref).collect()).collect();
    rows.par_chunks(rows_of_chunk(batches))
        .map(|rows| {
            stop()?;
            let mut keys = KeyColumnBuilder::with_capacity(rows.len());
            rows.iter().for_each(|(key, _)| keys.push(key.as_slice()));
            let columns: Result<Vec<ArrayRef>, StoreError> =
                columns.iter().map(|arrays| gather(arrays, rows, order)).collect();
            Ok(Arc::new(Chunk::new(keys.finish(), columns?)))
        })
        .collect()
}

/// How many of these rows are a full chunk, if they are all of one size.
fn rows_of_chunk(batches: &[RecordBatch]) -> usize {
    let bytes: usize = batches.iter().flat_map(RecordBatch::columns).map(|array| slice_bytes(array)).sum();
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let row_bytes = (bytes / rows.max(1)).max(1);
    (CHUNK_BYTES_MAX / row_bytes).clamp(1, CHUNK_ROWS)
}

/// One column of a chunk: slices put together where the input was in order, else row by row.
fn gather(
    arrays: &[&dyn Array],
    rows: &[(Key, RowPlace)],
    order: InputOrder,
) -> Result<ArrayRef, StoreError> {
    if order == InputOrder::Mixed {
        let places: Vec<_> = rows.iter().map(|(_, (batch, row))| (*batch as usize, *row as usize)).collect();
        return Ok(compact(interleave(arrays, &places)?));
    }
    let mut slices: Vec<ArrayRef> = Vec::new();
    let mut start = 0;
    while start < rows.len() {
        let (batch, first) = rows[start].1;
        let rest = arrays[batch as usize].len() - first as usize;
        let length = rest.min(rows.len() - start);
        slices.push(arrays[batch as usize].slice(first as usize, length));
        start += length;
    }
    let slices: Vec<&dyn Array> = slices.iter().map(AsRef::as_ref).collect();
    Ok(compact(arrow::compute::concat(&slices)?))
}

fn check_batch(def: &TableDef, batch: &RecordBatch) -> Result<(), StoreError> {
    if batch.num_columns() != def.columns.len() {
        return Err(StoreError::BulkLoad(format!(
            "table {} has {} columns, the batch has {}",
            def.name,
            def.columns.len(),
            batch.num_columns()
        )));
    }
    for (column, array) in def.columns.iter().zip(batch.columns()) {
        if *array.data_type() != column.ty.arrow() {
            return Err(StoreError::BulkLoad(format!(
                "column \"{}\" of table {} is of type {}, the batch has {}",
                column.name,
                def.name,
                column.ty.arrow(),
                array.data_type()
            )));
        }
        if column.not_null && array.null_count() > 0 {
            return Err(ConstraintError::NotNull {
                table: Box::new(def.name.clone()),
                column: column.name.clone(),
            }
            .into());
        }
    }
    Ok(())
}

fn duplicate(def: &TableDef, batch: &RecordBatch, row: usize) -> ConstraintError {
    let chunk = Chunk::new(
        {
            let mut keys = KeyColumnBuilder::with_capacity(1);
            keys.push(b"row");
            keys.finish()
        },
        batch.columns().iter().map(|array| array.slice(row, 1)).collect(),
    );
    let missing = missing_values(def);
    primary_key_taken(def, RowRef::new(def, &missing, crate::space::Found::Base(&chunk, 0)))
}

/// Whether chunks may go into this range: no chunk overlaps it and no changed key lies in it.
///
/// # Errors
/// [`StoreError::Corrupt`] if a chunk of the range is damaged.
pub(crate) fn is_free(table: &Table, span: &KeyRange) -> Result<bool, StoreError> {
    let rows = table.rows();
    if rows.has_changes_in(span) || overlapping_chunk(table, span).is_some() {
        return Ok(false);
    }
    Ok(SpaceCursor::new(rows, None, span, Direction::Forward).next().transpose()?.is_none())
}

/// A chunk whose first key lies in the range or before it with its last key inside or behind.
fn overlapping_chunk<'a>(table: &'a Table, span: &KeyRange) -> Option<&'a Arc<Chunk>> {
    let (Bound::Included(first), Bound::Included(last)) = (&span.lower, &span.upper) else { return None };
    let (_, chunk) = table.rows().base().floor(last)?;
    (chunk.last_key() >= *first).then_some(chunk)
}

/// The entries of the loaded rows in one index, as chunks.
///
/// # Errors
/// [`StoreError::Constraint`] if the index is unique and a key has two owners among the loaded rows.
pub(crate) fn index_chunks(
    def: &TableDef,
    index: &IndexDef,
    chunks: &[Arc<Chunk>],
    stop: Stop<'_>,
) -> Result<Vec<Arc<Chunk>>, StoreError> {
    let entries = sorted_entries(def, index, chunks, stop)?;
    if index.uniqueness.is_unique() {
        let missing = missing_values(def);
        let row_at = |(chunk, row): RowPlace| {
            RowRef::new(def, &missing, crate::space::Found::Base(&chunks[chunk as usize], row as usize))
        };
        let same = |a: RowRef<'_>, b: RowRef<'_>| {
            index.columns.iter().all(|&column| !a.get(column).is_null() && a.get(column) == b.get(column))
        };
        if let Some(pair) = entries.windows(2).find(|pair| same(row_at(pair[0].1), row_at(pair[1].1))) {
            return Err(unique_key_taken(def, index, row_at(pair[1].1)).into());
        }
    }
    Ok(key_chunks(entries.iter().map(|(key, _)| key.as_slice())))
}

/// Has a load follow its table from one definition to the next, so that it has one list for each index there as well.
///
/// Uniqueness of new indexes is not looked at: the transaction may have deleted one of two owners since.
///
/// # Errors
/// [`StoreError::KeySize`] if an entry of a new index is too long; that of `stop`.
pub(crate) fn realign(
    load: &mut BulkLoad,
    old: &TableDef,
    new: &TableDef,
    stop: Stop<'_>,
) -> Result<(), StoreError> {
    let indexes: Vec<Vec<Arc<Chunk>>> = new
        .indexes
        .iter()
        .map(|index| match old.indexes.iter().position(|candidate| candidate.id == index.id) {
            Some(position) => Ok(load.indexes()[position].clone()),
            None => {
                let entries = sorted_entries(new, index, load.chunks(), stop)?;
                Ok(key_chunks(entries.iter().map(|(key, _)| key.as_slice())))
            }
        })
        .collect::<Result<_, StoreError>>()?;
    load.set_indexes(indexes);
    Ok(())
}

/// The entries of the loaded rows in one index, and where their rows lie.
fn sorted_entries(
    def: &TableDef,
    index: &IndexDef,
    chunks: &[Arc<Chunk>],
    stop: Stop<'_>,
) -> Result<Vec<(Key, RowPlace)>, StoreError> {
    let missing = missing_values(def);
    let mut entries: Vec<(Key, RowPlace)> = chunks
        .into_par_iter()
        .enumerate()
        .flat_map_iter(|(chunk_index, chunk)| {
            let missing = &missing;
            (0..chunk.rows()).map(move |row| {
                stop()?;
                let place = RowRef::new(def, missing, crate::space::Found::Base(chunk, row));
                let primary_key = Key::from_slice(chunk.keys().get(row));
                let entry = place.index_entry(index, &primary_key);
                check_key_size(&index.name, entry.as_slice())?;
                Ok((entry, (chunk_index as u32, row as u32)))
            })
        })
        .collect::<Result<_, StoreError>>()?;
    sort(&mut entries, stop)?;
    Ok(entries)
}
