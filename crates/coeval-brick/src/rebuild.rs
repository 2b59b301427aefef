// SPDX-License-Identifier: Apache-2.0
//! Purge and rollback: what replaces a brick by another one with other rows or entries (AOSI III-C4, III-C5).
//!
//! The paper copies the partition. Here only blocks that lose some of their rows are copied; the others, full or
//! still growing, are shared with the brick that is replaced, which its readers keep as long as they like. A
//! purge that merges entries copies no row at all.
//!
//! Purge at LSE `s` rests on what LSE means: nothing at or below `s` is pending, and every reader and every
//! deleter, now and later, sees all of it. So
//!
//! - a delete at or below `s` is seen by everybody: the rows it clears, and then it, can go;
//! - contiguous rows of epochs at or below `s` are seen by everybody or were removed, so one label does for all of
//!   them; unless a delete above `s` covers some and not others, which stay apart (with the paper's covered set,
//!   everything below an epoch, that never happens).

use std::ops::Range;
use std::sync::Arc;

use coeval_txn::Epoch;

use crate::block::{Block, BlockWriter};
use crate::brick::{BrickView, BrickWriter};
use crate::epochs_vector::{Cleared, DeleteMarker, Step};

/// What has become of a brick.
pub(crate) enum Rebuilt {
    /// There was nothing to do.
    Unchanged(BrickWriter),
    /// Another brick replaces it.
    Replaced(BrickWriter, RemovedRows),
    /// Nothing is left of it.
    Gone(RemovedRows),
}

/// How many rows were removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RemovedRows(pub(crate) usize);

/// An entry that stays; runs by their rows in the brick that is replaced.
enum Kept {
    Run(Epoch, Vec<Range<usize>>),
    Delete(Arc<DeleteMarker>),
}

impl BrickWriter {
    /// Merges entries and applies deletes at or below `safe` (LSE).
    pub(crate) fn purge(self, safe: Epoch) -> Rebuilt {
        let view = BrickView::of(Arc::clone(self.brick()));
        let markers: Vec<Arc<DeleteMarker>> = view.shared_markers().cloned().collect();
        let (applied, open): (Vec<_>, Vec<_>) = markers.iter().partition(|marker| marker.epoch <= safe);
        let applied = Cleared::by(applied.into_iter().map(AsRef::as_ref));
        let is_deleted = |epoch, run: &Range<usize>| applied.clears(epoch, run.start);
        let are_alike = |one: (Epoch, usize), other: (Epoch, usize)| {
            let is_safe = one.0 <= safe && other.0 <= safe;
            is_safe
                && open.iter().all(|marker| marker.clears(one.0, one.1) == marker.clears(other.0, other.1))
        };
        let kept = keep(&view, |epoch, run| !is_deleted(epoch, run), |marker| marker.epoch > safe, are_alike);
        self.rebuild(&view, kept)
    }

    /// Removes the rows and deletes of `epochs`.
    pub(crate) fn roll_back(self, epochs: &[Epoch]) -> Rebuilt {
        let view = BrickView::of(Arc::clone(self.brick()));
        let stays = |epoch: &Epoch| !epochs.contains(epoch);
        let kept = keep(&view, |epoch, _| stays(&epoch), |marker| stays(&marker.epoch), |_, _| false);
        self.rebuild(&view, kept)
    }

    fn rebuild(mut self, view: &BrickView, kept: Vec<Kept>) -> Rebuilt {
        let ranges = || {
            kept.iter().flat_map(|entry| match entry {
                Kept::Run(_, ranges) => ranges.as_slice(),
                Kept::Delete(_) => &[],
            })
        };
        let rows: usize = ranges().map(Range::len).sum();
        let removed = RemovedRows(view.rows() - rows);
        if kept.is_empty() {
            return Rebuilt::Gone(removed);
        }
        if removed.0 == 0 && kept.len() == view.steps().count() {
            return Rebuilt::Unchanged(self);
        }
        let mut rebuilt = Self::in_place_of(self.brick());
        rebuilt.take_blocks(view, self.take_open_block(), ranges().cloned());
        rebuilt.relabel(&kept);
        assert_eq!(
            BrickView::of(Arc::clone(rebuilt.brick())).rows(),
            rows,
            "each row that stays has its label"
        );
        Rebuilt::Replaced(rebuilt, removed)
    }

