// SPDX-License-Identifier: Apache-2.0
//! This node as a backup asks it: all rows of all spread tables, as one snapshot sees them.
//!
//! Rows come from this node where it has the brick, else from one that does, as for a query; brick by brick, of which one is in memory at a
//! time. If nobody who has a brick answers, there are no rows of it, and no backup.
//!
//! A snapshot waits for nobody, so one that is taken at once may lack what somebody else was told of a moment before. A backup waits: each
//! load that was acknowledged anywhere had been heard of by this node before, and is behind its clock. Once nothing is under way that
//! began before that clock, a snapshot has all of them. A load that goes on for long is not waited for to its end.

use super::declarations::Declarations;
use super::own_node::OwnNode;
use super::part_writer::PartWriter;
use arrow::array::RecordBatch;
use coeval_archive::{ArchiveError, SpreadNext, SpreadSnapshot, SpreadSource};
use coeval_cluster::{BrickAddress, Epoch, Node, ReadError, Snapshot};
use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::time::sleep;

/// How long what is under way is waited for. Loads of a few rows take milliseconds; those that take minutes would have a backup wait for
/// ever, as there may always be one.
const SETTLING: Duration = Duration::from_secs(10);

/// Between two looks at that.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What a backup reads.
struct Reading {
    snapshot: Arc<Snapshot>,
    declarations: Arc<Declarations>,
    threads: Handle,
    tables: Vec<(u64, String)>,
    /// Those that are not begun.
    waiting: VecDeque<u64>,
    open: Option<OpenTable>,
}

/// The table that is being read.
struct OpenTable {
    table: u64,
    bricks: std::vec::IntoIter<u64>,
    parts: PartWriter,
}

/// What reading a table has come to.
enum Read<T> {
    Rows(T),
    /// It was dropped.
    Dropped,
}

fn failed(error: impl Display) -> ArchiveError {
    ArchiveError::Spread(error.to_string())
}

/// Has a thread of statements' work do something, and waits for it. Who calls belongs to no runtime.
///
/// # Errors
/// If the threads have ended.
fn done_by<T: Send + 'static>(
    threads: &Handle,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, ArchiveError> {
    let (answer, answered) = channel();
    threads.spawn(async move {
        // Whoever has asked is waiting for it.
        let _ = answer.send(work.await);
    });
    answered.recv().map_err(|_| failed("the server ends"))
}

/// Waits until what is under way by now has ended, for some seconds.
async fn settle(node: &Node) {
    let (begun, clock) = (Instant::now(), node.status().map(|status| status.next_epoch));
    let is_under_way = || {
        let pending = node.status().map(|status| status.pending);
        pending.into_iter().flatten().any(|epoch| clock.is_some_and(|clock| epoch < clock))
    };
    while is_under_way() && begun.elapsed() < SETTLING {
        sleep(LOOK_INTERVAL).await;
    }
}

impl SpreadSource for OwnNode {
    fn snapshot(&self) -> Result<Box<dyn SpreadSnapshot>, ArchiveError> {
        let (node, threads) = (self.node(), self.place.threads.clone());
        let taken = done_by(&threads, async move {
            let node = node.await.map_err(|error| error.message)?;
            settle(&node).await;
            node.snapshot().await.map_err(|error| error.to_string())
        });
        let snapshot = Arc::new(taken?.map_err(failed)?);
        // Behind the snapshot: what it has rows of is defined by now, or not here yet, and then not in the backup either.
        self.declarations.follow().map_err(failed)?;
        let tables = self.declarations.spread_tables();
        Ok(Box::new(Reading {
            snapshot,
            declarations: Arc::clone(&self.declarations),
            threads,
            waiting: tables.iter().map(|(table, _)| *table).collect(),
            tables,
            open: None,
        }))
    }
}

impl SpreadSnapshot for Reading {
    fn epoch(&self) -> Epoch {
        self.snapshot.epochs().horizon()
    }

    fn tables(&self) -> Vec<(u64, String)> {
        self.tables.clone()
    }

    fn next(&mut self) -> Result<SpreadNext, ArchiveError> {
        loop {
            let Some(mut open) = self.open.take() else {
                let Some(table) = self.waiting.pop_front() else { return Ok(SpreadNext::End) };
                match self.bricks(table)? {
                    Read::Rows(bricks) => {
                        let (bricks, parts) = (bricks.into_iter(), PartWriter::new(table));
                        self.open = Some(OpenTable { table, bricks, parts });
                    }
                    Read::Dropped => return Ok(SpreadNext::Dropped(table)),
                }
                continue;
            };
            if let Some(part) = open.parts.next_part() {
                self.open = Some(open);
                return Ok(SpreadNext::Part(part));
            }
            let table = open.table;
            if let Read::Dropped = self.go_on(open)? {
                return Ok(SpreadNext::Dropped(table));
            }
        }
    }
}

impl Reading {
    /// Reads the next brick of the table that is open, or ends it.
    fn go_on(&mut self, mut open: OpenTable) -> Result<Read<()>, ArchiveError> {
        let OpenTable { table, bricks, parts } = &mut open;
        let Some(brick) = bricks.next() else {
            parts.end().map_err(failed)?;
            if parts.has_part() {
                self.open = Some(open);
            }
            return Ok(Read::Rows(()));
        };
        let Read::Rows(rows) = self.rows(*table, brick)? else { return Ok(Read::Dropped) };
        for batch in rows {
            parts.push(&batch).map_err(failed)?;
        }
        parts.end_brick(brick).map_err(failed)?;
        self.open = Some(open);
        Ok(Read::Rows(()))
    }

    fn bricks(&self, table: u64) -> Result<Read<Vec<u64>>, ArchiveError> {
        let snapshot = Arc::clone(&self.snapshot);
        self.unless_dropped(table, done_by(&self.threads, async move { snapshot.bricks(table).await })?)
    }

    fn rows(&self, table: u64, brick: u64) -> Result<Read<Vec<RecordBatch>>, ArchiveError> {
        let snapshot = Arc::clone(&self.snapshot);
        let rows = done_by(&self.threads, async move {
            let rows = snapshot.read(BrickAddress { table, brick }).await?;
            Ok::<Vec<RecordBatch>, ReadError>(rows.batches().collect())
        });
        self.unless_dropped(table, rows?)
    }

    fn unless_dropped<T>(&self, table: u64, read: Result<T, ReadError>) -> Result<Read<T>, ArchiveError> {
        match read {
            Ok(rows) => Ok(Read::Rows(rows)),
            Err(ReadError::NoTable(_)) if self.declarations.columns(table).is_none() => Ok(Read::Dropped),
            Err(error) => Err(failed(error)),
        }
    }
}

#[cfg(test)]
mod tests;
