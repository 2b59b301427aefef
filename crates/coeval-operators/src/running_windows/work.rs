// SPDX-License-Identifier: Apache-2.0
//! One partition of the plan at its work.
//!
//! The rows of a batch up to the last group's are complete. Those of the last group are kept, because the next batch may go on with it:
//!
//! ```text
//! kept before        batch
//! a a a              a a | b b c | d d
//!                    end   done    kept until a row comes that is no d
//! ```

use super::calls::{Calls, Group};
use super::totals::Partitions;
use crate::bytes::bytes_of;
use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow::compute::{concat, partition, take};
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::metrics::Time;
use futures::StreamExt;
use std::ops::Range;
use std::sync::Arc;

/// See the module.
pub(super) struct Work {
    rows: SendableRecordBatchStream,
    calls: Arc<Calls>,
    /// The last row so far.
    last: Option<LastRow>,
    /// The rows of the last group so far; none if each row is a group by itself.
    kept: Vec<Kept>,
    /// For all rows that are kept: what is small is never refused, and many batches are small.
    reservation: Arc<MemoryReservation>,
    time: Time,
    is_at_end: bool,
}

/// What is known of a row: arrays of one row.
struct LastRow {
    partition_by: Vec<ArrayRef>,
    order_by: Vec<ArrayRef>,
    /// Of each call.
    totals: Vec<ArrayRef>,
}

/// Rows whose group has not ended yet.
struct Kept {
    batch: RecordBatch,
    /// Of each call; `None` if the rows share the value of their group's last row.
    totals: Vec<Option<ArrayRef>>,
    memory: Memory,
}

/// Memory that is given back when this is dropped.
struct Memory {
    bytes: usize,
    reservation: Arc<MemoryReservation>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.reservation.shrink(self.bytes);
    }
}

/// Rows with their values.
pub(super) struct Rows {
    batch: RecordBatch,
    /// Of each call.
    values: Vec<Values>,
    /// If they were kept.
    _memory: Option<Memory>,
}

enum Values {
    OfEach(ArrayRef),
    /// An array of one row.
    Shared(ArrayRef),
}

impl Rows {
    /// As a batch with a column for each call behind the others.
    pub(super) fn into_batch(self, output: &SchemaRef) -> Result<RecordBatch> {
        let all_first = || UInt64Array::from_value(0, self.batch.num_rows());
        let mut columns = self.batch.columns().to_vec();
        for values in &self.values {
            columns.push(match values {
                Values::OfEach(values) => Arc::clone(values),
                Values::Shared(value) => take(value, &all_first(), None)?,
            });
        }
        Ok(RecordBatch::try_new(Arc::clone(output), columns)?)
    }
}

impl Work {
    pub(super) fn new(
        rows: SendableRecordBatchStream,
        calls: Arc<Calls>,
        reservation: MemoryReservation,
        time: Time,
    ) -> Self {
        let reservation = Arc::new(reservation);
        Self { rows, calls, last: None, kept: Vec::new(), reservation, time, is_at_end: false }
    }

    /// What is complete once the next batch is there; `None` behind the last one.
    pub(super) async fn next(mut self) -> Result<Option<(Vec<Rows>, Self)>> {
        if self.is_at_end {
            return Ok(None);
        }
        let batch = self.rows.next().await.transpose()?;
        let time = self.time.clone();
        let timer = time.timer();
        let done = match batch {
            Some(batch) if batch.num_rows() == 0 => Vec::new(),
            Some(batch) => self.take_in(&batch)?,
            None => {
                self.is_at_end = true;
                let last = self.last.take().map_or_else(Vec::new, |last| last.totals);
                self.end_of_kept(&last)
            }
        };
        timer.done();
        Ok(Some((done, self)))
    }

