// SPDX-License-Identifier: Apache-2.0
//! Reading segment files: the footer at once, each column when it is asked for.

use super::encoding;
use super::footer::{TRAILER_BYTES, parse_footer, parse_trailer};
use super::index::{ChunkDescription, Extent, decode_index, encode_bound};
use super::part::Layouts;
use super::schema::schema_of;
use super::{SegmentRef, segment_path};
use crate::chunk_column::ChunkColumn;
use crate::chunk_memory::ChunkMemory;
use crate::chunk_stats::column_stats;
use crate::error::StoreError;
use crate::files::{FileError, FileSystem, ReadFile};
use crate::key_column::KeyColumn;
use crate::log::ChecksumPolicy;
use crate::value::Value;
use arrow::array::{Array, ArrayRef, make_array};
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use crc32c::crc32c;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The bytes in front of the flatbuffer of a message in an Arrow IPC file.
const MESSAGE_PREFIX_BYTES: usize = 8;

/// Whether what is stated is what it is. A bound that is not stated hides nothing.
fn is_bound(stated: Option<&Value>, actual: Option<&Value>) -> bool {
    // As bytes, by which every value is equal to itself.
    stated.is_none_or(|stated| actual.is_some_and(|actual| encode_bound(actual) == encode_bound(stated)))
}

/// A segment file. Nothing of it is kept here but its index: each part is read, and checked, when it is asked for.
pub(crate) struct Segment {
    reference: SegmentRef,
    path: PathBuf,
    files: Arc<dyn FileSystem>,
    /// Open once the file's name is to be removed while somebody may read it yet. Others open it for each read: there may
    /// be more segments than a process may have open files.
    held: OnceLock<Arc<dyn ReadFile>>,
    schema: SchemaRef,
    chunks: Vec<ChunkDescription>,
    checksums: ChecksumPolicy,
    memory: Arc<ChunkMemory>,
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Segment({}, {} chunks)", self.reference.number, self.chunks.len())
    }
}

impl Segment {
    /// Reads the footer of the file. What is read of its chunks later is counted in `memory`.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the file is not there or its footer is not the one that was written;
    /// [`StoreError::File`] if it cannot be read.
    pub(crate) fn open(
        files: &Arc<dyn FileSystem>,
        dir: &Path,
        reference: SegmentRef,
        checksums: ChecksumPolicy,
        memory: &Arc<ChunkMemory>,
    ) -> Result<Self, StoreError> {
        let path = segment_path(dir, reference.number);
        let corrupt = |offset: u64, what: &str| StoreError::corrupt(&path, offset, what);
        let file = files.open_to_read(&path).map_err(|error| match error.is_not_found() {
            true => corrupt(0, "the file is missing"),
            false => error.into(),
        })?;
        let read = |from: u64, to: u64| read_part_of(&*file, &path, from, to - from);
        let end = file.len()?;
        let trailer_start = end.checked_sub(TRAILER_BYTES as u64).ok_or_else(|| corrupt(0, "too short"))?;
        let trailer = read(trailer_start, end)?;
        let (version, length) = parse_trailer(&trailer)
            .ok_or_else(|| corrupt(trailer_start, "the end of a segment file is missing"))?;
        let start = trailer_start
            .checked_sub(length)
            .ok_or_else(|| corrupt(trailer_start, "the footer is longer than the file"))?;
        let footer = read(start, end)?;
        if checksums == ChecksumPolicy::Verified && crc32c(&footer) != reference.footer_checksum {
            return Err(corrupt(start, "the footer does not fit its checksum"));
        }
        let (schema, index) = parse_footer(version, &footer[..footer.len() - TRAILER_BYTES])
            .map_err(|what| corrupt(start, &what))?;
        let schema = Arc::new(schema_of(schema).map_err(|what| corrupt(start, &what))?);
        let chunks = decode_index(index, version, &schema).map_err(|what| corrupt(start, &what))?;
        let fits = |chunk: &ChunkDescription| chunk.end().is_some_and(|end| end <= start);
        if !chunks.iter().all(fits) {
            return Err(corrupt(start, "a chunk lies outside of the file"));
        }
        let (files, held, memory) = (Arc::clone(files), OnceLock::new(), Arc::clone(memory));
        Ok(Self { reference, path, files, held, schema, chunks, checksums, memory })
    }

