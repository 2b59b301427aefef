// SPDX-License-Identifier: Apache-2.0
//! What a statement gives back: a tag, and rows if it has any.

use crate::cancel::HeldLifeline;
use crate::error::SqlError;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use std::collections::VecDeque;
use std::fmt;
use tokio::sync::mpsc;

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
}

impl RowSet {
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
}

enum Source {
    Collected(VecDeque<RecordBatch>),
    Running {
        batches: mpsc::Receiver<Result<RecordBatch, SqlError>>,
        /// Ends the query when it is dropped.
        query: SpawnedTask<()>,
        /// Ends its work on other threads.
        _held: Option<HeldLifeline>,
    },
}

impl RowStream {
    pub(crate) fn new(
        schema: SchemaRef,
        batches: mpsc::Receiver<Result<RecordBatch, SqlError>>,
        query: SpawnedTask<()>,
        held: Option<HeldLifeline>,
    ) -> Self {
        Self { schema, source: Source::Running { batches, query, _held: held } }
    }

    /// The rows of a statement that is done.
    #[must_use]
    pub fn of_rows(rows: RowSet) -> Self {
        Self { schema: rows.schema, source: Source::Collected(rows.batches.into()) }
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
        match &mut self.source {
            Source::Collected(batches) => batches.pop_front().map(Ok),
            Source::Running { batches, query, .. } => match batches.recv().await {
                Some(batch) => Some(batch),
                // The query has ended by itself, or it panicked.
                None => match (&mut *query).await {
                    Ok(()) => {
                        self.source = Source::Collected(VecDeque::new());
                        None
                    }
                    Err(error) => {
                        self.source = Source::Collected(VecDeque::new());
                        Some(Err(SqlError::internal(format!("a query ended without a result: {error}"))))
                    }
                },
            },
        }
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
