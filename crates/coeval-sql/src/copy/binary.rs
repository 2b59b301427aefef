// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL's binary COPY format: a signature, flags, rows of values with their lengths, a trailer.
//!
//! ```text
//! file  = "PGCOPY\n\xFF\r\n\0" flags:i32 extension_length:i32 extension row* (-1):i16
//! row   = field_count:i16 (length:i32 byte*)*        length -1: NULL
//! ```

use crate::error::{SqlError, SqlState};
use crate::types::{decode_binary, encode_binary};
use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use coeval_store::{CHUNK_ROWS, ColumnBuilder, ColumnType, TableDef, Value, ValueRef};
use std::sync::Arc;

const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xFF\r\n\0";
const TRAILER: i16 = -1;
const NULL_LENGTH: i32 = -1;
/// Bytes that a batch is read from at most, but for its last row: rows may be long.
const BATCH_BYTES_MAX: usize = 16 << 20;
/// Longest row, as in PostgreSQL.
const ROW_BYTES_MAX: usize = 1 << 30;
/// Flags that a reader has to know to read on; there is none today.
const CRITICAL_FLAGS: i32 = 0x7FFF_0000;

/// Writes what stands before the first row.
pub(super) fn write_header(out: &mut Vec<u8>) {
    out.extend_from_slice(SIGNATURE);
    out.extend_from_slice(&[0; 8]);
}

/// Writes what stands behind the last row.
pub(super) fn write_trailer(out: &mut Vec<u8>) {
    out.extend_from_slice(&TRAILER.to_be_bytes());
}

/// Writes a row.
///
/// # Errors
/// `22008` for a value that has no binary form; a part of the row is written then.
pub(super) fn write_row<'v>(
    values: impl ExactSizeIterator<Item = (ValueRef<'v>, ColumnType)>,
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    out.extend_from_slice(&(values.len() as u16).to_be_bytes());
    for (value, ty) in values {
        if value.is_null() {
            out.extend_from_slice(&NULL_LENGTH.to_be_bytes());
            continue;
        }
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        encode_binary(value, ty, out)?;
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}

/// What is expected next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Header,
    Rows,
    /// Nothing after the trailer counts.
    End,
}

/// Reads the binary format from pieces.
pub(super) struct BinaryDecoder {
    relation: String,
    targets: Vec<(String, ColumnType)>,
    builders: Vec<ColumnBuilder>,
    schema: SchemaRef,
    expected: Expected,
    pending: Vec<u8>,
    rows: usize,
    /// Bytes that those rows were read from.
    bytes: usize,
    /// The row that is read, from 1.
    line: u64,
}

impl BinaryDecoder {
    /// A decoder for these columns of a table.
    pub(super) fn new(def: &TableDef, columns: &[usize]) -> Self {
        let copied = columns.iter().map(|&index| &def.columns[index]);
        let targets: Vec<_> = copied.map(|column| (column.name.clone(), column.ty)).collect();
        let fields: Vec<Field> =
            targets.iter().map(|(name, ty)| Field::new(name, ty.arrow(), true)).collect();
        Self {
            relation: def.name.name.clone(),
            builders: targets.iter().map(|(_, ty)| ColumnBuilder::new(*ty, 0)).collect(),
            targets,
            schema: Arc::new(Schema::new(fields)),
            expected: Expected::Header,
            pending: Vec::new(),
            rows: 0,
            bytes: 0,
            line: 1,
        }
    }

    /// Takes a piece; full batches go to `out`.
    ///
    /// # Errors
    /// 22P04 for a malformed file, 54000 for a row that is too long, 22P03 and what the columns' types answer for
    /// values, each with line and column.
    pub(super) fn feed(&mut self, piece: &[u8], out: &mut Vec<RecordBatch>) -> Result<(), SqlError> {
        let mut pending = std::mem::take(&mut self.pending);
        pending.extend_from_slice(piece);
        let mut at = 0;
        while let Some(next) = self.step(&pending[at..])? {
            at += next;
            self.bytes += next;
            if self.rows == CHUNK_ROWS || self.bytes >= BATCH_BYTES_MAX {
                self.give_batch(out)?;
            }
        }
        pending.drain(..at);
        if pending.len() > ROW_BYTES_MAX {
            let message = "a row is longer than 1 GiB";
            return Err(self.place(SqlError::new(SqlState::ProgramLimitExceeded, message), ""));
        }
        self.pending = pending;
        Ok(())
    }

