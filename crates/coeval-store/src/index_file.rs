// SPDX-License-Identifier: Apache-2.0
//! [`IndexFile`]: the entries of a new index on their way into the log, in a segment file as those of a bulk load
//! (`bulk_load.rs`).
//!
//! Whoever reads the log takes the file, and does not build the index of the rows: a replica would apply nothing else
//! meanwhile. What others commit while the file is written is not in it. Their changes of the entries lie beside it: those that
//! the transaction has taken in by itself with its body, those of the leader in the head of its record.

use crate::delta::Delta;
use crate::ids::SpaceId;
use crate::segment::SegmentRef;

/// The segment file with the entries of a new index.
#[derive(Clone, Debug)]
pub(crate) struct IndexFile {
    pub(crate) segment: SegmentRef,
    /// What has changed of them since, as the log takes it: one list of changes behind the other.
    pub(crate) changes: Vec<u8>,
}

/// A new index whose entries lie in a file, when the leader takes it.
#[derive(Debug)]
pub(crate) struct LateIndex {
    pub(crate) index: SpaceId,
    pub(crate) entries: LateEntries,
}

/// What the leader does to the entries of a new index.
#[derive(Debug)]
pub(crate) enum LateEntries {
    /// It changes these.
    Changes(Delta),
    /// So much that the log does not say it, or nobody knows what: whoever reads the log builds the index of the rows.
    OfRows,
}

/// So many bytes of a record are for what the leader does to new indexes at most. More is not worth the time under its lock.
const LATE_BYTES_MAX: usize = 512 << 10;

/// What an entry takes there, if its key is not a long one.
const LATE_ENTRY_BYTES: usize = 128;

/// The entries that there is room for beside those of the rows.
const LATE_ENTRIES_SPARE: usize = 8;

// Bodies leave a mebibyte of a record to what stands before them (`options.rs`).
const _: () = assert!(LATE_BYTES_MAX < 1 << 20);

/// How many bytes of a record are for what a leader does to new indexes that takes in so many rows.
pub(crate) fn late_bytes_max(rows_max: usize) -> usize {
    rows_max.saturating_add(LATE_ENTRIES_SPARE).saturating_mul(LATE_ENTRY_BYTES).min(LATE_BYTES_MAX)
}
