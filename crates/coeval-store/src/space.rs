// SPDX-License-Identifier: Apache-2.0
//! A space: one ordered set of keys as base (chunks) and delta (changes since), TiQuE's storage and cache.
//!
//! The contents are the base keys without an entry in the delta plus the delta entries that are present.
//! A table's rows are a space, and so is each of its indexes.

use crate::chunk::Chunk;
use crate::delta::{BasePosition, Change, Delta, DeltaEntry};
use crate::error::StoreError;
use crate::key::Key;
use crate::range::KeyRange;
use crate::row::Row;
use coeval_ptree::PTree;
use std::sync::Arc;

/// Chunks by their first key.
pub type Base = PTree<Key, Arc<Chunk>>;

/// An immutable version of a space; cloning one costs a few reference counts.
#[derive(Clone, Debug, Default)]
pub struct Space {
    base: Base,
    base_rows: u64,
    delta: Delta,
    /// Entries of `delta` that are `Inserted`, minus those that are `Deleted`.
    delta_growth: i64,
    /// While a checkpoint merges `delta` into new chunks: the changes since it began.
    since: Option<Delta>,
}

/// Where a key was found.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// In the delta (or in private writes), with its row if the space has rows.
    Delta(Option<&'a Row>),
    /// In the base.
    Base(&'a Chunk, usize),
}

impl Space {
    /// An empty space.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A space of these chunks, in key order and disjoint, with an empty delta.
    #[must_use]
    pub fn from_chunks(chunks: impl IntoIterator<Item = Arc<Chunk>>) -> Self {
        let entries: Vec<_> = chunks.into_iter().map(|chunk| (chunk.first_key(), chunk)).collect();
        let base_rows = entries.iter().map(|(_, chunk)| chunk.rows() as u64).sum();
        Self { base: PTree::from_sorted(entries), base_rows, ..Self::default() }
    }

    /// How many keys are there, exactly.
    ///
    /// # Panics
    /// If the delta deletes more keys than there are: certification let through what it must not.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.base_rows.checked_add_signed(self.delta_growth).expect("no more keys are deleted than there are")
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The chunks by first key.
    #[must_use]
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// Rows in the base, changed ones included.
    #[must_use]
    pub fn base_rows(&self) -> u64 {
        self.base_rows
    }

    /// The changes since the base.
    #[must_use]
    pub fn delta(&self) -> &Delta {
        &self.delta
    }

    /// Whether both spaces are the same version.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.base.ptr_eq(&other.base) && self.delta.ptr_eq(&other.delta)
    }

    /// The key, wherever it is. A row found in the base can be read as a whole.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the chunk that would hold it is damaged.
    #[inline]
    pub fn find(&self, key: &Key) -> Result<Option<Found<'_>>, StoreError> {
        if !self.delta.is_empty()
            && let Some(entry) = self.delta.get(key)
        {
            return Ok(entry.is_present().then(|| Found::Delta(entry.row())));
        }
        Ok(self.find_in_base(key)?.map(|(chunk, index)| Found::Base(chunk, index)))
    }

    /// Whether the key is there.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn contains(&self, key: &Key) -> Result<bool, StoreError> {
        Ok(self.find(key)?.is_some())
    }

    /// The key's place in the base, whatever the delta says.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    #[inline]
    pub fn find_in_base(&self, key: &Key) -> Result<Option<(&Chunk, usize)>, StoreError> {
        let Some((_, chunk)) = self.base.floor(key) else { return Ok(None) };
        chunk.check_whole()?;
        Ok(chunk.keys().search(key.as_slice()).ok().map(|index| (&**chunk, index)))
    }

    /// Applies changes, ascending by key, each made against this version's contents. Positions are kept
    /// only where they were found in this very base.
    pub(crate) fn apply(&mut self, changes: &Delta, found_in: Option<&Base>) {
        let same_base = found_in.is_some_and(|base| base.ptr_eq(&self.base));
        self.delta_growth += growth(changes);
        if let Some(since) = &mut self.since {
            add(since, changes, Positions::Forgotten);
        }
        let positions = if same_base { Positions::Kept } else { Positions::Forgotten };
        add(&mut self.delta, changes, positions);
    }

    /// This version with private changes on top, for a scan that shall see them.
    #[must_use]
    pub(crate) fn overlaid(&self, changes: &Delta) -> Self {
        let mut space = self.clone();
        space.since = None;
        space.apply(changes, Some(&self.base));
        space
    }

    /// Takes in new chunks between whose first and last key this space has no key. An old chunk with keys on
    /// both sides is split; the entries of the delta must not know places in it.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if a chunk that is to be split is damaged; some of the new ones are in then.
    pub(crate) fn add_chunks(&mut self, chunks: &[Arc<Chunk>]) -> Result<(), StoreError> {
        for chunk in chunks {
            self.make_gap(chunk)?;
            self.base_rows += chunk.rows() as u64;
            let old = self.base.insert(chunk.first_key(), Arc::clone(chunk));
            assert!(old.is_none(), "a bulk load goes where no chunk is");
        }
        Ok(())
    }

    /// Splits the chunk in whose range the new one falls.
    fn make_gap(&mut self, new: &Chunk) -> Result<(), StoreError> {
        let Some((_, old)) = self.base.floor(&new.first_key()) else { return Ok(()) };
        if old.last_key() < new.first_key() {
            return Ok(());
        }
        let old = Arc::clone(old);
        old.check_whole()?;
        let place = old.keys().search(new.first_key().as_slice());
        let index = place.expect_err("a bulk load brings keys that are not there");
        assert!(old.keys().get(index) > new.last_key().as_slice(), "a bulk load goes between two keys");
        let (before, behind) = old.split(index);
        self.base.insert(before.first_key(), Arc::new(before));
        self.base.insert(behind.first_key(), Arc::new(behind));
        Ok(())
    }

    /// The same contents, where all chunks that are in files are replaced by ones that have not been read yet.
    #[must_use]
    pub(crate) fn unread(&self) -> Self {
        let unread = |chunk: &Arc<Chunk>| chunk.unloaded().map_or_else(|| Arc::clone(chunk), Arc::new);
        let entries = self.base.iter().map(|(key, chunk)| (key.clone(), unread(chunk)));
        Self { base: PTree::from_sorted(entries.collect::<Vec<_>>()), ..self.clone() }
    }

    /// The same contents, where each old chunk that is still here is replaced by its new one, which has not been read yet.
    #[must_use]
    pub(crate) fn with_unloaded(&self, unloaded: &[(Arc<Chunk>, Arc<Chunk>)]) -> Option<Self> {
        let mut space = self.clone();
        for (old, new) in unloaded {
            if space.base.get(&new.first_key()).is_some_and(|chunk| Arc::ptr_eq(chunk, old)) {
                space.base.insert(new.first_key(), Arc::clone(new));
            }
        }
        (!space.base.ptr_eq(&self.base)).then_some(space)
    }

    /// Whether there is neither a chunk nor a change, also none that a running checkpoint does not know of:
    /// chunks may be added whatever their keys.
    pub(crate) fn has_no_parts(&self) -> bool {
        let no_changes = |delta: &Delta| delta.is_empty();
        self.base.is_empty() && no_changes(&self.delta) && self.since.as_ref().is_none_or(no_changes)
    }

    /// Whether a checkpoint is under way that does not know of all changes of these keys, or the delta has
    /// changes of them.
    pub(crate) fn has_changes_in(&self, range: &KeyRange) -> bool {
        let any = |delta: &Delta| delta.iter_range(range.clone()).next().is_some();
        any(&self.delta) || self.since.as_ref().is_some_and(any)
    }

    /// The same contents, with changes from now on kept apart as well: a checkpoint begins.
    #[must_use]
    pub(crate) fn with_checkpoint_begun(&self) -> Self {
        assert!(self.since.is_none(), "one checkpoint ends before the next begins");
        Self { since: Some(Delta::default()), ..self.clone() }
    }

    /// The same contents after a checkpoint that came to nothing; `None` if this space took no part in one.
    #[must_use]
    pub(crate) fn with_checkpoint_abandoned(&self) -> Option<Self> {
        self.since.as_ref()?;
        Some(Self { since: None, ..self.clone() })
    }

    /// The same contents on `base`, which holds the contents of `frozen`, this space as the checkpoint began;
    /// `None` if the space has been emptied or made anew since.
    ///
    /// ```text
    /// this space   frozen's base + loaded chunks     frozen's delta, then since
    /// the new one  base          + loaded chunks     since
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if a chunk of the new base is damaged that a load goes into.
    pub(crate) fn with_new_base(&self, frozen: &Self, base: &Base) -> Result<Option<Self>, StoreError> {
        let Some(since) = self.since.clone() else { return Ok(None) };
        let mut space = Self {
            base: base.clone(),
            base_rows: frozen.len(),
            delta: since,
            // Changes add up, so what the delta has grown by since then is what `since` grows by.
            delta_growth: self.delta_growth - frozen.delta_growth,
            since: None,
        };
        if !self.base.ptr_eq(&frozen.base) {
            let loaded = self.base.iter().filter(|(key, _)| frozen.base.get(key).is_none());
            space.add_chunks(&loaded.map(|(_, chunk)| Arc::clone(chunk)).collect::<Vec<_>>())?;
        }
        assert_eq!(space.len(), self.len(), "a checkpoint changes no contents");
        Ok(Some(space))
    }

    /// Bytes of the base's keys and columns: in files, or in memory where they have none yet.
    #[must_use]
    pub fn base_bytes(&self) -> usize {
        self.base.iter().map(|(_, chunk)| chunk.stored_bytes()).sum()
    }

    /// Bytes of the delta: entries, keys on the heap, rows.
    #[must_use]
    pub fn delta_bytes(&self) -> usize {
        let entry_size = size_of::<(Key, DeltaEntry)>();
        let row_overhead = 2 * size_of::<usize>();
        let of_entry = |(key, entry): (&Key, &DeltaEntry)| {
            entry_size + key.heap_bytes() + entry.row().map_or(0, |row| row.as_bytes().len() + row_overhead)
        };
        self.delta.iter().map(of_entry).sum()
    }
}

