// SPDX-License-Identifier: Apache-2.0
//! Building trees: from entries in key order, and from entries in any order, which are sorted and folded first.

use std::marker::PhantomData;

use rayon::iter::plumbing::{Producer, ProducerCallback};
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator};

use crate::balance::{concat, fill, from_exact_iter, grow, left_part, link};
use crate::find::first;
use crate::grain::{BUILD_GRAIN, both};
use crate::node::Link;
use crate::summary::Summary;

/// A tree of a sorted vector, in parallel when it is long. Work `O(n)`, span `O(grain + log n)`.
pub(crate) fn from_sorted_vec<K, V, S, const B: usize>(entries: Vec<(K, V)>) -> Link<K, V, S, B>
where
    K: Clone + Send + Sync,
    V: Clone + Send + Sync,
    S: Summary<K, V>,
{
    if entries.len() <= 2 * BUILD_GRAIN {
        return from_sorted_small(entries);
    }
    let count = entries.len();
    entries.into_par_iter().with_producer(Growth { count, summaries: PhantomData })
}

/// A tree of a sorted vector, on this thread.
pub(crate) fn from_sorted_small<K: Clone, V, S: Summary<K, V>, const B: usize>(
    entries: Vec<(K, V)>,
) -> Link<K, V, S, B> {
    let count = entries.len();
    from_exact_iter(&mut entries.into_iter(), count)
}

/// Grows a tree of `count` entries out of what rayon makes of a vector: halves that several threads can take from.
struct Growth<S, const B: usize> {
    count: usize,
    summaries: PhantomData<fn() -> S>,
}

impl<K, V, S, const B: usize> ProducerCallback<(K, V)> for Growth<S, B>
where
    K: Clone + Send + Sync,
    V: Clone + Send + Sync,
    S: Summary<K, V>,
{
    type Output = Link<K, V, S, B>;

    fn callback<P: Producer<Item = (K, V)>>(self, entries: P) -> Self::Output {
        grow_parallel(entries, self.count, self.count.div_ceil(fill(B)))
    }
}

/// A tree of `count` entries over `leaves` leaves, of the same shape as [`grow`] makes it.
fn grow_parallel<K, V, P, S, const B: usize>(entries: P, count: usize, leaves: usize) -> Link<K, V, S, B>
where
    K: Clone + Send + Sync,
    V: Clone + Send + Sync,
    P: Producer<Item = (K, V)>,
    S: Summary<K, V>,
{
    // A block may be larger than the grain.
    if leaves == 1 || count <= BUILD_GRAIN {
        return grow(&mut entries.into_iter(), count, leaves);
    }
    let (left_count, left_leaves) = left_part(count, leaves);
    let (left, right) = entries.split_at(left_count);
    let (left, right) = rayon::join(
        || grow_parallel(left, left_count, left_leaves),
        || grow_parallel(right, count - left_count, leaves - left_leaves),
    );
    let separator = first(&right).expect("each leaf gets entries").0.clone();
    link(left, separator, right)
}

/// Sorts by key, keeping the order of equal keys; in parallel when there are many.
///
/// The sort of the standard library finds runs that are sorted already: given two sorted halves it does no more than
/// merge them. On a few threads that is faster than a sort that is parallel throughout.
fn sort<K: Ord + Send, V: Send>(entries: &mut [(K, V)]) {
    let pieces = rayon::current_num_threads().next_power_of_two();
    sort_pieces(entries, pieces);
}

/// Sorts in `pieces` pieces at once, and merges them pair by pair.
fn sort_pieces<K: Ord + Send, V: Send>(entries: &mut [(K, V)], pieces: usize) {
    assert!(pieces >= 1, "all entries lie in some piece");
    if pieces > 1 && entries.len() > BUILD_GRAIN {
        let (left, right) = entries.split_at_mut(entries.len() / 2);
        rayon::join(|| sort_pieces(left, pieces / 2), || sort_pieces(right, pieces / 2));
    }
    entries.sort_by(|one, other| one.0.cmp(&other.0));
}

/// Sorts by key and folds equal keys together with `combine(key, earlier, later)`.
///
/// Work `O(n log n)`, in parallel when there are many.
pub(crate) fn sort_and_combine<K, V, F>(mut entries: Vec<(K, V)>, combine: &F) -> Vec<(K, V)>
where
    K: Ord + Send + Sync,
    V: Send + Sync,
    F: Fn(&K, &V, V) -> V,
{
    sort(&mut entries);
    if is_strictly_sorted(&entries, |entry| &entry.0) {
        return entries;
    }
    let count = entries.len();
    combine_equal(entries.into_iter(), count, combine)
}

