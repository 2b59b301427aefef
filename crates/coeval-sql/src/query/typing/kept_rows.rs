// SPDX-License-Identifier: Apache-2.0
//! [`KeptRows`]: those that the FILTER of an aggregate leaves.

use arrow::array::{Array, BooleanArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};

/// The rows of a batch of which a FILTER is true; all if there is none.
pub(super) struct KeptRows(Option<BooleanBuffer>);

impl KeptRows {
    pub(super) fn of(filter: Option<&BooleanArray>) -> Self {
        Self(filter.map(|filter| match filter.nulls() {
            Some(known) => filter.values() & known.inner(),
            None => filter.values().clone(),
        }))
    }

    pub(super) fn has(&self, row: usize) -> bool {
        self.0.as_ref().is_none_or(|kept| kept.value(row))
    }

    /// What makes all other rows NULL.
    pub(super) fn into_nulls(self) -> Option<NullBuffer> {
        self.0.map(NullBuffer::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Under NULL lies whatever was there before.
    #[test]
    fn a_filter_leaves_what_it_is_known_to_be_true_of() {
        let values = BooleanBuffer::from(vec![true, false, true, false]);
        let known = NullBuffer::from(vec![true, true, false, false]);
        let unknown = BooleanArray::new(values.clone(), Some(known));
        let kept = |filter: Option<&BooleanArray>| {
            let kept = KeptRows::of(filter);
            (0..4).map(|row| kept.has(row)).collect::<Vec<_>>()
        };
        assert_eq!(kept(Some(&unknown)), [true, false, false, false]);
        assert_eq!(kept(Some(&BooleanArray::new(values, None))), [true, false, true, false]);
        assert_eq!(kept(None), [true; 4]);
        let nulls = KeptRows::of(Some(&unknown)).into_nulls().expect("there is a filter");
        assert_eq!(nulls.iter().collect::<Vec<_>>(), kept(Some(&unknown)));
        assert!(KeptRows::of(None).into_nulls().is_none());
    }
}
