// SPDX-License-Identifier: Apache-2.0
//! Which rows of a brick a reader sees (AOSI III-C3).

use std::ops::Range;

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;
use coeval_txn::{Epoch, EpochSet};

use crate::brick::BrickView;
use crate::epochs_vector::{Cleared, Step};

/// By what somebody reads: what was committed at the snapshot, and the reader's own epochs.
#[derive(Clone, Debug)]
pub struct Reader {
    /// None if everything is seen, whoever did it.
    snapshot: Option<EpochSet>,
    own: Vec<Epoch>,
}

impl Reader {
    /// Somebody who has written nothing.
    #[must_use]
    pub const fn of(snapshot: EpochSet) -> Self {
        Self { snapshot: Some(snapshot), own: Vec::new() }
    }

    /// Somebody who reads all rows that there are, of transactions that run or have not been removed yet too, and no
    /// delete: what reading costs without concurrency control (AOSI VI-B). Two looks may differ.
    #[must_use]
    pub const fn uncommitted() -> Self {
        Self { snapshot: None, own: Vec::new() }
    }

    /// A transaction that writes: it sees its own epochs too, as far as the [`BrickView`] goes.
    #[must_use]
    pub fn writing(snapshot: EpochSet, own: Vec<Epoch>) -> Self {
        Self { snapshot: Some(snapshot), own }
    }

    /// The snapshot, if that is all that it sees.
    #[must_use]
    pub fn snapshot_alone(&self) -> Option<&EpochSet> {
        self.snapshot.as_ref().filter(|_| self.own.is_empty())
    }

    /// Whether rows and deletes of `epoch` are seen.
    #[inline]
    #[must_use]
    pub fn sees(&self, epoch: Epoch) -> bool {
        self.snapshot.as_ref().is_none_or(|snapshot| snapshot.contains(epoch)) || self.own.contains(&epoch)
    }
}

/// The rows of a [`BrickView`] that a reader sees.
#[derive(Clone, Debug, PartialEq)]
pub enum Visible {
    /// All of them: the usual case, which costs no bitmap.
    All,
    /// None of them.
    None,
    /// These.
    Some(VisibleRows),
}

/// Rows of which some are visible and some are not.
#[derive(Clone, Debug, PartialEq)]
pub struct VisibleRows {
    /// How many of the first rows are visible without exception; mostly that is nearly all, and costs no bit.
    pub(crate) prefix: usize,
    /// For each row behind them whether it is.
    pub(crate) rest: BooleanBuffer,
}

impl Visible {
    /// How many of `rows` rows these are.
    #[must_use]
    pub fn count(&self, rows: usize) -> usize {
        match self {
            Self::All => rows,
            Self::None => 0,
            Self::Some(part) => part.prefix + part.rest.count_set_bits(),
        }
    }

    /// Which of some contiguous rows these are.
    pub(crate) fn within(&self, rows: Range<usize>) -> Self {
        let Self::Some(VisibleRows { prefix, rest }) = self else { return self.clone() };
        let skipped = rows.start.saturating_sub(*prefix);
        let prefix = (*prefix).clamp(rows.start, rows.end) - rows.start;
        let rest = rest.slice(skipped, rows.len() - prefix);
        match prefix + rest.count_set_bits() {
            0 => Self::None,
            visible if visible == rows.len() => Self::All,
            _ => Self::Some(VisibleRows { prefix, rest }),
        }
    }
}

impl VisibleRows {
    /// A bit for each of the rows.
    pub(crate) fn bits(&self) -> BooleanBuffer {
        if self.prefix == 0 {
            return self.rest.clone();
        }
        let mut bits = BooleanBufferBuilder::new(self.prefix + self.rest.len());
        bits.append_n(self.prefix, true);
        bits.append_buffer(&self.rest);
        bits.finish()
    }
}

