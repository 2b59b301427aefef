// SPDX-License-Identifier: Apache-2.0
//! [`ShareExec`]: of rows those that fall to one share of all, by the hash of their keys. Written down and read.
//!
//! Rows with equal keys are in the same share, whichever node looks at them. That holds only as long as all nodes hash alike, so what a
//! known value comes to is written down with it, and a node where it comes to something else refuses the piece.

use super::codec::{Decoder, Encoder};
use super::wire::malformed;
use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::filter_record_batch;
use coeval_operators::over_one_input;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// Another one than exchanges among threads have: these divide what is in one share among all threads.
const SEED: u64 = 1;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct ShareExec {
    input: Arc<dyn ExecutionPlan>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// How many shares there are.
    count: usize,
    index: usize,
}

impl ShareExec {
    /// Of these rows the first of so many shares.
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, keys: Vec<Arc<dyn PhysicalExpr>>, count: usize) -> Self {
        Self { input, keys, count, index: 0 }
    }

    /// The same for another share.
    pub(super) fn with_index(&self, index: usize) -> Self {
        Self { index, ..self.clone() }
    }

    fn rows_of(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let keys = self.keys.iter().map(|key| key.evaluate(batch)?.into_array(rows));
        let hashes = hashed(&keys.collect::<Result<Vec<_>>>()?, rows)?;
        let (count, index) = (self.count as u64, self.index as u64);
        let is_here: BooleanArray = hashes.iter().map(|hash| Some(hash % count == index)).collect();
        Ok(filter_record_batch(batch, &is_here)?)
    }
}

/// What each row of these columns comes to.
fn hashed(columns: &[ArrayRef], rows: usize) -> Result<Vec<u64>> {
    let mut hashes = vec![0; rows];
    create_hashes(columns, &RandomState::with_seed(SEED), &mut hashes)?;
    Ok(hashes)
}

/// What a known row comes to on this machine.
fn of_known_row() -> Result<[u8; 8]> {
    let number: ArrayRef = Arc::new(Int64Array::from(vec![0x0123_4567_89ab_cdef]));
    let text: ArrayRef =
        Arc::new(StringViewArray::from(vec!["a text that is longer than a view has room for"]));
    let hashes = hashed(&[number, text], 1)?;
    Ok(hashes.first().copied().unwrap_or_default().to_le_bytes())
}

impl DisplayAs for ShareExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(ToString::to_string).collect();
        write!(f, "ShareExec: share={} of {}, by=[{}]", self.index, self.count, keys.join(", "))
    }
}

impl ExecutionPlan for ShareExec {
    fn name(&self) -> &'static str {
        "ShareExec"
    }

    /// Those of the input: to drop rows changes neither the order nor what columns are equal.
    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    over_one_input!(input, |old, input| Arc::new(Self { input, ..Self::clone(&old) }));

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, task)?;
        let (schema, share) = (rows.schema(), self.clone());
        let batches = rows.map(move |batch| share.rows_of(&batch?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

impl Encoder<'_> {
    /// Writes which share is kept.
    pub(super) fn share(&mut self, share: &ShareExec) -> Option<()> {
        self.out.bytes(&of_known_row().ok()?);
        self.out.number(share.count);
        self.out.number(share.index);
        self.expressions(share.keys.iter())
    }
}

impl Decoder<'_> {
    /// Reads which share of these rows is kept.
    pub(super) fn share(&mut self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if self.from.bytes()? != of_known_row()? {
            return Err(malformed("rows are in other shares there").into());
        }
        let (count, index) = (self.from.number()?, self.from.number()?);
        let keys = self.expressions(&input.schema())?;
        if index >= count || keys.is_empty() {
            return Err(malformed("there is no such share").into());
        }
        Ok(Arc::new(ShareExec { input, keys, count, index }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_plan::empty::EmptyExec;

    /// To break it: keep rows by their place in the batch.
    #[test]
    fn each_row_is_in_one_share_and_with_those_that_have_its_key() {
        let keys = (0..600).map(|row| (row % 7 > 0).then(|| format!("key {}", row % 29)));
        let keys: ArrayRef = Arc::new(StringViewArray::from(keys.collect::<Vec<_>>()));
        let batch = RecordBatch::try_from_iter([("key", keys)]).unwrap();
        let rows = Arc::new(EmptyExec::new(batch.schema()));
        let first = ShareExec::new(rows, vec![Arc::new(Column::new("key", 0))], 3);
        let shares = [0, 1, 2].map(|index| {
            let rows = first.with_index(index).rows_of(&batch).unwrap();
            rows.column(0).as_string_view().iter().map(|key| key.map(str::to_owned)).collect::<Vec<_>>()
        });
        assert_eq!(shares.iter().map(Vec::len).sum::<usize>(), 600);
        for (share, others) in [(0, [1, 2]), (1, [0, 2]), (2, [0, 1])] {
            assert!(!shares[share].is_empty(), "nothing is in share {share} of 30 keys");
            let is_elsewhere =
                |key: &Option<String>| others.iter().any(|other: &usize| shares[*other].contains(key));
            assert!(!shares[share].iter().any(is_elsewhere), "a key is in share {share} and in another one");
        }
    }
}
