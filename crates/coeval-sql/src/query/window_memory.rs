// SPDX-License-Identifier: Apache-2.0
//! The memory of windows that are computed once all rows are there.
//!
//! A window whose frames reach behind the row (`sum(x) OVER ()`) needs all rows of a partition before it has a value for the
//! first one. DataFusion's operator keeps all batches, joins them, and makes a value for each row, without asking for memory.
//! So two operators stand round it: the one below counts each batch that goes in, the one above holds what was counted until
//! the last row has gone out.
//!
//! The operator of `coeval-operators`, `running_windows.rs`, which stands in the place of many of them, counts what it keeps by itself.

use crate::memory::{bytes_of_rows, bytes_of_slots};
use arrow::array::RecordBatch;
use coeval_operators::over_one_input;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The operator; as a window over all rows, with both round it.
///
/// # Errors
/// If it cannot be made anew: a bug.
pub(super) fn with_counted_window(node: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(window) = node.downcast_ref::<WindowAggExec>() else { return Ok(node) };
    let counted = Counted { windows: window.window_expr().len(), by_partition: Arc::default() };
    let child = Arc::clone(window.input());
    let below = Around { inner: child, side: Side::Below, counted: counted.clone() };
    let inner = replace_children_if_necessary(node, vec![Arc::new(below)])?;
    Ok(Arc::new(Around { inner, side: Side::Above, counted }))
}

/// What the two operators share.
///
/// # Locking
/// `by_partition` is a leaf lock, held for a move.
#[derive(Clone, Debug)]
struct Counted {
    /// Values that are made for each row.
    windows: usize,
    /// What the partitions that begin have reserved: from the operator above to the one below. A plan that is done again over other rows
    /// shares this with the one that it is made of, so of a partition there may be several at once; which of them takes which is the same.
    by_partition: Arc<Mutex<ByPartition>>,
}

type ByPartition = HashMap<usize, Vec<Arc<MemoryReservation>>>;

impl Counted {
    /// What the window takes for a batch until its end: the rows twice, as they came and joined, texts once as both have
    /// them, and each value by itself before they become a column.
    fn bytes(&self, batch: &RecordBatch) -> Result<usize> {
        let values = batch.num_rows() * self.windows * size_of::<ScalarValue>();
        Ok(bytes_of_rows(batch)? + bytes_of_slots(batch)? + values)
    }
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Below,
    Above,
}

#[derive(Debug)]
struct Around {
    inner: Arc<dyn ExecutionPlan>,
    side: Side,
    counted: Counted,
}

impl DisplayAs for Around {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for Around {
    /// As who looks at the lifeline: EXPLAIN leaves it out.
    fn name(&self) -> &'static str {
        super::WATCHED
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    over_one_input!(inner, |old, inner| Arc::new(Self {
        inner,
        side: old.side,
        counted: old.counted.clone(),
    }));

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let begun = &self.counted.by_partition;
        match self.side {
            Side::Above => {
                let consumer = MemoryConsumer::new("the rows of a window");
                let reservation = Arc::new(consumer.register(task.memory_pool()));
                begun.lock().entry(partition).or_default().push(Arc::clone(&reservation));
                let rows = self.inner.execute(partition, task)?;
                let schema = rows.schema();
                let held = rows.inspect(move |_| {
                    // It is there as long as the stream is.
                    let _held = &reservation;
                });
                Ok(Box::pin(RecordBatchStreamAdapter::new(schema, held)))
            }
            Side::Below => {
                let Some(reservation) = begun.lock().entry(partition).or_default().pop() else {
                    return internal_err!("a window begins before its rows");
                };
                let (rows, counted) = (self.inner.execute(partition, task)?, self.counted.clone());
                let schema = rows.schema();
                let counting = rows.and_then(move |batch| {
                    let fits = counted.bytes(&batch).and_then(|bytes| reservation.try_grow(bytes));
                    std::future::ready(fits.map(|()| batch))
                });
                Ok(Box::pin(RecordBatchStreamAdapter::new(schema, counting)))
            }
        }
    }
}
