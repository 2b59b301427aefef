// SPDX-License-Identifier: Apache-2.0
//! Bulk updates: a sorted batch of edits applied in one pass (P-Trees paper, section 3.1 and Figure 2a).
//!
//! The batch is cut at each node's separator and both halves go down at once, on two threads while they are long
//! enough. Where a half is empty, the subtree is not touched at all; where nobody else holds a node, it is
//! changed in place, so a small batch costs what its keys would cost one by one, minus the shared path.
//!
//! Work `O(m log(n / m + 1))`, span `O(log m log n)` for a batch of `m` edits into `n` entries.

use std::marker::PhantomData;
use std::mem::take;

use triomphe::Arc;

use crate::balance::{concat, from_exact_iter, join_sized, restore};
use crate::build::from_sorted_vec;
use crate::grain::{BATCH_GRAIN, BUILD_GRAIN, both};
use crate::node::{Block, Leaf, Link, position, search, take_block};
use crate::summary::{Summary, is_kept};
use crate::update::split_insert;
use crate::warm::{WARM_MAX, warm_paths};

/// What becomes of an entry that a change has looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The entry stays, with the value as it is now.
    Keep,
    /// The entry is removed.
    Remove,
}

/// What a batch does with the entries it meets.
pub(crate) trait Edit<K, V>: Sync {
    /// One edit of the batch.
    type Item: Send;

    /// The key that the edit is about.
    fn key<'a>(&self, item: &'a Self::Item) -> &'a K;

    /// Changes the value of a key that is present, or has the entry removed.
    fn present(&self, item: &mut Self::Item, key: &K, value: &mut V) -> Fate;

    /// The new entry for a key that is absent, if there is to be one.
    fn absent(&self, item: &mut Self::Item) -> Option<(K, V)>;

    /// Looks at what a clone of `value` will change, so that it is in the cache by then.
    #[inline]
    fn touch(&self, _value: &V) {}

    /// Edits that two tasks share while they go down the tree; neither gets less than half of it.
    #[inline]
    fn grain(&self) -> usize {
        BATCH_GRAIN
    }

    /// Edits per task where there is nothing to go down: they are merged into a block, or make a new tree.
    #[inline]
    fn merge_grain(&self) -> usize {
        BUILD_GRAIN
    }
}

/// Puts `Some` value, or has the entry removed.
#[inline]
fn put<V>(value: &mut V, new: Option<V>) -> Fate {
    match new {
        Some(new) => {
            *value = new;
            Fate::Keep
        }
        None => Fate::Remove,
    }
}

/// Puts each pair, combined with the value that was there.
pub(crate) struct Insert<F>(pub(crate) F);

impl<K, V, F> Edit<K, V> for Insert<F>
where
    K: Clone + Send,
    V: Send,
    F: Fn(&K, &V, V) -> V + Sync,
{
    type Item = (K, Option<V>);

    #[inline]
    fn key<'a>(&self, item: &'a Self::Item) -> &'a K {
        &item.0
    }

    #[inline]
    fn present(&self, item: &mut Self::Item, key: &K, value: &mut V) -> Fate {
        let new = item.1.take().map(|new| (self.0)(key, value, new));
        put(value, new)
    }

    #[inline]
    fn absent(&self, item: &mut Self::Item) -> Option<(K, V)> {
        item.1.take().map(|new| (item.0.clone(), new))
    }
}

/// Puts `Some` values and removes at `None`.
pub(crate) struct Update;

impl<K, V> Edit<K, V> for Update
where
    K: Clone + Send,
    V: Send,
{
    type Item = (K, Option<V>);

    #[inline]
    fn key<'a>(&self, item: &'a Self::Item) -> &'a K {
        &item.0
    }

    #[inline]
    fn present(&self, item: &mut Self::Item, _key: &K, value: &mut V) -> Fate {
        put(value, item.1.take())
    }

    #[inline]
    fn absent(&self, item: &mut Self::Item) -> Option<(K, V)> {
        item.1.take().map(|new| (item.0.clone(), new))
    }
}

