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
//! a few hundred bytes, a long vector at most one segment more than it uses. Each [`GROUP_ENTRIES`] entries have a word
//! more, the newest epoch among them: whoever sees all up to that passes over the group without a look at its entries.

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
const _: () = assert!(GROUP_ENTRIES.is_power_of_two() && SEGMENT_ENTRIES_MAX >= GROUP_ENTRIES);

/// How many entries are passed over at once by those who see all of them.
const GROUP_ENTRIES: usize = 64;

/// Marks an entry as a delete. An epoch leaves this bit free, so that a delete is newer than all of them.
const DELETE_BIT: u64 = 1 << 63;

const _: () = assert!(Epoch::MAX.get() & DELETE_BIT == 0);

/// One entry: an epoch, with a bit for deletes, and a row.
struct Entry {
    tag: AtomicU64,
    row: AtomicU64,
}

/// Entries that lie together.
struct Segment {
    entries: Box<[Entry]>,
    /// The greatest tag of each full group; written before the last entry of the group is counted.
    newest: Box<[AtomicU64]>,
}

impl Segment {
    fn new(size: usize) -> Self {
        let entry = || Entry { tag: AtomicU64::new(0), row: AtomicU64::new(0) };
        let newest = (0..size / GROUP_ENTRIES).map(|_| AtomicU64::new(0)).collect();
        Self { entries: (0..size).map(|_| entry()).collect(), newest }
    }

    /// Writes the entry at this place, which is not counted yet.
    fn write(&self, at: usize, tag: u64, row: usize) {
        self.entries[at].tag.store(tag, Ordering::Relaxed);
        self.entries[at].row.store(row as u64, Ordering::Relaxed);
        if (at + 1).is_multiple_of(GROUP_ENTRIES) {
            let group = &self.entries[at + 1 - GROUP_ENTRIES..=at];
            let newest = group.iter().map(|entry| entry.tag.load(Ordering::Relaxed)).max();
            self.newest[at / GROUP_ENTRIES].store(newest.unwrap_or(tag), Ordering::Relaxed);
        }
    }

    /// How many of the first `count` entries, counted by groups, are appends of epochs up to `horizon`.
    fn groups_up_to(&self, horizon: Epoch, count: usize) -> usize {
        let is_up_to = |newest: &&AtomicU64| newest.load(Ordering::Relaxed) <= horizon.get();
        let groups = self.newest[..count / GROUP_ENTRIES].iter().take_while(is_up_to).count();
        groups * GROUP_ENTRIES
    }
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

/// What several deletes remove together: one look at a run tells, however many they are.
#[derive(Debug, Default)]
pub(crate) struct Cleared {
    covered: Option<EpochSet>,
    /// The deleters' own epochs, each once, with the last row count that one of their deletes has.
    own: Vec<(Epoch, usize)>,
}

impl Cleared {
    pub(crate) fn by<'a>(markers: impl Iterator<Item = &'a DeleteMarker>) -> Self {
        let mut cleared = Self::default();
        for marker in markers {
            let covered = cleared.covered.map(|covered| covered.union(&marker.covered));
            cleared.covered = Some(covered.unwrap_or_else(|| marker.covered.clone()));
            cleared.own.extend(marker.own.iter().map(|epoch| (*epoch, marker.row)));
        }
        cleared.own.sort_unstable();
        cleared.own.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            earlier.1 = if is_same { later.1 } else { earlier.1 };
            is_same
        });
        cleared
    }

    /// Whether there is no delete.
    pub(crate) fn is_empty(&self) -> bool {
        self.covered.is_none()
    }

    /// Whether one of the deletes [clears](DeleteMarker::clears) this run.
    pub(crate) fn clears(&self, epoch: Epoch, row: usize) -> bool {
        let Some(covered) = &self.covered else { return false };
        let is_own = || {
            let found = self.own.binary_search_by_key(&epoch, |(own, _)| *own);
            found.is_ok_and(|place| row < self.own[place].1)
        };
        covered.contains(epoch) || is_own()
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
    segments: Chain<Segment>,
    markers: Chain<Arc<DeleteMarker>>,
    count: AtomicUsize,
}

/// The writing side, which belongs to the brick's shard.
pub(crate) struct EpochsWriter {
    segments_end: ChainEnd<Segment>,
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

    /// A number of entries, at most `count`, before which there are appends of epochs up to `horizon` and nothing else.
    /// Cost: a look at each group of entries.
    pub(crate) fn prefix_up_to(&self, horizon: Epoch, count: usize) -> usize {
        let mut prefix = 0;
        for segment in self.segments.iter() {
            let here = segment.entries.len().min(count - prefix);
            let is_up_to = |entry: &Entry| entry.tag.load(Ordering::Relaxed) <= horizon.get();
            let seen = if segment.newest.is_empty() {
                let is_seen = segment.entries[..here].iter().all(is_up_to);
                if is_seen { here } else { 0 }
            } else {
                segment.groups_up_to(horizon, here)
            };
            prefix += seen;
            if seen < segment.entries.len() {
                break;
            }
        }
        prefix
    }

    /// The row that the entry at `first` begins with; `rows`, of which there are so many, if it is not among `count`.
    pub(crate) fn first_row(&self, first: usize, count: usize, rows: usize) -> usize {
        self.words(first, count).next().map_or(rows, |(_, row)| rows.min(row as usize))
    }

    /// Tags and rows of the entries from `first` up to `count`.
    fn words(&self, first: usize, count: usize) -> impl Iterator<Item = (u64, u64)> {
        let mut skipped = first;
        let parts = self.segments.iter().map(move |segment| {
            let start = skipped.min(segment.entries.len());
            skipped -= start;
            &segment.entries[start..]
        });
        let words = |entry: &Entry| (entry.tag.load(Ordering::Relaxed), entry.row.load(Ordering::Relaxed));
        parts.flatten().take(count - first).map(words)
    }

    /// The entries from `first` up to `count`, over the first `rows` rows.
    pub(crate) fn steps(&self, first: usize, count: usize, rows: usize) -> impl Iterator<Item = Step> {
        assert!(count <= self.count(), "only published entries are read");
        let mut entries = self.words(first, count).peekable();
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
        self.steps(0, count, rows).map(pair).collect()
    }

    /// The bytes of the vector by capacity, markers included.
    pub(crate) fn bytes(&self) -> usize {
        let segment = |segment: &Segment| {
            size_of_val::<[Entry]>(&segment.entries)
                + size_of_val::<[AtomicU64]>(&segment.newest)
                + Chain::<Segment>::element_bytes()
        };
        let marker = |marker: &Arc<DeleteMarker>| {
            size_of::<DeleteMarker>() + marker.heap_bytes() + Chain::<Arc<DeleteMarker>>::element_bytes()
        };
        size_of::<Self>()
            + size_of::<EpochsWriter>()
            + self.segments.iter().map(segment).sum::<usize>()
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
        let last_size = self.segments_end.last().map(|segment| segment.entries.len());
        if last_size.is_none_or(|size| size == self.used) {
            let size = last_size.map_or(SEGMENT_ENTRIES_MIN, |size| size * 2);
            self.segments_end.push(&vector.segments, Segment::new(size.min(SEGMENT_ENTRIES_MAX)));
            self.used = 0;
        }
        let segment = self.segments_end.last().expect("a segment was pushed if there was none");
        segment.write(self.used, tag, row);
        self.used += 1;
        self.last_tag = Some(tag);
        vector.count.fetch_add(1, Ordering::Release);
    }
}
