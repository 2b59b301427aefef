// SPDX-License-Identifier: Apache-2.0
//! Writing segment files.

use super::index::{ChunkDescription, Extent, INDEX_KEY, encode_index};
use super::part::Layouts;
use super::{SegmentRef, segment_path, unfinished_path};
use crate::chunk_stats::ChunkStats;
use crate::error::StoreError;
use crate::files::{FileSystem, FileWriter};
use crate::key::Key;
use crate::key_column::KeyColumn;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::MetadataVersion;
use arrow::ipc::writer::{FileWriter as IpcWriter, IpcWriteOptions};
use crc32c::crc32c;
use std::mem;
use std::path::Path;
use std::sync::Arc;

/// Buffers begin at multiples of this: a cache line, and more than any Arrow type needs.
const ALIGNMENT: usize = 64;

/// The column of keys.
const KEY_FIELD: &str = "key";

/// The bytes before the footer's own: the end-of-stream mark of the IPC format.
const END_OF_STREAM_BYTES: usize = 8;

/// The bytes in front of an IPC message's flatbuffer.
pub(super) const MESSAGE_PREFIX_BYTES: usize = 8;

/// A chunk, as a segment file takes it. What it has in another file is read when it is asked for.
pub(crate) trait SegmentChunk {
    fn keys(&self) -> &KeyColumn;
    fn column_count(&self) -> usize;
    /// None if there are not so many.
    fn column(&self, column: usize) -> Option<&ArrayRef>;
    fn stats(&self) -> &ChunkStats;
    fn first_key(&self) -> Key;
    fn last_key(&self) -> Key;
}

/// The files of a database, and its directory.
type Place<'d> = (&'d dyn FileSystem, &'d Path);

/// A segment file that is being written, chunk by chunk.
pub(crate) struct SegmentWriter<'d> {
    place: Place<'d>,
    number: u64,
    file: FileWriter,
    /// Encodes into memory, one batch at a time, so that each part's checksum can be taken.
    encoder: IpcWriter<Vec<u8>>,
    schema: SchemaRef,
    chunks: Vec<ChunkDescription>,
}

impl<'d> SegmentWriter<'d> {
    /// Begins the segment with this number for chunks with the columns and the form of keys of `first`.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub(crate) fn create(
        place: Place<'d>,
        number: u64,
        first: &impl SegmentChunk,
        keys: KeyForm,
    ) -> Result<Self, StoreError> {
        let schema = schema_of(first, keys);
        let (files, dir) = place;
        let file = FileWriter::create(files, &unfinished_path(dir, number))?;
        let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
        let encoder = IpcWriter::try_new_with_options(Vec::new(), &schema, options)?;
        Ok(Self { place, number, file, encoder, schema, chunks: Vec::new() })
    }

    /// Whether the chunk has the columns and a form of keys that this segment takes.
    pub(crate) fn takes(&self, chunk: &impl SegmentChunk) -> bool {
        match self.schema.field(0).data_type() {
            DataType::FixedSizeBinary(width) => chunk.keys().width() == Some(*width),
            _ => true,
        }
    }

    /// Appends a chunk.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn push(&mut self, chunk: &impl SegmentChunk) -> Result<(), StoreError> {
        // What the encoder has written so far: the head of the file, before the first batch.
        self.drain()?;
        let batch = batch_of(chunk, &self.schema)?;
        self.encoder.write(&batch)?;
        let description = describe(chunk, &batch, self.encoder.get_ref(), self.file.position())?;
        self.chunks.push(description);
        self.drain()
    }

    /// Bytes written so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.file.position()
    }

    /// Completes the file, syncs it and gives it its name, which is durable once the directory is synced.
    ///
    /// # Errors
    /// When the file cannot be written or synced; it is then worthless.
    pub(crate) fn finish(mut self) -> Result<SegmentRef, StoreError> {
        self.drain()?;
        self.encoder.write_metadata(INDEX_KEY, encode_index(&self.chunks));
        self.encoder.finish()?;
        let end = self.encoder.get_ref();
        let footer_checksum = crc32c(&end[END_OF_STREAM_BYTES..]);
        self.drain()?;
        self.file.finish()?;
        let (files, dir) = self.place;
        files.rename(&unfinished_path(dir, self.number), &segment_path(dir, self.number))?;
        Ok(SegmentRef { number: self.number, footer_checksum })
    }

    fn drain(&mut self) -> Result<(), StoreError> {
        let mut bytes = mem::take(self.encoder.get_mut());
        let outcome = self.file.append(&bytes);
        bytes.clear();
        *self.encoder.get_mut() = bytes;
        Ok(outcome?)
    }
}

