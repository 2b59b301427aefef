// SPDX-License-Identifier: Apache-2.0
//! The shards: threads that change bricks, each its own, with a bounded queue before each (AOSI V-B, flushing).
//!
//! All changes to a brick go through its shard's queue, in order, and are made by one thread; so a brick needs no
//! lock, and what a transaction asks for first happens first. Readers do not queue (they scan in place). A full
//! queue holds its loaders back.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use crate::table_shard::{Applied, Operation, TableShard};

/// The threads, for all brick tables of a database. Dropping it lets them finish what is queued.
pub struct Shards {
    queues: Vec<SyncSender<Message>>,
    threads: Vec<JoinHandle<()>>,
}

struct Message {
    table: Arc<TableShard>,
    operation: Operation,
    done: Done,
}

/// A shard's thread has ended: the process is out of memory or threads, or there is a bug. What was queued may
/// have been applied in part, so the database must be opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a thread that writes brick tables has stopped; open the database again")]
pub struct ShardStopped;

impl Shards {
    /// `count` shards (one for each core), each with a queue of at most `queue_length` messages.
    ///
    /// # Errors
    ///
    /// If a thread cannot be started.
    ///
    /// # Panics
    ///
    /// If `count` is 0.
    pub fn start(count: usize, queue_length: usize) -> std::io::Result<Self> {
        assert!(count > 0, "bricks need a thread that writes them");
        let mut shards = Self { queues: Vec::new(), threads: Vec::new() };
        for shard in 0..count {
            let (queue, messages) = sync_channel(queue_length);
            let thread = std::thread::Builder::new().name(format!("brick-shard-{shard}"));
            shards.threads.push(thread.spawn(move || work(&messages))?);
            shards.queues.push(queue);
        }
        Ok(shards)
    }

    /// How many shards there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.queues.len()
    }

    /// Queues one operation for each of some shards of a table. Waits while a queue is full.
    pub(crate) fn submit(
        &self,
        table: &[Arc<TableShard>],
        operations: impl IntoIterator<Item = (usize, Operation)>,
    ) -> Result<Ticket, ShardStopped> {
        let ticket = Ticket { state: Arc::default() };
        for (shard, operation) in operations {
            let message = Message { table: Arc::clone(&table[shard]), operation, done: ticket.expect_one() };
            self.queues[shard].send(message).map_err(|_| ShardStopped)?;
        }
        Ok(ticket)
    }
}

impl Drop for Shards {
    fn drop(&mut self) {
        self.queues.clear();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so, and the tickets that wait for it fail.
            let _ = thread.join();
        }
    }
}

fn work(messages: &Receiver<Message>) {
    while let Ok(Message { table, operation, done }) = messages.recv() {
        let applied = table.apply(operation);
        done.finish(applied);
    }
}

/// Something that shards have been asked to do.
///
/// Dropping it is no cancellation: what was queued happens. Clones are of the same: each may be waited for.
#[must_use = "what was queued happens later: wait for it"]
#[derive(Clone)]
pub struct Ticket {
    state: Arc<TicketState>,
}

#[derive(Default)]
struct TicketState {
    /// # Locking
    ///
    /// Guards the progress; a leaf lock, held for a few instructions.
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    open: usize,
    has_failed: bool,
    applied: Applied,
}

impl Ticket {
    fn expect_one(&self) -> Done {
        self.state.progress.lock().open += 1;
        Done { state: Arc::clone(&self.state), outcome: None }
    }

    /// Waits until all shards have done it.
    ///
    /// # Errors
    ///
    /// If a shard stopped before.
    pub fn wait(self) -> Result<Applied, ShardStopped> {
        let mut progress = self.state.progress.lock();
        while progress.open > 0 {
            self.state.changed.wait(&mut progress);
        }
        if progress.has_failed { Err(ShardStopped) } else { Ok(progress.applied) }
    }
}

/// One shard's part of a ticket: reports when it is dropped, done or not.
struct Done {
    state: Arc<TicketState>,
    outcome: Option<Applied>,
}

impl Done {
    fn finish(mut self, applied: Applied) {
        self.outcome = Some(applied);
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        let mut progress = self.state.progress.lock();
        progress.open -= 1;
        match self.outcome {
            Some(applied) => progress.applied.add(applied),
            None => progress.has_failed = true,
        }
        if progress.open == 0 {
            self.state.changed.notify_all();
        }
    }
}
