// SPDX-License-Identifier: Apache-2.0
//! How a segment file begins and ends, in each version of the format: the end says which one it is, and holds the schema and
//! the index.

use super::index::IndexVersion;
use arrow::datatypes::Schema;
use arrow::ipc;
use arrow::ipc::convert::IpcSchemaEncoder;

/// The first bytes of a file that is written now; those of version 1 begin as Arrow's do.
pub(super) const HEAD: &[u8; 16] = b"COEVALSG\x02\0\0\0\0\0\0\0";

/// The last bytes of a file: the footer's length and a magic.
pub(super) const TRAILER_BYTES: usize = LENGTH_BYTES + MAGIC_BYTES;

const LENGTH_BYTES: usize = size_of::<u32>();
const MAGIC_BYTES: usize = 6;

/// The end of a file of version 1: an Arrow IPC file.
const ARROW_MAGIC: &[u8; MAGIC_BYTES] = b"ARROW1";

/// The end of a file of version 2.
const MAGIC: &[u8; MAGIC_BYTES] = b"COEVAL";

/// Where the index stands in the footer of an Arrow IPC file.
const INDEX_KEY: &str = "coeval.chunks";

/// Reads the trailer: the version of the file and the length of the footer before it; `None` if it is none.
pub(super) fn parse_trailer(trailer: &[u8]) -> Option<(IndexVersion, u64)> {
    let (length, magic) = trailer.split_at_checked(LENGTH_BYTES)?;
    let magic: &[u8; MAGIC_BYTES] = magic.try_into().ok()?;
    let version = match magic {
        ARROW_MAGIC => IndexVersion::Arrow,
        MAGIC => IndexVersion::Encoded,
        _ => return None,
    };
    Some((version, u32::from_le_bytes(length.try_into().ok()?).into()))
}

/// The schema and the text of the index in a footer, which begins where all types may begin.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parse_footer(version: IndexVersion, footer: &[u8]) -> Result<(ipc::Schema<'_>, &str), String> {
    match version {
        IndexVersion::Arrow => {
            let footer = ipc::root_as_footer(footer).map_err(|error| error.to_string())?;
            let schema = footer.schema().ok_or("the footer has no schema")?;
            let index = footer
                .custom_metadata()
                .and_then(|entries| entries.iter().find(|entry| entry.key() == Some(INDEX_KEY)))
                .and_then(|entry| entry.value())
                .ok_or("the footer has no index of chunks")?;
            Ok((schema, index))
        }
        IndexVersion::Encoded => {
            let (contents, length) = footer.split_last_chunk::<LENGTH_BYTES>().ok_or("too short a footer")?;
            let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|error| error.to_string())?;
            let (schema, index) = contents.split_at_checked(length).ok_or("the footer has no schema")?;
            let schema = ipc::root_as_schema(schema).map_err(|error| error.to_string())?;
            Ok((schema, str::from_utf8(index).map_err(|error| error.to_string())?))
        }
    }
}

/// The end of a file that is written now: the schema, as a flatbuffer; the index; the length of the schema; then the trailer.
///
/// # Panics
/// If they pass 4 GiB.
pub(super) fn end_of_file(schema: &Schema, index: &str) -> Vec<u8> {
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a footer stays below 4 GiB").to_le_bytes();
    let encoded = IpcSchemaEncoder::new().schema_to_fb(schema);
    let mut end = encoded.finished_data().to_vec();
    let schema_bytes = length(&end);
    end.extend_from_slice(index.as_bytes());
    end.extend_from_slice(&schema_bytes);
    let footer_bytes = length(&end);
    end.extend_from_slice(&footer_bytes);
    end.extend_from_slice(MAGIC);
    end
}
