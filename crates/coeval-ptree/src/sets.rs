// SPDX-License-Identifier: Apache-2.0
//! Set operations on whole trees ("Just Join for Parallel Ordered Sets", SPAA 2016; used by the P-Trees paper).
//!
//! One tree is taken apart at its root, the other is cut at that root's separator, and the two pairs of halves are
//! worked on at once. When one side is down to a single block, it becomes a batch of edits on the other.
//!
//! Work `O(m log(n / m + 1))`, span `O(log m log n)` for trees of `m <= n` entries.

use std::marker::PhantomData;

use triomphe::Arc;

use crate::balance::join;
use crate::build::from_sorted_small;
use crate::bulk::{Delete, Edit, Fate, Insert, apply};
use crate::cut::divide;
use crate::find::{find, is_present};
use crate::grain::{BATCH_GRAIN, both};
use crate::node::{Leaf, Link, take_apart, take_block};
use crate::summary::Summary;

/// Puts each pair as if it had been there before the value it meets.
struct InsertBelow<'f, F>(&'f F);

impl<K, V, F> Edit<K, V> for InsertBelow<'_, F>
where
    K: Clone + Send,
    V: Clone + Send,
    F: Fn(&K, &V, V) -> V + Sync,
{
    type Item = (K, Option<V>);

    fn key<'a>(&self, item: &'a Self::Item) -> &'a K {
        &item.0
    }

    fn present(&self, item: &mut Self::Item, key: &K, value: &mut V) -> Fate {
        let mine = item.1.take().expect("an edit is applied once");
        *value = (self.0)(key, &mine, value.clone());
        Fate::Keep
    }

    fn absent(&self, item: &mut Self::Item) -> Option<(K, V)> {
        item.1.take().map(|mine| (item.0.clone(), mine))
    }
}

/// All entries of both; `combine(key, mine, theirs)` where both have one.
pub(crate) fn union<K, V, F, S: Summary<K, V>, const B: usize>(
    mine: Link<K, V, S, B>,
    theirs: Link<K, V, S, B>,
    combine: &F,
) -> Link<K, V, S, B>
where
    K: Ord + Clone + Send + Sync,
    V: Clone + Send + Sync,
    F: Fn(&K, &V, V) -> V + Sync,
{
    let work = mine.size().min(theirs.size());
    match (mine, theirs) {
        (Link::Empty, other) | (other, Link::Empty) => other,
        (mut mine, Link::Leaf(leaf)) => {
            apply(&mut mine, &mut batch(leaf), &Insert(combine));
            mine
        }
        (Link::Leaf(leaf), mut theirs) => {
            apply(&mut theirs, &mut batch(leaf), &InsertBelow(combine));
            theirs
        }
        (mine, Link::Inner(node)) => {
            let (their_left, separator, their_right) = take_apart(node);
            let (my_left, my_right) = divide(mine, &separator);
            let (left, right) = both(
                work,
                BATCH_GRAIN,
                || union(my_left, their_left, combine),
                || union(my_right, their_right, combine),
            );
            join(left, separator, right)
        }
    }
}

/// The entries of a block as a batch of edits.
fn batch<K: Clone, V: Clone, S: Summary<K, V>, const B: usize>(
    leaf: Arc<Leaf<K, V, S, B>>,
) -> Vec<(K, Option<V>)> {
    take_block(leaf).into_iter().map(|(key, value)| (key, Some(value))).collect()
}

