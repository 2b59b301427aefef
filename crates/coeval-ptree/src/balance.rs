// SPDX-License-Identifier: Apache-2.0
//! The join primitive: the only place that knows about balance.
//!
//! **Why.** Every other algorithm of this crate takes trees apart and puts them together again with [`join`];
//! as long as `join` returns a balanced tree, so do they, and none of them has to think of it (P-Trees paper,
//! sections 2 and 3, where it is called `concat` with a pivot; "Just Join for Parallel Ordered Sets", SPAA 2016).
//!
//! **Terms.** The *weight* of a tree is its number of entries; weights of children add up to their parent's. Two
//! siblings are *balanced* when neither weighs less than 29 % of both (any number in (2/11, 1 - 1/sqrt 2] works
//! for joins). A leaf is *grown* when it holds at least [`least`] entries; only grown leaves hang below inner
//! nodes. The pivot of a join is a key that separates the two trees.
//!
//! **Steps** of `join(l, s, r)`, for `l` the heavier one:
//!
//! ```text
//! balanced and grown     link them                         s
//!                                                         / \
//!                                                        l   r
//! small altogether       write all entries into fresh leaves
//! else                   t = join(l.right, s, r), then put l.left, l.separator and t together:
//!
//!   fits:   k        t too heavy, its left     k'     its left part      k"
//!          / \       part not:                / \     too heavy:        /  \
//!         a   t      single rotation         k   c    double          k     k'
//!                    (t = b k' c)           / \       rotation       / \   / \
//!                                          a   b      (b = x k" y)  a   x y   c
//! ```
//!
//! **Edges.** Leaves weigh between `least` and `B`, so they cannot be split into ever smaller pieces as single
//! entries can. That is what the *small* case is for: up to [`small_weight`] all entries are written afresh.
//! Above it, the arithmetic in the comment of `rotate_left` shows that no rotation ever needs to open a leaf.
//!
//! **Cost.** `O(|log w(l) - log w(r)|)` nodes and one small rewrite of `O(B)` entries.

mod even;

pub(crate) use even::{fill, from_exact_iter, grow, left_part};

use triomphe::Arc;

use crate::find::first;
use crate::node::{Inner, Link, take_apart, take_block};
use crate::summary::Summary;

/// Neither sibling may weigh less than `LIGHT` parts of `LIGHT + HEAVY`.
const LIGHT: usize = 29;
/// See [`LIGHT`].
const HEAVY: usize = 71;

// 2/11 < LIGHT / 100 <= 1 - 1/sqrt(2) (0.2929): the interval in which one rotation, single or double, is enough.
const _: () = assert!(LIGHT + HEAVY == 100 && LIGHT * 11 > 200 && LIGHT * 10_000 < 292_893);

/// The fewest entries of a leaf below an inner node.
///
/// As small as balance allows when a full leaf is split, `29 %` of `B + 1`. So a run of ascending inserts may
/// leave 71 % full leaves behind instead of half full ones.
#[inline]
pub(crate) const fn least(block: usize) -> usize {
    ((block + 1) * LIGHT).div_ceil(LIGHT + HEAVY)
}

/// The weight up to which `join` rewrites all entries instead of rotating: three full leaves.
const fn small_weight(block: usize) -> usize {
    3 * block
}

/// Whether siblings of these weights are balanced.
#[inline]
const fn balanced(one: usize, other: usize) -> bool {
    one * LIGHT <= other * HEAVY && other * LIGHT <= one * HEAVY
}

/// Whether subtrees of these sizes may hang below one inner node.
#[inline]
pub(crate) const fn may_link(left_size: usize, right_size: usize, block: usize) -> bool {
    left_size >= least(block) && right_size >= least(block) && balanced(left_size, right_size)
}

/// An inner node over two subtrees that fit together as they are.
#[inline]
pub(crate) fn link<K, V, S: Summary<K, V>, const B: usize>(
    left: Link<K, V, S, B>,
    separator: K,
    right: Link<K, V, S, B>,
) -> Link<K, V, S, B> {
    let (left_size, right_size) = (left.size(), right.size());
    assert!(
        may_link(left_size, right_size, B),
        "siblings of {left_size} and {right_size} entries do not fit"
    );
    Link::Inner(Arc::new(Inner::new(left, separator, right)))
}

/// As [`join`], for subtrees whose sizes the caller knows: where they fit together as they are, which is nearly always
/// after an update, they are not looked at.
#[inline]
pub(crate) fn join_sized<K: Clone, V: Clone, S: Summary<K, V>, const B: usize>(
    left: Link<K, V, S, B>,
    separator: &K,
    right: Link<K, V, S, B>,
    sizes: (usize, usize),
) -> Link<K, V, S, B> {
    if may_link(sizes.0, sizes.1, B) {
        return Link::Inner(Arc::new(Inner::with_sizes(left, separator.clone(), right, sizes)));
    }
    join(left, separator.clone(), right)
}

