// SPDX-License-Identifier: Apache-2.0
//! Lookups: one descent, no allocation, no writes.

use std::borrow::Borrow;
use std::hint::select_unpredictable;
use std::mem::needs_drop;

use arrayvec::ArrayVec;
use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::{ParallelSlice, ParallelSliceMut};

use crate::grain::BATCH_GRAIN;
use crate::node::{Link, position, search};

/// The entry of `key`. Work `O(log n)`.
#[inline]
pub(crate) fn find<'a, K, V, Q, S, const B: usize>(
    mut link: &'a Link<K, V, S, B>,
    key: &Q,
) -> Option<&'a (K, V)>
where
    K: Borrow<Q>,
    Q: Ord + ?Sized,
{
    loop {
        match link {
            Link::Empty => return None,
            Link::Leaf(leaf) => return find_in_block::<K, V, Q, B>(leaf, key),
            Link::Inner(node) if key < node.separator.borrow() => link = &node.left,
            Link::Inner(node) => link = &node.right,
        }
    }
}

/// The entry of `key` in a block.
///
/// In a tree larger than the caches the block's lines are yet to come. A binary search waits for them one by one; where
/// comparing costs next to nothing, all probes of a round are made at once, so that their lines come together.
#[inline]
pub(crate) fn find_in_block<'a, K, V, Q, const B: usize>(entries: &'a [(K, V)], key: &Q) -> Option<&'a (K, V)>
where
    K: Borrow<Q>,
    Q: Ord + ?Sized,
{
    if is_cheap::<K>() {
        return find_in_rounds::<K, V, Q, B>(entries, key);
    }
    // The first probe is at a fixed place, so that its load does not wait for that of the block's length.
    let middle = B / 2;
    let run = match entries.get(middle) {
        Some(entry) => {
            let (low, high) = entries.split_at(middle);
            select_unpredictable(key < entry.0.borrow(), low, high)
        }
        None => entries,
    };
    search(run, key).ok().map(|at| &run[at])
}

/// Whether a key is compared within some cycles: it is small, and whole where it lies.
pub(crate) const fn is_cheap<K>() -> bool {
    size_of::<K>() <= 16 && !needs_drop::<K>()
}

/// Parts that a round of probes cuts a block into.
const PARTS: usize = 8;

/// The most entries that are compared one by one.
const LINEAR_MAX: usize = 16;

/// The entry of `key` in a block: rounds of probes at fixed places, then the entries that are left, in order.
#[inline]
fn find_in_rounds<'a, K, V, Q, const B: usize>(entries: &'a [(K, V)], key: &Q) -> Option<&'a (K, V)>
where
    K: Borrow<Q>,
    Q: Ord + ?Sized,
{
    let (mut run, mut length) = (entries, B);
    while length > LINEAR_MAX / 2 {
        let step = length.div_ceil(PARTS).max(PARTS / 2);
        let passed = |place: usize| run.get(place * step).is_some_and(|entry| entry.0.borrow() <= key);
        let part = (1..PARTS).map(|place| usize::from(passed(place))).sum::<usize>();
        let start = part * step;
        run = &run[start..run.len().min(start + step)];
        length = if step <= LINEAR_MAX { 0 } else { step };
    }
    let others = run.get(1..)?;
    let at = others.iter().map(|entry| usize::from(entry.0.borrow() <= key)).sum::<usize>();
    Some(&run[at]).filter(|entry| entry.0.borrow() == key)
}

/// Descents that run side by side: about as many misses as a core keeps in flight.
pub(crate) const LANES: usize = 16;

