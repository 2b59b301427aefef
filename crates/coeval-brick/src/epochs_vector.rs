// SPDX-License-Identifier: Apache-2.0
//! The epochs vector of a brick: which transaction loaded which rows, and which deleted all of them.
//!
//! Source: AOSI III-C1 and III-C2. There an entry is a pair (epoch, *last* row), and the last entry's row grows
//! while its transaction goes on appending. Here an entry holds the *first* row: the last row follows from the
//! next entry, or from the brick's row count, so an entry never changes once it is written, and a reader needs
//! no more than the number of entries to see a consistent vector. [`EpochsVector::pairs`] gives the paper's form.
//!
//! ```text
//!   rows      0 1 2 3 4 5 6 7 8
//!   of        1 1 3 3 1 3 3 3 7
//!   entries   (1,0) (3,2) (1,4) (delete 5, 5) (3,5) (7,8)       the paper: (1,1) (3,3) (1,4) (5,4,del) (3,7) (7,8)
//! ```
//!
//! Publication: an entry's words, then the entry count (`Release`), then the brick's row count. A reader loads
//! the row count first and the entry count second (`Acquire`), so the entries cover all rows that it has seen.
//!
//! Memory: 16 bytes for an entry, in segments that grow to [`SEGMENT_ENTRIES_MAX`]; a brick with one entry takes
//! a few hundred bytes, a long vector at most one segment more than it uses.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use coeval_txn::{Epoch, EpochSet};

use crate::chain::{Chain, ChainEnd};

/// The entries of the first segment: most bricks, once purged, have one.
const SEGMENT_ENTRIES_MIN: usize = 2;

/// The entries of a segment of a long vector (8 KiB), so that its unused end is small beside it.
const SEGMENT_ENTRIES_MAX: usize = 512;

const _: () = assert!(SEGMENT_ENTRIES_MIN.is_power_of_two() && SEGMENT_ENTRIES_MAX.is_power_of_two());

/// Marks an entry as a delete. An epoch leaves this bit free.
const DELETE_BIT: u64 = 1 << 63;

const _: () = assert!(Epoch::MAX.get() & DELETE_BIT == 0);

/// One entry: an epoch, with a bit for deletes, and a row.
struct Entry {
    tag: AtomicU64,
    row: AtomicU64,
}

/// What a delete of a whole brick removes from the view of those who see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteMarker {
    /// The epoch of the deleter.
    pub epoch: Epoch,
    /// The number of rows that the brick had.
    pub row: usize,
    /// The epochs whose rows the delete covers, wherever they are: what the deleter's snapshot saw. (In the
    /// paper, [`EpochSet::below`] the deleter's epoch.)
    pub covered: EpochSet,
    /// The deleter's own epochs (one for each savepoint level), whose rows it covers up to `row`.
    pub own: Vec<Epoch>,
}

impl DeleteMarker {
    /// Whether a run of rows of `epoch` that starts at `row` is removed. No run lies on both sides of a marker.
    #[inline]
    pub(crate) fn clears(&self, epoch: Epoch, row: usize) -> bool {
        self.covered.contains(epoch) || (row < self.row && self.own.contains(&epoch))
    }

    fn heap_bytes(&self) -> usize {
        self.own.capacity() * size_of::<Epoch>() + self.covered.heap_bytes()
    }
}

/// An entry as the paper writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochsPair {
    /// The transaction's rows end with `last_row`.
    Rows {
        /// The epoch that loaded the rows.
        epoch: Epoch,
        /// The last of them.
        last_row: usize,
    },
    /// The transaction deleted the brick when `last_row` was its last row (`None`: it had none).
    Delete {
        /// The epoch of the deleter.
        epoch: Epoch,
        /// The last row before the delete.
        last_row: Option<usize>,
    },
}

/// What a reader meets when it walks the vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Contiguous rows of one epoch.
    Run(Epoch, Range<usize>),
    /// The next delete marker.
    Delete,
}

/// The reading side.
pub(crate) struct EpochsVector {
    segments: Chain<Box<[Entry]>>,
    markers: Chain<Arc<DeleteMarker>>,
    count: AtomicUsize,
}

/// The writing side, which belongs to the brick's shard.
pub(crate) struct EpochsWriter {
    segments_end: ChainEnd<Box<[Entry]>>,
    markers_end: ChainEnd<Arc<DeleteMarker>>,
    /// The entries of the last segment that are in use.
    used: usize,
    last_tag: Option<u64>,
}