    /// How many bytes have come of a row whose end has not.
    pub(super) fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// There is no further piece: the rest goes to `out`.
    ///
    /// # Errors
    /// 22P04 if the file breaks off.
    pub(super) fn finish(&mut self, out: &mut Vec<RecordBatch>) -> Result<(), SqlError> {
        if self.expected == Expected::Header {
            return Err(self.malformed("COPY file signature not recognized"));
        }
        if self.expected == Expected::Rows && !self.pending.is_empty() {
            return Err(self.malformed("unexpected EOF in COPY data"));
        }
        self.give_batch(out)
    }

    /// Reads the next part; how many bytes it is, or nothing if it is not complete.
    fn step(&mut self, bytes: &[u8]) -> Result<Option<usize>, SqlError> {
        match self.expected {
            Expected::Header => self.header(bytes),
            Expected::Rows => self.row(bytes),
            Expected::End => Ok((!bytes.is_empty()).then_some(bytes.len())),
        }
    }

    fn header(&mut self, bytes: &[u8]) -> Result<Option<usize>, SqlError> {
        let known = bytes.len().min(SIGNATURE.len());
        if bytes[..known] != SIGNATURE[..known] {
            return Err(self.malformed("COPY file signature not recognized"));
        }
        let Some(rest) = bytes.get(SIGNATURE.len()..) else { return Ok(None) };
        let (Some(flags), Some(extension)) = (int(rest), int(rest.get(4..).unwrap_or_default())) else {
            return Ok(None);
        };
        if flags & CRITICAL_FLAGS != 0 {
            return Err(self.malformed("unrecognized critical flags in COPY file header"));
        }
        let extension = usize::try_from(extension)
            .map_err(|_| self.malformed("invalid COPY file header (wrong length)"))?;
        let length = SIGNATURE.len() + 8 + extension;
        if bytes.len() < length {
            return Ok(None);
        }
        self.expected = Expected::Rows;
        Ok(Some(length))
    }

    fn row(&mut self, bytes: &[u8]) -> Result<Option<usize>, SqlError> {
        let Some((&count, mut rest)) = bytes.split_first_chunk::<2>() else { return Ok(None) };
        match i16::from_be_bytes(count) {
            TRAILER => {
                self.expected = Expected::End;
                return Ok(Some(2));
            }
            count if usize::try_from(count) == Ok(self.targets.len()) => {}
            count => {
                let message = format!("row field count is {count}, expected {}", self.targets.len());
                return Err(self.malformed(&message));
            }
        }
        // Nothing of a row is taken before all of it is there.
        if !self.is_complete(rest)? {
            return Ok(None);
        }
        for index in 0..self.targets.len() {
            let length = int(rest).expect("the row is complete");
            rest = &rest[4..];
            let value = match usize::try_from(length) {
                Err(_) => Value::Null,
                Ok(length) => {
                    let (value, behind) = rest.split_at(length);
                    rest = behind;
                    let decoded = decode_binary(value, self.targets[index].1);
                    decoded
                        .map_err(|error| self.place(error, &format!(", column {}", self.targets[index].0)))?
                }
            };
            self.builders[index].push(value.borrow());
        }
        self.rows += 1;
        self.line += 1;
        Ok(Some(bytes.len() - rest.len()))
    }

    /// Whether all fields of a row are there.
    fn is_complete(&self, mut rest: &[u8]) -> Result<bool, SqlError> {
        for _ in &self.targets {
            let Some(length) = int(rest) else { return Ok(false) };
            let length = match length {
                NULL_LENGTH => 0,
                _ => usize::try_from(length).map_err(|_| self.malformed("invalid field size"))?,
            };
            match rest.get(4 + length..) {
                Some(behind) => rest = behind,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn malformed(&self, message: &str) -> SqlError {
        self.place(SqlError::new(SqlState::BadCopyFileFormat, message), "")
    }

    /// The error with where it arose.
    fn place(&self, mut error: SqlError, column: &str) -> SqlError {
        error.context = Some(format!("COPY {}, line {}{column}", self.relation, self.line).into());
        error
    }

    fn give_batch(&mut self, out: &mut Vec<RecordBatch>) -> Result<(), SqlError> {
        if self.rows > 0 {
            let columns = self.builders.iter_mut().map(ColumnBuilder::finish).collect();
            out.push(RecordBatch::try_new(Arc::clone(&self.schema), columns)?);
            self.rows = 0;
            self.bytes = 0;
        }
        Ok(())
    }
}

fn int(bytes: &[u8]) -> Option<i32> {
    bytes.first_chunk::<4>().map(|bytes| i32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests;
