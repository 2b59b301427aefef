// SPDX-License-Identifier: Apache-2.0
//! Passes over all entries: map-reduce, for-each, filter (P-Trees paper, section 3.2 and Figures 2c to 2e).

use crate::balance::join;
use crate::grain::{SCAN_GRAIN, both};
use crate::node::Link;

/// `reduce` over `map` of all entries in key order. Work `O(n)`, span `O(grain + log n)`.
pub(crate) fn map_reduce<K, V, R, M, F, const B: usize>(
    link: &Link<K, V, B>,
    map: &M,
    reduce: &F,
    identity: &R,
) -> R
where
    K: Send + Sync,
    V: Send + Sync,
    R: Clone + Send + Sync,
    M: Fn(&K, &V) -> R + Sync,
    F: Fn(R, R) -> R + Sync,
{
    match link {
        Link::Inner(node) if node.size > SCAN_GRAIN => {
            let (left, right) = both(
                node.size,
                SCAN_GRAIN,
                || map_reduce(&node.left, map, reduce, identity),
                || map_reduce(&node.right, map, reduce, identity),
            );
            reduce(left, right)
        }
        _ => fold(link, identity.clone(), &mut |sum, key, value| reduce(sum, map(key, value))),
    }
}

/// Folds all entries in key order, on this thread.
fn fold<K, V, R, F, const B: usize>(link: &Link<K, V, B>, start: R, step: &mut F) -> R
where
    F: FnMut(R, &K, &V) -> R,
{
    match link {
        Link::Empty => start,
        Link::Leaf(block) => block.iter().fold(start, |sum, (key, value)| step(sum, key, value)),
        Link::Inner(node) => {
            let sum = fold(&node.left, start, step);
            fold(&node.right, sum, step)
        }
    }
}

/// Calls `visit` for each entry, on several threads and in no particular order.
pub(crate) fn for_each<K, V, F, const B: usize>(link: &Link<K, V, B>, visit: &F)
where
    K: Send + Sync,
    V: Send + Sync,
    F: Fn(&K, &V) + Sync,
{
    match link {
        Link::Inner(node) if node.size > SCAN_GRAIN => {
            both(node.size, SCAN_GRAIN, || for_each(&node.left, visit), || for_each(&node.right, visit));
        }
        _ => fold(link, (), &mut |(), key, value| visit(key, value)),
    }
}

/// The entries for which `keep` holds; subtrees that are kept whole are shared. Work `O(n)`, span `O(log^2 n)`.
pub(crate) fn filter<K, V, F, const B: usize>(link: &Link<K, V, B>, keep: &F) -> Link<K, V, B>
where
    K: Clone + Send + Sync,
    V: Clone + Send + Sync,
    F: Fn(&K, &V) -> bool + Sync,
{
    match link {
        Link::Empty => Link::Empty,
        Link::Leaf(block) => {
            // One call per entry, in order: the verdicts are kept, at most `B` of them.
            let verdicts: arrayvec::ArrayVec<bool, B> =
                block.iter().map(|(key, value)| keep(key, value)).collect();
            if verdicts.iter().all(|kept| *kept) {
                return link.clone();
            }
            let kept = block.iter().zip(verdicts).filter(|(_, kept)| *kept);
            Link::from_block(kept.map(|(entry, _)| entry.clone()).collect())
        }
        Link::Inner(node) => {
            let (left, right) =
                both(node.size, SCAN_GRAIN, || filter(&node.left, keep), || filter(&node.right, keep));
            if left.size() + right.size() == node.size {
                return link.clone();
            }
            join(left, node.separator.clone(), right)
        }
    }
}