/// Lets a function say what becomes of each key, given a change of type `C` for it; another one touches values.
pub(crate) struct Alter<C, F, T>(pub(crate) F, pub(crate) T, pub(crate) PhantomData<fn(C)>);

impl<K, V, C, F, T> Edit<K, V> for Alter<C, F, T>
where
    K: Clone + Send,
    C: Send,
    F: Fn(Option<&V>, C) -> Option<V> + Sync,
    T: Fn(&V) + Sync,
{
    type Item = (K, Option<C>);

    #[inline]
    fn key<'a>(&self, item: &'a Self::Item) -> &'a K {
        &item.0
    }

    #[inline]
    fn present(&self, item: &mut Self::Item, _key: &K, value: &mut V) -> Fate {
        let new = item.1.take().and_then(|change| (self.0)(Some(value), change));
        put(value, new)
    }

    #[inline]
    fn absent(&self, item: &mut Self::Item) -> Option<(K, V)> {
        let value = item.1.take().and_then(|change| (self.0)(None, change))?;
        Some((item.0.clone(), value))
    }

    #[inline]
    fn touch(&self, value: &V) {
        (self.1)(value);
    }
}

/// Lets a function change each value in place, or the default value where there is none.
pub(crate) struct Modify<C, F> {
    pub(crate) modify: F,
    pub(crate) grain: usize,
    pub(crate) changes: PhantomData<fn(C)>,
}

impl<K, V, C, F> Edit<K, V> for Modify<C, F>
where
    K: Clone + Send,
    V: Default,
    C: Send,
    F: Fn(&K, &mut V, C) -> Fate + Sync,
{
    type Item = (K, Option<C>);

    #[inline]
    fn key<'a>(&self, item: &'a Self::Item) -> &'a K {
        &item.0
    }

    #[inline]
    fn present(&self, item: &mut Self::Item, key: &K, value: &mut V) -> Fate {
        let change = item.1.take().expect("an edit is applied once");
        (self.modify)(key, value, change)
    }

    #[inline]
    fn absent(&self, item: &mut Self::Item) -> Option<(K, V)> {
        let change = item.1.take().expect("an edit is applied once");
        let mut value = V::default();
        match (self.modify)(&item.0, &mut value, change) {
            Fate::Keep => Some((item.0.clone(), value)),
            Fate::Remove => None,
        }
    }

    #[inline]
    fn grain(&self) -> usize {
        self.grain
    }

    #[inline]
    fn merge_grain(&self) -> usize {
        self.grain
    }
}

/// Removes each key.
pub(crate) struct Delete<'b>(pub(crate) PhantomData<&'b ()>);

impl<'b, K: Sync, V> Edit<K, V> for Delete<'b>
where
    K: 'b,
{
    type Item = &'b K;

    #[inline]
    fn key<'a>(&self, item: &'a Self::Item) -> &'a K {
        item
    }

    #[inline]
    fn present(&self, _item: &mut Self::Item, _key: &K, _value: &mut V) -> Fate {
        Fate::Remove
    }

    #[inline]
    fn absent(&self, _item: &mut Self::Item) -> Option<(K, V)> {
        None
    }
}

/// Applies a batch, sorted by strictly increasing key.
pub(crate) fn apply<K, V, E, S: Summary<K, V>, const B: usize>(
    link: &mut Link<K, V, S, B>,
    batch: &mut [E::Item],
    edit: &E,
) where
    K: Ord + Clone + Send + Sync,
    V: Clone + Send + Sync,
    E: Edit<K, V>,
{
    apply_by(link, batch, edit, Paths::Cold);
}

/// Whether the paths of a batch are in the cache already.
#[derive(Clone, Copy, PartialEq)]
enum Paths {
    Cold,
    Warm,
}

