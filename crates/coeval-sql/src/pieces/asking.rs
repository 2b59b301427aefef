// SPDX-License-Identifier: Apache-2.0
//! [`Asking`]: what another node makes of its bricks, or whoever else can.
//!
//! ```text
//!   to do:  ask node 2 for bricks 3, 5, 8
//!             |  the whole answer has come           it goes out
//!             |  more has come than is kept          it goes out, and the rest as it comes: from here on it cannot be asked anew
//!             |  it has failed before that           nothing of it goes out; to do: ask node 4 for 3 and 8, read 5 here
//!             v
//!   to do:  read bricks here: their rows are fetched from wherever they are, as for a plan without pieces
//! ```
//! Each brick is in exactly one thing to do or in what has gone out, so no row counts twice and none is missing. Only those are passed over that,
//! by the ranges of their dimensions, can have no row that a join above looks for.

use super::plan::{Whole, fitted};
use super::shares::in_share;
use crate::cluster::{PieceOrder, PlacedBricks};
use crate::error::{SqlError, SqlState};
use crate::memory::bytes_of_rows;
use crate::provider::SpreadScan;
use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::ipc::reader::StreamDecoder;
use bytes::Bytes;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use std::collections::VecDeque;
use std::sync::Arc;

/// So much of an answer is kept until the whole has come.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// So many nodes are asked for the same bricks; then their rows are read here. What fails on two nodes mostly fails by itself.
const NODES_ASKED_MAX: usize = 2;

/// What is told of other nodes' pieces: `node_2_rows`, `node_2_bytes`, and how many bricks had to be read here after all.
pub(super) struct Figures {
    metrics: ExecutionPlanMetricsSet,
    partition: usize,
}

impl Figures {
    pub(super) fn new(metrics: ExecutionPlanMetricsSet, partition: usize) -> Self {
        Self { metrics, partition }
    }

    fn counter(&self, name: String) -> Count {
        MetricBuilder::new(&self.metrics).counter(name, self.partition)
    }
}

/// Something to do.
enum Doing {
    /// Have a node do it for its bricks, which those nodes have failed to do.
    Ask(PlacedBricks, Vec<u32>),
    /// Read the bricks' rows.
    Read(Vec<u64>),
}

type Batches = BoxStream<'static, Result<RecordBatch>>;

/// See the module.
pub(super) struct Asking {
    whole: Arc<Whole>,
    /// The piece, over some bricks or other.
    piece: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
    figures: Figures,
    /// What other nodes are told to do, once it is known.
    order: Option<Bytes>,
    to_do: VecDeque<Doing>,
    /// A whole answer, or the beginning of `open`.
    kept: VecDeque<RecordBatch>,
    memory: MemoryReservation,
    open: Option<Batches>,
}

impl Asking {
    /// Of a node for these bricks.
    pub(super) fn new(
        (whole, piece): (Arc<Whole>, Arc<dyn ExecutionPlan>),
        placed: &PlacedBricks,
        task: Arc<TaskContext>,
        figures: Figures,
    ) -> Self {
        let some = placed.bricks.chunks(whole.at_once.max(1));
        let to_do = some
            .map(|some| Doing::Ask(PlacedBricks { bricks: some.to_vec(), ..placed.clone() }, Vec::new()))
            .collect();
        let memory = MemoryConsumer::new("answers of other nodes").register(task.memory_pool());
        let (order, kept, open) = (None, VecDeque::new(), None);
        Self { whole, piece, task, figures, order, to_do, kept, memory, open }
    }

    /// The next batch.
    ///
    /// # Errors
    /// Those of the piece, done here; `57P03` of a [lost node](SqlError::has_lost_node) if an answer ends of which something has gone out.
    pub(super) async fn next(mut self) -> Result<Option<(RecordBatch, Self)>> {
        loop {
            if let Some(batch) = self.kept.pop_front() {
                return Ok(Some((batch, self)));
            }
            self.memory.free();
            if let Some(open) = &mut self.open {
                match open.next().await {
                    Some(batch) => return Ok(Some((batch?, self))),
                    None => self.open = None,
                }
                continue;
            }
            match self.to_do.pop_front() {
                None => return Ok(None),
                Some(Doing::Read(bricks)) => self.open = Some(self.read(&bricks)?),
                Some(Doing::Ask(placed, failed)) => self.ask(placed, failed).await?,
            }
        }
    }

    async fn ask(&mut self, placed: PlacedBricks, failed: Vec<u32>) -> Result<()> {
        if self.order.is_none() {
            self.order = self.whole.order(&self.piece, &self.task).await?;
        }
        let Some(order) = self.order.clone() else {
            self.leave(placed.bricks);
            return Ok(());
        };
        // What joins look for is known by now.
        let wanted = self.whole.scan_of(&[]).matching(placed.bricks.clone());
        if wanted.len() < placed.bricks.len() {
            let passed_over = self.figures.counter("bricks_passed_over".to_owned());
            passed_over.add(placed.bricks.len() - wanted.len());
        }
        let placed = PlacedBricks { bricks: wanted, ..placed };
        if placed.bricks.is_empty() {
            return Ok(());
        }
        let mut answer = self.answer(&placed, order);
        let mut bytes = 0;
        loop {
            match answer.next().await {
                None => return Ok(()),
                Some(Ok(batch)) => {
                    let more = bytes_of_rows(&batch).unwrap_or_else(|_| batch.get_array_memory_size());
                    bytes += more;
                    self.kept.push_back(batch);
                    if bytes > KEPT_BYTES_MAX || self.memory.try_grow(more).is_err() {
                        let node = placed.node;
                        self.open = Some(
                            answer.map_err(move |error| DataFusionError::from(lost(node, &error))).boxed(),
                        );
                        return Ok(());
                    }
                }
                Some(Err(error)) => {
                    tracing::debug!(node = placed.node, %error, "a piece of a query is done elsewhere");
                    self.kept.clear();
                    self.again(placed, failed);
                    return Ok(());
                }
            }
        }
    }

