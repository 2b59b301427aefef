// SPDX-License-Identifier: Apache-2.0
//! [`PartWriter`]: rows of a spread table as the parts of a backup, each an Arrow IPC stream of its own.
//!
//! # Why parts are cut as they are
//! The archive knows a part by its bytes, and does not take it a second time. So rows that are as they were in the last backup are to
//! come out in the same parts, though others have come before, between and behind them:
//!
//! ```text
//!   brick     1      2*     3     4*                5        6*        * one of eight, by its number
//!   parts   |-------------|------------|---------------|---------|
//!                         ^            ^               ^
//!                         behind a marked brick        the part is long enough, wherever that is
//! ```
//! Batches have a fixed number of rows, however they come; what is loaded into a brick stands behind what it had; and behind a marked brick a
//! part begins anew, so a change in one brick reaches no further than the next of these.
//!
//! Cost: as many bytes in memory as a part has, and those of a batch.

use super::writing::bytes_of;
use arrow::array::{Array, ArrayData, ArrayRef, MutableArrayData, RecordBatch, make_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use coeval_archive::SpreadPart;
use std::collections::VecDeque;
use std::sync::Arc;

/// Rows of a batch.
const BATCH_ROWS: usize = 2_048;
/// A batch of more bytes is halved, so that a part is never longer than the archive's pieces are.
const BATCH_BYTES: usize = 4 << 20;
/// A part of so many bytes is full. With one batch more, and what surrounds them, it has less than 16 MiB.
const PART_BYTES: usize = 8 << 20;
/// One of less bytes goes on behind a marked brick: small objects cost as much as large ones.
const PART_BYTES_MIN: usize = 1 << 20;

const _: () = assert!(PART_BYTES + BATCH_BYTES < (16 << 20), "parts are pieces of the archive");

/// See the module.
pub(super) struct PartWriter {
    table: u64,
    /// Of the rows of the part: a column may be added while the table is read.
    schema: SchemaRef,
    /// Less than a batch.
    pending: Vec<RecordBatch>,
    pending_rows: usize,
    batches: Vec<RecordBatch>,
    bytes: usize,
    full: VecDeque<SpreadPart>,
}

impl PartWriter {
    pub(super) fn new(table: u64) -> Self {
        Self {
            table,
            schema: Arc::new(Schema::empty()),
            pending: Vec::new(),
            pending_rows: 0,
            batches: Vec::new(),
            bytes: 0,
            full: VecDeque::new(),
        }
    }

    /// Adds rows of the brick that is being read.
    ///
    /// # Errors
    /// If Arrow cannot make parts of them: that would be a bug.
    pub(super) fn push(&mut self, rows: &RecordBatch) -> Result<(), ArrowError> {
        let mut from = 0;
        while from < rows.num_rows() {
            let count = (BATCH_ROWS - self.pending_rows).min(rows.num_rows() - from);
            let slice = with_texts(&rows.slice(from, count))?;
            if slice.schema() != self.schema {
                self.close_part()?;
                self.schema = slice.schema();
            }
            self.pending.push(slice);
            self.pending_rows += count;
            from += count;
            if self.pending_rows == BATCH_ROWS {
                self.close_batch()?;
            }
            if self.bytes >= PART_BYTES {
                self.close_part()?;
            }
        }
        Ok(())
    }

    /// All rows of this brick were pushed.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub(super) fn end_brick(&mut self, brick: u64) -> Result<(), ArrowError> {
        if is_marked(brick) && self.bytes >= PART_BYTES_MIN { self.close_part() } else { Ok(()) }
    }

    /// All bricks were pushed.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub(super) fn end(&mut self) -> Result<(), ArrowError> {
        self.close_part()
    }

    /// A part that is full.
    pub(super) fn next_part(&mut self) -> Option<SpreadPart> {
        self.full.pop_front()
    }

    /// Whether a part is full.
    pub(super) fn has_part(&self) -> bool {
        !self.full.is_empty()
    }

    fn close_batch(&mut self) -> Result<(), ArrowError> {
        let pending = std::mem::take(&mut self.pending);
        self.pending_rows = 0;
        if pending.is_empty() {
            return Ok(());
        }
        self.add(joined(&self.schema, &pending)?);
        Ok(())
    }

    fn add(&mut self, batch: RecordBatch) {
        let (rows, bytes) = (batch.num_rows(), bytes_of(&batch));
        if bytes > BATCH_BYTES && rows > 1 {
            self.add(batch.slice(0, rows / 2));
            self.add(batch.slice(rows / 2, rows - rows / 2));
        } else {
            self.bytes += bytes;
            self.batches.push(batch);
        }
    }

    fn close_part(&mut self) -> Result<(), ArrowError> {
        self.close_batch()?;
        self.bytes = 0;
        let mut batches = std::mem::take(&mut self.batches);
        while !batches.is_empty() {
            let count = fitting(&batches);
            let rest = batches.split_off(count);
            self.full.push_back(self.part_of(&batches)?);
            batches = rest;
        }
        Ok(())
    }

    fn part_of(&self, batches: &[RecordBatch]) -> Result<SpreadPart, ArrowError> {
        let mut out = StreamWriter::try_new(Vec::new(), &self.schema)?;
        batches.iter().try_for_each(|batch| out.write(batch))?;
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        Ok(SpreadPart { table: self.table, rows, bytes: out.into_inner()? })
    }
}

/// One batch of these. It is made anew even of one, so that its bytes do not tell what it is a part of.
fn joined(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<RecordBatch, ArrowError> {
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let column = |place: usize| {
        let data: Vec<ArrayData> = batches.iter().map(|batch| batch.column(place).to_data()).collect();
        let mut joined = MutableArrayData::new(data.iter().collect(), false, rows);
        for (index, part) in data.iter().enumerate() {
            joined.try_extend(index, 0, part.len())?;
        }
        Ok(make_array(joined.freeze()))
    };
    let columns = (0..schema.fields().len()).map(column).collect::<Result<Vec<ArrayRef>, ArrowError>>()?;
    RecordBatch::try_new(Arc::clone(schema), columns)
}

/// How many of these batches fit into a part; one at least. The last one may have come in many, as its texts are long.
fn fitting(batches: &[RecordBatch]) -> usize {
    let mut bytes = 0;
    let fits = |batch: &&RecordBatch| {
        let is_open = bytes < PART_BYTES;
        bytes += bytes_of(batch);
        is_open
    };
    batches.iter().take_while(fits).count()
}

/// One of eight, the same in all backups.
fn is_marked(brick: u64) -> bool {
    // The golden ratio in 64 bits: numbers that follow one another are far apart behind it.
    brick.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 61 == 0
}

/// The same rows with texts as they are, not as places in a dictionary.
fn with_texts(rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = rows.schema();
    let (mut fields, mut columns): (Vec<Field>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
    for (field, column) in schema.fields().iter().zip(rows.columns()) {
        let data_type = match field.data_type() {
            DataType::Dictionary(_, values) => values.as_ref(),
            data_type => data_type,
        };
        columns.push(cast(column, data_type)?);
        fields.push(Field::new(field.name(), data_type.clone(), true));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

#[cfg(test)]
mod tests;