/// One tree of all entries of `left` and `right`, where all keys of `left` < `separator` <= all keys of `right`.
///
/// Work `O(|log w(left) - log w(right)| + B)`.
pub(crate) fn join<K: Clone, V: Clone, S: Summary<K, V>, const B: usize>(
    left: Link<K, V, S, B>,
    separator: K,
    right: Link<K, V, S, B>,
) -> Link<K, V, S, B> {
    let (left_size, right_size) = (left.size(), right.size());
    if may_link(left_size, right_size, B) {
        return link(left, separator, right);
    }
    if left.is_empty() {
        return right;
    }
    if right.is_empty() {
        return left;
    }
    if left_size + right_size <= small_weight(B) {
        return rewrite(left, right);
    }
    // Not balanced and not small: the heavier one weighs more than 71 % of three full leaves, so it is an
    // inner node. (Balanced but with a leaf that is not grown would be small.)
    match (left, right) {
        (Link::Inner(node), right) if left_size > right_size => {
            let (outer, middle, inner) = take_apart(node);
            rotate_left(outer, middle, join(inner, separator, right))
        }
        (left, Link::Inner(node)) => {
            let (inner, middle, outer) = take_apart(node);
            rotate_right(join(left, separator, inner), middle, outer)
        }
        _ => unreachable!("the heavier of two trees that are not small is an inner node"),
    }
}

/// Links `left` and `right` where `right` may have become too heavy by a join.
///
/// Why no leaf has to be opened: say `w` is the weight of all, more than three full leaves. `right` weighs more
/// than 71 % of it, hence is an inner node. If its left part is a leaf (weight at most `B < w / 3`), then `left`
/// (less than 29 % of `w`) and that leaf weigh less than 71 % of `w`, so the single rotation fits.
fn rotate_left<K: Clone, V: Clone, S: Summary<K, V>, const B: usize>(
    left: Link<K, V, S, B>,
    separator: K,
    right: Link<K, V, S, B>,
) -> Link<K, V, S, B> {
    if may_link(left.size(), right.size(), B) {
        return link(left, separator, right);
    }
    let Link::Inner(node) = right else { unreachable!("a side that is too heavy is an inner node") };
    let (middle, upper, outer) = take_apart(node);
    let (left_weight, middle_weight) = (left.size(), middle.size());
    if balanced(left_weight, middle_weight) && balanced(left_weight + middle_weight, outer.size()) {
        return link(link(left, separator, middle), upper, outer);
    }
    let Link::Inner(node) = middle else { unreachable!("a leaf in the middle fits a single rotation") };
    let (low, top, high) = take_apart(node);
    link(link(left, separator, low), top, link(high, upper, outer))
}

/// The mirror image of [`rotate_left`]: `left` may have become too heavy.
fn rotate_right<K: Clone, V: Clone, S: Summary<K, V>, const B: usize>(
    left: Link<K, V, S, B>,
    separator: K,
    right: Link<K, V, S, B>,
) -> Link<K, V, S, B> {
    if may_link(left.size(), right.size(), B) {
        return link(left, separator, right);
    }
    let Link::Inner(node) = left else { unreachable!("a side that is too heavy is an inner node") };
    let (outer, upper, middle) = take_apart(node);
    let (right_weight, middle_weight) = (right.size(), middle.size());
    if balanced(right_weight, middle_weight) && balanced(right_weight + middle_weight, outer.size()) {
        return link(outer, upper, link(middle, separator, right));
    }
    let Link::Inner(node) = middle else { unreachable!("a leaf in the middle fits a single rotation") };
    let (low, top, high) = take_apart(node);
    link(link(outer, upper, low), top, link(high, separator, right))
}

/// Writes all entries of a small pair into fresh leaves.
fn rewrite<K: Clone, V: Clone, S: Summary<K, V>, const B: usize>(
    left: Link<K, V, S, B>,
    right: Link<K, V, S, B>,
) -> Link<K, V, S, B> {
    let count = left.size() + right.size();
    let mut entries = Vec::with_capacity(count);
    drain_into(left, &mut entries);
    drain_into(right, &mut entries);
    from_exact_iter(&mut entries.into_iter(), count)
}

/// Appends all entries of `link`, in order.
fn drain_into<K: Clone, V: Clone, S: Summary<K, V>, const B: usize>(
    link: Link<K, V, S, B>,
    entries: &mut Vec<(K, V)>,
) {
    match link {
        Link::Empty => {}
        Link::Leaf(block) => entries.extend(take_block(block)),
        Link::Inner(node) => {
            let (left, _, right) = take_apart(node);
            drain_into(left, entries);
            drain_into(right, entries);
        }
    }
}

/// Brings `link`'s root back into balance after its children changed by a little; its counts and its summary
/// are current.
#[inline]
pub(crate) fn restore<K: Clone, V: Clone, S: Summary<K, V>, const B: usize>(link: &mut Link<K, V, S, B>) {
    let Link::Inner(node) = link else { return };
    if !may_link(node.left_size, node.right_size(), B) {
        rejoin(link);
    }
}

/// Takes the root apart and joins its parts again.
#[cold]
fn rejoin<K: Clone, V: Clone, S: Summary<K, V>, const B: usize>(link: &mut Link<K, V, S, B>) {
    if let Link::Inner(node) = std::mem::take(link) {
        let (left, separator, right) = take_apart(node);
        *link = join(left, separator, right);
    }
}

/// One tree of all entries of `left` and `right`, whose keys must stand in that order.
///
/// Work `O(log w(right) + |log w(left) - log w(right)| + B)`.
pub(crate) fn concat<K: Clone, V: Clone, S: Summary<K, V>, const B: usize>(
    left: Link<K, V, S, B>,
    right: Link<K, V, S, B>,
) -> Link<K, V, S, B> {
    match first(&right) {
        None => left,
        Some((key, _)) => {
            let separator = key.clone();
            join(left, separator, right)
        }
    }
}

#[cfg(test)]
mod tests;