/// Folds equal neighbours together.
fn combine_equal<K, V, F>(entries: impl Iterator<Item = (K, V)>, count: usize, combine: &F) -> Vec<(K, V)>
where
    K: Ord,
    F: Fn(&K, &V, V) -> V,
{
    let mut unique: Vec<(K, V)> = Vec::with_capacity(count);
    for (key, value) in entries {
        match unique.last_mut() {
            Some(last) if last.0 == key => last.1 = combine(&last.0, &last.1, value),
            _ => unique.push((key, value)),
        }
    }
    unique
}

/// A tree of entries in any order; equal keys are folded in their order. Work `O(n log n)`.
pub(crate) fn build<K, V, F, S, const B: usize>(mut entries: Vec<(K, V)>, combine: &F) -> Link<K, V, S, B>
where
    K: Ord + Clone + Send + Sync,
    V: Clone + Send + Sync,
    F: Fn(&K, &V, V) -> V + Sync,
    S: Summary<K, V>,
{
    sort(&mut entries);
    if is_strictly_sorted(&entries, |entry| &entry.0) {
        return from_sorted_vec(entries);
    }
    let mut cuts = vec![0];
    while cuts[cuts.len() - 1] + 2 * BUILD_GRAIN < entries.len() {
        // A cut stands between two different keys.
        let nominal = cuts[cuts.len() - 1] + BUILD_GRAIN;
        let key = &entries[nominal - 1].0;
        let cut = nominal + entries[nominal..].partition_point(|entry| entry.0 == *key);
        assert!(cut >= nominal && cut <= entries.len(), "a cut moves to the end of its key's run");
        cuts.push(cut);
    }
    if cuts[cuts.len() - 1] != entries.len() {
        cuts.push(entries.len());
    }
    entries.into_par_iter().with_producer(Combination { cuts, combine, summaries: PhantomData })
}

/// Builds trees of the pieces between the cuts, each with equal keys folded, and concatenates them.
struct Combination<'f, F, S, const B: usize> {
    cuts: Vec<usize>,
    combine: &'f F,
    summaries: PhantomData<fn() -> S>,
}

impl<K, V, F, S, const B: usize> ProducerCallback<(K, V)> for Combination<'_, F, S, B>
where
    K: Ord + Clone + Send + Sync,
    V: Clone + Send + Sync,
    F: Fn(&K, &V, V) -> V + Sync,
    S: Summary<K, V>,
{
    type Output = Link<K, V, S, B>;

    fn callback<P: Producer<Item = (K, V)>>(self, entries: P) -> Self::Output {
        build_pieces(entries, &self.cuts, self.combine)
    }
}

/// A tree of the entries between the first and the last of the cuts.
fn build_pieces<K, V, P, F, S, const B: usize>(entries: P, cuts: &[usize], combine: &F) -> Link<K, V, S, B>
where
    K: Ord + Clone + Send + Sync,
    V: Clone + Send + Sync,
    P: Producer<Item = (K, V)>,
    F: Fn(&K, &V, V) -> V + Sync,
    S: Summary<K, V>,
{
    assert!(cuts.len() >= 2, "a piece lies between two cuts");
    let (start, end) = (cuts[0], cuts[cuts.len() - 1]);
    if cuts.len() == 2 {
        return from_sorted_small(combine_equal(entries.into_iter(), end - start, combine));
    }
    let middle = cuts.len() / 2;
    let (left, right) = entries.split_at(cuts[middle] - start);
    let (left, right) = rayon::join(
        || build_pieces(left, &cuts[..=middle], combine),
        || build_pieces(right, &cuts[middle..], combine),
    );
    concat(left, right)
}

/// Whether keys strictly increase; in parallel when there are many.
pub(crate) fn is_strictly_sorted<K: Ord + Sync, T: Sync>(items: &[T], key: fn(&T) -> &K) -> bool {
    if items.len() <= BUILD_GRAIN {
        return items.windows(2).all(|pair| key(&pair[0]) < key(&pair[1]));
    }
    let middle = items.len() / 2;
    let (low, high) = both(
        items.len(),
        BUILD_GRAIN,
        || is_strictly_sorted(&items[..=middle], key),
        || is_strictly_sorted(&items[middle..], key),
    );
    low && high
}

#[cfg(test)]
mod tests;