/// As [`apply`]; fetches the paths of what is to be copied once few enough edits are left.
fn apply_by<K, V, E, S, const B: usize>(
    link: &mut Link<K, V, S, B>,
    batch: &mut [E::Item],
    edit: &E,
    paths: Paths,
) where
    K: Ord + Clone + Send + Sync,
    V: Clone + Send + Sync,
    E: Edit<K, V>,
    S: Summary<K, V>,
{
    if batch.is_empty() {
        return;
    }
    if !link.is_unique() {
        *link = apply_shared(link, batch, edit, paths);
        return;
    }
    let paths = warm(link, batch, edit, paths);
    match link {
        Link::Empty => *link = merge_apart(Vec::new(), batch, edit).0,
        Link::Leaf(_) if batch.len() > edit.merge_grain() => {
            let Link::Leaf(leaf) = take(link) else { unreachable!("just matched a leaf") };
            *link = merge_apart(take_block(leaf).into_iter().collect(), batch, edit).0;
        }
        Link::Leaf(_) => apply_to_leaf(link, batch, edit),
        Link::Inner(node) => {
            let node = Arc::make_mut(node);
            let at = batch.partition_point(|item| *edit.key(item) < node.separator);
            let (low, high) = batch.split_at_mut(at);
            let (low_count, high_count) = (low.len(), high.len());
            let right_size = node.right_size();
            let (left, right) = (&mut node.left, &mut node.right);
            both(
                low_count.min(high_count),
                edit.grain() / 2,
                || apply_by(left, low, edit, paths),
                || apply_by(right, high, edit, paths),
            );
            let right_size = if high_count > 0 { node.right.size() } else { right_size };
            if low_count > 0 {
                node.left_size = node.left.size();
            }
            node.size = node.left_size + right_size;
            node.refresh();
            restore(link);
        }
    }
}

/// Fetches the paths of a batch once it is small enough.
#[inline]
fn warm<K, V, E, S, const B: usize>(
    link: &Link<K, V, S, B>,
    batch: &[E::Item],
    edit: &E,
    paths: Paths,
) -> Paths
where
    K: Ord,
    E: Edit<K, V>,
{
    if paths == Paths::Cold && batch.len() <= WARM_MAX {
        warm_paths(link, batch.iter().map(|item| edit.key(item)));
        return Paths::Warm;
    }
    paths
}

/// The tree of some old entries after a batch, and whether anything is new; in parallel, however few the entries are.
///
/// So a batch for an empty tree or a single block is worked on by several threads, too. Where the pieces are cut does not
/// depend on the number of threads.
fn merge_apart<K, V, E, S, const B: usize>(
    mut old: Vec<(K, V)>,
    batch: &mut [E::Item],
    edit: &E,
) -> (Link<K, V, S, B>, bool)
where
    K: Ord + Clone + Send + Sync,
    V: Clone + Send + Sync,
    E: Edit<K, V>,
    S: Summary<K, V>,
{
    if batch.len() <= edit.merge_grain() {
        let mut merged = Vec::with_capacity(old.len() + batch.len());
        let is_changed = merge(&mut merged, old.into_iter(), batch, edit);
        return (from_sorted_vec(merged), is_changed);
    }
    let (low, high) = batch.split_at_mut(batch.len() / 2);
    let at = position(&old, |key| key < edit.key(&high[0]));
    let old_high = old.split_off(at);
    let (left, right) = rayon::join(|| merge_apart(old, low, edit), || merge_apart(old_high, high, edit));
    (concat(left.0, right.0), left.1 || right.1)
}

