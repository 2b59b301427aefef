// SPDX-License-Identifier: Apache-2.0
//! Segment files: chunks of one space, column by column.
//!
//! # Why
//! A column of a chunk can be read alone, so that the base of a database may be larger than memory; and it lies there in a form
//! that is chosen from its values (`encoding.rs`), so that it takes less of the disk, and of what is read from it, than an array.
//! Files of version 1 are Arrow IPC files, with columns as arrays have them. They are read as long as they are there: what is
//! written anew has the newest version.
//!
//! # Terms
//! - A *batch* is a chunk: its keys as column `key`, then its columns. Each of these is a *part*.
//! - The *index* of a segment is what must be known of its chunks without reading them: rows, first and last
//!   key, statistics, places and checksums. It lies in the file's footer.
//! - The *footer checksum* is kept by whoever refers to the segment (manifest or log record), so that the chain
//!   of checksums begins in a file that is checked as a whole.
//!
//! # Reading
//! Opening a segment reads its footer. A column of a chunk is read when it is asked for: into memory of its own, checked
//! against its checksum *there*, decoded, and validated by Arrow (offsets, UTF-8). Nothing is mapped: a page of a mapping that the disk
//! cannot give ends the process (SIGBUS), and one that the system lets go of comes back unchecked. `chunk_memory.rs` and
//! `unload.rs` say what stays in memory.
//!
//! # Durability order
//! Written as `<name>.tmp`, synced, renamed; the directory is synced once for all segments that are made
//! together; only then does a manifest or log record name them.
//!
//! # Cost
//! Writing encodes the columns of a chunk in memory: on all cores for a load, on one for a checkpoint. Opening costs the footer alone: some 900 bytes
//! per chunk of 16 columns. Reading a column costs a pass over its bytes and one over its values.
//!
//! `docs/formats.md` has the bytes. Start reading at: `segment/index.rs`, then `segment/writer.rs`.

mod encoding;
mod footer;
mod index;
mod part;
mod reader;
mod schema;
mod writer;

use std::path::{Path, PathBuf};

pub(crate) use encoding::{
    decode as decode_column, decode_coded as decode_coded_column, decode_packed as decode_packed_column,
    encode as encode_column, has_bytes_of_few_texts,
};
pub(crate) use reader::Segment;
pub(crate) use writer::{KeyForm, SegmentChunk, SegmentWriter, write_segment};

/// The directory of segment files in the directory of a database.
pub(crate) const SEGMENT_DIR: &str = "segments";

const SUFFIX: &str = ".arrow";
const UNFINISHED_SUFFIX: &str = ".arrow.tmp";
const ROUND_SUFFIX: &str = ".bricks";
const UNFINISHED_ROUND_SUFFIX: &str = ".bricks.tmp";
const NUMBER_DIGITS: usize = 20;

// The largest number must fit in its digits, so that names sort as numbers.
const _: () = assert!(u64::MAX.ilog10() as usize + 1 == NUMBER_DIGITS);

/// How a manifest or log record names a segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentRef {
    pub(crate) number: u64,
    /// CRC32C of the file from its footer on.
    pub(crate) footer_checksum: u32,
}

/// The path of a segment file.
pub(crate) fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(SEGMENT_DIR).join(format!("{number:0NUMBER_DIGITS$}{SUFFIX}"))
}

/// The path under which it is made before it gets its name.
pub(crate) fn unfinished_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(SEGMENT_DIR).join(format!("{number:0NUMBER_DIGITS$}{UNFINISHED_SUFFIX}"))
}

/// The path of a flush round of a brick table, which has a number like any segment file.
pub(crate) fn round_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(SEGMENT_DIR).join(format!("{number:0NUMBER_DIGITS$}{ROUND_SUFFIX}"))
}

/// The path under which a flush round is made.
pub(crate) fn unfinished_round_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(SEGMENT_DIR).join(format!("{number:0NUMBER_DIGITS$}{UNFINISHED_ROUND_SUFFIX}"))
}

/// The number of a segment file, finished or not; `None` for a file that is none.
pub(crate) fn parse_segment_name(name: &str) -> Option<u64> {
    let suffixes = [SUFFIX, UNFINISHED_SUFFIX, ROUND_SUFFIX, UNFINISHED_ROUND_SUFFIX];
    let digits = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix))?;
    let well_formed = digits.len() == NUMBER_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    if well_formed { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests;
