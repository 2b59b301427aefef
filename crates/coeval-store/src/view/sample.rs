// SPDX-License-Identifier: Apache-2.0
//! A few rows of a table, spread over all of it, for planners to try predicates on.

use super::TableView;
use crate::chunk::Chunk;
use crate::chunk_column::ChunkColumn;
use crate::column::{ColumnBuilder, constant_column, shown};
use crate::error::StoreError;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use std::sync::Arc;

/// From how many chunks rows are taken: each may have to be read from its file.
const CHUNKS_MAX: usize = 8;

impl TableView {
    /// At most about `count` rows, evenly spaced: the columns at these indexes of the definition, in this order.
    /// They are the base's rows, changed since or not; the delta's if there is no base. All rows if there are no
    /// more, which [`TableSample::is_whole`] tells.
    ///
    /// Costs `O(count)` per column, and reading the columns of up to eight chunks if they are not in memory.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if a chunk is damaged.
    ///
    /// # Panics
    /// If the definition has no such column.
    pub fn sample(&self, projection: &[usize], count: usize) -> Result<TableSample, StoreError> {
        let (mut batches, is_whole) = self.sampled(projection, count, &[0])?;
        Ok(TableSample { batch: batches.remove(0), is_whole })
    }

    /// [`sample`](Self::sample), and beside each of its rows the next one by their keys, or the one before if there is none in the same
    /// part of the table. They tell whether equal values stand together.
    ///
    /// # Errors
    /// As [`sample`](Self::sample).
    ///
    /// # Panics
    /// As [`sample`](Self::sample).
    pub fn sample_with_neighbours(
        &self,
        projection: &[usize],
        count: usize,
    ) -> Result<(TableSample, RecordBatch), StoreError> {
        let (mut batches, is_whole) = self.sampled(projection, count, &[0, 1])?;
        let neighbours = batches.remove(1);
        Ok((TableSample { batch: batches.remove(0), is_whole }, neighbours))
    }

    /// For each of these steps the rows that stand so far behind those of the sample, and whether the sample is all there is.
    fn sampled(
        &self,
        projection: &[usize],
        count: usize,
        steps: &[usize],
    ) -> Result<(Vec<RecordBatch>, bool), StoreError> {
        let schema = Arc::new(self.schema().project(projection).expect("the projection names columns"));
        let rows = self.table.rows();
        let chunks: Vec<&Arc<Chunk>> = rows.base().iter().map(|(_, chunk)| chunk).collect();
        if chunks.is_empty() {
            let batches = self.sample_of_delta(&schema, projection, count, steps)?;
            let is_whole = batches[0].num_rows() == rows.delta().len();
            return Ok((batches, is_whole));
        }
        let used = chunks.len().min(CHUNKS_MAX);
        let picked: Vec<&Chunk> = spread(chunks.len(), used).map(|index| chunks[index].as_ref()).collect();
        let rows_of_picked = picked.iter().map(|chunk| chunk.rows()).sum::<usize>().max(1);
        let mut parts: Vec<Vec<RecordBatch>> = vec![Vec::new(); steps.len()];
        for chunk in picked {
            // The last chunk is mostly shorter than the others: its rows count for no more than theirs.
            let share = (count * chunk.rows()).div_ceil(rows_of_picked);
            let of_chunk = self.sample_of_chunk(chunk, &schema, projection, share, steps)?;
            for (part, batch) in parts.iter_mut().zip(of_chunk) {
                part.push(batch);
            }
        }
        let batches = parts.iter().map(|part| concat_batches(&schema, part));
        let batches = batches.collect::<Result<Vec<_>, _>>()?;
        let is_whole = batches[0].num_rows() as u64 == rows.base_rows() && rows.delta().is_empty();
        Ok((batches, is_whole))
    }

    fn sample_of_chunk(
        &self,
        chunk: &Chunk,
        schema: &SchemaRef,
        projection: &[usize],
        count: usize,
        steps: &[usize],
    ) -> Result<Vec<RecordBatch>, StoreError> {
        let rows = chunk.rows();
        let read = projection.iter().map(|&column| chunk.read_scanned(column));
        let read = read.collect::<Result<Vec<_>, _>>()?;
        let mut batches = Vec::with_capacity(steps.len());
        for &step in steps {
            let places: UInt32Array = spread(rows, count.min(rows))
                .map(|index| {
                    u32::try_from(beside(index, step, rows)).expect("a chunk has fewer than 2^32 rows")
                })
                .collect();
            let column = |(&column, read): (&usize, &Option<ChunkColumn>)| {
                let ty = self.def().columns[column].ty;
                match read {
                    Some(read) => read.taken(&places).map(|taken| shown(taken, ty)),
                    None => Ok(constant_column(ty, &self.table.missing()[column], places.len())),
                }
            };
            let columns: Vec<ArrayRef> =
                projection.iter().zip(&read).map(column).collect::<Result<_, _>>()?;
            batches.push(batch_of(schema, columns, places.len())?);
        }
        Ok(batches)
    }

    fn sample_of_delta(
        &self,
        schema: &SchemaRef,
        projection: &[usize],
        count: usize,
        steps: &[usize],
    ) -> Result<Vec<RecordBatch>, StoreError> {
        let delta = self.table.rows().delta();
        let (def, missing) = (self.def(), self.table.missing());
        let count = count.min(delta.len());
        let builder = |&column: &usize| ColumnBuilder::new(def.columns[column].ty, count);
        let mut builders: Vec<Vec<ColumnBuilder>> =
            steps.iter().map(|_| projection.iter().map(builder).collect()).collect();
        let mut rows = 0;
        for index in spread(delta.len(), count) {
            let places = steps.iter().map(|&step| beside(index, step, delta.len()));
            let found = places.map(|place| delta.select(place).and_then(|(_, entry)| entry.row()));
            // What was deleted has no row.
            let Some(found) = found.collect::<Option<Vec<_>>>() else { continue };
            rows += 1;
            for (row, builders) in found.into_iter().zip(&mut builders) {
                for (&column, builder) in projection.iter().zip(builders) {
                    builder.push(row.get(def.layout(), column).unwrap_or_else(|| missing[column].borrow()));
                }
            }
        }
        let batch = |builders: &mut Vec<ColumnBuilder>| {
            batch_of(schema, builders.iter_mut().map(ColumnBuilder::finish).collect(), rows)
        };
        builders.iter_mut().map(batch).collect()
    }
}

fn batch_of(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, StoreError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// Some rows of a table.
#[derive(Clone, Debug)]
pub struct TableSample {
    /// The rows.
    pub batch: RecordBatch,
    /// Whether these are all rows there are.
    pub is_whole: bool,
}

/// `count` of `total` indexes, evenly spaced.
fn spread(total: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |index| index * total / count)
}

/// The index that stands so far behind this one of `total`, or before it if there is none.
fn beside(index: usize, step: usize, total: usize) -> usize {
    if index + step < total { index + step } else { index.saturating_sub(step) }
}
