// SPDX-License-Identifier: Apache-2.0
//! Bytes of text or CSV in, batches of a table's columns out.

use super::block::{BLOCK_ROWS, Block, Splitter};
use super::field;
use super::options::{CopyOptions, Header};
use super::record::{Fields, Input, Quoted, RecordReader, Step};
use super::rejected::{RejectedRow, Rejections};
use crate::error::{SqlError, SqlState};
use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::DataType;
use arrow::datatypes::{Field, Schema, SchemaRef};
use chrono_tz::Tz;
use coeval_store::{CHUNK_ROWS, ColumnBuilder, ColumnType, TableDef, ValueRef};
use std::sync::Arc;

/// Bytes that a batch is read from at most, but for its last row: rows may be long.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// Longest record, as in PostgreSQL.
pub(super) const RECORD_BYTES_MAX: usize = 1 << 30;

/// Fewer plain records than these in a row are not worth being looked for.
const BLOCK_ROWS_MIN: usize = 32;

/// Longest field that an error shows, in characters.
const SHOWN_MAX: usize = 100;

/// A column that fields go into.
struct Target {
    name: String,
    ty: ColumnType,
    /// Which fields stand for NULL beyond those that the reader took for it.
    null: NullRule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NullRule {
    /// `FORCE_NOT_NULL`: the NULL text is text.
    never: Force,
    /// `FORCE_NULL`: the NULL text in quotes is NULL.
    quoted: Force,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Force {
    On,
    Off,
}

/// How the fields of records become columns: what all decoders of a COPY share.
struct Layout {
    reader: RecordReader,
    splitter: Splitter,
    relation: String,
    targets: Vec<Target>,
    schema: SchemaRef,
    null: String,
    zone: Tz,
    /// How many rows may be left out.
    rejected_max: usize,
    line_numbers: LineNumbers,
}

/// Whether batches tell the line of each row, in a column behind the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineNumbers {
    Told,
    Untold,
}

/// Reads text or CSV that comes in pieces.
pub(super) struct Decoder {
    layout: Arc<Layout>,
    builders: Vec<ColumnBuilder>,
    fields: Fields,
    block: Block,
    /// Integers of a block's column, and which of them are values.
    integers: (Vec<i64>, Vec<bool>),
    /// How many records are to be read one by one before blocks are tried again.
    singly: usize,
    /// What has come and is not read yet.
    pending: Vec<u8>,
    /// Fewer bytes than these are not worth another look: so a long record that comes in small pieces is looked at
    /// a few times only.
    pending_min: usize,
    rows: usize,
    /// Bytes that those rows were read from.
    bytes: usize,
    /// The line that the next record starts in, from 1.
    line: u64,
    header: Header,
    ended: bool,
    /// Rows that were left out and nobody has [taken](Self::take_rejected) yet.
    rejected: Rejections,
    /// The places of such rows in the batch that is being filled.
    rejected_places: Vec<usize>,
    /// The lines of the rows so far, if they are told.
    lines: Vec<u64>,
}

impl Decoder {
    /// A decoder for these columns of a table.
    ///
    /// # Errors
    /// 42703 if an option names a column that is not copied.
    pub(super) fn new(
        def: &TableDef,
        columns: &[usize],
        options: &CopyOptions,
        zone: Tz,
    ) -> Result<Self, SqlError> {
        let copied = || columns.iter().map(|&index| &def.columns[index]);
        for name in options.force_not_null.iter().chain(&options.force_null) {
            if !copied().any(|column| column.name == *name) {
                let message = format!("column \"{name}\" of relation \"{}\" is not copied", def.name.name);
                return Err(SqlError::new(SqlState::InvalidColumnReference, message));
            }
        }
        let force =
            |names: &[String], name: &String| if names.contains(name) { Force::On } else { Force::Off };
        let targets: Vec<Target> = copied()
            .map(|column| Target {
                name: column.name.clone(),
                ty: column.ty,
                null: NullRule {
                    never: force(&options.force_not_null, &column.name),
                    quoted: force(&options.force_null, &column.name),
                },
            })
            .collect();
        let mut fields: Vec<Field> =
            targets.iter().map(|target| Field::new(&target.name, target.ty.arrow(), true)).collect();
        let line_numbers = if def.bricks.is_some() { LineNumbers::Told } else { LineNumbers::Untold };
        if line_numbers == LineNumbers::Told {
            fields.push(Field::new("line", DataType::UInt64, false));
        }
        let layout = Layout {
            reader: RecordReader::new(options),
            splitter: Splitter::new(options, targets.len()),
            relation: def.name.name.clone(),
            targets,
            schema: Arc::new(Schema::new(fields)),
            null: options.null.clone(),
            zone,
            rejected_max: options.rejected_max.unwrap_or(0),
            line_numbers,
        };
        Ok(Self::of(Arc::new(layout), options.header))
    }