    /// Writes the entries that stay, at their new rows.
    fn relabel(&mut self, kept: &[Kept]) {
        let mut rows = 0;
        for entry in kept {
            match entry {
                Kept::Run(epoch, ranges) => {
                    rows += ranges.iter().map(Range::len).sum::<usize>();
                    self.label(*epoch, rows);
                }
                Kept::Delete(marker) if marker.row == rows => self.delete_by(Arc::clone(marker)),
                Kept::Delete(marker) => {
                    self.delete_by(Arc::new(DeleteMarker { row: rows, ..(**marker).clone() }))
                }
            }
        }
    }

    /// Takes over the `kept` rows of the blocks of `view`, the last of which is `open` unless it is full.
    fn take_blocks(
        &mut self,
        view: &BrickView,
        mut open: Option<BlockWriter>,
        kept: impl Iterator<Item = Range<usize>>,
    ) {
        let mut kept = kept.peekable();
        let mut first_row = 0;
        for (placed, rows) in view.blocks() {
            let block = placed.first_row..placed.first_row + rows;
            let mut parts: Vec<Range<usize>> = Vec::new();
            while let Some(range) = kept.peek().filter(|range| range.start < block.end) {
                let (start, end) = (range.start.max(block.start), range.end.min(block.end));
                assert!(start < end, "the rows that stay are in ascending order");
                match parts.last_mut() {
                    Some(last) if last.end == start - block.start => last.end = end - block.start,
                    _ => parts.push(start - block.start..end - block.start),
                }
                if range.end > block.end {
                    break;
                }
                kept.next();
            }
            let count: usize = parts.iter().map(Range::len).sum();
            let growing = open.take_if(|open| Arc::ptr_eq(open.block(), &placed.block));
            self.take_block(first_row, (&placed.block, rows), &parts, growing);
            first_row += count;
        }
        assert!(kept.next().is_none(), "each row that stays is in a block");
    }

    /// Takes over the rows `parts` of one block with `rows` rows, which has a writer if it is `growing`.
    fn take_block(
        &mut self,
        first_row: usize,
        (block, rows): (&Arc<Block>, usize),
        parts: &[Range<usize>],
        growing: Option<BlockWriter>,
    ) {
        let count: usize = parts.iter().map(Range::len).sum();
        if count == 0 {
            return;
        }
        if count == rows {
            self.place(first_row, Arc::clone(block));
            if let Some(growing) = growing {
                self.reopen(growing);
            }
            return;
        }
        // A block that will not grow is cut to its rows, and so is full.
        let capacity = growing.map_or(count, |growing| count + growing.room() + (rows - count));
        let source = block.read(0..rows);
        let mut copy = BlockWriter::new(block.schema(), capacity);
        for part in parts {
            copy.append(&source, part.clone());
        }
        self.place(first_row, Arc::clone(copy.block()));
        self.reopen(copy);
    }
}

/// The entries of `view` that stay. Runs that become neighbours share an entry if they are of one epoch or `are_alike`
/// (by epoch and first row), then under the newer of the epochs.
fn keep(
    view: &BrickView,
    keeps_run: impl Fn(Epoch, &Range<usize>) -> bool,
    keeps_marker: impl Fn(&DeleteMarker) -> bool,
    are_alike: impl Fn((Epoch, usize), (Epoch, usize)) -> bool,
) -> Vec<Kept> {
    let mut kept: Vec<Kept> = Vec::new();
    let mut markers = view.shared_markers();
    for step in view.steps() {
        match step {
            Step::Delete => {
                let marker =
                    markers.next().expect("each delete entry has its marker, which is published before");
                if keeps_marker(marker) {
                    kept.push(Kept::Delete(Arc::clone(marker)));
                }
            }
            Step::Run(epoch, run) if keeps_run(epoch, &run) => match kept.last_mut() {
                Some(Kept::Run(last, ranges))
                    if *last == epoch || are_alike((*last, ranges[0].start), (epoch, run.start)) =>
                {
                    *last = (*last).max(epoch);
                    ranges.push(run);
                }
                _ => kept.push(Kept::Run(epoch, vec![run])),
            },
            Step::Run(..) => {}
        }
    }
    kept
}
