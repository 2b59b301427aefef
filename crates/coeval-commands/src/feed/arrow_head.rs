// SPDX-License-Identifier: Apache-2.0
//! What both Arrow forms of a feed have in common: the columns that say which transaction a row is of, and when a batch is full.

use arrow::array::{ArrayRef, Int32Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder};
use arrow::datatypes::{DataType, Field, TimeUnit};
use arrow::error::ArrowError;
use coeval::{ChangeToken, FedTransaction};
use std::io;
use std::sync::Arc;

/// Rows of one batch at most, and bytes of its values after which it is written.
const BATCH_ROWS: usize = 4_096;
const BATCH_BYTES: usize = 4 << 20;

/// The first columns of the rows that are not written yet. The last row is open until it is known whether it has a token.
pub(super) struct Head {
    /// The tokens of all rows but the open one.
    token: StringBuilder,
    version: Int64Builder,
    position: Int32Builder,
    committed_at: TimestampMicrosecondBuilder,
    is_open: bool,
    bytes: usize,
}

pub(super) fn failed(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        other => io::Error::other(other),
    }
}

fn moment() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

impl Head {
    pub(super) fn new() -> Self {
        Self {
            token: StringBuilder::new(),
            version: Int64Builder::new(),
            position: Int32Builder::new(),
            committed_at: TimestampMicrosecondBuilder::new().with_data_type(moment()),
            is_open: false,
            bytes: 0,
        }
    }

    /// Its columns.
    pub(super) fn fields() -> [Field; 4] {
        let types = [
            ("token", DataType::Utf8),
            ("version", DataType::Int64),
            ("position", DataType::Int32),
            ("committed_at", moment()),
        ];
        types.map(|(name, ty)| Field::new(name, ty, true))
    }

    /// Begins a row, of a transaction or of a token alone, whose other columns take so many bytes.
    pub(super) fn open_row(&mut self, transaction: Option<&FedTransaction>, bytes: usize) {
        assert!(!self.is_open, "one row is open at a time");
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let position = |position: u32| i32::try_from(position).unwrap_or(i32::MAX);
        let time = transaction.and_then(|transaction| transaction.time);
        self.version.append_option(transaction.map(|transaction| number(transaction.version.get())));
        self.position.append_option(transaction.map(|transaction| position(transaction.position)));
        self.committed_at.append_option(time.map(|time| number(time.micros())));
        self.bytes += bytes;
        self.is_open = true;
    }

    /// Ends the row that is open, if one is. Returns whether the rows so far are to be written.
    pub(super) fn close_row(&mut self, token: Option<&ChangeToken>) -> bool {
        if std::mem::take(&mut self.is_open) {
            self.token.append_option(token.map(ToString::to_string));
        }
        self.rows() >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    /// How many rows are not written yet.
    pub(super) fn rows(&self) -> usize {
        self.version.values_slice().len()
    }

    /// The columns, and none of the rows any more. No row is open.
    pub(super) fn finish(&mut self) -> Vec<ArrayRef> {
        assert!(!self.is_open, "an open row has no token yet");
        self.bytes = 0;
        vec![
            Arc::new(self.token.finish()),
            Arc::new(self.version.finish()),
            Arc::new(self.position.finish()),
            Arc::new(self.committed_at.finish()),
        ]
    }
}