    /// Takes in a batch that has rows, and gives what is complete by then.
    fn take_in(&mut self, batch: &RecordBatch) -> Result<Vec<Rows>> {
        let calls = Arc::clone(&self.calls);
        let partition_by = evaluate_expressions_to_arrays(&calls.partition_by, batch)?;
        let order_by = evaluate_expressions_to_arrays(&calls.order_by, batch)?;
        let before = self.last.take();
        let goes_on = match &before {
            Some(before) => is_alike(&before.partition_by, &partition_by)?,
            None => false,
        };
        let partitions = ranges(&partition_by, batch.num_rows())?;
        let mut totals = Vec::new();
        for (place, call) in calls.calls.iter().enumerate() {
            let values = call.argument.evaluate(batch)?.into_array(batch.num_rows())?;
            let before = before.as_ref().filter(|_| goes_on).map(|before| &before.totals[place]);
            totals.push(call.totals(&values, &Partitions { rows: &partitions, before })?);
        }
        let groups = match calls.kept {
            Group::Row => Vec::new(),
            Group::Partition => partitions,
            Group::Peers => {
                let columns = [partition_by.as_slice(), order_by.as_slice()].concat();
                ranges(&columns, batch.num_rows())?
            }
        };
        // Of the group that is kept more may come with this batch.
        let is_same_group = match &before {
            Some(before) => goes_on && is_alike(&before.order_by, &order_by)?,
            None => false,
        };
        let mut done = Vec::new();
        if let (Some(before), false) = (&before, is_same_group) {
            done = self.end_of_kept(&before.totals);
        } else if let [first, _, ..] = groups.as_slice() {
            let last = totals.iter().map(|totals| totals.slice(first.end - 1, 1)).collect::<Vec<_>>();
            done = self.end_of_kept(&last);
        }
        let complete = groups.last().map_or(batch.num_rows(), |last| last.start);
        if complete > 0 {
            done.push(self.complete(batch.slice(0, complete), &totals, &groups)?);
        }
        if complete < batch.num_rows() {
            self.keep(batch, complete, &totals)?;
        }
        let of_last = |arrays: &[ArrayRef]| {
            let last = arrays.iter().map(|array| array.slice(array.len() - 1, 1));
            last.collect::<Vec<_>>()
        };
        self.last = Some(LastRow {
            partition_by: of_last(&partition_by),
            order_by: of_last(&order_by),
            totals: of_last(&totals),
        });
        Ok(done)
    }

    /// The first rows of a batch, whose groups end among them.
    fn complete(&self, batch: RecordBatch, totals: &[ArrayRef], groups: &[Range<usize>]) -> Result<Rows> {
        let rows = batch.num_rows();
        let mut last_rows = Vec::new();
        for group in groups.iter().filter(|group| group.end <= rows) {
            last_rows.resize(group.end, (group.end - 1) as u64);
        }
        let last_rows = UInt64Array::from(last_rows);
        let mut values = Vec::new();
        for (call, totals) in self.calls.calls.iter().zip(totals) {
            values.push(Values::OfEach(match call.group {
                Group::Row => totals.slice(0, rows),
                Group::Peers | Group::Partition => take(totals, &last_rows, None)?,
            }));
        }
        Ok(Rows { batch, values, _memory: None })
    }

    /// Keeps the rows of a batch from this one on.
    fn keep(&mut self, batch: &RecordBatch, first: usize, totals: &[ArrayRef]) -> Result<()> {
        let rows = batch.num_rows() - first;
        let batch = batch.slice(first, rows);
        let mut bytes = bytes_of(&batch)?;
        let mut of_rows = Vec::new();
        for (call, totals) in self.calls.calls.iter().zip(totals) {
            let totals = (call.group == Group::Row).then(|| totals.slice(first, rows));
            if let Some(totals) = &totals {
                bytes += totals.to_data().get_slice_memory_size()?;
            }
            of_rows.push(totals);
        }
        self.reservation.try_grow(bytes)?;
        let memory = Memory { bytes, reservation: Arc::clone(&self.reservation) };
        self.kept.push(Kept { batch, totals: of_rows, memory });
        Ok(())
    }

    /// The rows that are kept, now that their group has ended with these totals.
    fn end_of_kept(&mut self, last: &[ArrayRef]) -> Vec<Rows> {
        let kept = std::mem::take(&mut self.kept).into_iter();
        let rows = kept.map(|Kept { batch, totals, memory }| {
            let values = totals.into_iter().zip(last).map(|(totals, last)| match totals {
                Some(totals) => Values::OfEach(totals),
                None => Values::Shared(Arc::clone(last)),
            });
            Rows { batch, values: values.collect(), _memory: Some(memory) }
        });
        rows.collect()
    }
}

/// The rows between which no column changes.
fn ranges(columns: &[ArrayRef], rows: usize) -> Result<Vec<Range<usize>>> {
    if columns.is_empty() {
        return Ok(std::iter::once(0..rows).collect());
    }
    Ok(partition(columns)?.ranges())
}

/// Whether the first row of these columns is equal to this row.
fn is_alike(row: &[ArrayRef], columns: &[ArrayRef]) -> Result<bool> {
    let mut both = Vec::new();
    for (row, column) in row.iter().zip(columns) {
        both.push(concat(&[row.as_ref(), column.slice(0, 1).as_ref()])?);
    }
    Ok(ranges(&both, 2)?.len() == 1)
}
