// SPDX-License-Identifier: Apache-2.0
//! All filters of a scan, asked one after the other of the rows that are left.

use super::row_filter::Filter;
use super::scan_metrics::WithoutPartner;
use crate::error::SqlError;
use arrow::array::{Array, BooleanArray, BooleanBufferBuilder, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter_record_batch, prep_null_mask_filter};
use arrow::datatypes::SchemaRef;
use coeval_store::PlainRows;
use datafusion::common::ScalarValue;
use datafusion::common::cast::as_boolean_array;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

/// A filter that leaves fewer rows than one in this many is applied before the next one is evaluated.
const COMPACT_BELOW: usize = 5;

/// After this many batches filters that only save work are put in the order of what they leave.
const TRIAL_BATCHES: usize = 4;

/// The filters of one part of a scan.
pub(super) struct RowFilters {
    filters: Vec<Filter>,
    /// What they are over.
    source: SchemaRef,
    batches: usize,
}

/// The rows of a batch that have passed so far.
pub(super) struct Passing {
    batch: RecordBatch,
    /// Which rows of `batch`; all if it is not there.
    left: Option<BooleanArray>,
    /// Which rows `batch` has of the one that filters were first asked of; all if it is not there.
    kept: Option<BooleanBuffer>,
}

impl RowFilters {
    pub(super) fn new(filters: Vec<Filter>, source: SchemaRef) -> Self {
        Self { filters, source, batches: 0 }
    }

    /// Whether all rows pass.
    pub(super) fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// The rows that pass all filters, among those that are marked, or all; `None` if there are none.
    pub(super) fn passing(
        &mut self,
        batch: RecordBatch,
        marked: Option<BooleanBuffer>,
        without_partner: &WithoutPartner,
    ) -> Result<Option<Passing>> {
        let left = marked.map(|marked| BooleanArray::new(marked, None));
        let mut passing = Passing { batch, left, kept: None };
        if passing.rows() == 0 {
            return Ok(None);
        }
        let count = self.filters.len();
        let (mut index, mut deferred) = (0, 0);
        if self.batches == TRIAL_BATCHES {
            self.filters.sort_by_key(Filter::rank);
        }
        self.batches += 1;
        while let Some(filter) = self.filters.get_mut(index) {
            if !filter.is_worth_it() {
                index += 1;
                continue;
            }
            filter.prepare(&self.source, passing.batch.num_rows());
            let asked = passing.rows();
            let left = passing.left.as_ref().map(BooleanArray::values);
            if let Some(passed) = filter.passing(&passing.batch, left)? {
                passing.left = Some(BooleanArray::new(passed, None));
            }
            if let Some(rest) = filter.rest().cloned()
                && passing.left.as_ref().is_none_or(BooleanArray::has_true)
            {
                let mut answers = passing.asked(&rest);
                // It fails by a row that is left out further up, which only one that saves work comes by: all rows are let through.
                if answers.is_err() && filter.is_optional() {
                    answers = Ok(ColumnarValue::Scalar(true.into()));
                }
                // Or by one that those behind leave out.
                if answers.is_err() && index + deferred + 1 < count {
                    deferred += 1;
                    self.filters[index..].rotate_left(1);
                    continue;
                }
                passing.narrow(answers?)?;
            }
            (index, deferred) = (index + 1, 0);
            let passed = passing.rows();
            filter.note(asked, passed);
            without_partner.note(filter, asked, passed);
            if passed == 0 {
                return Ok(None);
            }
        }
        Ok(Some(passing))
    }
}

impl Passing {
    /// How many rows have passed.
    pub(super) fn rows(&self) -> usize {
        self.left.as_ref().map_or(self.batch.num_rows(), BooleanArray::true_count)
    }

    /// Rows among which are those that have passed.
    pub(super) fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    /// Which rows of the batch have passed; all if it is not there.
    pub(super) fn mask(&self) -> Option<&BooleanArray> {
        self.left.as_ref()
    }