/// What these changes add to the number of keys.
fn growth(changes: &Delta) -> i64 {
    changes
        .iter()
        .map(|(_, entry)| match entry.change() {
            Change::Inserted => 1,
            Change::Replaced => 0,
            Change::Deleted => -1,
        })
        .sum()
}

/// What becomes of where changes say that a key lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Positions {
    Kept,
    /// The base is another one.
    Forgotten,
}

/// A delta with so many times fewer entries than the changes is put into their tree, instead of them into its: that costs the
/// smaller of the two, and happens while others wait to commit. With fewer, copying the blocks that are met costs as much as
/// building them.
const SHARED_AT_FACTOR: usize = 8;

/// Adds changes to a delta, both by key.
///
/// Cost: a step and a path for each change; or, if the delta is small beside them, for each entry of the delta, and a look at
/// each change if positions are to be forgotten.
fn add(delta: &mut Delta, changes: &Delta, positions: Positions) {
    let is_small = delta.len().saturating_mul(SHARED_AT_FACTOR) <= changes.len();
    if is_small && (positions == Positions::Kept || changes.iter().all(|(_, entry)| !entry.has_position())) {
        let earlier = std::mem::replace(delta, changes.clone());
        let earlier: Vec<_> = earlier.iter().map(|(key, entry)| (key.clone(), entry.clone())).collect();
        let after = |later: Option<&DeltaEntry>, earlier: DeltaEntry| match later {
            Some(later) => later.clone().after(Some(&earlier)),
            None => Some(earlier),
        };
        return delta.alter_many_touching(earlier, after, DeltaEntry::touch);
    }
    let prepare = |entry: &DeltaEntry| match positions {
        Positions::Kept => entry.clone(),
        Positions::Forgotten => entry.clone().without_position(),
    };
    let batch: Vec<_> = changes.iter().map(|(key, entry)| (key.clone(), prepare(entry))).collect();
    delta.alter_many_touching(batch, |earlier, entry| entry.after(earlier), DeltaEntry::touch);
}

/// Adds one change to a delta.
pub(crate) fn add_one(delta: &mut Delta, key: Key, entry: DeltaEntry) {
    let earlier = delta.get(&key);
    let was_there = earlier.is_some();
    match entry.after(earlier) {
        Some(entry) => {
            delta.insert(key, entry);
        }
        None if was_there => {
            delta.remove(&key);
        }
        None => {}
    }
}

/// The position of a key that was found there.
pub(crate) fn position_of(found: Found<'_>) -> BasePosition {
    match found {
        Found::Delta(_) => BasePosition::UNKNOWN,
        Found::Base(_, index) => BasePosition::at(index),
    }
}

#[cfg(test)]
mod tests;
