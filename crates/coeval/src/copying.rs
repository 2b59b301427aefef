// SPDX-License-Identifier: Apache-2.0
//! COPY FROM STDIN and TO STDOUT: the program gives the bytes, or gets them.

use crate::error::Error;
use coeval_sql::{CancelHandle, CommandTag, CopyIn, CopyOut, Deadline, LateFailure, SqlError};

/// What a COPY has come to.
#[derive(Debug)]
pub enum CopyOutcome {
    /// It is done: its rows came from a file, or went into one.
    Done(CommandTag),
    /// The program is to give the rows.
    In(CopyInput),
    /// The program gets the rows.
    Out(CopyOutput),
}

/// A COPY FROM STDIN that has begun. [`Session::feed_copy`](crate::Session::feed_copy) gives it bytes, and
/// [`Session::finish_copy`](crate::Session::finish_copy) ends it; the session runs nothing else until then.
#[derive(Debug)]
pub struct CopyInput {
    pub(crate) copy: CopyIn,
    /// When it ends at the latest.
    pub(crate) _deadline: Option<Deadline>,
}

/// A COPY TO STDOUT that has begun: its bytes, piece by piece, from the snapshot that its statement read.
#[derive(Debug)]
pub struct CopyOutput {
    copy: CopyOut,
    at: At,
    rows: u64,
    /// The transaction block that it was begun in.
    block: Option<LateFailure>,
    /// When it ends at the latest.
    _deadline: Option<Deadline>,
    /// What it is cancelled by.
    cancel: CancelHandle,
}

/// Where the bytes of a COPY TO STDOUT are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Header,
    Rows,
    End,
}

impl CopyOutput {
    pub(crate) fn new(
        copy: CopyOut,
        block: Option<LateFailure>,
        deadline: Option<Deadline>,
        cancel: CancelHandle,
    ) -> Self {
        Self { copy, at: At::Header, rows: 0, block, _deadline: deadline, cancel }
    }

    /// How many rows were given so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The bytes of the next rows; `None` behind the last ones.
    fn rows_piece(&mut self) -> Result<Option<Vec<u8>>, SqlError> {
        let Some(rows) = self.copy.next_unless_cancelled(&self.cancel) else { return Ok(None) };
        let rows = rows?;
        let mut piece = Vec::new();
        for message in 0..rows.messages() {
            self.copy.encode(&rows, message, &mut piece)?;
        }
        self.rows += rows.count() as u64;
        Ok(Some(piece))
    }

    fn piece(&mut self) -> Result<Option<Vec<u8>>, SqlError> {
        let mut piece = Vec::new();
        match self.at {
            At::Header => {
                self.at = At::Rows;
                self.copy.header(&mut piece);
                Ok(Some(piece))
            }
            At::Rows => {
                let rows = self.rows_piece();
                if let Ok(Some(_)) = rows {
                    return rows;
                }
                self.at = At::End;
                rows?;
                self.copy.trailer(&mut piece);
                Ok(Some(piece))
            }
            At::End => Ok(None),
        }
    }
}

/// Waits for rows: not for threads that run asynchronous work. A piece may be empty.
impl Iterator for CopyOutput {
    type Item = Result<Vec<u8>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.piece().transpose()?;
        if let (Err(_), Some(block)) = (&next, &self.block) {
            block.note();
        }
        Some(next.map_err(Error::from))
    }
}
