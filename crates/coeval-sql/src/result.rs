// SPDX-License-Identifier: Apache-2.0
//! What a statement gives back: a tag, and rows if it has any.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::fmt;

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
    /// `COPY n`.
    Copy(u64),
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
            | Self::Copy(rows) => Some(rows),
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
            Self::Copy(rows) => write!(f, "COPY {rows}"),
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
