// SPDX-License-Identifier: Apache-2.0
//! Walking a space in key order: a merge of base, delta and, inside a transaction, private writes.
//!
//! Each layer is walked in the same direction. The nearest key wins; where layers hold the same key the
//! upper one says what became of it and the lower ones step over it. Cost: O(log n) to start, then O(1) per
//! key amortized; a deleted key costs a step and yields nothing. A chunk is checked when the walk enters it;
//! a damaged one is an error, and the end of the walk.

use crate::chunk::Chunk;
use crate::delta::{DELTA_BLOCK, Delta, DeltaEntry};
use crate::error::StoreError;
use crate::key::Key;
use crate::range::{Direction, KeyRange};
use crate::space::{Found, Space};
use std::cmp::Ordering;
use std::ops::Bound;

/// A walk over a space.
pub(crate) struct SpaceCursor<'a> {
    private: Option<DeltaWalk<'a>>,
    delta: DeltaWalk<'a>,
    base: BaseWalk<'a>,
    direction: Direction,
}

impl<'a> SpaceCursor<'a> {
    /// Walks `range` of the space with private changes on top.
    #[must_use]
    pub(crate) fn new(
        space: &'a Space,
        private: Option<&'a Delta>,
        range: &KeyRange,
        direction: Direction,
    ) -> Self {
        Self {
            private: private.map(|private| DeltaWalk::new(private, range, direction)),
            delta: DeltaWalk::new(space.delta(), range, direction),
            base: BaseWalk::new(space, range, direction),
            direction,
        }
    }

    /// Steps over keys of the base that the delta deletes, as long as both walks stand at the same one: a queue
    /// leaves long runs of them behind.
    #[inline]
    fn pass_deleted(&mut self) {
        while let Some((key, entry)) = self.delta.head
            && !entry.is_present()
            && self.base.head() == Some(key.as_slice())
        {
            self.delta.advance();
            self.base.advance();
        }
    }

    fn ahead(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self.direction {
            Direction::Forward => a.cmp(b),
            Direction::Backward => b.cmp(a),
        }
    }
}

impl<'a> Iterator for SpaceCursor<'a> {
    type Item = Result<(Key, Found<'a>), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.pass_deleted();
            if let Some(damage) = self.base.damage.take() {
                self.private = None;
                self.delta.head = None;
                return Some(Err(*damage));
            }
            let mut nearest: Option<&[u8]> = None;
            let private_head =
                self.private.as_ref().and_then(|walk| walk.head).map(|(key, _)| key.as_slice());
            let delta_head = self.delta.head.map(|(key, _)| key.as_slice());
            for head in [private_head, delta_head, self.base.head()].into_iter().flatten() {
                if nearest.is_none_or(|nearest| self.ahead(head, nearest) == Ordering::Less) {
                    nearest = Some(head);
                }
            }
            let nearest = nearest?;
            let at_private = private_head == Some(nearest);
            let at_delta = delta_head == Some(nearest);
            let at_base = self.base.head() == Some(nearest);
            let base_place = if at_base { self.base.advance() } else { None };
            let delta_entry = if at_delta { self.delta.advance() } else { None };
            let private_entry =
                if at_private { self.private.as_mut().and_then(DeltaWalk::advance) } else { None };
            match (private_entry.or(delta_entry), base_place) {
                (Some((key, entry)), _) if entry.is_present() => {
                    return Some(Ok((key.clone(), Found::Delta(entry.row()))));
                }
                (Some(_), _) => {}
                (None, Some((chunk, index))) => {
                    let key = Key::from_slice(chunk.keys().get(index));
                    return Some(Ok((key, Found::Base(chunk, index))));
                }
                (None, None) => unreachable!("the nearest key is the head of a layer"),
            }
        }
    }
}

type DeltaIter<'a> = coeval_ptree::Iter<'a, Key, DeltaEntry, (), DELTA_BLOCK>;

struct DeltaWalk<'a> {
    entries: DeltaIter<'a>,
    direction: Direction,
    head: Option<(&'a Key, &'a DeltaEntry)>,
}

