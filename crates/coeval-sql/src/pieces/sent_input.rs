// SPDX-License-Identifier: Apache-2.0
//! [`SentInput`]: the small input of a join that is done in pieces, collected once: for the join here, and to be sent to other nodes.

use super::owner::compact;
use super::plan::fitted;
use crate::memory::bytes_of_rows;
use arrow::array::RecordBatch;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties};
use futures::stream::{self, StreamExt, TryStreamExt};
use std::fmt;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// So much is sent at most, once to each node. It was estimated to be small; if it is not, rows come instead.
const SENT_BYTES_MAX: usize = 4 << 20;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct SentInput {
    /// Of which join it is the input; 0 is the lowest.
    place: usize,
    input: Arc<dyn ExecutionPlan>,
    rows: Arc<OnceCell<Collected>>,
}

/// All rows of an input.
#[derive(Debug)]
struct Collected {
    batches: Arc<[RecordBatch]>,
    bytes: usize,
    /// As long as they are kept.
    _memory: MemoryReservation,
}

impl SentInput {
    /// Of the join with this place. The input has one part.
    pub(super) fn new(place: usize, input: Arc<dyn ExecutionPlan>) -> Self {
        Self { place, input, rows: Arc::default() }
    }

    /// The rows, collected by whoever comes first.
    async fn collected(&self, task: Arc<TaskContext>) -> Result<&Collected> {
        self.rows.get_or_try_init(|| collected(Arc::clone(&self.input), task)).await
    }
}

async fn collected(input: Arc<dyn ExecutionPlan>, task: Arc<TaskContext>) -> Result<Collected> {
    let memory = MemoryConsumer::new("the input of a join on other nodes").register(task.memory_pool());
    let schema = input.schema();
    let mut stream = input.execute(0, task)?;
    let (mut batches, mut bytes) = (Vec::new(), 0);
    while let Some(batch) = stream.next().await {
        let batch = compact(&fitted(&batch?, &schema)?)?;
        let more = bytes_of_rows(&batch)?;
        memory.try_grow(more)?;
        bytes += more;
        batches.push(batch);
    }
    Ok(Collected { batches: batches.into(), bytes, _memory: memory })
}

/// The inputs of joins in a piece, the lowest one's first.
pub(super) fn sent_inputs(piece: &Arc<dyn ExecutionPlan>) -> Vec<SentInput> {
    let mut found = Vec::new();
    // Looking at a plan does not fail.
    let _ = piece.apply(|node| {
        found.extend(node.downcast_ref::<SentInput>().cloned());
        Ok(TreeNodeRecursion::Continue)
    });
    found.sort_by_key(|input| input.place);
    found
}

/// The rows of these inputs; `None` if they are too many to be sent.
///
/// # Errors
/// That of an input, and `53200` if there is no memory for it.
pub(super) async fn rows_to_send(
    inputs: &[SentInput],
    task: &Arc<TaskContext>,
) -> Result<Option<Vec<Arc<[RecordBatch]>>>> {
    let (mut rows, mut bytes) = (Vec::new(), 0);
    for input in inputs {
        let collected = input.collected(Arc::clone(task)).await?;
        bytes += collected.bytes;
        rows.push(Arc::clone(&collected.batches));
    }
    Ok((bytes <= SENT_BYTES_MAX).then_some(rows))
}

impl DisplayAs for SentInput {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SentInput: for other nodes, too")
    }
}

impl ExecutionPlan for SentInput {
    fn name(&self) -> &'static str {
        "SentInput"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) if children.is_empty() => {
                Ok(Arc::new(Self { place: self.place, input, rows: Arc::clone(&self.rows) }))
            }
            _ => internal_err!("one input is sent"),
        }
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(self.place, Arc::clone(&self.input))))
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("an input that is sent has one part");
        }
        let own = self.clone();
        let rows = stream::once(async move {
            let collected = own.collected(task).await?;
            Ok::<_, DataFusionError>(Arc::clone(&collected.batches))
        });
        let batches = rows.map_ok(|rows: Arc<[RecordBatch]>| {
            stream::iter(rows.iter().cloned().map(Ok::<_, DataFusionError>).collect::<Vec<_>>())
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), batches.try_flatten())))
    }
}