/// The entries whose keys both have, with `combine(key, mine, theirs)` as values.
pub(crate) fn intersection<K, V, F, S: Summary<K, V>, const B: usize>(
    mine: Link<K, V, S, B>,
    theirs: Link<K, V, S, B>,
    combine: &F,
) -> Link<K, V, S, B>
where
    K: Ord + Clone + Send + Sync,
    V: Clone + Send + Sync,
    F: Fn(&K, &V, V) -> V + Sync,
{
    let work = mine.size().min(theirs.size());
    match (mine, theirs) {
        (Link::Empty, _) | (_, Link::Empty) => Link::Empty,
        (Link::Leaf(leaf), theirs) => {
            let common = take_block(leaf).into_iter().filter_map(|(key, mine)| {
                let (_, theirs) = find(&theirs, &key)?;
                let value = combine(&key, &mine, theirs.clone());
                Some((key, value))
            });
            from_sorted_small(common.collect())
        }
        (mine, Link::Leaf(leaf)) => {
            let common = take_block(leaf).into_iter().filter_map(|(key, theirs)| {
                let (_, mine) = find(&mine, &key)?;
                let value = combine(&key, mine, theirs);
                Some((key, value))
            });
            from_sorted_small(common.collect())
        }
        (mine, Link::Inner(node)) => {
            let (their_left, separator, their_right) = take_apart(node);
            let (my_left, my_right) = divide(mine, &separator);
            let (left, right) = both(
                work,
                BATCH_GRAIN,
                || intersection(my_left, their_left, combine),
                || intersection(my_right, their_right, combine),
            );
            join(left, separator, right)
        }
    }
}

/// The entries of `mine` whose keys are not in `theirs`.
pub(crate) fn difference<K, V, W, S, T, const B: usize, const C: usize>(
    mine: Link<K, V, S, B>,
    theirs: &Link<K, W, T, C>,
) -> Link<K, V, S, B>
where
    K: Ord + Clone + Send + Sync,
    V: Clone + Send + Sync,
    W: Send + Sync,
    S: Summary<K, V>,
    T: Send + Sync,
{
    let work = mine.size().min(theirs.size());
    let size = mine.size();
    if mine.address() == theirs.address() {
        // Two versions of a tree share most of their nodes; what they share is not visited.
        return Link::Empty;
    }
    match (mine, theirs) {
        (Link::Empty, _) => Link::Empty,
        (mine, Link::Empty) => mine,
        (mut mine, Link::Leaf(leaf)) => {
            let mut keys: Vec<&K> = leaf.iter().map(|entry| &entry.0).collect();
            apply(&mut mine, &mut keys, &Delete(PhantomData));
            mine
        }
        (Link::Leaf(mut leaf), theirs) => {
            if leaf.iter().any(|entry| is_present(theirs, &entry.0)) {
                let leaf = Arc::make_mut(&mut leaf);
                leaf.entries.retain(|entry| !is_present(theirs, &entry.0));
                leaf.refresh();
            }
            if leaf.is_empty() { Link::Empty } else { Link::Leaf(leaf) }
        }
        (mine, Link::Inner(node)) => {
            let (my_left, my_right) = divide(mine, &node.separator);
            let (left, right) = both(
                work,
                BATCH_GRAIN,
                || difference(my_left, &node.left),
                || difference(my_right, &node.right),
            );
            assert!(left.size() + right.size() <= size, "a difference is no larger");
            join(left, node.separator.clone(), right)
        }
    }
}

/// The entries of `mine` for which `pair(key, mine, theirs)` gives a new value; `theirs` is `None` where they lack the
/// key. Work as [`intersection`], and `O(size of mine)` where most entries give one.
pub(crate) fn pair_up<K, Y, Z, R, F, S, T, U, const B: usize, const C: usize>(
    mine: &Link<K, Y, S, B>,
    theirs: Link<K, Z, T, C>,
    pair: &F,
) -> Link<K, R, U, B>
where
    K: Ord + Clone + Send + Sync,
    Y: Send + Sync,
    Z: Clone + Send + Sync,
    R: Clone + Send + Sync,
    F: Fn(&K, &Y, Option<&Z>) -> Option<R> + Sync,
    S: Send + Sync,
    T: Summary<K, Z>,
    U: Summary<K, R>,
{
    match mine {
        Link::Empty => Link::Empty,
        Link::Leaf(leaf) => {
            let paired = leaf.iter().filter_map(|(key, mine)| {
                let theirs = find(&theirs, key).map(|(_, theirs)| theirs);
                Some((key.clone(), pair(key, mine, theirs)?))
            });
            Link::from_block(paired.collect())
        }
        Link::Inner(node) => {
            let (their_left, their_right) = divide(theirs, &node.separator);
            let (left, right) = both(
                node.size,
                BATCH_GRAIN,
                || pair_up(&node.left, their_left, pair),
                || pair_up(&node.right, their_right, pair),
            );
            join(left, node.separator.clone(), right)
        }
    }
}

#[cfg(test)]
mod tests;