impl<'a> DeltaWalk<'a> {
    fn new(delta: &'a Delta, range: &KeyRange, direction: Direction) -> Self {
        let entries = delta.iter_range(range.clone());
        let mut walk = Self { entries, direction, head: None };
        walk.advance();
        walk
    }

    /// The head, stepping past it.
    fn advance(&mut self) -> Option<(&'a Key, &'a DeltaEntry)> {
        let next = match self.direction {
            Direction::Forward => self.entries.next(),
            Direction::Backward => self.entries.next_back(),
        };
        std::mem::replace(&mut self.head, next)
    }
}

type ChunkIter<'a> = coeval_ptree::Iter<'a, Key, std::sync::Arc<Chunk>>;

struct BaseWalk<'a> {
    /// Chunks behind the present one, in walking order.
    chunks: ChunkIter<'a>,
    direction: Direction,
    range: KeyRange,
    /// The present chunk and the rows of it that are left.
    present: Option<(&'a Chunk, std::ops::Range<usize>)>,
    /// Why there is none, if the next one is damaged.
    damage: Option<Box<StoreError>>,
}

impl<'a> BaseWalk<'a> {
    fn new(space: &'a Space, range: &KeyRange, direction: Direction) -> Self {
        // The chunk that holds the lower bound may begin before it.
        let first = match &range.lower {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(key) | Bound::Excluded(key) => {
                space.base().floor(key).map_or(Bound::Unbounded, |(first, _)| Bound::Included(first.clone()))
            }
        };
        let bounds = KeyRange { lower: first, upper: range.upper.clone() };
        let chunks = space.base().iter_range(bounds);
        let mut walk = Self { chunks, direction, range: range.clone(), present: None, damage: None };
        walk.enter_next_chunk();
        walk
    }

    fn enter_next_chunk(&mut self) {
        loop {
            let next = match self.direction {
                Direction::Forward => self.chunks.next(),
                Direction::Backward => self.chunks.next_back(),
            };
            let Some((_, chunk)) = next else {
                self.present = None;
                return;
            };
            if let Err(damage) = chunk.check_whole() {
                self.present = None;
                self.damage = Some(Box::new(damage));
                return;
            }
            let rows = rows_in_range(chunk, &self.range);
            if !rows.is_empty() {
                self.present = Some((chunk, rows));
                return;
            }
        }
    }

    fn head_place(&self) -> Option<(&'a Chunk, usize)> {
        let (chunk, rows) = self.present.as_ref()?;
        let index = match self.direction {
            Direction::Forward => rows.start,
            Direction::Backward => rows.end - 1,
        };
        Some((chunk, index))
    }

    fn head(&self) -> Option<&'a [u8]> {
        self.head_place().map(|(chunk, index)| chunk.keys().get(index))
    }

    fn advance(&mut self) -> Option<(&'a Chunk, usize)> {
        let place = self.head_place()?;
        let (_, rows) = self.present.as_mut().expect("a head has its chunk");
        match self.direction {
            Direction::Forward => rows.start += 1,
            Direction::Backward => rows.end -= 1,
        }
        if std::ops::Range::is_empty(rows) {
            self.enter_next_chunk();
        }
        Some(place)
    }
}

/// The rows of a chunk, which has been checked, whose keys lie in the range.
pub(crate) fn rows_in_range(chunk: &Chunk, range: &KeyRange) -> std::ops::Range<usize> {
    let keys = chunk.keys();
    let start = match &range.lower {
        Bound::Unbounded => 0,
        Bound::Included(key) => keys.search(key.as_slice()).unwrap_or_else(|index| index),
        Bound::Excluded(key) => keys.search(key.as_slice()).map_or_else(|index| index, |index| index + 1),
    };
    let end = match &range.upper {
        Bound::Unbounded => keys.len(),
        Bound::Included(key) => keys.search(key.as_slice()).map_or_else(|index| index, |index| index + 1),
        Bound::Excluded(key) => keys.search(key.as_slice()).unwrap_or_else(|index| index),
    };
    start..end.max(start)
}

#[cfg(test)]
mod tests;
