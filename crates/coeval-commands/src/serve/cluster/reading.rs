// SPDX-License-Identifier: Apache-2.0
//! What a statement reads on a node.

use super::errors::of_reading;
use super::working;
use arrow::array::RecordBatch;
use coeval::{ClusterSnapshot, SqlError};
use coeval_cluster::{BrickAddress, Snapshot};
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio::runtime::Handle;

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
            let rows = rows.map_err(|error| of_reading(&error))?;
            let projected: Result<Vec<RecordBatch>, _> =
                rows.batches().map(|batch| batch.project(&columns)).collect();
            projected.map_err(|error| SqlError::internal(error.to_string()))
        }))
    }
}