/// How the keys of a segment are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForm {
    /// As the first chunk has them.
    OfFirst,
    /// With lengths of their own, whatever they are.
    Variable,
}

/// Writes these chunks of one space into one new segment file, synced and named.
///
/// # Errors
/// When the file cannot be written.
///
/// # Panics
/// If there is no chunk.
pub(crate) fn write_segment(
    place: Place<'_>,
    number: u64,
    chunks: &[Arc<impl SegmentChunk>],
) -> Result<SegmentRef, StoreError> {
    let first = chunks.first().expect("a segment has chunks");
    let width = first.keys().width();
    let same = width.is_some() && chunks.iter().all(|chunk| chunk.keys().width() == width);
    let keys = if same { KeyForm::OfFirst } else { KeyForm::Variable };
    let mut writer = SegmentWriter::create(place, number, &**first, keys)?;
    for chunk in chunks {
        writer.push(&**chunk)?;
    }
    writer.finish()
}

fn schema_of(first: &impl SegmentChunk, keys: KeyForm) -> SchemaRef {
    let key_type = match (keys, first.keys().width()) {
        (KeyForm::OfFirst, Some(width)) => DataType::FixedSizeBinary(width),
        (KeyForm::OfFirst, None) | (KeyForm::Variable, _) => DataType::Binary,
    };
    let mut fields = vec![Field::new(KEY_FIELD, key_type, false)];
    for column in 0..first.column_count() {
        let data_type = first.column(column).expect("the column is there").data_type().clone();
        fields.push(Field::new(format!("c{column}"), data_type, true));
    }
    Arc::new(Schema::new(fields))
}

fn batch_of(chunk: &impl SegmentChunk, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let keys: ArrayRef = match schema.field(0).data_type() {
        DataType::FixedSizeBinary(_) => chunk.keys().to_array(),
        _ => Arc::new(chunk.keys().to_variable()),
    };
    let columns = (0..chunk.column_count()).filter_map(|column| chunk.column(column)).map(Arc::clone);
    RecordBatch::try_new(Arc::clone(schema), std::iter::once(keys).chain(columns).collect())
}

/// Describes the chunk whose message `message` is, at `offset` of the file.
fn describe(
    chunk: &impl SegmentChunk,
    batch: &RecordBatch,
    message: &[u8],
    offset: u64,
) -> Result<ChunkDescription, ArrowError> {
    let malformed = || ArrowError::IpcError("the IPC encoder wrote a message of another form".to_owned());
    let flatbuffer = message.get(MESSAGE_PREFIX_BYTES..).ok_or_else(malformed)?;
    let decoded = arrow::ipc::root_as_message(flatbuffer).map_err(|_| malformed())?;
    let body_bytes = usize::try_from(decoded.bodyLength()).map_err(|_| malformed())?;
    let header_bytes = message.len().checked_sub(body_bytes).ok_or_else(malformed)?;
    let (header, body) = message.split_at(header_bytes);
    let record = decoded.header_as_record_batch().ok_or_else(malformed)?;
    let mut layouts = Layouts::new(record)?;
    let starts = batch.columns().iter().map(|column| Ok(layouts.next(column.data_type())?.start()));
    let starts = starts.collect::<Result<Vec<_>, ArrowError>>()?;
    if !layouts.is_at_end() || starts.first() != Some(&Some(0)) {
        return Err(malformed());
    }
    let starts = starts_of_all(&starts, body.len());
    let parts = starts.windows(2).map(|pair| extent(&body[pair[0]..pair[1]])).collect();
    Ok(ChunkDescription {
        stats: chunk.stats().clone(),
        first_key: chunk.first_key(),
        last_key: chunk.last_key(),
        offset,
        header: extent(header),
        parts,
    })
}

/// Where each column begins in a body of this length, and the body's end. A column without buffers begins and ends where the
/// one behind it begins.
fn starts_of_all(starts: &[Option<usize>], end: usize) -> Vec<usize> {
    let mut all = vec![end; starts.len() + 1];
    for (column, start) in starts.iter().enumerate().rev() {
        all[column] = start.unwrap_or(all[column + 1]);
    }
    all
}

fn extent(bytes: &[u8]) -> Extent {
    Extent { bytes: bytes.len() as u64, checksum: crc32c(bytes) }
}
