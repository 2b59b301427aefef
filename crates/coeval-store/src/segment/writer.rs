// SPDX-License-Identifier: Apache-2.0
//! Writing segment files.

use super::encoding::encode;
use super::footer::{HEAD, end_of_file};
use super::index::{ChunkDescription, Extent, encode_index};
use super::{SegmentRef, segment_path, unfinished_path};
use crate::chunk_stats::ChunkStats;
use crate::column::slice_bytes;
use crate::error::StoreError;
use crate::files::{FileSystem, FileWriter};
use crate::key::Key;
use crate::key_column::KeyColumn;
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use crc32c::crc32c;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use std::path::Path;
use std::sync::Arc;

/// The column of keys.
const KEY_FIELD: &str = "key";

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
    schema: SchemaRef,
    chunks: Vec<ChunkDescription>,
}

/// Who encodes the columns of a chunk.
#[derive(Clone, Copy)]
enum Threads {
    /// This thread alone, as for a checkpoint, which is to leave the others to those who work.
    This,
    /// All that there are, as for somebody who waits for it.
    All,
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
        let mut file = FileWriter::create(files, &unfinished_path(dir, number))?;
        file.append(HEAD)?;
        Ok(Self { place, number, file, schema, chunks: Vec::new() })
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
        self.push_by(Threads::This, chunk)
    }

    fn push_by(&mut self, threads: Threads, chunk: &impl SegmentChunk) -> Result<(), StoreError> {
        let columns = columns_of(chunk, &self.schema)?;
        let encoded: Vec<EncodedColumn> = match threads {
            Threads::This => columns.iter().map(EncodedColumn::of).collect(),
            Threads::All => columns.par_iter().map(EncodedColumn::of).collect(),
        };
        let offset = self.file.position();
        for column in &encoded {
            self.file.append(&column.bytes)?;
        }
        self.chunks.push(ChunkDescription {
            stats: chunk.stats().clone(),
            first_key: chunk.first_key(),
            last_key: chunk.last_key(),
            offset,
            header: None,
            parts: encoded.iter().map(|column| column.extent).collect(),
            memory: encoded.iter().map(|column| column.memory).collect(),
            unshared: columns.iter().map(|column| slice_bytes(column.as_ref()) as u64).sum(),
        });
        Ok(())
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
        let end = end_of_file(&self.schema, &encode_index(&self.chunks));
        self.file.append(&end)?;
        self.file.finish()?;
        let (files, dir) = self.place;
        files.rename(&unfinished_path(dir, self.number), &segment_path(dir, self.number))?;
        Ok(SegmentRef { number: self.number, footer_checksum: crc32c(&end) })
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
        writer.push_by(Threads::All, &**chunk)?;
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

/// A column as it goes to the file.
struct EncodedColumn {
    bytes: Vec<u8>,
    extent: Extent,
    /// What it takes in memory once it is read.
    memory: u64,
}

impl EncodedColumn {
    fn of(column: &ArrayRef) -> Self {
        let mut bytes = Vec::new();
        let memory = encode(column.as_ref(), &mut bytes) as u64;
        let extent = Extent { bytes: bytes.len() as u64, checksum: crc32c(&bytes) };
        Self { bytes, extent, memory }
    }
}

/// The keys and columns of a chunk, in the order of the schema.
///
/// # Errors
/// If they are others than the schema has.
fn columns_of(chunk: &impl SegmentChunk, schema: &Schema) -> Result<Vec<ArrayRef>, ArrowError> {
    let keys: ArrayRef = match schema.field(0).data_type() {
        DataType::FixedSizeBinary(_) => chunk.keys().to_array(),
        _ => Arc::new(chunk.keys().to_variable()),
    };
    let columns = (0..chunk.column_count()).filter_map(|column| chunk.column(column)).map(Arc::clone);
    let columns: Vec<ArrayRef> = std::iter::once(keys).chain(columns).collect();
    let types = columns.iter().map(|column| column.data_type());
    match types.eq(schema.fields().iter().map(|field| field.data_type())) {
        true => Ok(columns),
        false => Err(ArrowError::SchemaError("a chunk has other columns than its segment".to_owned())),
    }
}
