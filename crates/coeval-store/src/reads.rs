// SPDX-License-Identifier: Apache-2.0
//! What a serializable transaction has read.
//!
//! **Every way to data goes through here**: `get`, the cursors of rows and of index entries, `view` (a scan
//! that takes part of one says which: `note_scanned`), and the checks of
//! uniqueness and of foreign keys where their answer is more than a write that is certified. A way that forgets is a
//! hole in serializability; `transaction/serializing/tests.rs` walks them.
//!
//! Reads are noted behind a lock because they are made through shared references; nobody else takes it.

use crate::footprint::definition_key;
use crate::ids::{CATALOG_SPACE, SpaceId};
use crate::key::Key;
use crate::range::{Direction, KeyRange};
use coeval_txn::ssi::{self, ReadLimits};
use parking_lot::Mutex;
use std::ops::Bound;

/// Keys, ranges and whole spaces that were read.
pub(crate) type ReadSet = ssi::ReadSet<SpaceId, Key>;

/// The reads of a transaction so far.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// # Locking
    /// A leaf lock, of one transaction.
    noted: Mutex<Noted>,
}

#[derive(Debug)]
struct Noted {
    /// What the statement that runs has read, or all if nobody says where statements begin.
    set: ReadSet,
    /// What statements before it have read.
    earlier: ReadSet,
    /// Tables whose definitions were read with their rows.
    tables: Vec<SpaceId>,
}

impl Default for Noted {
    fn default() -> Self {
        Self { set: nothing(), earlier: nothing(), tables: Vec::new() }
    }
}

/// Nothing read so far.
fn nothing() -> ReadSet {
    ReadSet::weighing(ReadLimits::default(), Key::heap_bytes)
}

impl Noted {
    #[inline]
    fn table(&mut self, table: SpaceId) {
        if self.tables.last() != Some(&table) && !self.tables.contains(&table) {
            self.tables.push(table);
        }
    }
}

impl Reads {
    /// A key of a table was looked for.
    #[inline]
    pub(crate) fn key(&self, table: SpaceId, key: &Key) {
        let mut noted = self.noted.lock();
        noted.table(table);
        noted.set.read_key(table, key);
    }

    /// The keys of a range of a table or of one of its indexes were looked at.
    pub(crate) fn range(&self, table: SpaceId, space: SpaceId, range: &KeyRange) {
        let mut noted = self.noted.lock();
        noted.table(table);
        noted.set.read_range(space, range.lower.as_ref(), range.upper.as_ref());
    }

    /// A table's definition was read, of its rows nothing yet.
    pub(crate) fn definition(&self, table: SpaceId) {
        self.noted.lock().table(table);
    }

    /// All of a table's rows were read, or may be.
    pub(crate) fn whole(&self, table: SpaceId) {
        let mut noted = self.noted.lock();
        noted.table(table);
        noted.set.read_space(table);
    }

    /// Definitions were listed.
    pub(crate) fn definitions(&self) {
        self.noted.lock().set.read_space(CATALOG_SPACE);
    }

    /// A single key of any space.
    pub(crate) fn key_of_space(&self, space: SpaceId, key: &Key) {
        self.noted.lock().set.read_key(space, key);
    }

    /// A statement begins: what is read from here on can be [discarded](Self::discard_statement).
    pub(crate) fn begin_statement(&self) {
        let mut noted = self.noted.lock();
        let before = std::mem::replace(&mut noted.set, nothing());
        noted.earlier.absorb(before);
    }

    /// The statement runs again on another snapshot; nobody has been told what it found.
    pub(crate) fn discard_statement(&self) {
        self.noted.lock().set = nothing();
    }

    /// What statements before the one that runs have read.
    pub(crate) fn of_earlier_statements(&self) -> ReadSet {
        let noted = self.noted.lock();
        with_definitions(noted.earlier.clone(), &noted.tables)
    }

    /// Whether nothing was read so far.
    pub(crate) fn is_empty(&self) -> bool {
        let noted = self.noted.lock();
        noted.set.is_empty() && noted.earlier.is_empty() && noted.tables.is_empty()
    }

    /// What was read so far, that of the statement that runs too.
    pub(crate) fn so_far(&self) -> ReadSet {
        let noted = self.noted.lock();
        let mut all = noted.earlier.clone();
        all.absorb(noted.set.clone());
        with_definitions(all, &noted.tables)
    }

    /// What was read, ready for certification; nothing is left here.
    pub(crate) fn take(&self) -> ReadSet {
        let Noted { set, mut earlier, tables } = std::mem::take(&mut *self.noted.lock());
        let all = if earlier.is_empty() {
            set
        } else {
            earlier.absorb(set);
            earlier
        };
        with_definitions(all, &tables)
    }
}

fn with_definitions(mut set: ReadSet, tables: &[SpaceId]) -> ReadSet {
    for &table in tables {
        set.read_key(CATALOG_SPACE, &definition_key(table).1);
    }
    set.settle();
    set
}

/// Notes how far a walk over a range has come, when it ends.
pub(crate) struct Walked<'a> {
    reads: &'a Reads,
    table: SpaceId,
    space: SpaceId,
    range: KeyRange,
    direction: Direction,
    progress: Progress,
}

enum Progress {
    NotBegun,
    /// Up to this key, itself included.
    UpTo(Key),
    Ended,
}

impl<'a> Walked<'a> {
    pub(crate) fn new(
        reads: &'a Reads,
        table: SpaceId,
        space: SpaceId,
        range: &KeyRange,
        direction: Direction,
    ) -> Self {
        Self { reads, table, space, range: range.clone(), direction, progress: Progress::NotBegun }
    }

    /// The walk gave this key, or nothing any more.
    #[inline]
    pub(crate) fn came_to(&mut self, key: Option<&Key>) {
        self.progress = key.map_or(Progress::Ended, |key| Progress::UpTo(key.clone()));
    }
}

impl Drop for Walked<'_> {
    fn drop(&mut self) {
        match (std::mem::replace(&mut self.progress, Progress::Ended), self.direction) {
            (Progress::NotBegun, _) => return,
            (Progress::Ended, _) => {}
            (Progress::UpTo(key), Direction::Forward) => self.range.upper = Bound::Included(key),
            (Progress::UpTo(key), Direction::Backward) => self.range.lower = Bound::Included(key),
        }
        self.reads.range(self.table, self.space, &self.range);
    }
}
