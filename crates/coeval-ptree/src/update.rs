// SPDX-License-Identifier: Apache-2.0
//! Single-key updates: one descent, copying only nodes that somebody else holds.

use std::borrow::Borrow;
use std::mem::replace;

use triomphe::Arc;

use crate::balance::{join, join_sized, least, restore};
use crate::node::{Block, Leaf, Link, search};
use crate::summary::Summary;

/// Puts `value` at `key`; returns the value it replaces. Work `O(log n + B)`.
pub(crate) fn insert<K, V, S, const B: usize>(link: &mut Link<K, V, S, B>, key: K, value: V) -> Option<V>
where
    K: Ord + Clone,
    V: Clone,
    S: Summary<K, V>,
{
    if !link.is_unique() {
        let (changed, replaced) = insert_shared(link, key, value);
        *link = changed;
        return replaced;
    }
    match link {
        Link::Empty => {
            *link = Link::from_block(std::iter::once((key, value)).collect());
            None
        }
        Link::Leaf(leaf) => match search(leaf, &key) {
            Ok(at) => {
                let leaf = Arc::make_mut(leaf);
                let replaced = replace(&mut leaf.entries[at].1, value);
                leaf.refresh();
                Some(replaced)
            }
            Err(at) if leaf.len() < B => {
                let leaf = Arc::make_mut(leaf);
                leaf.entries.insert(at, (key, value));
                leaf.refresh();
                None
            }
            Err(at) => {
                split_insert(link, at, (key, value));
                None
            }
        },
        Link::Inner(node) => {
            let node = Arc::make_mut(node);
            let replaced = if key < node.separator {
                let replaced = insert(&mut node.left, key, value);
                node.left_size += usize::from(replaced.is_none());
                replaced
            } else {
                insert(&mut node.right, key, value)
            };
            node.refresh();
            if replaced.is_none() {
                node.size += 1;
                restore(link);
            }
            replaced
        }
    }
}

/// As [`insert`], into a subtree that somebody else holds, too: the tree with the new path.
///
/// Everything below is copied or shared, never changed; so no reference is counted but those to what stays as it is.
fn insert_shared<K, V, S, const B: usize>(
    link: &Link<K, V, S, B>,
    key: K,
    value: V,
) -> (Link<K, V, S, B>, Option<V>)
where
    K: Ord + Clone,
    V: Clone,
    S: Summary<K, V>,
{
    match link {
        Link::Empty => (Link::from_block(std::iter::once((key, value)).collect()), None),
        Link::Leaf(leaf) => match search(leaf, &key) {
            Ok(at) => {
                let (stored, replaced) = leaf[at].clone();
                (copy_around(&leaf[..at], (stored, value), &leaf[at + 1..]), Some(replaced))
            }
            Err(at) if leaf.len() < B => (copy_around(&leaf[..at], (key, value), &leaf[at..]), None),
            Err(at) => {
                let mut copy = link.clone();
                split_insert(&mut copy, at, (key, value));
                (copy, None)
            }
        },
        Link::Inner(node) => {
            let (left_size, right_size) = (node.left_size, node.right_size());
            let (left, right, grown, replaced) = if key < node.separator {
                let (left, replaced) = insert_shared(&node.left, key, value);
                (left, node.right.clone(), (1, 0), replaced)
            } else {
                let (right, replaced) = insert_shared(&node.right, key, value);
                (node.left.clone(), right, (0, 1), replaced)
            };
            let grown = if replaced.is_some() { (0, 0) } else { grown };
            let sizes = (left_size + grown.0, right_size + grown.1);
            (join_sized(left, &node.separator, right, sizes), replaced)
        }
    }
}

/// A leaf of copies of what comes before and after an entry, and that entry. Copying around it saves shifting.
fn copy_around<K: Clone, V: Clone, S: Summary<K, V>, const B: usize>(
    before: &[(K, V)],
    entry: (K, V),
    after: &[(K, V)],
) -> Link<K, V, S, B> {
    let mut copy = Block::<K, V, B>::new();
    copy.extend(before.iter().cloned());
    copy.push(entry);
    copy.extend(after.iter().cloned());
    Link::from_block(copy)
}

/// Inserts into a full leaf: two leaves.
///
/// An insert at an end is probably one of a run of ascending (or descending) ones, so the other side keeps as
/// many entries as balance allows: nothing will be inserted there soon.
pub(crate) fn split_insert<K: Clone, V: Clone, S: Summary<K, V>, const B: usize>(
    link: &mut Link<K, V, S, B>,
    at: usize,
    entry: (K, V),
) {
    let Link::Leaf(leaf) = link else { unreachable!("only full leaves are split") };
    assert_eq!(leaf.len(), B, "only full leaves are split");
    // Entries of the left leaf, out of B + 1.
    let left_count = match at {
        0 => least(B),
        at if at == B => B + 1 - least(B),
        _ => B / 2,
    };
    let (mut left, mut right) = halve(leaf, left_count - usize::from(at < left_count));
    if at < left_count {
        left.insert(at, entry);
    } else {
        right.insert(at - left_count, entry);
    }
    let separator = right[0].0.clone();
    *link = join(Link::from_block(left), separator, Link::from_block(right));
}

