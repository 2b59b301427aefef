// SPDX-License-Identifier: Apache-2.0
//! Which rows of a brick a reader sees (AOSI III-C3).

use std::ops::Range;

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;
use coeval_txn::{Epoch, EpochSet};

use crate::brick::BrickView;
use crate::epochs_vector::{DeleteMarker, Step};

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
    /// Those whose bit is set.
    Some(BooleanBuffer),
}

impl Visible {
    /// How many of `rows` rows these are.
    #[must_use]
    pub fn count(&self, rows: usize) -> usize {
        match self {
            Self::All => rows,
            Self::None => 0,
            Self::Some(bitmap) => bitmap.count_set_bits(),
        }
    }
}

impl BrickView {
    /// The rows that `reader` sees. Cost: a look at each entry of the epochs vector, for each delete that the
    /// reader sees; and a bitmap unless all rows are alike.
    #[must_use]
    pub fn visible(&self, reader: &Reader) -> Visible {
        let rows = self.rows();
        if reader.snapshot.is_none() && rows > 0 {
            return Visible::All;
        }
        let markers: Vec<&DeleteMarker> = self.markers().filter(|marker| reader.sees(marker.epoch)).collect();
        let mut bits = RunBits::new(rows);
        for step in self.steps() {
            if let Step::Run(epoch, run) = step {
                let is_deleted = || markers.iter().any(|marker| marker.clears(epoch, run.start));
                bits.append(Run { rows: run.len(), is_visible: reader.sees(epoch) && !is_deleted() });
            }
        }
        bits.finish()
    }
}

impl BrickView {
    /// The rows that `reader` sees, by epoch.
    pub(crate) fn visible_runs(&self, reader: &Reader) -> Vec<(Epoch, Range<usize>)> {
        let markers: Vec<&DeleteMarker> = self.markers().filter(|marker| reader.sees(marker.epoch)).collect();
        let is_deleted = |epoch, row| markers.iter().any(|marker| marker.clears(epoch, row));
        let runs = self.steps().filter_map(|step| match step {
            Step::Run(epoch, run) => Some((epoch, run)),
            Step::Delete => None,
        });
        runs.filter(|(epoch, run)| reader.sees(*epoch) && !is_deleted(*epoch, run.start)).collect()
    }

    /// Whether `now` sees a delete that `before` did not.
    pub(crate) fn deletes_since(&self, before: &Reader, now: &Reader) -> bool {
        self.markers().any(|marker| now.sees(marker.epoch) && !before.sees(marker.epoch))
    }
}

/// A bitmap that is not made before two rows differ.
struct RunBits {
    rows: usize,
    filled: usize,
    first: bool,
    bits: Option<BooleanBufferBuilder>,
}

/// Contiguous rows that are alike.
struct Run {
    rows: usize,
    is_visible: bool,
}

impl RunBits {
    const fn new(rows: usize) -> Self {
        Self { rows, filled: 0, first: false, bits: None }
    }

    fn append(&mut self, Run { rows, is_visible }: Run) {
        if self.filled == 0 {
            self.first = is_visible;
        }
        if self.bits.is_none() && is_visible != self.first {
            let mut bits = BooleanBufferBuilder::new(self.rows);
            bits.append_n(self.filled, self.first);
            self.bits = Some(bits);
        }
        if let Some(bits) = &mut self.bits {
            bits.append_n(rows, is_visible);
        }
        self.filled += rows;
    }

    fn finish(self) -> Visible {
        assert_eq!(self.filled, self.rows, "the entries of an epochs vector cover all rows");
        match self.bits {
            Some(mut bits) => Visible::Some(bits.finish()),
            None if self.first => Visible::All,
            None => Visible::None,
        }
    }
}