/// What `find` puts at the place of each key, a piece at a time, on several threads if there are many.
pub(crate) fn find_in_pieces<'v, T, V>(
    keys: &[T],
    find: impl Fn(&[T], &mut [Option<&'v V>]) + Sync,
) -> Vec<Option<&'v V>>
where
    T: Sync,
    V: Sync,
{
    let mut found = vec![None; keys.len()];
    if keys.len() <= BATCH_GRAIN {
        find(keys, &mut found);
    } else {
        let pieces = found.par_chunks_mut(BATCH_GRAIN).zip(keys.par_chunks(BATCH_GRAIN));
        pieces.for_each(|(found, keys)| find(keys, found));
    }
    found
}

/// The value of each key, many descents at a time.
pub(crate) fn find_many<'a, K, V, Q, T, S, const B: usize>(
    root: &'a Link<K, V, S, B>,
    keys: &[T],
    found: &mut [Option<&'a V>],
) where
    K: Borrow<Q>,
    T: Borrow<Q>,
    Q: Ord + ?Sized,
{
    assert_eq!(keys.len(), found.len(), "a place for each key");
    for (keys, found) in keys.chunks(LANES).zip(found.chunks_mut(LANES)) {
        let mut lanes: ArrayVec<&'a Link<K, V, S, B>, LANES> = keys.iter().map(|_| root).collect();
        let mut descending = true;
        while descending {
            descending = false;
            for (link, key) in lanes.iter_mut().zip(keys) {
                if let Link::Inner(node) = *link {
                    *link = if key.borrow() < node.separator.borrow() { &node.left } else { &node.right };
                    link.touch();
                    descending = true;
                }
            }
        }
        for ((link, key), found) in lanes.iter().zip(keys).zip(found) {
            *found = find(link, key.borrow()).map(|(_, value)| value);
        }
    }
}

/// Whether `key` is present. Work `O(log n)`.
#[inline]
pub(crate) fn is_present<K, V, Q, S, const B: usize>(link: &Link<K, V, S, B>, key: &Q) -> bool
where
    K: Borrow<Q>,
    Q: Ord + ?Sized,
{
    find(link, key).is_some()
}

/// The entry with the smallest key. Work `O(log n)`.
pub(crate) fn first<K, V, S, const B: usize>(mut link: &Link<K, V, S, B>) -> Option<&(K, V)> {
    loop {
        match link {
            Link::Empty => return None,
            Link::Leaf(block) => return block.first(),
            Link::Inner(node) => link = &node.left,
        }
    }
}

/// The entry with the largest key. Work `O(log n)`.
pub(crate) fn last<K, V, S, const B: usize>(mut link: &Link<K, V, S, B>) -> Option<&(K, V)> {
    loop {
        match link {
            Link::Empty => return None,
            Link::Leaf(block) => return block.last(),
            Link::Inner(node) => link = &node.right,
        }
    }
}

/// The last entry for which `before` holds; `before` must hold for a prefix of the keys. Work `O(log n)`.
#[inline]
pub(crate) fn last_before<K, V, F, S, const B: usize>(
    mut link: &Link<K, V, S, B>,
    before: F,
) -> Option<&(K, V)>
where
    F: Fn(&K) -> bool,
{
    // Where `before` holds for the separator it may still hold for nothing to the right of it.
    let mut fallback = None;
    loop {
        match link {
            Link::Empty => return None,
            Link::Leaf(block) => {
                let count = position(block, &before);
                return block[..count].last().or_else(|| last(fallback?));
            }
            Link::Inner(node) if before(&node.separator) => {
                fallback = Some(&node.left);
                link = &node.right;
            }
            Link::Inner(node) => link = &node.left,
        }
    }
}

/// The first entry for which `before` does not hold. Work `O(log n)`.
#[inline]
pub(crate) fn first_after<K, V, F, S, const B: usize>(
    mut link: &Link<K, V, S, B>,
    before: F,
) -> Option<&(K, V)>
where
    F: Fn(&K) -> bool,
{
    let mut fallback = None;
    loop {
        match link {
            Link::Empty => return None,
            Link::Leaf(block) => {
                let count = position(block, &before);
                return block[count..].first().or_else(|| first(fallback?));
            }
            Link::Inner(node) if before(&node.separator) => link = &node.right,
            Link::Inner(node) => {
                fallback = Some(&node.right);
                link = &node.left;
            }
        }
    }
}

/// The number of entries for which `before` holds. Work `O(log n)`; touches no node beside the path.
#[inline]
pub(crate) fn count_before<K, V, F, S, const B: usize>(mut link: &Link<K, V, S, B>, before: F) -> usize
where
    F: Fn(&K) -> bool,
{
    let mut count = 0;
    loop {
        match link {
            Link::Empty => return count,
            Link::Leaf(block) => return count + position(block, &before),
            Link::Inner(node) if before(&node.separator) => {
                count += node.left_size;
                link = &node.right;
            }
            Link::Inner(node) => link = &node.left,
        }
    }
}

/// The entry with `index` entries before it. Work `O(log n)`.
pub(crate) fn select<K, V, S, const B: usize>(
    mut link: &Link<K, V, S, B>,
    mut index: usize,
) -> Option<&(K, V)> {
    loop {
        match link {
            Link::Empty => return None,
            Link::Leaf(block) => return block.get(index),
            Link::Inner(node) if index < node.left_size => link = &node.left,
            Link::Inner(node) => {
                index -= node.left_size;
                link = &node.right;
            }
        }
    }
}

#[cfg(test)]
mod tests;
