// SPDX-License-Identifier: Apache-2.0
//! Pieces of other nodes' queries, which this database's engine runs on bricks that are here.

use super::errors::of_reading;
use super::reading::{answered, projected};
use arrow::array::RecordBatch;
use bytes::Bytes;
use coeval::{ClusterSnapshot, Engine, PieceOrder, SqlError, run_piece};
use coeval_cluster::{BrickAddress, NodeId, Piece, PieceOrder as NodePieceOrder, PieceRows, PieceRunner};
use futures::future::{self, BoxFuture};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use std::sync::{Arc, Weak};
use tokio::runtime::Handle;

/// Has the engine run them. The engine knows the node, which has this: so this does not keep the engine.
#[derive(Debug)]
pub(super) struct EngineRunner {
    pub(super) engine: Weak<Engine>,
    /// Threads that ask other nodes for what a piece needs of theirs.
    pub(super) threads: Handle,
}

impl PieceRunner for EngineRunner {
    fn run(&self, piece: Piece) -> BoxStream<'static, Result<Bytes, String>> {
        let Some(engine) = self.engine.upgrade() else {
            return stream::once(future::ready(Err("the database is closed".to_owned()))).boxed();
        };
        let Piece { bricks, order, rows } = piece;
        let table = rows.table();
        let here = Here { rows, threads: self.threads.clone() };
        let made = run_piece(&engine, (table, bricks), order, Arc::new(here));
        made.map_err(|error| error.to_string()).boxed()
    }
}

/// The bricks of a piece. Of those that are elsewhere it has what their nodes make of them.
#[derive(Debug)]
struct Here {
    rows: PieceRows,
    threads: Handle,
}

impl ClusterSnapshot for Here {
    fn bricks(&self, _: u64) -> BoxFuture<'_, Result<Vec<u64>, SqlError>> {
        Box::pin(future::ready(Err(SqlError::internal("a piece of a query is told its bricks"))))
    }

    /// Looked up on the thread that asks, which is one of those that run queries.
    fn rows(
        &self,
        table: u64,
        brick: u64,
        columns: Vec<usize>,
    ) -> BoxFuture<'_, Result<Vec<RecordBatch>, SqlError>> {
        Box::pin(async move {
            let rows = self.rows.rows(BrickAddress { table, brick }).map_err(|error| of_reading(&error))?;
            projected(&rows, &columns)
        })
    }

    fn run(&self, order: PieceOrder) -> BoxStream<'static, Result<Bytes, SqlError>> {
        let PieceOrder { node, table, bricks, order } = order;
        let rows = self.rows.clone();
        answered(&self.threads, move || rows.run(NodeId::new(node), NodePieceOrder { table, bricks, order }))
    }
}