    fn of(layout: Arc<Layout>, header: Header) -> Self {
        Self {
            builders: layout.targets.iter().map(|target| ColumnBuilder::new(target.ty, 0)).collect(),
            layout,
            fields: Fields::default(),
            block: Block::default(),
            integers: Default::default(),
            singly: 0,
            pending: Vec::new(),
            pending_min: 0,
            rows: 0,
            bytes: 0,
            line: 1,
            header,
            ended: false,
            rejected: Rejections::default(),
            rejected_places: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// One for the same rows, which has read none and expects no header.
    pub(super) fn another(&self) -> Self {
        Self::of(Arc::clone(&self.layout), Header::Absent)
    }

    /// Whether the line has come that ends the rows.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// What is said of a record that starts in this line and is too long.
    pub(super) fn too_long(&mut self, line: u64) -> SqlError {
        self.line = line;
        self.place(SqlError::new(SqlState::ProgramLimitExceeded, "a record is longer than 1 GiB"), "")
    }

    /// Reads whole records, of which the first starts in this line; what they give goes to `out`.
    ///
    /// # Errors
    /// As [`feed`](Self::feed); then nothing more is to be read by this decoder.
    pub(super) fn read_portion(
        &mut self,
        bytes: &[u8],
        line: u64,
        out: &mut Vec<RecordBatch>,
    ) -> Result<(), SqlError> {
        debug_assert_eq!(self.rows, 0, "each portion is given whole");
        self.line = line;
        self.read_all(bytes, Input::Complete, out)?;
        self.give_batch(out)
    }

    /// The rows that were left out since the last call.
    pub(super) fn take_rejected(&mut self) -> Rejections {
        std::mem::take(&mut self.rejected)
    }

    /// Takes a piece; full batches go to `out`.
    ///
    /// # Errors
    /// 22P04 for a malformed record, 22021 for bytes that are not UTF-8, 54000 for a record that is too long, and
    /// what the columns' types answer; each says in which line and column.
    pub(super) fn feed(&mut self, piece: &[u8], out: &mut Vec<RecordBatch>) -> Result<(), SqlError> {
        if self.ended {
            return Ok(());
        }
        let mut pending = std::mem::take(&mut self.pending);
        pending.extend_from_slice(piece);
        if pending.len() >= self.pending_min {
            let read = self.read_all(&pending, Input::Partial, out)?;
            pending.drain(..read);
            if pending.len() > RECORD_BYTES_MAX {
                return Err(self.too_long(self.line));
            }
            self.pending_min = pending.len() + pending.len() / 4;
        }
        self.pending = pending;
        Ok(())
    }

    /// How many bytes have come of a record whose end has not.
    pub(super) fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// There is no further piece: the rest goes to `out`.
    ///
    /// # Errors
    /// As [`feed`](Self::feed).
    pub(super) fn finish(&mut self, out: &mut Vec<RecordBatch>) -> Result<(), SqlError> {
        let pending = std::mem::take(&mut self.pending);
        if !self.ended {
            self.read_all(&pending, Input::Complete, out)?;
        }
        self.give_batch(out)
    }

    /// Reads the records that are complete; returns how many bytes they were.
    fn read_all(
        &mut self,
        bytes: &[u8],
        input: Input,
        out: &mut Vec<RecordBatch>,
    ) -> Result<usize, SqlError> {
        let mut at = 0;
        while at < bytes.len() && !self.ended {
            if self.singly == 0 && self.header == Header::Absent {
                at = self.read_block(bytes, at, out)?;
                continue;
            }
            self.singly = self.singly.saturating_sub(1);
            let mut fields = std::mem::take(&mut self.fields);
            let step = match self.layout.reader.read(bytes, at, input, &mut fields) {
                Ok(step) => step,
                Err(fault) => {
                    let line_end = bytes[at..].iter().position(|byte| *byte == b'\n');
                    if line_end.is_some() || input == Input::Complete {
                        self.reject(0, self.malformed(fault.message()))?;
                        self.line += 1;
                        at = line_end.map_or(bytes.len(), |end| at + end + 1);
                        self.fields = fields;
                        continue;
                    }
                    Step::Incomplete
                }
            };
            match step {
                Step::Incomplete => {
                    self.fields = fields;
                    break;
                }
                Step::EndOfData => {
                    self.ended = true;
                    at = bytes.len();
                }
                Step::Record(next) => {
                    if self.header != Header::Absent {
                        self.take_header(bytes, &fields)?;
                    } else if let Err((filled, error)) = self.take_record(bytes, &fields) {
                        self.reject(filled, *error)?;
                    }
                    self.line += 1 + lines_inside(&bytes[at..next], &fields);
                    self.bytes += next - at;
                    at = next;
                }
            }
            self.fields = fields;
            if self.is_full() {
                self.give_batch(out)?;
            }
        }
        Ok(at)
    }

    /// Reads plain records together; says where they end. Those that are not plain are left to be read one by one, and so
    /// are all of a block in which a value is wrong: then what is said of it is what is said of a single record.
    fn read_block(&mut self, bytes: &[u8], at: usize, out: &mut Vec<RecordBatch>) -> Result<usize, SqlError> {
        let mut block = std::mem::take(&mut self.block);
        let rows_max = BLOCK_ROWS.min(CHUNK_ROWS - self.rows);
        let mut end = self.layout.splitter.split(bytes, at, rows_max, &mut block);
        let rows = block.rows();
        if rows < rows_max {
            self.singly = if rows < BLOCK_ROWS_MIN { BLOCK_ROWS_MIN } else { 1 };
        }
        if (0..self.builders.len()).all(|column| self.take_column(bytes, column, &block)) {
            if self.layout.line_numbers == LineNumbers::Told {
                self.lines.extend(self.line..self.line + rows as u64);
            }
            self.rows += rows;
            self.line += rows as u64;
            self.bytes += end - at;
            if self.is_full() {
                self.give_batch(out)?;
            }
        } else {
            // Without what some columns have of the block.
            self.give_batch(out)?;
            self.singly = rows;
            end = at;
        }
        self.block = block;
        Ok(end)
    }

    /// Reads the fields of a block's column. Says whether all of them are values; if not, some are in the column.
    fn take_column(&mut self, bytes: &[u8], column: usize, block: &Block) -> bool {
        let Target { ty, null, .. } = self.layout.targets[column];
        let null_text = self.layout.null.as_bytes();
        let is_null = |text: &[u8]| text == null_text && null.never == Force::Off;
        let builder = &mut self.builders[column];
        let Some(range) = field::integer_range(ty) else {
            return block.column(column).all(|place| {
                let text = &bytes[place];
                if is_null(text) {
                    builder.push(ValueRef::Null);
                    return true;
                }
                field::append(builder, ty, text, self.layout.zone).is_ok()
            });
        };
        let (values, valid) = &mut self.integers;
        values.clear();
        valid.clear();
        for place in block.column(column) {
            let value = field::integer_at(bytes, place.clone()).filter(|value| range.contains(value));
            if value.is_none() && !is_null(&bytes[place]) {
                return false;
            }
            values.push(value.unwrap_or_default());
            valid.push(value.is_some());
        }
        builder.push_integers(values, valid);
        true
    }

    fn is_full(&self) -> bool {
        self.rows == CHUNK_ROWS || self.bytes >= BATCH_BYTES_MAX
    }

    /// Passes over the first line; `MAX_REJECTED` does not make up for one that names other columns.
    ///
    /// # Errors
    /// 22P04 if it has to name the columns, and names others.
    fn take_header(&mut self, bytes: &[u8], fields: &Fields) -> Result<(), SqlError> {
        let header = std::mem::replace(&mut self.header, Header::Absent);
        if header != Header::Matching {
            return Ok(());
        }
        let (found, expected) = (fields.len(), self.layout.targets.len());
        if found != expected {
            let message = format!("wrong number of fields in header line: got {found}, expected {expected}");
            return Err(self.malformed(&message));
        }
        for (index, target) in self.layout.targets.iter().enumerate() {
            let given = match fields.get(bytes, index) {
                Some(name) if name == target.name.as_bytes() => continue,
                Some(name) => {
                    let shown: String = String::from_utf8_lossy(name).chars().take(SHOWN_MAX).collect();
                    format!("\"{shown}\"")
                }
                None => format!("null value (\"{}\")", self.layout.null),
            };
            let message = format!(
                "column name mismatch in header line field {}: got {given}, expected \"{}\"",
                index + 1,
                target.name
            );
            return Err(self.malformed(&message));
        }
        Ok(())
    }

    #[inline]
    fn take_record(&mut self, bytes: &[u8], fields: &Fields) -> Result<(), (usize, Box<SqlError>)> {
        if fields.len() < self.layout.targets.len() {
            let missing = &self.layout.targets[fields.len()].name;
            let error = self.malformed(&format!("missing data for column \"{missing}\""));
            return Err((0, Box::new(error)));
        }
        if fields.len() > self.layout.targets.len() {
            return Err((0, Box::new(self.malformed("extra data after last expected column"))));
        }
        for index in 0..self.layout.targets.len() {
            let target = &self.layout.targets[index];
            let given = match fields.get(bytes, index) {
                None if target.null.never == Force::On => Some(self.layout.null.as_bytes()),
                Some(text)
                    if target.null.quoted == Force::On
                        && fields.quoted(index) == Quoted::Yes
                        && text == self.layout.null.as_bytes() =>
                {
                    None
                }
                given => given,
            };
            let builder = &mut self.builders[index];
            match given {
                None => builder.push(ValueRef::Null),
                Some(text) => {
                    if let Err(error) = field::append(builder, target.ty, text, self.layout.zone) {
                        let shown: String = String::from_utf8_lossy(text).chars().take(SHOWN_MAX).collect();
                        let place = format!(", column {}: \"{shown}\"", target.name);
                        return Err((index, Box::new(self.place(error, &place))));
                    }
                }
            }
        }
        self.note_row();
        Ok(())
    }

    fn note_row(&mut self) {
        self.rows += 1;
        if self.layout.line_numbers == LineNumbers::Told {
            self.lines.push(self.line);
        }
    }

    /// Leaves out the record at the present line, of which so many columns are filled.
    ///
    /// # Errors
    /// The error, if no record may be left out.
    fn reject(&mut self, filled: usize, error: SqlError) -> Result<(), SqlError> {
        if self.layout.rejected_max == 0 {
            return Err(error);
        }
        // Whoever takes them counts them, and ends the COPY if there are too many.
        self.rejected.push(RejectedRow::new(self.line, error));
        if filled > 0 {
            self.builders[filled..].iter_mut().for_each(|builder| builder.push(ValueRef::Null));
            self.rejected_places.push(self.rows);
            self.note_row();
        }
        Ok(())
    }

    fn malformed(&self, message: &str) -> SqlError {
        self.place(SqlError::new(SqlState::BadCopyFileFormat, message), "")
    }

    /// The error with where it arose.
    fn place(&self, mut error: SqlError, column: &str) -> SqlError {
        error.context = Some(format!("COPY {}, line {}{column}", self.layout.relation, self.line).into());
        error
    }

    fn give_batch(&mut self, out: &mut Vec<RecordBatch>) -> Result<(), SqlError> {
        let columns = self.builders.iter_mut().map(ColumnBuilder::finish);
        if self.rows == 0 {
            columns.for_each(drop);
        } else {
            let mut columns: Vec<ArrayRef> = columns.map(|column| column.slice(0, self.rows)).collect();
            if self.layout.line_numbers == LineNumbers::Told {
                columns.push(Arc::new(UInt64Array::from(std::mem::take(&mut self.lines))));
            }
            let mut batch = RecordBatch::try_new(Arc::clone(&self.layout.schema), columns)?;
            if !self.rejected_places.is_empty() {
                let mut is_kept = vec![true; self.rows];
                self.rejected_places.drain(..).for_each(|row| is_kept[row] = false);
                batch = filter_record_batch(&batch, &BooleanArray::from(is_kept))?;
            }
            out.push(batch);
            self.rows = 0;
            self.bytes = 0;
        }
        Ok(())
    }
}

/// Line ends inside the fields of a record.
fn lines_inside(record: &[u8], fields: &Fields) -> u64 {
    let plain =
        (0..fields.len()).all(|index| fields.quoted(index) == Quoted::No && !fields.is_unescaped(index));
    if plain {
        return 0;
    }
    let ends = record.iter().filter(|&&byte| byte == b'\n').count() as u64;
    if record.last() == Some(&b'\n') { ends - 1 } else { ends }
}

const _: () = assert!(CHUNK_ROWS > 0, "batches fill up");

#[cfg(test)]
mod tests;
