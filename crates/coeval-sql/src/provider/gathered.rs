// SPDX-License-Identifier: Apache-2.0
//! Rows that filters have left of several batches, gathered into batches of full size.

use super::coded_columns::CodedColumns;
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::BatchCoalescer;
use arrow::datatypes::SchemaRef;
use coeval_store::SCAN_BATCH_ROWS;
use datafusion::error::Result;
use std::collections::VecDeque;
use std::sync::Arc;

/// See the module. Rows that have codes of different texts do not come into one batch.
pub(super) struct GatheredRows {
    coalescer: BatchCoalescer,
    codes: CodedColumns,
    /// What was gathered before others came, which have codes of other texts.
    before: VecDeque<RecordBatch>,
}

impl GatheredRows {
    /// None yet, of this schema, whose columns at these places are codes.
    pub(super) fn new(output: &SchemaRef, coded: &[usize]) -> Self {
        let codes = CodedColumns::new(output, coded);
        let coalescer = BatchCoalescer::new(Arc::clone(codes.gathered()), SCAN_BATCH_ROWS)
            .with_biggest_coalesce_batch_size(Some(SCAN_BATCH_ROWS / 2));
        Self { coalescer, codes, before: VecDeque::new() }
    }

    /// Whether no row waits.
    pub(super) fn is_empty(&self) -> bool {
        self.before.is_empty() && self.coalescer.is_empty()
    }

    /// Takes these rows, or those that are marked.
    pub(super) fn push(&mut self, rows: RecordBatch, marked: Option<&BooleanArray>) -> Result<()> {
        if self.codes.are_of_others(&rows) {
            self.coalescer.finish_buffered_batch()?;
            while let Some(gathered) = self.coalescer.next_completed_batch() {
                self.before.push_back(self.codes.coded(gathered)?);
            }
            self.codes.note_texts_of(&rows);
        }
        let rows = self.codes.numbered(rows)?;
        match marked {
            Some(marked) => self.coalescer.push_batch_with_filter(rows, marked)?,
            None => self.coalescer.push_batch(rows)?,
        }
        Ok(())
    }

    /// No more rows come: those that wait are a batch, even if it is not full.
    pub(super) fn finish(&mut self) -> Result<()> {
        Ok(self.coalescer.finish_buffered_batch()?)
    }

    /// The next batch that is complete.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(batch) = self.before.pop_front() {
            return Ok(Some(batch));
        }
        self.coalescer.next_completed_batch().map(|batch| self.codes.coded(batch)).transpose()
    }
}
