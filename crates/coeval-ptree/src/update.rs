// SPDX-License-Identifier: Apache-2.0
//! Single-key updates: one descent, copying only nodes that somebody else holds.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::mem::replace;

use triomphe::Arc;

use crate::balance::{concat, join, least, remove_first, remove_last, restore};
use crate::node::{Block, Link, search, take_apart};

/// Puts `value` at `key`; returns the value it replaces. Work `O(log n + B)`.
pub(crate) fn insert<K, V, const B: usize>(link: &mut Link<K, V, B>, key: K, value: V) -> Option<V>
where
    K: Ord + Clone,
    V: Clone,
{
    match link {
        Link::Empty => {
            *link = Link::from_block(std::iter::once((key, value)).collect());
            None
        }
        Link::Leaf(block) => match search(block, &key) {
            Ok(at) => Some(replace(&mut Arc::make_mut(block)[at].1, value)),
            Err(at) if block.len() < B => {
                insert_at(block, at, (key, value));
                None
            }
            Err(at) => {
                split_insert(link, at, (key, value));
                None
            }
        },
        Link::Inner(node) => {
            let node = Arc::make_mut(node);
            let replaced = match key.cmp(&node.entry.0) {
                Ordering::Equal => return Some(replace(&mut node.entry.1, value)),
                Ordering::Less => {
                    let replaced = insert(&mut node.left, key, value);
                    node.left_size += usize::from(replaced.is_none());
                    replaced
                }
                Ordering::Greater => insert(&mut node.right, key, value),
            };
            if replaced.is_none() {
                node.size += 1;
                restore(link);
            }
            replaced
        }
    }
}

/// Inserts into a block that has room, in place if nobody else holds it.
pub(crate) fn insert_at<K: Clone, V: Clone, const B: usize>(
    block: &mut Arc<Block<K, V, B>>,
    at: usize,
    entry: (K, V),
) {
    match Arc::get_mut(block) {
        Some(block) => block.insert(at, entry),
        None => {
            // Copying around the gap saves shifting the copy.
            let mut copy = Block::<K, V, B>::new();
            copy.extend(block[..at].iter().cloned());
            copy.push(entry);
            copy.extend(block[at..].iter().cloned());
            *block = Arc::new(copy);
        }
    }
}

/// Inserts into a full leaf: two leaves with an entry between them.
///
/// An insert at an end is probably one of a run of ascending (or descending) ones, so the other side keeps as
/// many entries as balance allows: nothing will be inserted there soon.
pub(crate) fn split_insert<K: Clone, V: Clone, const B: usize>(
    link: &mut Link<K, V, B>,
    at: usize,
    entry: (K, V),
) {
    let Link::Leaf(block) = link else { unreachable!("only full leaves are split") };
    let left_count = match at {
        0 => least(B),
        at if at == B => B - least(B),
        _ => B / 2,
    };
    // The old block's entries before `cut` stay left; the entry at `cut` of the new sequence is the middle one.
    let cut = if at < left_count { left_count - 1 } else { left_count };
    let (mut left, mut right) = halve(block, cut);
    let middle = match at.cmp(&left_count) {
        Ordering::Less => {
            let middle = right.remove(0);
            left.insert(at, entry);
            middle
        }
        Ordering::Equal => entry,
        Ordering::Greater => {
            let middle = right.remove(0);
            right.insert(at - left_count - 1, entry);
            middle
        }
    };
    *link = join(Link::from_block(left), middle, Link::from_block(right));
}

/// The entries of a block before and from `cut`: moved if nobody else holds it, else cloned.
pub(crate) fn halve<K: Clone, V: Clone, const B: usize>(
    block: &mut Arc<Block<K, V, B>>,
    cut: usize,
) -> (Block<K, V, B>, Block<K, V, B>) {
    match Arc::get_mut(block) {
        Some(block) => {
            let right = block.drain(cut..).collect();
            (std::mem::take(block), right)
        }
        None => (block[..cut].iter().cloned().collect(), block[cut..].iter().cloned().collect()),
    }
}

/// Removes `key`, which must be present, and returns its entry. Work `O(log n + B)`.
pub(crate) fn remove_present<K, V, Q, const B: usize>(link: &mut Link<K, V, B>, key: &Q) -> (K, V)
where
    K: Borrow<Q> + Clone,
    V: Clone,
    Q: Ord + ?Sized,
{
    match link {
        Link::Empty => unreachable!("the key is present"),
        Link::Leaf(block) => {
            let at = search(block, key).expect("the key is present");
            let removed = Arc::make_mut(block).remove(at);
            if block.is_empty() {
                *link = Link::Empty;
            }
            removed
        }
        Link::Inner(node) => {
            let node = Arc::make_mut(node);
            let removed = match key.cmp(node.entry.0.borrow()) {
                Ordering::Less => {
                    let removed = remove_present(&mut node.left, key);
                    node.left_size -= 1;
                    removed
                }
                Ordering::Greater => remove_present(&mut node.right, key),
                // A neighbour from the heavier side takes the removed entry's place.
                Ordering::Equal if node.left_size >= node.right_size() => {
                    node.left_size -= 1;
                    let neighbour = remove_last(&mut node.left).expect("children are not empty");
                    replace(&mut node.entry, neighbour)
                }
                Ordering::Equal => {
                    let neighbour = remove_first(&mut node.right).expect("children are not empty");
                    replace(&mut node.entry, neighbour)
                }
            };
            node.size -= 1;
            restore(link);
            removed
        }
    }
}

/// Replaces the entry of an inner node by nothing and joins what is left.
pub(crate) fn remove_root<K: Clone, V: Clone, const B: usize>(link: &mut Link<K, V, B>) {
    if let Link::Inner(node) = std::mem::take(link) {
        let (left, _, right) = take_apart(node);
        *link = concat(left, right);
    }
}
