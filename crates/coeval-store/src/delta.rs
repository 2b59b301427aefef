// SPDX-License-Identifier: Apache-2.0
//! Delta entries: what became of a key since some earlier contents, and how two such changes add up.
//!
//! The same type serves three places: the delta of a space (changes since its base), the private writes of a
//! transaction (since its snapshot), and the changes that arrive while a checkpoint runs (since it began).
//! In each, a key without an entry is as it was. Adding a later change to an earlier one needs no look at
//! the base:
//!
//! | earlier \ later | inserted | replaced | deleted |
//! |---|---|---|---|
//! | no entry | inserted | replaced | deleted |
//! | inserted | (bug) | inserted | no entry |
//! | replaced | (bug) | replaced | deleted |
//! | deleted | replaced | (bug) | (bug) |

use crate::row::Row;
use coeval_ptree::PTree;

/// What became of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was not there and is now.
    Inserted,
    /// It was there and has a new row.
    Replaced,
    /// It was there and is not any more.
    Deleted,
}

/// Where the key's old row lies in its chunk, so that a scan need not search for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasePosition(u32);

impl BasePosition {
    /// Not known: search.
    pub const UNKNOWN: Self = Self(u32::MAX);

    /// At this index of its chunk.
    ///
    /// # Panics
    /// If the index does not fit 32 bits: chunks are far smaller.
    #[must_use]
    pub fn at(index: usize) -> Self {
        Self(u32::try_from(index).expect("a chunk has fewer than 2^32 rows"))
    }

    /// The index, if known.
    #[must_use]
    #[inline]
    pub fn index(self) -> Option<usize> {
        (self != Self::UNKNOWN).then_some(self.0 as usize)
    }
}

/// One entry of a delta. Index spaces have no rows: an inserted entry carries `None`.
#[derive(Clone, Debug)]
pub struct DeltaEntry {
    row: Option<Row>,
    position: BasePosition,
    change: Change,
}

const _: () = assert!(size_of::<DeltaEntry>() == 16, "a delta entry stays at two words");

/// Entries per leaf of a delta at most: a path copy clones the rows of one leaf (measured in `bench/`).
pub(crate) const DELTA_BLOCK: usize = 16;

/// Changed keys, by key.
pub type Delta = PTree<crate::key::Key, DeltaEntry, (), DELTA_BLOCK>;

impl DeltaEntry {
    /// The key is new, with this row.
    #[must_use]
    pub fn inserted(row: Option<Row>) -> Self {
        Self { row, position: BasePosition::UNKNOWN, change: Change::Inserted }
    }

    /// The key has a new row.
    #[must_use]
    pub fn replaced(row: Row, position: BasePosition) -> Self {
        Self { row: Some(row), position, change: Change::Replaced }
    }

    /// The key is gone.
    #[must_use]
    pub fn deleted(position: BasePosition) -> Self {
        Self { row: None, position, change: Change::Deleted }
    }

    /// What became of the key.
    #[must_use]
    #[inline]
    pub fn change(&self) -> Change {
        self.change
    }

    /// Whether the key is there.
    #[must_use]
    #[inline]
    pub fn is_present(&self) -> bool {
        self.change != Change::Deleted
    }

    /// The new row.
    #[must_use]
    #[inline]
    pub fn row(&self) -> Option<&Row> {
        self.row.as_ref()
    }

    /// Looks at what a clone changes; see [`PTree::alter_many_touching`].
    #[inline]
    pub(crate) fn touch(&self) {
        if let Some(row) = &self.row {
            row.touch();
        }
    }

    /// Where the old row lies.
    #[must_use]
    #[inline]
    pub fn position(&self) -> BasePosition {
        self.position
    }

    /// Whether it says where the old row lies.
    pub(crate) fn has_position(&self) -> bool {
        self.position != BasePosition::UNKNOWN
    }

    /// The same entry, its position forgotten: the chunks it was found in are no longer the base.
    #[must_use]
    pub fn without_position(mut self) -> Self {
        self.position = BasePosition::UNKNOWN;
        self
    }

    /// This change after `earlier`; `None` if together they leave the key as it was.
    ///
    /// # Panics
    /// If the two cannot follow one another (see the module's table): certification let through what it
    /// must not.
    #[must_use]
    pub fn after(self, earlier: Option<&Self>) -> Option<Self> {
        let Some(earlier) = earlier else { return Some(self) };
        let position = earlier.position;
        match (earlier.change, self.change) {
            (Change::Inserted, Change::Replaced) => Some(Self { change: Change::Inserted, ..self }),
            (Change::Inserted, Change::Deleted) => None,
            (Change::Replaced, Change::Replaced | Change::Deleted) => Some(Self { position, ..self }),
            (Change::Deleted, Change::Inserted) => {
                // An index entry that comes back is as it was: there is no row that could differ.
                self.row.is_some().then_some(Self { position, change: Change::Replaced, ..self })
            }
            (earlier, later) => panic!("a key that was {earlier:?} cannot be {later:?}"),
        }
    }
}
