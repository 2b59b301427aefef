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
use crate::node::{Inner, Leaf, Link, take_apart, take_block};
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

/// The keys from one on and below another one, as far as there are such bounds.
pub(crate) struct Span<'k, K> {
    from: Option<&'k K>,
    below: Option<&'k K>,
}

impl<K> Clone for Span<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Span<'_, K> {}

impl<'k, K: Ord> Span<'k, K> {
    /// Every key.
    pub(crate) const ALL: Self = Span { from: None, below: None };

    /// The parts of the span below a key and from it on.
    fn cut(self, key: &'k K) -> (Self, Self) {
        (Span { below: Some(key), ..self }, Span { from: Some(key), ..self })
    }

    fn contains(self, key: &K) -> bool {
        self.from.is_none_or(|from| from <= key) && self.below.is_none_or(|below| key < below)
    }

    /// The smallest subtree with everything of `link` that lies in the span.
    fn narrow<V, S, const B: usize>(self, mut link: &Link<K, V, S, B>) -> &Link<K, V, S, B> {
        while let Link::Inner(node) = link {
            if self.from.is_some_and(|from| node.separator <= *from) {
                link = &node.right;
            } else if self.below.is_some_and(|below| *below <= node.separator) {
                link = &node.left;
            } else {
                break;
            }
        }
        link
    }
}

/// A tree of pairs of values.
pub(crate) type Paired<K, Y, Z, U, const B: usize> = Link<K, (Y, Z), U, B>;

/// The keys of `mine`, all of which lie in `span`, that `theirs` has, too, with both values. Work
/// `O(m log(n / m + 1))` for `m <= n` entries, whichever side is the smaller one; copies nothing but what it returns.
pub(crate) fn pair_common<K, Y, Z, S, T, U, const B: usize, const C: usize>(
    mine: &Link<K, Y, S, B>,
    theirs: &Link<K, Z, T, C>,
    span: Span<'_, K>,
) -> Paired<K, Y, Z, U, B>
where
    K: Ord + Clone + Send + Sync,
    Y: Clone + Send + Sync,
    Z: Clone + Send + Sync,
    S: Send + Sync,
    T: Send + Sync,
    U: Summary<K, (Y, Z)>,
{
    let theirs = span.narrow(theirs);
    match (mine, theirs) {
        (Link::Empty, _) | (_, Link::Empty) => Link::Empty,
        (Link::Leaf(leaf), theirs) => {
            let paired = leaf.iter().filter_map(|(key, mine)| {
                let (_, theirs) = find(theirs, key)?;
                Some((key.clone(), (mine.clone(), theirs.clone())))
            });
            Link::from_block(paired.collect())
        }
        (mine, Link::Leaf(leaf)) => {
            let paired = leaf.iter().filter(|(key, _)| span.contains(key)).filter_map(|(key, theirs)| {
                let (key, mine) = find(mine, key)?;
                Some((key.clone(), (mine.clone(), theirs.clone())))
            });
            from_sorted_small(paired.collect())
        }
        (Link::Inner(node), theirs) => {
            let (low, high) = span.cut(&node.separator);
            let (left, right) = both(
                node.size.min(theirs.size()),
                BATCH_GRAIN,
                || pair_common(&node.left, theirs, low),
                || pair_common(&node.right, theirs, high),
            );
            join(left, node.separator.clone(), right)
        }
    }
}

/// All keys of `mine`, which lie in `span`, with the values of `theirs` beside theirs, or the default ones: a tree of the
/// same shape as `mine`. Work `O(n)` of `mine` and `O(m log(n / m + 1))`.
pub(crate) fn pair_all<K, Y, Z, S, T, U, const B: usize, const C: usize>(
    mine: &Link<K, Y, S, B>,
    theirs: &Link<K, Z, T, C>,
    span: Span<'_, K>,
) -> Paired<K, Y, Z, U, B>
where
    K: Ord + Clone + Send + Sync,
    Y: Clone + Send + Sync,
    Z: Clone + Default + Send + Sync,
    S: Send + Sync,
    T: Send + Sync,
    U: Summary<K, (Y, Z)>,
{
    let theirs = span.narrow(theirs);
    match mine {
        Link::Empty => Link::Empty,
        Link::Leaf(leaf) => {
            let paired = leaf.iter().map(|(key, mine)| {
                let theirs = find(theirs, key).map(|(_, theirs)| theirs.clone()).unwrap_or_default();
                (key.clone(), (mine.clone(), theirs))
            });
            Link::from_block(paired.collect())
        }
        Link::Inner(node) => {
            let (low, high) = span.cut(&node.separator);
            let (left, right) = both(
                node.size,
                BATCH_GRAIN,
                || pair_all(&node.left, theirs, low),
                || pair_all(&node.right, theirs, high),
            );
            let sizes = (node.left_size, node.right_size());
            Link::Inner(Arc::new(Inner::with_sizes(left, node.separator.clone(), right, sizes)))
        }
    }
}

#[cfg(test)]
mod tests;