impl BrickView {
    /// The rows that `reader` sees. Cost: a look at each group of entries of the epochs vector, and at each entry behind
    /// the first that the reader's snapshot, or a delete in it, tells from the others; and a bit for each row behind the
    /// first that is not visible.
    #[must_use]
    pub fn visible(&self, reader: &Reader) -> Visible {
        let rows = self.rows();
        let Some(snapshot) = reader.snapshot.as_ref().filter(|_| rows > 0) else {
            return if rows > 0 { Visible::All } else { Visible::None };
        };
        let deleted = self.cleared_for(reader);
        // What lies behind the horizon is seen by everybody, and an epoch at or below zero is nobody's.
        let horizon = if deleted.is_empty() { snapshot.horizon() } else { Epoch::ZERO };
        let (seen, steps) = self.steps_beyond(horizon);
        let mut bits = RunBits::new(rows);
        bits.append(Run { rows: seen, is_visible: true });
        for step in steps {
            if let Step::Run(epoch, run) = step {
                let is_visible = reader.sees(epoch) && !deleted.clears(epoch, run.start);
                bits.append(Run { rows: run.len(), is_visible });
            }
        }
        bits.finish()
    }
}

impl BrickView {
    /// The rows that `before` sees and `after` does not. Cost: a look at each entry of the epochs vector, and a bit for each
    /// row.
    pub(crate) fn gone(&self, before: &Reader, after: &Reader) -> Visible {
        if self.rows() == 0 {
            return Visible::None;
        }
        let (deleted_before, deleted_after) = (self.cleared_for(before), self.cleared_for(after));
        let mut bits = RunBits::new(self.rows());
        for step in self.steps() {
            if let Step::Run(epoch, run) = step {
                let was_seen = before.sees(epoch) && !deleted_before.clears(epoch, run.start);
                let is_seen = after.sees(epoch) && !deleted_after.clears(epoch, run.start);
                bits.append(Run { rows: run.len(), is_visible: was_seen && !is_seen });
            }
        }
        bits.finish()
    }

    /// The rows that `reader` sees, by epoch.
    pub(crate) fn visible_runs(&self, reader: &Reader) -> Vec<(Epoch, Range<usize>)> {
        let deleted = self.cleared_for(reader);
        let runs = self.steps().filter_map(|step| match step {
            Step::Run(epoch, run) => Some((epoch, run)),
            Step::Delete => None,
        });
        runs.filter(|(epoch, run)| reader.sees(*epoch) && !deleted.clears(*epoch, run.start)).collect()
    }

    /// The newest epoch of which `reader` sees rows here; `None` if it sees none. What purge has merged counts as of the newest
    /// epoch of what was merged. Cost: a look at each entry of the epochs vector.
    #[must_use]
    pub fn newest_visible(&self, reader: &Reader) -> Option<Epoch> {
        let deleted = self.cleared_for(reader);
        let seen = self.steps().filter_map(|step| match step {
            Step::Run(epoch, run) => {
                (reader.sees(epoch) && !deleted.clears(epoch, run.start)).then_some(epoch)
            }
            Step::Delete => None,
        });
        seen.max()
    }

    fn cleared_for(&self, reader: &Reader) -> Cleared {
        if reader.snapshot.is_none() {
            return Cleared::default();
        }
        Cleared::by(self.markers().filter(|marker| reader.sees(marker.epoch)))
    }

    /// Whether `now` sees a delete that `before` did not.
    pub(crate) fn deletes_since(&self, before: &Reader, now: &Reader) -> bool {
        self.markers().any(|marker| now.sees(marker.epoch) && !before.sees(marker.epoch))
    }
}

/// What becomes a [`Visible`], run by run.
struct RunBits {
    rows: usize,
    filled: usize,
    visible: usize,
    /// For the rows behind `prefix`; made with the first that is not visible.
    bits: Option<BooleanBufferBuilder>,
    prefix: usize,
}

/// Contiguous rows that are alike.
struct Run {
    rows: usize,
    is_visible: bool,
}

impl RunBits {
    const fn new(rows: usize) -> Self {
        Self { rows, filled: 0, visible: 0, bits: None, prefix: 0 }
    }

    fn append(&mut self, Run { rows, is_visible }: Run) {
        if self.bits.is_none() && !is_visible && rows > 0 {
            self.prefix = self.filled;
            self.bits = Some(BooleanBufferBuilder::new(self.rows - self.filled));
        }
        if let Some(bits) = &mut self.bits {
            bits.append_n(rows, is_visible);
        }
        self.visible += if is_visible { rows } else { 0 };
        self.filled += rows;
    }

    fn finish(self) -> Visible {
        assert_eq!(self.filled, self.rows, "the entries of an epochs vector cover all rows");
        match self.bits {
            None => Visible::All,
            Some(_) if self.visible == 0 => Visible::None,
            Some(mut bits) => Visible::Some(VisibleRows { prefix: self.prefix, rest: bits.finish() }),
        }
    }
}
