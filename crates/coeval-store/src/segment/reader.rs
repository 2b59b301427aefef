// SPDX-License-Identifier: Apache-2.0
//! Reading segment files: the footer at once, each column when it is asked for.

use super::index::{ChunkDescription, Extent, INDEX_KEY, decode_index, encode_bound};
use super::{SegmentRef, segment_path};
use crate::chunk::column_stats;
use crate::error::StoreError;
use crate::files::FileSystem;
use crate::key_column::KeyColumn;
use crate::log::ChecksumPolicy;
use crate::value::Value;
use arrow::array::ArrayRef;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::FileDecoder;
use arrow::ipc::{Block, MetadataVersion};
use crc32c::crc32c;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The last bytes of an Arrow file: the footer's length and the magic.
const TRAILER_BYTES: usize = 10;
const MAGIC: &[u8; 6] = b"ARROW1";

/// Whether what is stated is what it is. A bound that is not stated hides nothing.
fn is_bound(stated: Option<&Value>, actual: Option<&Value>) -> bool {
    // As bytes, by which every value is equal to itself.
    stated.is_none_or(|stated| actual.is_some_and(|actual| encode_bound(actual) == encode_bound(stated)))
}

/// A segment file, mapped.
pub(crate) struct Segment {
    reference: SegmentRef,
    path: PathBuf,
    file: Buffer,
    schema: SchemaRef,
    chunks: Vec<ChunkDescription>,
    checksums: ChecksumPolicy,
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Segment({}, {} chunks)", self.reference.number, self.chunks.len())
    }
}

impl Segment {
    /// Maps the file and reads its footer.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the file is not there or its footer is not the one that was written;
    /// [`StoreError::File`] if it cannot be mapped.
    pub(crate) fn open(
        files: &dyn FileSystem,
        dir: &Path,
        reference: SegmentRef,
        checksums: ChecksumPolicy,
    ) -> Result<Arc<Self>, StoreError> {
        let path = segment_path(dir, reference.number);
        let corrupt = |offset: usize, what: &str| StoreError::corrupt(&path, offset as u64, what);
        let file = files.map(&path).map_err(|error| match error.is_not_found() {
            true => corrupt(0, "the file is missing"),
            false => error.into(),
        })?;
        let trailer_start = file.len().checked_sub(TRAILER_BYTES).ok_or_else(|| corrupt(0, "too short"))?;
        let (length, magic) = file[trailer_start..].split_at(TRAILER_BYTES - MAGIC.len());
        if magic != MAGIC {
            return Err(corrupt(trailer_start, "the end of a segment file is missing"));
        }
        let length = length.try_into().map(u32::from_le_bytes).expect("the trailer begins with four bytes");
        let start = trailer_start
            .checked_sub(length as usize)
            .ok_or_else(|| corrupt(trailer_start, "the footer is longer than the file"))?;
        if checksums == ChecksumPolicy::Verified && crc32c(&file[start..]) != reference.footer_checksum {
            return Err(corrupt(start, "the footer does not fit its checksum"));
        }
        let footer = arrow::ipc::root_as_footer(&file[start..trailer_start])
            .map_err(|error| corrupt(start, &error.to_string()))?;
        let schema = footer.schema().ok_or_else(|| corrupt(start, "the footer has no schema"))?;
        let schema = Arc::new(fb_to_schema(schema));
        let index = footer
            .custom_metadata()
            .and_then(|entries| entries.iter().find(|entry| entry.key() == Some(INDEX_KEY)))
            .and_then(|entry| entry.value())
            .ok_or_else(|| corrupt(start, "the footer has no index of chunks"))?;
        let chunks = decode_index(index, &schema).map_err(|what| corrupt(start, &what))?;
        let fits = |chunk: &ChunkDescription| chunk.end().is_some_and(|end| end <= start as u64);
        if !chunks.iter().all(fits) {
            return Err(corrupt(start, "a chunk lies outside of the file"));
        }
        Ok(Arc::new(Self { reference, path, file, schema, chunks, checksums }))
    }

    /// The number in its name.
    pub(crate) fn number(&self) -> u64 {
        self.reference.number
    }

    /// How manifest and log name it.
    pub(crate) fn reference(&self) -> SegmentRef {
        self.reference
    }

    /// Bytes of all chunks.
    pub(crate) fn bytes(&self) -> u64 {
        self.chunks.iter().map(ChunkDescription::body_bytes).sum()
    }

    /// How many chunks it holds.
    pub(crate) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// What is known of a chunk.
    ///
    /// # Panics
    /// If there is none with this number.
    pub(crate) fn chunk(&self, batch: u32) -> &ChunkDescription {
        &self.chunks[batch as usize]
    }

