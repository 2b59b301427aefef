// SPDX-License-Identifier: Apache-2.0
//! The best keys of each group so far, and which rows they rule out.
//!
//! A key is a number that never contradicts the order of rows: of two rows whose keys differ, the one with the smaller key comes
//! first. Rows with equal keys may be in any order. For each group there are `keep` places, sorted, free ones last.
//!
//! # Why no row is dropped that is wanted
//! Rows come in any order, and the window counts, for a row, those of its group that come before it. What was seen is part of that.
//! - `rank() <= keep`: dropped is a row when `keep` rows were seen whose keys are smaller. Those come before it, so its rank is
//!   above `keep`. The places have the `keep` smallest keys that were seen, equal ones as often as they came: so many smaller keys
//!   were seen if and only if the last place has a smaller one.
//! - `dense_rank() <= keep`: the same with values: places have different keys, and rows of different keys have different values.
//! - `row_number() <= keep`: a row may go as well when the `keep` others have equal keys, if equal keys mean that the ORDER BY says
//!   no more: which of them are counted first is free, and those that were seen first are.
//!
//! Where the window has running aggregates beside the function, equal rows count for each other, so none of them is dropped as long as
//! one of them may be wanted: `row_number` is bounded as `rank` then. What an aggregate sees of a wanted row, rows before it and its
//! equals, has no higher rank than the row itself, and stays.
//!
//! A row that is dropped is never counted for one that stays: those before which it comes have the `keep` rows before them as well.

/// Which function is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ranking {
    /// `row_number`, and rows with equal keys are equal for the order.
    Rows,
    /// `rank`.
    Ranks,
    /// `dense_rank`.
    Values,
}

/// No key: a free place.
pub(super) const FREE: i128 = i128::MAX;

/// See the module.
#[derive(Debug)]
pub(super) struct Best {
    ranking: Ranking,
    keep: usize,
    places: Vec<i128>,
}

impl Best {
    pub(super) fn new(ranking: Ranking, keep: usize) -> Self {
        Self { ranking, keep, places: Vec::new() }
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<i128>()
    }

    /// Bytes that it takes with so many groups.
    pub(super) fn bytes_of(&self, groups: usize) -> usize {
        groups * self.keep * size_of::<i128>()
    }

    /// There are so many groups.
    pub(super) fn grow(&mut self, groups: usize) {
        self.places.resize(groups * self.keep, FREE);
    }

    /// Sees a row; says whether it may be among the wanted ones.
    #[inline]
    pub(super) fn see(&mut self, group: usize, key: i128) -> bool {
        let places = &mut self.places[group * self.keep..][..self.keep];
        let last = places[places.len() - 1];
        if key >= last {
            return key == last && self.ranking != Ranking::Rows;
        }
        let place = places.partition_point(|&held| held <= key);
        let is_there = place > 0 && places[place - 1] == key;
        if !is_there || self.ranking != Ranking::Values {
            places[place..].rotate_right(1);
            places[place] = key;
        }
        true
    }
}
