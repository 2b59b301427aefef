// SPDX-License-Identifier: Apache-2.0
//! The rows of a load that are left out, while there are no more than may be.

use std::collections::BTreeMap;

use crate::load::{LoadError, RejectReason, Rejection};

/// The bad rows of a load, each with the first reason that was found.
pub(crate) struct Rejections {
    reasons: BTreeMap<usize, RejectReason>,
    rejected_max: usize,
}

impl Rejections {
    /// None; there may be so many.
    pub(crate) fn up_to(rejected_max: usize) -> Self {
        Self { reasons: BTreeMap::new(), rejected_max }
    }

    /// Notes a bad row, by its place in the load.
    ///
    /// # Errors
    /// If there are more than may be.
    pub(crate) fn add(&mut self, row: usize, reason: impl FnOnce() -> RejectReason) -> Result<(), LoadError> {
        self.reasons.entry(row).or_insert_with(reason);
        if self.reasons.len() <= self.rejected_max {
            return Ok(());
        }
        let rejected_max = self.rejected_max;
        let rejected = std::mem::take(&mut self.reasons).into_iter().map(Rejection::of).collect();
        Err(LoadError::TooManyRejected { rejected_max, rejected })
    }

    /// Those of the batch that begins with this row of the load.
    pub(crate) fn of_batch_at(&mut self, first_row: usize) -> BatchRejections<'_> {
        BatchRejections { all: self, first_row }
    }

    /// All, in the order of their rows.
    pub(crate) fn into_list(self) -> Vec<Rejection> {
        self.reasons.into_iter().map(Rejection::of).collect()
    }
}

/// The bad rows of one batch, by their place in it.
pub(crate) struct BatchRejections<'a> {
    all: &'a mut Rejections,
    first_row: usize,
}

impl BatchRejections<'_> {
    /// As [`Rejections::add`], by the row's place in the batch.
    pub(crate) fn add(&mut self, row: usize, reason: impl FnOnce() -> RejectReason) -> Result<(), LoadError> {
        self.all.add(self.first_row + row, reason)
    }

    /// Whether this row is bad.
    #[inline]
    pub(crate) fn has(&self, row: usize) -> bool {
        !self.all.reasons.is_empty() && self.all.reasons.contains_key(&(self.first_row + row))
    }

    /// Whether no row of the whole load is bad.
    #[inline]
    pub(crate) fn has_none_in_load(&self) -> bool {
        self.all.reasons.is_empty()
    }
}
