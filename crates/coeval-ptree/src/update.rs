// SPDX-License-Identifier: Apache-2.0
//! Single-key updates: one descent, copying only nodes that somebody else holds.

use std::borrow::Borrow;
use std::mem::replace;

use triomphe::Arc;

use crate::balance::{join, least, restore};
use crate::node::{Block, Link, search};

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
            let replaced = if key < node.separator {
                let replaced = insert(&mut node.left, key, value);
                node.left_size += usize::from(replaced.is_none());
                replaced
            } else {
                insert(&mut node.right, key, value)
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

/// Inserts into a full leaf: two leaves.
///
/// An insert at an end is probably one of a run of ascending (or descending) ones, so the other side keeps as
/// many entries as balance allows: nothing will be inserted there soon.
pub(crate) fn split_insert<K: Clone, V: Clone, const B: usize>(
    link: &mut Link<K, V, B>,
    at: usize,
    entry: (K, V),
) {
    let Link::Leaf(block) = link else { unreachable!("only full leaves are split") };
    // Entries of the left leaf, out of B + 1.
    let left_count = match at {
        0 => least(B),
        at if at == B => B + 1 - least(B),
        _ => B / 2,
    };
    let (mut left, mut right) = halve(block, left_count - usize::from(at < left_count));
    if at < left_count {
        left.insert(at, entry);
    } else {
        right.insert(at - left_count, entry);
    }
    let separator = right[0].0.clone();
    *link = join(Link::from_block(left), separator, Link::from_block(right));
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
            let removed = if key < node.separator.borrow() {
                let removed = remove_present(&mut node.left, key);
                node.left_size -= 1;
                removed
            } else {
                remove_present(&mut node.right, key)
            };
            node.size -= 1;
            restore(link);
            removed
        }
    }
}
