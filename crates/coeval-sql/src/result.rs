// SPDX-License-Identifier: Apache-2.0
//! What a statement gives back: a tag, and rows if it has any.

use crate::cancel::{CancelHandle, HeldLifeline};
use crate::error::SqlError;
use crate::memory::KeptPart;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::memory_pool::MemoryReservation;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// What a statement did, as PostgreSQL's command tags tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandTag {
    /// `SELECT n`.
    Select(u64),
    /// `INSERT 0 n`.
    Insert(u64),
    /// `UPDATE n`.
    Update(u64),
    /// `DELETE n`.
    Delete(u64),
    /// `MERGE n`.
    Merge(u64),
    /// `COPY n`.
    Copy(u64),
    /// `FETCH n`.
    Fetch(u64),
    /// `MOVE n`.
    Move(u64),
    /// Any other, in full: `CREATE TABLE`, `BEGIN`.
    Plain(&'static str),
}

impl CommandTag {
    /// How many rows it is about, if it counts them.
    #[must_use]
    pub fn rows(self) -> Option<u64> {
        match self {
            Self::Select(rows)
            | Self::Insert(rows)
            | Self::Update(rows)
            | Self::Delete(rows)
            | Self::Merge(rows)
            | Self::Copy(rows)
            | Self::Fetch(rows)
            | Self::Move(rows) => Some(rows),
            Self::Plain(_) => None,
        }
    }
}

impl fmt::Display for CommandTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Select(rows) => write!(f, "SELECT {rows}"),
            Self::Insert(rows) => write!(f, "INSERT 0 {rows}"),
            Self::Update(rows) => write!(f, "UPDATE {rows}"),
            Self::Delete(rows) => write!(f, "DELETE {rows}"),
            Self::Merge(rows) => write!(f, "MERGE {rows}"),
            Self::Copy(rows) => write!(f, "COPY {rows}"),
            Self::Fetch(rows) => write!(f, "FETCH {rows}"),
            Self::Move(rows) => write!(f, "MOVE {rows}"),
            Self::Plain(tag) => f.write_str(tag),
        }
    }
}

/// Rows, in batches of one schema.
#[derive(Clone, Debug)]
pub struct RowSet {
    /// Names and types of the columns. Names may repeat.
    pub schema: SchemaRef,
    /// The rows, in order.
    pub batches: Vec<RecordBatch>,
    /// What the query has of the budget for them, as long as anybody has them; nothing for rows that nobody counted.
    memory: Option<Arc<MemoryReservation>>,
}

impl RowSet {
    /// Rows that are in nobody's budget.
    #[must_use]
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches, memory: None }
    }

    /// Rows for which a query has reserved memory: it is given back with the last copy of them.
    pub(crate) fn reserved(
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
        memory: Arc<MemoryReservation>,
    ) -> Self {
        Self { schema, batches, memory: Some(memory) }
    }

    /// Others that were made of these, in the same memory.
    pub(crate) fn remade(&self, schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches, memory: self.memory.clone() }
    }

    /// Whether their memory is in a budget.
    pub(crate) fn is_reserved(&self) -> bool {
        self.memory.is_some()
    }

    /// How many rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// The rows of a query that runs while they are read: it waits for whoever reads. Dropping it ends the query.
pub struct RowStream {
    schema: SchemaRef,
    source: Source,
    /// The first rows, if they were waited for.
    first: Option<RecordBatch>,
    /// Whether rows have come.
    has_given: bool,
}

/// A batch on its way to who reads the rows of a query that runs.
pub(crate) struct SentBatch {
    pub(crate) rows: RecordBatch,
    /// None if it is small.
    pub(crate) place: Option<BatchPlace>,
}

/// What a batch has for as long as it waits and is read.
pub(crate) struct BatchPlace {
    pub(crate) _memory: KeptPart,
    /// Tells the query when it is gone.
    pub(crate) _permit: OwnedSemaphorePermit,
}

enum Source {
    Collected {
        batches: VecDeque<RecordBatch>,
        /// For what is left of them, and what was given before it.
        memory: Option<Arc<MemoryReservation>>,
    },
    Running {
        batches: mpsc::Receiver<Result<SentBatch, SqlError>>,
        /// Of the batch that was given last: whoever reads has it until he asks for the next one.
        given: Option<BatchPlace>,
        /// Ends the query when it is dropped.
        query: SpawnedTask<()>,
        /// Ends its work on other threads.
        _held: Option<HeldLifeline>,
    },
}

impl Source {
    fn none() -> Self {
        Self::Collected { batches: VecDeque::new(), memory: None }
    }
}