/// The entries of a block before and from `cut`: moved if nobody else holds it, else cloned.
pub(crate) fn halve<K: Clone, V: Clone, S, const B: usize>(
    leaf: &mut Arc<Leaf<K, V, S, B>>,
    cut: usize,
) -> (Block<K, V, B>, Block<K, V, B>) {
    match Arc::get_mut(leaf) {
        Some(leaf) => {
            let right = leaf.entries.drain(cut..).collect();
            (std::mem::take(&mut leaf.entries), right)
        }
        None => (leaf[..cut].iter().cloned().collect(), leaf[cut..].iter().cloned().collect()),
    }
}

/// Removes `key`, which must be present, and returns its entry. Work `O(log n + B)`.
pub(crate) fn remove_present<K, V, Q, S, const B: usize>(link: &mut Link<K, V, S, B>, key: &Q) -> (K, V)
where
    K: Borrow<Q> + Clone,
    V: Clone,
    Q: Ord + ?Sized,
    S: Summary<K, V>,
{
    match link {
        Link::Empty => unreachable!("the key is present"),
        Link::Leaf(leaf) => {
            let at = search(leaf, key).expect("the key is present");
            let unique = Arc::make_mut(leaf);
            let removed = unique.entries.remove(at);
            unique.refresh();
            if leaf.is_empty() {
                *link = Link::Empty;
            }
            removed
        }
        Link::Inner(node) => {
            let node = Arc::make_mut(node);
            let removed = if key < node.separator.borrow() {
                let removed = remove_present(&mut node.left, key);
                node.left_size -= 1;
                removed
            } else {
                remove_present(&mut node.right, key)
            };
            node.size -= 1;
            node.refresh();
            restore(link);
            removed
        }
    }
}

/// Removes and returns the first entry. Work `O(log n + B)`.
pub(crate) fn remove_first<K: Clone, V: Clone, S: Summary<K, V>, const B: usize>(
    link: &mut Link<K, V, S, B>,
) -> Option<(K, V)> {
    match link {
        Link::Empty => None,
        Link::Leaf(leaf) => {
            let unique = Arc::make_mut(leaf);
            let entry = unique.entries.remove(0);
            unique.refresh();
            if leaf.is_empty() {
                *link = Link::Empty;
            }
            Some(entry)
        }
        Link::Inner(node) => {
            let node = Arc::make_mut(node);
            let entry = remove_first(&mut node.left)?;
            node.size -= 1;
            node.left_size -= 1;
            node.refresh();
            restore(link);
            Some(entry)
        }
    }
}

/// Removes and returns the last entry. Work `O(log n + B)`.
pub(crate) fn remove_last<K: Clone, V: Clone, S: Summary<K, V>, const B: usize>(
    link: &mut Link<K, V, S, B>,
) -> Option<(K, V)> {
    match link {
        Link::Empty => None,
        Link::Leaf(leaf) => {
            let unique = Arc::make_mut(leaf);
            let entry = unique.entries.pop();
            unique.refresh();
            if leaf.is_empty() {
                *link = Link::Empty;
            }
            entry
        }
        Link::Inner(node) => {
            let node = Arc::make_mut(node);
            let entry = remove_last(&mut node.right)?;
            node.size -= 1;
            node.refresh();
            restore(link);
            Some(entry)
        }
    }
}

/// Calls `change` with the value of `key`, which must be present, in place where nobody else holds it. Work
/// `O(log n + B)`.
pub(crate) fn modify_present<K, V, Q, R, F, S, const B: usize>(
    link: &mut Link<K, V, S, B>,
    key: &Q,
    change: F,
) -> R
where
    K: Borrow<Q> + Clone,
    V: Clone,
    Q: Ord + ?Sized,
    F: FnOnce(&mut V) -> R,
    S: Summary<K, V>,
{
    match link {
        Link::Empty => unreachable!("the key is present"),
        Link::Leaf(leaf) => {
            let at = search(leaf, key).expect("the key is present");
            let leaf = Arc::make_mut(leaf);
            let result = change(&mut leaf.entries[at].1);
            leaf.refresh();
            result
        }
        Link::Inner(node) => {
            let node = Arc::make_mut(node);
            let child = if key < node.separator.borrow() { &mut node.left } else { &mut node.right };
            let result = modify_present(child, key, change);
            node.refresh();
            result
        }
    }
}

#[cfg(test)]
mod tests;
