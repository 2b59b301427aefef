// SPDX-License-Identifier: Apache-2.0
//! The rows of a query that are read while it runs.

use crate::error::Error;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use coeval_sql::{CancelHandle, CommandTag, Deadline, Execution, LateFailure, RowStream, Rows, SqlError};

/// What a statement has come to, with rows that are not all there yet.
#[derive(Debug)]
pub enum Outcome {
    /// It is done and returns no rows.
    Done(CommandTag),
    /// It is done: a few rows, as values, of these columns.
    Values(CommandTag, SchemaRef, Rows),
    /// Rows that come as they are asked for.
    Rows(RowReader),
}

/// The rows of a query, batch by batch, from the snapshot that its statement read. The query waits for whoever reads, and ends
/// when this is dropped. It needs the session no longer, whose next statements may run meanwhile, but
/// [cancelling](crate::CancelHandle) one of those may end it, too.
#[derive(Debug)]
pub struct RowReader {
    rows: RowStream,
    /// How many rows the statement is about, if that is known.
    tag: Option<CommandTag>,
    /// The transaction block that it was begun in.
    block: Option<LateFailure>,
    /// When it ends at the latest.
    _deadline: Option<Deadline>,
    /// What it is cancelled by.
    cancel: Option<CancelHandle>,
}

impl RowReader {
    /// Names and types of the columns.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        self.rows.schema()
    }

    /// What was done, if the statement is done; `None` for a query that runs.
    #[must_use]
    pub fn tag(&self) -> Option<&CommandTag> {
        self.tag.as_ref()
    }
}

/// Waits for rows: not for threads that run asynchronous work.
impl Iterator for RowReader {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = match &self.cancel {
            Some(cancel) => self.rows.next_unless_cancelled(cancel),
            None => self.rows.next_blocking(),
        }?;
        if let (Err(_), Some(block)) = (&next, &self.block) {
            block.note();
        }
        Some(next.map_err(Error::from))
    }
}

impl Outcome {
    /// The same, begun in this transaction block, with this deadline for its rows, and this to cancel it by.
    pub(crate) fn begun_in(
        mut self,
        block: Option<LateFailure>,
        deadline: Option<Deadline>,
        cancel: CancelHandle,
    ) -> Self {
        if let Self::Rows(reader) = &mut self {
            reader.block = block;
            reader._deadline = deadline;
            reader.cancel = Some(cancel);
        }
        self
    }
}

impl TryFrom<Execution> for Outcome {
    type Error = Error;

    /// # Errors
    /// `0A000` for a COPY that exchanges bytes with a client: those are for [`Session::start_copy`](crate::Session::start_copy).
    fn try_from(execution: Execution) -> Result<Self, Error> {
        Ok(match execution {
            Execution::Done(tag) => Self::Done(tag),
            Execution::Values(tag, schema, rows) => Self::Values(tag, schema, rows),
            Execution::Rows(tag, rows) => Self::Rows(RowReader {
                rows: RowStream::of_rows(rows),
                tag: Some(tag),
                block: None,
                _deadline: None,
                cancel: None,
            }),
            Execution::Stream(rows) => {
                Self::Rows(RowReader { rows, tag: None, block: None, _deadline: None, cancel: None })
            }
            Execution::CopyIn(_) | Execution::CopyOut(_) => {
                return Err(SqlError::unsupported("COPY from STDIN or to STDOUT in a program").into());
            }
        })
    }
}