    /// The keys of a chunk.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if they are damaged.
    pub(crate) fn read_keys(&self, batch: u32) -> Result<KeyColumn, StoreError> {
        let array = self.read_part(batch, 0)?;
        let damaged = |what| self.corrupt(self.chunk(batch).part_offset(0), what);
        let keys = KeyColumn::from_array(array.as_ref()).ok_or_else(|| damaged("keys of another type"))?;
        let description = self.chunk(batch);
        let ends_fit = keys.get(0) == description.first_key.as_slice()
            && keys.get(keys.len() - 1) == description.last_key.as_slice();
        if ends_fit { Ok(keys) } else { Err(damaged("the first or last key is not the one in the index")) }
    }

    /// A column of a chunk.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if it is damaged.
    pub(crate) fn read_column(&self, batch: u32, column: usize) -> Result<ArrayRef, StoreError> {
        self.read_part(batch, column + 1)
    }

    fn read_part(&self, batch: u32, part: usize) -> Result<ArrayRef, StoreError> {
        let chunk = self.chunk(batch);
        self.verify(chunk.offset, chunk.header, "the header of a batch")?;
        let offset = chunk.part_offset(part);
        self.verify(offset, chunk.parts[part], "a column of a batch")?;
        let (header_bytes, body_bytes) = (chunk.header.bytes, chunk.body_bytes());
        let in_file = |offset: u64| usize::try_from(offset).expect("extents were checked against the file");
        let message = self.file.slice_with_length(in_file(chunk.offset), in_file(header_bytes + body_bytes));
        let damaged = |what: &str| self.corrupt(offset, what);
        let header_length = i32::try_from(header_bytes).map_err(|_| damaged("the header is too long"))?;
        let body_length = i64::try_from(body_bytes).map_err(|_| damaged("the body is too long"))?;
        let block = Block::new(0, header_length, body_length);
        let decoder =
            FileDecoder::new(Arc::clone(&self.schema), MetadataVersion::V5).with_projection(vec![part]);
        let decoded = decoder.read_record_batch(&block, &message);
        let decoded = decoded.map_err(|error| damaged(&error.to_string()))?;
        let array = decoded.filter(|decoded| decoded.num_rows() == chunk.stats.rows && chunk.stats.rows > 0);
        array.map(|decoded| Arc::clone(decoded.column(0))).ok_or_else(|| damaged("another number of rows"))
    }

    /// Checks every byte of a chunk against its checksum, and that its columns can be read.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] at the first damage.
    pub(crate) fn check_chunk(&self, batch: u32) -> Result<(), StoreError> {
        self.read_keys(batch)?;
        (0..self.schema.fields().len() - 1).try_for_each(|column| self.read_column(batch, column).map(drop))
    }

    /// Checks what the index says of a chunk's columns, which [can be read](Self::check_chunk), against their values: a wrong
    /// bound hides rows from scans.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] for the first column of which the index says something else.
    pub(crate) fn check_stats(&self, batch: u32) -> Result<(), StoreError> {
        let description = self.chunk(batch);
        for (column, stated) in description.stats.columns.iter().enumerate() {
            let actual = column_stats(self.read_column(batch, column)?.as_ref());
            let name = self.schema.field(column + 1).name();
            let wrong = |what: &str| {
                let what = format!("column {name}: {what} than the index of the segment says");
                Err(self.corrupt(description.part_offset(column + 1), &what))
            };
            if stated.null_count != actual.null_count {
                return wrong("another number of NULLs");
            }
            if !is_bound(stated.min.as_ref(), actual.min.as_ref()) {
                return wrong("another least value");
            }
            if !is_bound(stated.max.as_ref(), actual.max.as_ref()) {
                return wrong("another greatest value");
            }
        }
        Ok(())
    }

    fn verify(&self, offset: u64, extent: Extent, what: &str) -> Result<(), StoreError> {
        if self.checksums == ChecksumPolicy::IgnoredOnPurpose {
            return Ok(());
        }
        let in_file = |offset: u64| usize::try_from(offset).expect("extents were checked against the file");
        let bytes = &self.file[in_file(offset)..in_file(offset + extent.bytes)];
        if crc32c(bytes) == extent.checksum {
            Ok(())
        } else {
            Err(self.corrupt(offset, &format!("{what} does not fit its checksum")))
        }
    }

    fn corrupt(&self, offset: u64, what: &str) -> StoreError {
        StoreError::corrupt(&self.path, offset, what)
    }
}