impl EpochsVector {
    pub(crate) fn new() -> (Self, EpochsWriter) {
        let (segments, segments_end) = Chain::new();
        let (markers, markers_end) = Chain::new();
        let vector = Self { segments, markers, count: AtomicUsize::new(0) };
        (vector, EpochsWriter { segments_end, markers_end, used: 0, last_tag: None })
    }

    /// The number of entries. Load the brick's row count before.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// The first `count` entries over the first `rows` rows.
    pub(crate) fn steps(&self, count: usize, rows: usize) -> impl Iterator<Item = Step> {
        assert!(count <= self.count(), "only published entries are read");
        let words = |entry: &Entry| (entry.tag.load(Ordering::Relaxed), entry.row.load(Ordering::Relaxed));
        let mut entries =
            self.segments.iter().flat_map(|segment| segment.iter()).take(count).map(words).peekable();
        std::iter::from_fn(move || {
            let (tag, row) = entries.next()?;
            if tag & DELETE_BIT != 0 {
                return Some(Step::Delete);
            }
            let start = row as usize;
            let end = entries.peek().map_or(rows, |(_, next)| rows.min(*next as usize));
            (start < end).then(|| Step::Run(Epoch::new(tag), start..end))
        })
    }

    /// The delete markers, in the order of their entries.
    pub(crate) fn markers(&self) -> impl Iterator<Item = &Arc<DeleteMarker>> {
        self.markers.iter()
    }

    /// The first `count` entries over the first `rows` rows, in the paper's form.
    pub(crate) fn pairs(&self, count: usize, rows: usize) -> Vec<EpochsPair> {
        let mut markers = self.markers();
        let pair = |step| match step {
            Step::Run(epoch, run) => EpochsPair::Rows { epoch, last_row: run.end - 1 },
            Step::Delete => {
                let marker =
                    markers.next().expect("each delete entry has its marker, which is published before");
                EpochsPair::Delete { epoch: marker.epoch, last_row: marker.row.checked_sub(1) }
            }
        };
        self.steps(count, rows).map(pair).collect()
    }

    /// The bytes of the vector by capacity, markers included.
    pub(crate) fn bytes(&self) -> usize {
        let segment = |segment: &[Entry]| size_of_val(segment) + Chain::<Box<[Entry]>>::element_bytes();
        let marker = |marker: &Arc<DeleteMarker>| {
            size_of::<DeleteMarker>() + marker.heap_bytes() + Chain::<Arc<DeleteMarker>>::element_bytes()
        };
        size_of::<Self>()
            + size_of::<EpochsWriter>()
            + self.segments.iter().map(|entries| segment(entries)).sum::<usize>()
            + self.markers.iter().map(marker).sum::<usize>()
    }
}

impl EpochsWriter {
    /// Notes that the rows from `row` on are `epoch`'s. They share the last entry if that is of the same epoch.
    pub(crate) fn append(&mut self, vector: &EpochsVector, epoch: Epoch, row: usize) {
        if self.last_tag != Some(epoch.get()) {
            self.push(vector, epoch.get(), row);
        }
    }

    /// Notes a delete. A further append of the same epoch gets an entry of its own behind it.
    pub(crate) fn delete(&mut self, vector: &EpochsVector, marker: Arc<DeleteMarker>) {
        let (tag, row) = (marker.epoch.get() | DELETE_BIT, marker.row);
        self.markers_end.push(&vector.markers, marker);
        self.push(vector, tag, row);
    }

    fn push(&mut self, vector: &EpochsVector, tag: u64, row: usize) {
        let is_full = self.segments_end.last().is_none_or(|segment| segment.len() == self.used);
        if is_full {
            let size = self.segments_end.last().map_or(SEGMENT_ENTRIES_MIN, |segment| segment.len() * 2);
            let entry = || Entry { tag: AtomicU64::new(0), row: AtomicU64::new(0) };
            let segment = (0..size.min(SEGMENT_ENTRIES_MAX)).map(|_| entry()).collect();
            self.segments_end.push(&vector.segments, segment);
            self.used = 0;
        }
        let segment = self.segments_end.last().expect("a segment was pushed if there was none");
        let entry = &segment[self.used];
        entry.tag.store(tag, Ordering::Relaxed);
        entry.row.store(row as u64, Ordering::Relaxed);
        self.used += 1;
        self.last_tag = Some(tag);
        vector.count.fetch_add(1, Ordering::Release);
    }
}
