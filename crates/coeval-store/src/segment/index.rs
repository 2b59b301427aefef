// SPDX-License-Identifier: Apache-2.0
//! The index of a segment: what its footer says of each chunk. Encoding and decoding, nothing else.
//!
//! It is JSON. Keys and bounds are hexadecimal: keys as they are, bounds as a key component of the column's type.

use crate::chunk_stats::{ChunkStats, ColumnStats};
use crate::key::Key;
use crate::types::Physical;
use crate::value::{KeyReader, KeyWriter, Nullable, Value};
use arrow::datatypes::{DataType, Schema};
use serde::{Deserialize, Serialize};

/// The version of the index and of how columns are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexVersion {
    /// Chunks are batches of an Arrow IPC file. Only read.
    Arrow = 1,
    /// Columns are encoded (`encoding.rs`).
    Encoded = 2,
}

/// What is known of one chunk of a segment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChunkDescription {
    pub(crate) stats: ChunkStats,
    pub(crate) first_key: Key,
    pub(crate) last_key: Key,
    /// Where it begins in the file.
    pub(super) offset: u64,
    /// In an Arrow IPC file: the header of the batch, before its columns.
    pub(super) header: Option<Extent>,
    /// The keys, then each column, one behind the other.
    pub(super) parts: Vec<Extent>,
    /// What each part takes in memory, once it is read.
    pub(super) memory: Vec<u64>,
    /// What all of them take as arrays that share nothing, as those that are built row by row.
    pub(super) unshared: u64,
}

/// A stretch of bytes and its CRC32C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u32)", into = "(u64, u32)")]
pub(super) struct Extent {
    pub(super) bytes: u64,
    pub(super) checksum: u32,
}

impl From<(u64, u32)> for Extent {
    fn from((bytes, checksum): (u64, u32)) -> Self {
        Self { bytes, checksum }
    }
}

impl From<Extent> for (u64, u32) {
    fn from(extent: Extent) -> Self {
        (extent.bytes, extent.checksum)
    }
}

impl ChunkDescription {
    /// Bytes of keys and columns as arrays that share nothing: what rows of it make where they are copied.
    pub(crate) fn unshared_bytes(&self) -> usize {
        self.unshared as usize
    }

    /// Bytes in memory of the keys (0) or of a column (its number, and 1), once they are read.
    pub(crate) fn memory_bytes(&self, part: usize) -> u64 {
        self.memory[part]
    }

    /// Bytes in the file of the keys (0) or of a column (its number, and 1).
    pub(crate) fn file_bytes_of(&self, part: usize) -> u64 {
        self.parts[part].bytes
    }

    /// Bytes of keys and columns in the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    fn header_bytes(&self) -> u64 {
        self.header.map_or(0, |header| header.bytes)
    }

    /// The offset behind its last byte, unless the numbers are nonsense.
    pub(super) fn end(&self) -> Option<u64> {
        let parts = self.parts.iter().try_fold(0u64, |sum, part| sum.checked_add(part.bytes))?;
        self.offset.checked_add(self.header_bytes())?.checked_add(parts)
    }

    /// Where a part begins, from the first one on.
    pub(super) fn part_start(&self, part: usize) -> u64 {
        self.parts[..part].iter().map(|part| part.bytes).sum()
    }

    /// Where a part begins in the file.
    pub(crate) fn part_offset(&self, part: usize) -> u64 {
        self.offset + self.header_bytes() + self.part_start(part)
    }
}

#[derive(Serialize, Deserialize)]
struct StoredIndex {
    version: u32,
    chunks: Vec<StoredChunk>,
}

#[derive(Serialize, Deserialize)]
struct StoredChunk {
    rows: u64,
    first: String,
    last: String,
    offset: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    header: Option<Extent>,
    parts: Vec<Extent>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    memory: Option<Vec<u64>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    unshared: Option<u64>,
    columns: Vec<StoredStats>,
}

#[derive(Serialize, Deserialize)]
struct StoredStats {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    min: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    max: Option<String>,
    nulls: u64,
}

/// Encodes the index of a segment that is written now.
pub(super) fn encode_index(chunks: &[ChunkDescription]) -> String {
    let bound = |value: &Option<Value>| value.as_ref().map(encode_bound);
    let stats = |stats: &ColumnStats| StoredStats {
        min: bound(&stats.min),
        max: bound(&stats.max),
        nulls: stats.null_count,
    };
    let chunk = |chunk: &ChunkDescription| StoredChunk {
        rows: chunk.stats.rows as u64,
        first: to_hex(chunk.first_key.as_slice()),
        last: to_hex(chunk.last_key.as_slice()),
        offset: chunk.offset,
        header: None,
        parts: chunk.parts.clone(),
        memory: Some(chunk.memory.clone()),
        unshared: Some(chunk.unshared),
        columns: chunk.stats.columns.iter().map(stats).collect(),
    };
    let index =
        StoredIndex { version: IndexVersion::Encoded as u32, chunks: chunks.iter().map(chunk).collect() };
    serde_json::to_string(&index).expect("an index is plain data")
}