/// The tree after a batch, of a subtree that somebody else holds, too.
///
/// Everything below is copied or shared, never changed; so no reference is counted but those to what stays as it is.
/// Where nothing comes of the edits, the subtree itself is returned.
fn apply_shared<K, V, E, S, const B: usize>(
    link: &Link<K, V, S, B>,
    batch: &mut [E::Item],
    edit: &E,
    paths: Paths,
) -> Link<K, V, S, B>
where
    K: Ord + Clone + Send + Sync,
    V: Clone + Send + Sync,
    E: Edit<K, V>,
    S: Summary<K, V>,
{
    if batch.is_empty() {
        return link.clone();
    }
    let paths = warm(link, batch, edit, paths);
    match link {
        Link::Empty => merge_apart(Vec::new(), batch, edit).0,
        Link::Leaf(leaf) if batch.len() > edit.merge_grain() => {
            leaf.iter().for_each(|(_, value)| edit.touch(value));
            let (merged, is_changed) = merge_apart(leaf.to_vec(), batch, edit);
            if is_changed { merged } else { link.clone() }
        }
        Link::Leaf(leaf) => apply_to_shared_leaf(leaf, batch, edit).unwrap_or_else(|| link.clone()),
        Link::Inner(node) => {
            let at = batch.partition_point(|item| *edit.key(item) < node.separator);
            let (low, high) = batch.split_at_mut(at);
            let (low_count, high_count) = (low.len(), high.len());
            let (left, right) = both(
                low_count.min(high_count),
                edit.grain() / 2,
                || apply_shared(&node.left, low, edit, paths),
                || apply_shared(&node.right, high, edit, paths),
            );
            if left.address() == node.left.address() && right.address() == node.right.address() {
                return link.clone();
            }
            let left_size = if low_count > 0 { left.size() } else { node.left_size };
            let right_size = if high_count > 0 { right.size() } else { node.right_size() };
            join_sized(left, &node.separator, right, (left_size, right_size))
        }
    }
}

/// The entries of a block that somebody else holds after a batch; `None` if nothing comes of the edits.
fn apply_to_shared_leaf<K, V, E, S, const B: usize>(
    leaf: &Leaf<K, V, S, B>,
    batch: &mut [E::Item],
    edit: &E,
) -> Option<Link<K, V, S, B>>
where
    K: Ord + Clone + Send + Sync,
    V: Clone + Send + Sync,
    E: Edit<K, V>,
    S: Summary<K, V>,
{
    // The block will be copied, value by value; looked at together their misses overlap.
    leaf.iter().for_each(|(_, value)| edit.touch(value));
    let mut copy = Copies { block: Block::<K, V, B>::new(), rest: Vec::new() };
    if !merge_copies(&mut copy, leaf, batch, edit) {
        return None;
    }
    if copy.rest.is_empty() {
        return Some(Link::from_block(copy.block));
    }
    let count = copy.block.len() + copy.rest.len();
    Some(from_exact_iter(&mut copy.block.into_iter().chain(copy.rest), count))
}

/// Entries that make a block, and those that do not fit into it.
struct Copies<K, V, const B: usize> {
    block: Block<K, V, B>,
    rest: Vec<(K, V)>,
}

impl<K: Clone, V: Clone, const B: usize> Copies<K, V, B> {
    #[inline]
    fn push(&mut self, entry: (K, V)) {
        if let Err(excess) = self.block.try_push(entry) {
            self.rest.push(excess.element());
        }
    }

    /// Copies a run of entries: what fits is told beforehand, so that entries are not counted one by one.
    #[inline]
    fn push_copies(&mut self, entries: &[(K, V)]) {
        let (fitting, excess) = entries.split_at(entries.len().min(self.block.remaining_capacity()));
        self.block.extend(fitting.iter().cloned());
        self.rest.extend_from_slice(excess);
    }
}

/// Appends copies of old entries, as the batch changes them, to `merged`; whether anything is new.
fn merge_copies<K, V, E, const B: usize>(
    merged: &mut Copies<K, V, B>,
    old: &[(K, V)],
    batch: &mut [E::Item],
    edit: &E,
) -> bool
where
    K: Ord + Clone,
    V: Clone,
    E: Edit<K, V>,
{
    let (mut rest, mut is_changed) = (old, false);
    for item in batch {
        match search(rest, edit.key(item)) {
            Ok(at) => {
                merged.push_copies(&rest[..at]);
                let (key, mut value) = rest[at].clone();
                if edit.present(item, &key, &mut value) == Fate::Keep {
                    merged.push((key, value));
                }
                rest = &rest[at + 1..];
                is_changed = true;
            }
            Err(at) => {
                let Some(entry) = edit.absent(item) else { continue };
                merged.push_copies(&rest[..at]);
                merged.push(entry);
                rest = &rest[at..];
                is_changed = true;
            }
        }
    }
    if is_changed {
        merged.push_copies(rest);
    }
    is_changed
}

