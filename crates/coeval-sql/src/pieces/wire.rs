// SPDX-License-Identifier: Apache-2.0
//! Numbers, bytes and texts of a piece, as they are written.

use crate::error::SqlError;
use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use std::io::Cursor;

/// Bytes that are written.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub(super) fn number(&mut self, number: usize) {
        self.bytes.extend_from_slice(&(number as u64).to_le_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }
}

/// Bytes that are read: none that are not there.
#[derive(Debug)]
pub(super) struct Reader<'b> {
    left: &'b [u8],
}

/// The bytes are no piece of a query.
pub(super) fn malformed(what: &str) -> SqlError {
    SqlError::internal(format!("what another node sends is no piece of a query: {what}"))
}

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { left: bytes }
    }

    pub(super) fn byte(&mut self) -> Result<u8, SqlError> {
        let (byte, left) = self.left.split_first().ok_or_else(|| malformed("it ends too soon"))?;
        self.left = left;
        Ok(*byte)
    }

    pub(super) fn number(&mut self) -> Result<usize, SqlError> {
        let (bytes, left) = self.left.split_first_chunk().ok_or_else(|| malformed("it ends too soon"))?;
        self.left = left;
        usize::try_from(u64::from_le_bytes(*bytes)).map_err(|_| malformed("a number is out of range"))
    }

    /// A count of things of which each takes a byte at least: so no memory is taken for what is not there.
    pub(super) fn count(&mut self) -> Result<usize, SqlError> {
        let count = self.number()?;
        if count > self.left.len() { Err(malformed("it ends too soon")) } else { Ok(count) }
    }

    pub(super) fn bytes(&mut self) -> Result<&'b [u8], SqlError> {
        let length = self.count()?;
        let (bytes, left) = self.left.split_at(length);
        self.left = left;
        Ok(bytes)
    }

    pub(super) fn text(&mut self) -> Result<&'b str, SqlError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| malformed("a text is none"))
    }

    /// As many things as a number in front says.
    pub(super) fn list<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<T, SqlError>,
    ) -> Result<Vec<T>, SqlError> {
        let count = self.count()?;
        (0..count).map(|_| one(self)).collect()
    }

    /// Whether all is read.
    pub(super) fn end(&self) -> Result<(), SqlError> {
        if self.left.is_empty() { Ok(()) } else { Err(malformed("something follows it")) }
    }
}

/// Fields, and perhaps rows of them, in Arrow's stream format.
pub(super) fn written<'r>(
    schema: &Schema,
    rows: impl IntoIterator<Item = &'r RecordBatch>,
) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
    for batch in rows {
        writer.write(batch)?;
    }
    writer.finish()?;
    writer.into_inner()
}

/// What [`written`] has made, with all rows.
pub(super) fn read_rows(bytes: &[u8]) -> Result<(SchemaRef, Vec<RecordBatch>), SqlError> {
    let mut reader = StreamReader::try_new(Cursor::new(bytes), None)?;
    let rows = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    Ok((reader.schema(), rows))
}

/// What [`written`] has made, with the first batch.
pub(super) fn read(bytes: &[u8]) -> Result<(Schema, Option<RecordBatch>), SqlError> {
    let mut reader = StreamReader::try_new(Cursor::new(bytes), None)?;
    let row = reader.next().transpose()?;
    Ok((Schema::clone(&reader.schema()), row))
}
