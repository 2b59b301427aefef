// SPDX-License-Identifier: Apache-2.0
//! Long work that ends when its statement does.

use crate::error::StoreError;

/// Asks whether work is to go on; the error ends it. It costs some nanoseconds.
pub(crate) type Stop<'a> = &'a (dyn Fn() -> Result<(), StoreError> + Sync);

/// For work that nobody ends.
pub(crate) fn never() -> Result<(), StoreError> {
    Ok(())
}

/// So many are sorted without a look: some tenths of a second.
const SORTED_AT_ONCE: usize = 1 << 20;

/// Sorts on all cores; equal ones in any order. What is too much to be sorted at once is halved at its median first, so that
/// there are places in between that look.
///
/// # Errors
/// That of `stop`; the order is any then.
pub(crate) fn sort<T: Ord + Send>(items: &mut [T], stop: Stop<'_>) -> Result<(), StoreError> {
    sort_in_pieces(items, SORTED_AT_ONCE, stop)
}

fn sort_in_pieces<T: Ord + Send>(items: &mut [T], at_once: usize, stop: Stop<'_>) -> Result<(), StoreError> {
    stop()?;
    if items.len() <= at_once.max(1) {
        rayon::slice::ParallelSliceMut::par_sort_unstable(items);
        return Ok(());
    }
    let (less, _, greater) = items.select_nth_unstable(items.len() / 2);
    let (left, right) =
        rayon::join(|| sort_in_pieces(less, at_once, stop), || sort_in_pieces(greater, at_once, stop));
    left.and(right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn pieces_of_any_size_are_sorted_as_a_whole() {
        for (length, at_once) in
            [(0, 1), (1, 1), (2, 1), (1_000, 1), (1_000, 7), (1_000, 1_000), (1_001, 1_000)]
        {
            let mut items: Vec<u32> = (0..length).map(|n| n * 7_919 % 613).collect();
            let mut expected = items.clone();
            expected.sort_unstable();
            sort_in_pieces(&mut items, at_once, &never).unwrap();
            assert_eq!(items, expected, "{length} in pieces of {at_once}");
        }
    }

    #[test]
    fn whoever_is_asked_to_stop_sorts_no_further_piece() {
        let looks = AtomicUsize::new(0);
        let stop = || match looks.fetch_add(1, Ordering::Relaxed) {
            0..3 => Ok(()),
            _ => Err(StoreError::MissingRow),
        };
        let mut items: Vec<u32> = (0..1_000).rev().collect();
        assert!(sort_in_pieces(&mut items, 10, &stop).is_err());
        // Two threads may each have begun one.
        assert!(looks.load(Ordering::Relaxed) < 20, "{looks:?} looks");
    }
}