/// Applies a batch to a single block that nobody else holds, entry by entry while they fit.
fn apply_to_leaf<K, V, E, S, const B: usize>(link: &mut Link<K, V, S, B>, batch: &mut [E::Item], edit: &E)
where
    K: Ord + Clone + Send + Sync,
    V: Clone + Send + Sync,
    E: Edit<K, V>,
    S: Summary<K, V>,
{
    let Link::Leaf(leaf) = link else { unreachable!("the caller matched a leaf") };
    assert!(Arc::is_unique(leaf), "a block is changed through its sole reference");
    let mut from = 0;
    for done in 0..batch.len() {
        let item = &mut batch[done];
        match search(&leaf[from..], edit.key(item)) {
            Ok(at) => {
                let at = from + at;
                let leaf = Arc::make_mut(leaf);
                let (key, value) = &mut leaf.entries[at];
                from = match edit.present(item, key, value) {
                    Fate::Keep => at + 1,
                    Fate::Remove => {
                        leaf.entries.remove(at);
                        at
                    }
                };
            }
            Err(at) => {
                let at = from + at;
                from = at;
                let Some(entry) = edit.absent(item) else { continue };
                if leaf.len() < B {
                    Arc::make_mut(leaf).entries.insert(at, entry);
                    from = at + 1;
                } else {
                    return overflow(link, at, entry, &mut batch[done + 1..], edit);
                }
            }
        }
    }
    if leaf.is_empty() {
        *link = Link::Empty;
    } else if is_kept::<S>()
        && let Some(leaf) = Arc::get_mut(leaf)
    {
        // What somebody else still holds was not changed.
        leaf.refresh();
    }
}

/// Inserts `entry` at position `at` of a full block and applies the rest of the batch, all of it above `entry`.
fn overflow<K, V, E, S: Summary<K, V>, const B: usize>(
    link: &mut Link<K, V, S, B>,
    at: usize,
    entry: (K, V),
    rest: &mut [E::Item],
    edit: &E,
) where
    K: Ord + Clone + Send + Sync,
    V: Clone + Send + Sync,
    E: Edit<K, V>,
{
    // A few edits more: split the leaf and go on. Many: merge, which also bounds the depth of this recursion.
    if rest.len() <= B / 2 {
        split_insert(link, at, entry);
        return apply(link, rest, edit);
    }
    let Link::Leaf(leaf) = take(link) else { unreachable!("the caller matched a leaf") };
    let mut merged = Vec::with_capacity(leaf.len() + 1 + rest.len());
    let mut old = take_block(leaf).into_iter();
    merged.extend(old.by_ref().take(at));
    merged.push(entry);
    merge(&mut merged, old, rest, edit);
    *link = from_sorted_vec(merged);
}

/// Appends the merge of old entries and a batch to `merged`; whether anything is new.
fn merge<K, V, E, I>(merged: &mut Vec<(K, V)>, old: I, batch: &mut [E::Item], edit: &E) -> bool
where
    K: Ord,
    E: Edit<K, V>,
    I: Iterator<Item = (K, V)>,
{
    let mut items = batch.iter_mut().peekable();
    let (mut kept_count, mut present_count) = (0, 0);
    for (key, mut value) in old {
        while let Some(item) = items.next_if(|item| *edit.key(item) < key) {
            merged.extend(edit.absent(item));
        }
        match items.next_if(|item| *edit.key(item) == key) {
            None => {
                kept_count += 1;
                merged.push((key, value));
            }
            Some(item) => {
                present_count += 1;
                if edit.present(item, &key, &mut value) == Fate::Keep {
                    merged.push((key, value));
                }
            }
        }
    }
    merged.extend(items.filter_map(|item| edit.absent(item)));
    present_count > 0 || merged.len() > kept_count
}

#[cfg(test)]
mod tests;