    /// Keeps the file open from now on, so that it can be read when its name is gone.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) fn hold(&self) -> Result<(), FileError> {
        if self.held.get().is_none() {
            let file = self.files.open_to_read(&self.path)?;
            self.held.get_or_init(|| file);
        }
        Ok(())
    }

    /// Where what was read of its chunks is counted.
    pub(crate) fn memory(&self) -> &ChunkMemory {
        &self.memory
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The number in its name.
    pub(crate) fn number(&self) -> u64 {
        self.reference.number
    }

    /// How manifest and log name it.
    pub(crate) fn reference(&self) -> SegmentRef {
        self.reference
    }

    /// Whether its columns are encoded: it is no Arrow IPC file.
    pub(crate) fn is_encoded(&self) -> bool {
        self.chunks.iter().all(|chunk| chunk.header.is_none())
    }

    /// Bytes of all chunks in the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.chunks.iter().map(ChunkDescription::file_bytes).sum()
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
        let array = self.read_part(batch, 0, encoding::decode)?;
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
        self.read_part(batch, column + 1, encoding::decode)
    }

    /// The same, but texts that the file has as a dictionary of few entries are `Dictionary(UInt16, Utf8View)`.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if it is damaged.
    pub(crate) fn read_coded(&self, batch: u32, column: usize) -> Result<ArrayRef, StoreError> {
        self.read_part(batch, column + 1, encoding::decode_coded)
    }

    /// The same, but integers that the file has as such, and of which all fit into few bytes, stay in these.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if it is damaged.
    pub(crate) fn read_packed(&self, batch: u32, column: usize) -> Result<ChunkColumn, StoreError> {
        self.read_part(batch, column + 1, encoding::decode_packed)
    }

    /// A part of a chunk; `decode` makes it of a type, of a number of rows, and of the bytes of an encoded column.
    fn read_part<C: From<ArrayRef>>(
        &self,
        batch: u32,
        part: usize,
        decode: impl Fn(&DataType, usize, &[u8]) -> Result<C, String>,
    ) -> Result<C, StoreError> {
        let chunk = self.chunk(batch);
        let (offset, rows) = (chunk.part_offset(part), chunk.stats.rows);
        let file = self.file()?;
        let header = |extent| self.read_verified(&*file, chunk.offset, extent, "the header of a batch");
        let header = chunk.header.map(header).transpose()?;
        let bytes = self.read_verified(&*file, offset, chunk.parts[part], "a column of a batch")?;
        if rows == 0 {
            return Err(self.corrupt(offset, "a batch without rows"));
        }
        let column = match header {
            Some(header) => match self.array_of_batch(part, &header, &bytes, chunk.part_start(part)) {
                Ok(array) if array.len() != rows => Err("another number of rows".to_owned()),
                array => array.map(C::from),
            },
            None => decode(self.schema.field(part).data_type(), rows, &bytes),
        };
        column.map_err(|what| self.corrupt(offset, &what))
    }

    /// A column of the batch with this header, out of the bytes that it has from `start` of the batch's body on.
    fn array_of_batch(
        &self,
        part: usize,
        header: &[u8],
        bytes: &Buffer,
        start: u64,
    ) -> Result<ArrayRef, String> {
        let decode = |start| {
            let malformed = || ArrowError::IpcError("no header of a batch".to_owned());
            let message = header.get(MESSAGE_PREFIX_BYTES..).ok_or_else(malformed)?;
            let message = arrow::ipc::root_as_message(message).map_err(|_| malformed())?;
            let mut layouts = Layouts::new(message.header_as_record_batch().ok_or_else(malformed)?)?;
            let fields = self.schema.fields();
            fields[..part].iter().try_for_each(|field| layouts.next(field.data_type()).map(drop))?;
            let data_type = fields[part].data_type();
            Ok::<_, ArrowError>(make_array(layouts.next(data_type)?.array(data_type, bytes, start)?))
        };
        let start = usize::try_from(start).map_err(|_| "a column beyond all memory".to_owned())?;
        decode(start).map_err(|error| error.to_string())
    }

    /// The file, open.
    fn file(&self) -> Result<Arc<dyn ReadFile>, StoreError> {
        if let Some(file) = self.held.get() {
            return Ok(Arc::clone(file));
        }
        match self.files.open_to_read(&self.path) {
            // Its name may have been removed since the look above; then it was held before.
            Err(error) if error.is_not_found() => {
                let held = self.held.get().map(Arc::clone);
                held.ok_or_else(|| self.corrupt(0, "the file is missing"))
            }
            outcome => Ok(outcome?),
        }
    }

    /// Checks every byte of a chunk against its checksum, that its columns can be read, and what the index says of them against
    /// their values: a wrong bound hides rows from scans. Gives what the index says wrongly first. Reads each part once.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] at the first damage.
    pub(crate) fn check_chunk(&self, batch: u32) -> Result<Option<StoreError>, StoreError> {
        self.read_keys(batch)?;
        let mut misstated = None;
        for column in 0..self.schema.fields().len() - 1 {
            let array = self.read_column(batch, column)?;
            misstated = misstated.or_else(|| self.misstated(batch, column, array.as_ref()));
        }
        Ok(misstated)
    }

    /// What the index says of a column of a chunk that is not so of its values.
    fn misstated(&self, batch: u32, column: usize, values: &dyn Array) -> Option<StoreError> {
        let description = self.chunk(batch);
        let (stated, actual) = (&description.stats.columns[column], column_stats(values));
        let what = if stated.null_count != actual.null_count {
            "another number of NULLs"
        } else if !is_bound(stated.min.as_ref(), actual.min.as_ref()) {
            "another least value"
        } else if !is_bound(stated.max.as_ref(), actual.max.as_ref()) {
            "another greatest value"
        } else {
            return None;
        };
        let name = self.schema.field(column + 1).name();
        let what = format!("column {name}: {what} than the index of the segment says");
        Some(self.corrupt(description.part_offset(column + 1), &what))
    }

    fn read_verified(
        &self,
        file: &dyn ReadFile,
        offset: u64,
        extent: Extent,
        what: &str,
    ) -> Result<Buffer, StoreError> {
        let bytes = read_part_of(file, &self.path, offset, extent.bytes)?;
        if self.checksums == ChecksumPolicy::Verified && crc32c(&bytes) != extent.checksum {
            return Err(self.corrupt(offset, &format!("{what} does not fit its checksum")));
        }
        Ok(bytes)
    }

    fn corrupt(&self, offset: u64, what: &str) -> StoreError {
        StoreError::corrupt(&self.path, offset, what)
    }
}

/// Bytes of the file at `path`, where all arrays may begin.
fn read_part_of(file: &dyn ReadFile, path: &Path, offset: u64, bytes: u64) -> Result<Buffer, StoreError> {
    let past = || StoreError::corrupt(path, offset, "the file ends before its contents");
    let mut buffer = MutableBuffer::from_len_zeroed(usize::try_from(bytes).map_err(|_| past())?);
    file.read_exact_at(offset, buffer.as_slice_mut()).map_err(|error| match error.is_past_the_end() {
        true => past(),
        false => error.into(),
    })?;
    Ok(buffer.into())
}