    /// What a node makes of its bricks, as it comes.
    fn answer(&self, placed: &PlacedBricks, order: Bytes) -> Batches {
        let (node, bricks) = (placed.node, placed.bricks.clone());
        let source = self.whole.scan().source();
        let bytes = source.snapshot.run(PieceOrder { node, table: source.table, bricks, order });
        let counted = self.figures.counter(format!("node_{node}_bytes"));
        let bytes = bytes.inspect_ok(move |part| counted.add(part.len())).boxed();
        let (output, rows) =
            (Arc::clone(&self.whole.output), self.figures.counter(format!("node_{node}_rows")));
        let batches = decoded(bytes).map(move |batch| {
            let batch = fitted(&batch?, &output)?;
            rows.add(batch.num_rows());
            Ok::<_, DataFusionError>(batch)
        });
        batches.boxed()
    }

    /// Leaves bricks that a node has failed to read to others. Sorted rows are one answer, which several nodes would give in pieces: theirs are
    /// sorted here. So is a share of rows that nodes exchange.
    fn again(&mut self, placed: PlacedBricks, mut failed: Vec<u32>) {
        failed.push(placed.node);
        let mut left = placed.bricks;
        if failed.len() < NODES_ASKED_MAX && !self.whole.is_one_answer() {
            let source = self.whole.scan().source();
            for others in source.snapshot.place(source.table, &left, &failed) {
                if !others.is_own {
                    left.retain(|brick| !others.bricks.contains(brick));
                    self.to_do.push_back(Doing::Ask(others, failed.clone()));
                }
            }
        }
        if !left.is_empty() {
            self.leave(left);
        }
    }

    /// Leaves bricks to nobody else: they are read here.
    fn leave(&mut self, bricks: Vec<u64>) {
        self.figures.counter("bricks_read_here".to_owned()).add(bricks.len());
        self.to_do.push_back(Doing::Read(bricks));
    }

    /// The piece, done here: with bricks whose rows are fetched, or for the share that another node has not made.
    fn read(&self, bricks: &[u64]) -> Result<Batches> {
        let piece = match self.whole.share() {
            Some(share) => in_share(Arc::clone(&self.piece), share)?,
            None => self.piece_of(bricks)?,
        };
        let batches = execute_stream(piece, Arc::clone(&self.task))?;
        let output = Arc::clone(&self.whole.output);
        Ok(batches.map(move |batch| fitted(&batch?, &output)).boxed())
    }

    fn piece_of(&self, bricks: &[u64]) -> Result<Arc<dyn ExecutionPlan>> {
        let scan = self.whole.scan_of(bricks);
        let replaced = Arc::clone(&self.piece).transform_up(|node| {
            let is_scan = node.downcast_ref::<SpreadScan>().is_some();
            Ok(if is_scan { Transformed::yes(Arc::new(scan.clone()) as _) } else { Transformed::no(node) })
        })?;
        Ok(replaced.data)
    }
}

/// The batches whose bytes these are, in Arrow's stream format.
pub(super) fn decoded(
    bytes: BoxStream<'static, Result<Bytes, SqlError>>,
) -> impl futures::Stream<Item = Result<RecordBatch>> {
    let begun = (bytes, StreamDecoder::new(), Buffer::from(Bytes::new()));
    stream::try_unfold(begun, async |(mut bytes, mut decoder, mut buffer)| {
        loop {
            if let Some(batch) = decoder.decode(&mut buffer)? {
                return Ok(Some((batch, (bytes, decoder, buffer))));
            }
            match bytes.next().await {
                Some(part) => buffer = Buffer::from(part?),
                None => {
                    decoder.finish()?;
                    return Ok::<_, DataFusionError>(None);
                }
            }
        }
    })
}

/// An answer has ended of which something has gone out.
fn lost(node: u32, error: &DataFusionError) -> SqlError {
    let message = format!("node {node} of the cluster has not given the rest of its part of the answer");
    SqlError::new(SqlState::CannotConnectNow, message)
        .with_detail(error.to_string())
        .with_hint("Run it again.")
        .of_lost_node()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pieces::wire::written;
    use arrow::array::{ArrayRef, Int64Array};

    /// Parts of an answer end anywhere. To break it: take each part for a batch.
    #[test]
    fn batches_are_put_together_of_any_parts() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None, Some(9)]));
        let row = RecordBatch::try_from_iter([("n", column)]).unwrap();
        let bytes = written(&row.schema(), Some(&row)).unwrap();
        for length in [1, 3, 64, bytes.len()] {
            let parts: Vec<_> = bytes.chunks(length).map(|part| Ok(Bytes::copy_from_slice(part))).collect();
            let found = decoded(stream::iter(parts).boxed()).try_collect::<Vec<_>>();
            assert_eq!(futures::executor::block_on(found).unwrap(), std::slice::from_ref(&row), "{length}");
        }
        let cut = vec![Ok(Bytes::copy_from_slice(&bytes[..bytes.len() - 24]))];
        let found = decoded(stream::iter(cut).boxed()).try_collect::<Vec<_>>();
        assert!(futures::executor::block_on(found).is_err(), "half a batch is none");
    }
}