    /// Which rows have passed of the batch that filters were first asked of.
    pub(super) fn of_all(&self) -> BooleanBuffer {
        match (&self.kept, &self.left) {
            (None, None) => BooleanBuffer::new_set(self.batch.num_rows()),
            (None, Some(left)) => left.values().clone(),
            (Some(kept), None) => kept.clone(),
            (Some(kept), Some(left)) => marked_among(kept, left.values()),
        }
    }

    /// The same with the columns that come late, of the rows that filters were first asked of. If few rows are left, no values are made for
    /// the others.
    pub(super) fn with_late(mut self, rows: &PlainRows) -> Result<Self> {
        if !rows.has_late() {
            return Ok(self);
        }
        self.compact_few()?;
        let mut columns = self.batch.columns().to_vec();
        rows.put_late(&mut columns, self.kept.as_ref()).map_err(SqlError::from)?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.batch.num_rows()));
        self.batch = RecordBatch::try_new_with_options(self.batch.schema(), columns, &options)?;
        Ok(self)
    }

    /// Lets go of the other rows, if few are left.
    fn compact_few(&mut self) -> Result<()> {
        match self.left.take_if(|mask| mask.true_count() * COMPACT_BELOW < mask.len()) {
            Some(mask) => self.compact(&mask),
            None => Ok(()),
        }
    }

    /// Lets go of the rows that are not marked.
    fn compact(&mut self, mask: &BooleanArray) -> Result<()> {
        self.batch = filter_record_batch(&self.batch, mask)?;
        self.kept = Some(match &self.kept {
            Some(kept) => marked_among(kept, mask.values()),
            None => mask.values().clone(),
        });
        Ok(())
    }

    /// What DataFusion's evaluation of a predicate says.
    fn asked(&mut self, predicate: &Arc<dyn PhysicalExpr>) -> Result<ColumnarValue> {
        // If few rows are left, the filter is spared the others.
        self.compact_few()?;
        let answers = predicate.evaluate(&self.batch);
        // It fails by a row, maybe, that the filters before leave out: `b <> 0 AND 10 / b > 5`.
        if answers.is_err()
            && let Some(mask) = self.left.take()
        {
            self.compact(&mask)?;
            return predicate.evaluate(&self.batch);
        }
        answers
    }

    /// Leaves out the rows for which the answer is not yes.
    fn narrow(&mut self, answers: ColumnarValue) -> Result<()> {
        self.left = match answers {
            ColumnarValue::Scalar(value) if is_true(&value) => self.left.take(),
            ColumnarValue::Scalar(_) => {
                Some(BooleanArray::new(BooleanBuffer::new_unset(self.batch.num_rows()), None))
            }
            ColumnarValue::Array(array) => {
                let mask = plain_mask(as_boolean_array(&array)?);
                Some(match &self.left {
                    Some(before) => arrow::compute::and(before, &mask)?,
                    None => mask,
                })
            }
        };
        Ok(())
    }
}

/// Whether a filter's answer for all rows is yes.
pub(super) fn is_true(value: &ScalarValue) -> bool {
    matches!(value, ScalarValue::Boolean(Some(true)))
}

/// NULL counts as false.
pub(super) fn plain_mask(mask: &BooleanArray) -> BooleanArray {
    if mask.null_count() == 0 { mask.clone() } else { prep_null_mask_filter(mask) }
}

/// Of the rows that are marked first, those that are marked second, where only the first ones count.
fn marked_among(first: &BooleanBuffer, second: &BooleanBuffer) -> BooleanBuffer {
    let mut marked = BooleanBufferBuilder::new(first.len());
    marked.append_n(first.len(), false);
    for (row, is_marked) in first.set_indices().zip(second.iter()) {
        if is_marked {
            marked.set_bit(row, true);
        }
    }
    marked.finish()
}

#[cfg(test)]
mod tests;
