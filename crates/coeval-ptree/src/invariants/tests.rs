// SPDX-License-Identifier: Apache-2.0
//! The check itself is checked: damage of each kind is found.

use triomphe::Arc;

use crate::node::{Inner, Leaf, Link};
use crate::{BrokenInvariant, PTree, Sum};

type Tree = PTree<u32, u32, (), 4>;

fn leaf(keys: impl IntoIterator<Item = u32>) -> Link<u32, u32, (), 4> {
    Link::Leaf(Arc::new(Leaf::new(keys.into_iter().map(|key| (key, 0)).collect())))
}

fn inner(
    left: Link<u32, u32, (), 4>,
    separator: u32,
    right: Link<u32, u32, (), 4>,
) -> Inner<u32, u32, (), 4> {
    let (left_size, size) = (left.size(), left.size() + right.size());
    Inner { separator, left, right, size, left_size, summary: () }
}

#[track_caller]
fn assert_finds(root: Inner<u32, u32, (), 4>, broken: BrokenInvariant) {
    assert_eq!(Tree::from_root(Link::Inner(Arc::new(root))).check_invariants(), Err(broken));
    assert!(broken.to_string().contains(|letter: char| letter.is_ascii_digit()));
}

#[test]
fn a_sound_tree_passes() {
    let root = inner(leaf([1, 2, 3]), 5, leaf([6, 7]));
    assert_eq!(Tree::from_root(Link::Inner(Arc::new(root))).check_invariants(), Ok(()));
}

#[test]
fn keys_out_of_order_are_found() {
    assert_finds(inner(leaf([1, 3, 2]), 5, leaf([6, 7])), BrokenInvariant::Order { index: 2 });
    assert_finds(inner(leaf([1, 2, 3]), 5, leaf([4, 7])), BrokenInvariant::Order { index: 3 });
}

#[test]
fn wrong_separators_are_found() {
    assert_finds(inner(leaf([1, 2, 3]), 3, leaf([4, 7])), BrokenInvariant::Separator { index: 3 });
}

#[test]
fn wrong_counts_are_found() {
    let mut root = inner(leaf([1, 2, 3]), 5, leaf([6, 7]));
    root.size = 6;
    assert_finds(root, BrokenInvariant::Size { index: 3 });
    let mut root = inner(leaf([1, 2, 3]), 5, leaf([6, 7]));
    root.left_size = 2;
    assert_finds(root, BrokenInvariant::Size { index: 3 });
}

#[test]
fn unbalanced_siblings_and_meagre_leaves_are_found() {
    let heavy = inner(inner_link([1, 2, 3], [4, 5, 6]), 7, leaf([8, 9]));
    assert_finds(heavy, BrokenInvariant::Balance { index: 6 });
    assert_finds(inner(leaf([1]), 5, leaf([6, 7])), BrokenInvariant::Balance { index: 1 });
}

fn inner_link(left: [u32; 3], right: [u32; 3]) -> Link<u32, u32, (), 4> {
    Link::Inner(Arc::new(inner(leaf(left), right[0], leaf(right))))
}

#[test]
fn empty_nodes_are_found() {
    assert_finds(inner(leaf([1, 2]), 3, leaf([])), BrokenInvariant::Empty { index: 2 });
    assert_finds(inner(leaf([1, 2]), 3, Link::Empty), BrokenInvariant::Empty { index: 2 });
}

#[test]
fn stale_summaries_are_found() {
    let block = |keys: [u32; 3]| keys.into_iter().map(|key| (key, 1)).collect();
    let leaf = |keys: [u32; 3], sum| Link::Leaf(Arc::new(Leaf { entries: block(keys), summary: Sum(sum) }));
    let tree = |left, right, total| {
        let mut root = Inner::new(leaf([1, 2, 3], left), 5, leaf([6, 7, 8], right));
        root.summary = Sum(total);
        PTree::<u32, u32, Sum<u32>, 4>::from_root(Link::Inner(Arc::new(root))).check_invariants()
    };
    assert_eq!(tree(3, 3, 6), Ok(()));
    assert_eq!(tree(3, 2, 5), Err(BrokenInvariant::Summary { index: 3 }));
    assert_eq!(tree(3, 3, 7), Err(BrokenInvariant::Summary { index: 0 }));
}