/// Reads the index of a segment with this schema back.
///
/// # Errors
/// What is wrong with it.
pub(super) fn decode_index(
    text: &str,
    version: IndexVersion,
    schema: &Schema,
) -> Result<Vec<ChunkDescription>, String> {
    let index: StoredIndex = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let (found, wanted) = (index.version, version as u32);
    if found != wanted {
        return Err(format!("an index of version {found} in a file of version {wanted}"));
    }
    index.chunks.into_iter().map(|chunk| decode_chunk(chunk, version, schema)).collect()
}

fn decode_chunk(
    chunk: StoredChunk,
    version: IndexVersion,
    schema: &Schema,
) -> Result<ChunkDescription, String> {
    let fields = schema.fields();
    if chunk.parts.len() != fields.len() || chunk.columns.len() + 1 != fields.len() {
        return Err("the index and the schema have different numbers of columns".to_owned());
    }
    let (memory, unshared) = sizes_of(&chunk, version)?;
    let rows = usize::try_from(chunk.rows).map_err(|error| error.to_string())?;
    let columns = chunk.columns.into_iter().zip(fields.iter().skip(1)).map(|(stats, field)| {
        let bound =
            |text: Option<String>| text.map(|text| decode_bound(&text, field.data_type())).transpose();
        Ok(ColumnStats { min: bound(stats.min)?, max: bound(stats.max)?, null_count: stats.nulls })
    });
    let stats = ChunkStats { rows, columns: columns.collect::<Result<_, String>>()? };
    let key = |text: &str| from_hex(text).map(|bytes| Key::from_slice(&bytes));
    Ok(ChunkDescription {
        stats,
        first_key: key(&chunk.first)?,
        last_key: key(&chunk.last)?,
        offset: chunk.offset,
        header: chunk.header,
        parts: chunk.parts,
        memory,
        unshared,
    })
}

/// What each part of a chunk takes in memory, and all of them unshared. An Arrow IPC file has its columns as they are in
/// memory.
fn sizes_of(chunk: &StoredChunk, version: IndexVersion) -> Result<(Vec<u64>, u64), String> {
    let sum = |sizes: &[u64]| {
        let sum = sizes.iter().try_fold(0u64, |sum, size| sum.checked_add(*size));
        sum.ok_or_else(|| "sizes beyond all numbers".to_owned())
    };
    match (version, &chunk.header, &chunk.memory, chunk.unshared) {
        (IndexVersion::Arrow, Some(_), None, None) => {
            let sizes: Vec<u64> = chunk.parts.iter().map(|part| part.bytes).collect();
            let all = sum(&sizes)?;
            Ok((sizes, all))
        }
        (IndexVersion::Encoded, None, Some(sizes), Some(unshared)) if sizes.len() == chunk.parts.len() => {
            sum(sizes)?;
            Ok((sizes.clone(), unshared))
        }
        _ => Err("a chunk that is described as one of another version".to_owned()),
    }
}

pub(super) fn encode_bound(value: &Value) -> String {
    let mut writer = KeyWriter::new();
    writer.push(value.borrow());
    to_hex(writer.as_slice())
}

fn decode_bound(text: &str, data_type: &DataType) -> Result<Value, String> {
    let physical =
        physical_of(data_type).ok_or_else(|| format!("a column of type {data_type} has no bounds"))?;
    let bytes = from_hex(text)?;
    let mut reader = KeyReader::new(&bytes);
    let value = reader.read(physical, Nullable::No).map_err(|damage| damage.to_string())?;
    if reader.rest().is_empty() { Ok(value) } else { Err("a bound is too long".to_owned()) }
}

/// How a value of this Arrow type is written as a key component; `None` for types without bounds.
fn physical_of(data_type: &DataType) -> Option<Physical> {
    match data_type {
        DataType::Boolean => Some(Physical::Boolean),
        DataType::Int16 => Some(Physical::Int16),
        DataType::Int32 | DataType::Date32 => Some(Physical::Int32),
        DataType::Int64 | DataType::Time64(_) | DataType::Timestamp(_, _) => Some(Physical::Int64),
        DataType::Float32 => Some(Physical::Float32),
        DataType::Float64 => Some(Physical::Float64),
        DataType::Decimal128(_, _) => Some(Physical::DecimalLong),
        DataType::Utf8View => Some(Physical::Text),
        _ => None,
    }
}

fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let digit = |byte: u8| char::from(byte).to_digit(16).ok_or_else(|| "not a hexadecimal digit".to_owned());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return Err("an odd number of hexadecimal digits".to_owned());
    }
    pairs.iter().map(|[high, low]| Ok((digit(*high)? << 4 | digit(*low)?) as u8)).collect()
}
