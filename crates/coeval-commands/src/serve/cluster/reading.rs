// SPDX-License-Identifier: Apache-2.0
//! What a statement reads on a node.

use super::errors::of_reading;
use super::working;
use arrow::array::RecordBatch;
use bytes::Bytes;
use coeval::{ClusterSnapshot, PieceOrder, PlacedBricks, SqlError};
use coeval_cluster::{BrickAddress, BrickRows, NodeId, PieceOrder as NodePieceOrder, ReadError, Snapshot};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// What a reader sees.
#[derive(Debug)]
pub(super) struct Seen {
    snapshot: Arc<Snapshot>,
    threads: Handle,
}

impl Seen {
    pub(super) fn new(snapshot: Snapshot, threads: Handle) -> Self {
        Self { snapshot: Arc::new(snapshot), threads }
    }
}

impl ClusterSnapshot for Seen {
    fn bricks(&self, table: u64) -> BoxFuture<'_, Result<Vec<u64>, SqlError>> {
        let snapshot = Arc::clone(&self.snapshot);
        Box::pin(working::begin(&self.threads, async move {
            snapshot.bricks(table).await.map_err(|error| of_reading(&error))
        }))
    }

    fn rows(
        &self,
        table: u64,
        brick: u64,
        columns: Vec<usize>,
    ) -> BoxFuture<'_, Result<Vec<RecordBatch>, SqlError>> {
        let snapshot = Arc::clone(&self.snapshot);
        Box::pin(working::begin(&self.threads, async move {
            let rows = snapshot.read(BrickAddress { table, brick }).await;
            projected(&rows.map_err(|error| of_reading(&error))?, &columns)
        }))
    }

    fn place(&self, table: u64, bricks: &[u64], without: &[u32]) -> Vec<PlacedBricks> {
        let without: Vec<NodeId> = without.iter().map(|node| NodeId::new(*node)).collect();
        let own = self.snapshot.node();
        let placed = self.snapshot.place(table, bricks, &without).into_iter();
        placed
            .map(|at| PlacedBricks { node: at.node.get(), is_own: at.node == own, bricks: at.bricks })
            .collect()
    }

    fn run(&self, order: PieceOrder) -> BoxStream<'static, Result<Bytes, SqlError>> {
        let PieceOrder { node, table, bricks, order } = order;
        let snapshot = Arc::clone(&self.snapshot);
        answered(&self.threads, move || {
            snapshot.run(NodeId::new(node), NodePieceOrder { table, bricks, order })
        })
    }
}

/// What another node answers, taken by these threads, a part ahead of who takes it.
pub(super) fn answered(
    threads: &Handle,
    ask: impl FnOnce() -> BoxStream<'static, Result<Bytes, ReadError>> + Send + 'static,
) -> BoxStream<'static, Result<Bytes, SqlError>> {
    let (parts, made) = mpsc::channel(1);
    let working = working::begin(threads, async move {
        let mut answer = ask();
        while let Some(part) = answer.next().await {
            let part = part.map_err(|error| of_reading(&error))?;
            if parts.send(part).await.is_err() {
                break;
            }
        }
        Ok(())
    });
    stream::unfold(Some((made, working)), async |state| {
        let (mut made, working) = state?;
        match made.recv().await {
            Some(part) => Some((Ok(part), Some((made, working)))),
            // Whether that is the whole.
            None => working.await.err().map(|error| (Err(error), None)),
        }
    })
    .boxed()
}

/// Columns of rows, by their place in the table.
pub(super) fn projected(rows: &BrickRows, columns: &[usize]) -> Result<Vec<RecordBatch>, SqlError> {
    let projected: Result<Vec<RecordBatch>, _> = rows.batches().map(|batch| batch.project(columns)).collect();
    projected.map_err(|error| SqlError::internal(error.to_string()))
}