impl RowStream {
    pub(crate) fn new(
        schema: SchemaRef,
        batches: mpsc::Receiver<Result<SentBatch, SqlError>>,
        query: SpawnedTask<()>,
        held: Option<HeldLifeline>,
    ) -> Self {
        let source = Source::Running { batches, given: None, query, _held: held };
        Self { schema, source, first: None, has_given: false }
    }

    /// The rows of a statement that is done.
    #[must_use]
    pub fn of_rows(rows: RowSet) -> Self {
        let source = Source::Collected { batches: rows.batches.into(), memory: rows.memory };
        Self { schema: rows.schema, source, first: None, has_given: false }
    }

    /// Names and types of the columns.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next rows; `None` behind the last ones.
    ///
    /// # Errors
    /// What evaluating the query meets; there are no further rows then.
    pub async fn next(&mut self) -> Option<Result<RecordBatch, SqlError>> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        match &mut self.source {
            Source::Collected { batches, memory } => {
                let next = batches.pop_front();
                if next.is_none() {
                    *memory = None;
                }
                next.map(Ok)
            }
            Source::Running { batches, given, query, .. } => {
                // First: the query may wait for it.
                *given = None;
                match batches.recv().await {
                    Some(Ok(SentBatch { rows, place })) => {
                        *given = place;
                        self.has_given = true;
                        Some(Ok(rows))
                    }
                    Some(Err(error)) if self.has_given => Some(Err(behind_rows(error))),
                    Some(Err(error)) => Some(Err(error)),
                    // The query has ended by itself, or it panicked.
                    None => match (&mut *query).await {
                        Ok(()) => {
                            self.source = Source::none();
                            None
                        }
                        Err(error) => {
                            self.source = Source::none();
                            let message = format!("a query ended without a result: {error}");
                            Some(Err(SqlError::internal(message)))
                        }
                    },
                }
            }
        }
    }
}

/// The error of a query of which rows have been given out.
fn behind_rows(error: SqlError) -> SqlError {
    if !error.has_lost_node() {
        return error;
    }
    let why = error.detail.clone().unwrap_or_default();
    error.with_detail(format!(
        "Rows of the answer have been sent, so the statement is not run again by itself. {why}"
    ))
}

impl RowStream {
    /// Waits for the first rows, which [`next`](Self::next) gives then: an error before them is the statement's, which may run again.
    ///
    /// # Errors
    /// What evaluating the query meets before its first rows.
    pub(crate) async fn await_first(&mut self) -> Result<(), SqlError> {
        self.first = self.next().await.transpose()?;
        Ok(())
    }

    /// As [`next`](Self::next), for a thread that can wait: one of no runtime.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    ///
    /// # Panics
    /// On a thread that runs asynchronous work.
    pub fn next_blocking(&mut self) -> Option<Result<RecordBatch, SqlError>> {
        futures::executor::block_on(self.next())
    }

    /// As [`next_blocking`](Self::next_blocking), until the statement is cancelled: a query that waits for something itself does
    /// not look.
    ///
    /// # Errors
    /// As [`next`](Self::next); [`QueryCanceled`](crate::SqlState::QueryCanceled), and the query ends.
    ///
    /// # Panics
    /// On a thread that runs asynchronous work.
    pub fn next_unless_cancelled(&mut self, cancel: &CancelHandle) -> Option<Result<RecordBatch, SqlError>> {
        let next = futures::executor::block_on(async {
            tokio::select! {
                biased;
                // First: what is there is given, whatever was asked for since.
                next = self.next() => next,
                reason = cancel.cancelled() => Some(Err(reason.error())),
            }
        });
        if matches!(next, Some(Err(_))) {
            self.source = Source::none();
        }
        next
    }
}

impl fmt::Debug for RowStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowStream").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// The outcome of one statement.
#[derive(Clone, Debug)]
pub struct StatementResult {
    /// What was done.
    pub tag: CommandTag,
    /// The rows, for statements that return some.
    pub rows: Option<RowSet>,
}

impl StatementResult {
    /// A statement without rows or count.
    #[must_use]
    pub fn plain(tag: &'static str) -> Self {
        Self { tag: CommandTag::Plain(tag), rows: None }
    }

    /// A statement with a count and no rows.
    #[must_use]
    pub fn tagged(tag: CommandTag) -> Self {
        Self { tag, rows: None }
    }

    /// The rows of a query.
    #[must_use]
    pub fn select(rows: RowSet) -> Self {
        Self { tag: CommandTag::Select(rows.rows() as u64), rows: Some(rows) }
    }
}
