// SPDX-License-Identifier: Apache-2.0
//! A few rows of a table, spread over all of it, for planners to try predicates on.

use super::TableView;
use crate::chunk::Chunk;
use crate::column::{ColumnBuilder, constant_column, shown};
use crate::error::StoreError;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{concat_batches, take};
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
        let schema = Arc::new(self.schema().project(projection).expect("the projection names columns"));
        let rows = self.table.rows();
        let chunks: Vec<&Arc<Chunk>> = rows.base().iter().map(|(_, chunk)| chunk).collect();
        if chunks.is_empty() {
            let batch = self.sample_of_delta(&schema, projection, count)?;
            return Ok(TableSample { is_whole: batch.num_rows() == rows.delta().len(), batch });
        }
        let used = chunks.len().min(CHUNKS_MAX);
        let picked: Vec<&Chunk> = spread(chunks.len(), used).map(|index| chunks[index].as_ref()).collect();
        let rows_of_picked = picked.iter().map(|chunk| chunk.rows()).sum::<usize>().max(1);
        let batches = picked
            .into_iter()
            .map(|chunk| {
                // The last chunk is mostly shorter than the others: its rows count for no more than theirs.
                let share = (count * chunk.rows()).div_ceil(rows_of_picked);
                self.sample_of_chunk(chunk, &schema, projection, share)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let batch = concat_batches(&schema, &batches)?;
        let is_whole = batch.num_rows() as u64 == rows.base_rows() && rows.delta().is_empty();
        Ok(TableSample { is_whole, batch })
    }

    fn sample_of_chunk(
        &self,
        chunk: &Chunk,
        schema: &SchemaRef,
        projection: &[usize],
        count: usize,
    ) -> Result<RecordBatch, StoreError> {
        let places: UInt32Array = spread(chunk.rows(), count.min(chunk.rows()))
            .map(|index| u32::try_from(index).expect("a chunk has fewer than 2^32 rows"))
            .collect();
        let read = projection.iter().zip(chunk.read_columns(projection)?);
        let column = |(&column, array): (&usize, Option<ArrayRef>)| match array {
            Some(array) => {
                take(&array, &places, None).map(|taken| shown(taken, self.def().columns[column].ty))
            }
            None => {
                let ty = self.def().columns[column].ty;
                Ok(constant_column(ty, &self.table.missing()[column], places.len()))
            }
        };
        let columns: Vec<ArrayRef> = read.map(column).collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
    }

    fn sample_of_delta(
        &self,
        schema: &SchemaRef,
        projection: &[usize],
        count: usize,
    ) -> Result<RecordBatch, StoreError> {
        let delta = self.table.rows().delta();
        let (def, missing) = (self.def(), self.table.missing());
        let count = count.min(delta.len());
        let mut builders: Vec<_> =
            projection.iter().map(|&column| ColumnBuilder::new(def.columns[column].ty, count)).collect();
        let entries = spread(delta.len(), count).filter_map(|index| delta.select(index));
        let mut rows = 0;
        for row in entries.filter_map(|(_, entry)| entry.row()) {
            rows += 1;
            for (&column, builder) in projection.iter().zip(&mut builders) {
                builder.push(row.get(def.layout(), column).unwrap_or_else(|| missing[column].borrow()));
            }
        }
        let columns = builders.iter_mut().map(ColumnBuilder::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
    }
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
