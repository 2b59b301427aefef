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

/// Batches of more rows go out as they are, unless fewer rows wait.
const LARGE_ROWS: usize = SCAN_BATCH_ROWS / 2;

/// See the module. Rows that have codes of different texts do not come into one batch.
pub(super) struct GatheredRows {
    coalescer: BatchCoalescer,
    codes: CodedColumns,
    /// What goes out before the rows that are gathered: those that were before others came, which have codes of other texts, and large
    /// batches.
    before: VecDeque<RecordBatch>,
}

impl GatheredRows {
    /// None yet, of this schema, whose columns at these places are codes.
    pub(super) fn new(output: &SchemaRef, coded: &[usize]) -> Self {
        let codes = CodedColumns::new(output, coded);
        let coalescer = BatchCoalescer::new(Arc::clone(codes.gathered()), SCAN_BATCH_ROWS)
            .with_biggest_coalesce_batch_size(Some(LARGE_ROWS));
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
        // Made of numbers again, its codes would be checked one by one.
        if marked.is_none() && rows.num_rows() > LARGE_ROWS && self.coalescer.is_empty() {
            self.before.push_back(rows);
            return Ok(());
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

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, StringViewArray, UInt16Array, UInt16DictionaryArray};
    use arrow::datatypes::{Field, Schema};
    use coeval_store::coded_text_type;

    #[test]
    fn a_large_batch_goes_out_as_it_is_if_no_rows_wait() {
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("t", coded_text_type(), true)]));
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b"]));
        let rows = |count: u16| {
            let numbers = UInt16Array::from_iter_values((0..count).map(|row| row % 2));
            let codes: ArrayRef = Arc::new(UInt16DictionaryArray::new(numbers, Arc::clone(&texts)));
            RecordBatch::try_new(Arc::clone(&schema), vec![codes]).unwrap()
        };
        let mut gathered = GatheredRows::new(&schema, &[0]);
        let large = rows(6_000);
        gathered.push(large.clone(), None).unwrap();
        gathered.push(large.clone(), None).unwrap();
        gathered.push(rows(10), None).unwrap();
        gathered.push(rows(5_000), None).unwrap();
        gathered.finish().unwrap();
        let mut batches = Vec::new();
        while let Some(batch) = gathered.next_batch().unwrap() {
            batches.push(batch);
        }
        assert!(gathered.is_empty());
        assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [6_000, 6_000, 5_010]);
        assert!(batches[..2].iter().all(|batch| Arc::ptr_eq(batch.column(0), large.column(0))));
    }
}
