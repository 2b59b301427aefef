// SPDX-License-Identifier: Apache-2.0
//! What a statement loads through a node, or deletes.

use super::errors::of_writing;
use super::reading::Seen;
use super::working;
use arrow::array::{Array, ArrayRef, RecordBatch};
use coeval::{ClusterDelete, ClusterLoad, ClusterNamedLoad, ClusterSnapshot, CommitMode, SqlError, SqlState};
use coeval_cluster::{BrickAddress, CommitWait, Delete, Epoch, Load, NamedLoad};
use futures::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::runtime::Handle;

/// Bytes of rows that are sent at once. The rows of one brick go into one message with all their texts, and a message has 16 MiB at
/// most.
const PIECE_BYTES: usize = 4 << 20;

/// How long a transaction with rows waits for loads and deletes that began before its own. It may have locked rows that one of them waits
/// for; so it gives up some time.
const OLDER_PATIENCE: Duration = Duration::from_secs(10);

/// What loads and deletes have in common.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Those of statements' work.
    pub(super) threads: Handle,
}

/// A load. While it is being added to, and once something has gone wrong, it is not there: what is dropped is rolled back.
#[derive(Debug)]
pub(super) struct Loading {
    epoch: Epoch,
    load: Option<Load>,
    place: Place,
}

impl Loading {
    pub(super) fn new(load: Load, place: Place) -> Self {
        Self { epoch: load.epoch(), load: Some(load), place }
    }
}

impl ClusterLoad for Loading {
    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn append<'a>(&'a mut self, table: u64, rows: &'a RecordBatch) -> BoxFuture<'a, Result<(), SqlError>> {
        let load = self.load.take();
        let (place, rows) = (self.place.clone(), rows.clone());
        Box::pin(async move {
            let mut load = load.ok_or_else(over)?;
            let threads = place.threads.clone();
            let appended = working::begin(&threads, async move {
                for piece in pieces(&rows) {
                    load.append_rows(table, &piece).await.map_err(|error| of_writing(&error))?;
                }
                Ok(load)
            });
            self.load = Some(appended.await?);
            Ok(())
        })
    }

    fn commit(self: Box<Self>, mode: CommitMode) -> BoxFuture<'static, Result<(), SqlError>> {
        Box::pin(async move {
            let Self { load, place, .. } = *self;
            let load = load.ok_or_else(over)?;
            let threads = place.threads.clone();
            let committed = working::begin(&threads, async move {
                load.commit(wait(mode)).await.map(drop).map_err(|error| of_writing(&error))
            });
            committed.await
        })
    }

    fn prepare(self: Box<Self>) -> BoxFuture<'static, Result<Option<Box<dyn ClusterNamedLoad>>, SqlError>> {
        Box::pin(async move {
            let Self { load, place, .. } = *self;
            let load = load.ok_or_else(over)?;
            let threads = place.threads.clone();
            let prepared = working::begin(&threads, async move {
                load.prepare(OLDER_PATIENCE).await.map_err(|error| of_writing(&error))
            });
            Ok(prepared.await?.map(|named| Box::new(OneWithRows(named)) as Box<dyn ClusterNamedLoad>))
        })
    }
}

/// A load that is one transaction with rows.
#[derive(Debug)]
struct OneWithRows(NamedLoad);

impl ClusterNamedLoad for OneWithRows {
    fn age(&self) -> Epoch {
        self.0.age()
    }

    fn expect_rows(&mut self, are_handed_in: Arc<AtomicBool>) {
        self.0.expect_rows(are_handed_in);
    }

    fn decide(self: Box<Self>) {
        self.0.decide();
    }

    fn roll_back(self: Box<Self>) {
        self.0.roll_back();
    }
}

/// A delete. As with [`Loading`], it is not there while it does something.
#[derive(Debug)]
pub(super) struct Deleting {
    epoch: Epoch,
    delete: Option<Delete>,
    seen: Arc<dyn ClusterSnapshot>,
    place: Place,
}

impl Deleting {
    pub(super) fn new(delete: Delete, place: Place) -> Self {
        let seen = Arc::new(Seen::new(delete.snapshot(), place.threads.clone()));
        Self { epoch: delete.epoch(), delete: Some(delete), seen, place }
    }
}

impl ClusterDelete for Deleting {
    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn seen(&self) -> Arc<dyn ClusterSnapshot> {
        Arc::clone(&self.seen)
    }

    fn brick(&mut self, table: u64, brick: u64) -> BoxFuture<'_, Result<(), SqlError>> {
        let delete = self.delete.take();
        let place = self.place.clone();
        Box::pin(async move {
            let mut delete = delete.ok_or_else(over)?;
            let threads = place.threads.clone();
            let deleted = working::begin(&threads, async move {
                let done = delete.delete(BrickAddress { table, brick }).await;
                done.map_err(|error| of_writing(&error))?;
                Ok(delete)
            });
            self.delete = Some(deleted.await?);
            Ok(())
        })
    }

    fn commit(self: Box<Self>, mode: CommitMode) -> BoxFuture<'static, Result<(), SqlError>> {
        Box::pin(async move {
            let Self { delete, place, .. } = *self;
            let delete = delete.ok_or_else(over)?;
            let threads = place.threads.clone();
            let committed = working::begin(&threads, async move {
                delete.commit(wait(mode)).await.map(drop).map_err(|error| of_writing(&error))
            });
            committed.await
        })
    }
}

fn wait(mode: CommitMode) -> CommitWait {
    match mode {
        CommitMode::Asked => CommitWait::Local,
        CommitMode::Decided => CommitWait::Decided,
    }
}

fn over() -> SqlError {
    let message = "the load is over: something of it has failed, and it is rolled back";
    SqlError::new(SqlState::InFailedSqlTransaction, message)
}

/// Bytes of a batch. If it is a part of a larger one, only the part counts.
pub(super) fn bytes_of(rows: &RecordBatch) -> usize {
    let of_column = |column: &ArrayRef| {
        column.to_data().get_slice_memory_size().unwrap_or(column.get_array_memory_size())
    };
    rows.columns().iter().map(of_column).sum()
}

/// A batch in pieces of which each fits into messages.
pub(super) fn pieces(rows: &RecordBatch) -> Vec<RecordBatch> {
    let count = rows.num_rows();
    let row_bytes = bytes_of(rows) / count.max(1);
    let at_once = (PIECE_BYTES / row_bytes.max(1)).max(1);
    (0..count).step_by(at_once).map(|from| rows.slice(from, at_once.min(count - from))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringArray;

    /// To break it: send a batch as it is. One with long texts in one brick is more than a message may have.
    #[test]
    fn a_batch_goes_in_pieces_with_all_its_rows() {
        let text = "x".repeat(4_000);
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..5_000).map(|_| text.as_str())));
        let batch = RecordBatch::try_from_iter([("note", texts)]).unwrap();
        let pieces = pieces(&batch);
        assert!(pieces.len() >= 4, "{} pieces", pieces.len());
        assert_eq!(pieces.iter().map(RecordBatch::num_rows).sum::<usize>(), 5_000);
        assert!(pieces.iter().all(|piece| piece.num_rows() <= 2_000));
        assert!(super::pieces(&batch.slice(0, 0)).is_empty());
        assert_eq!(super::pieces(&batch.slice(4_000, 1_000)).len(), 1);
    }
}
