// SPDX-License-Identifier: Apache-2.0
//! Fetching a path into the cache before it is copied.
//!
//! **Why.** Copying an inner node counts one more reference to both its children, and the atomic increments wait
//! for each other: in a tree larger than the caches that is two memory latencies per level, one after the other.
//! Plain loads do not wait. So an update first walks its path and looks at the counts it is going to change: the
//! loads of siblings overlap with those of the path, and with several paths walked side by side, with theirs.
//! It pays a little for one update of a large tree and more for several at once.
//!
//! Nothing here changes what an update does, only when its memory arrives.

use std::borrow::Borrow;
use std::hint::black_box;

use triomphe::Arc;

use crate::find::is_cheap;
use crate::node::Link;

/// Paths walked side by side: about as many misses as a core keeps in flight with two or three per path.
const LANES: usize = 8;

/// Keys fetched at a time: what their paths hold, some kilobytes each, should still be there when it is copied.
pub(crate) const WARM_MAX: usize = 64;

impl<K, V, S, const B: usize> Link<K, V, S, B> {
    /// Looks at the reference count.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        match self {
            Link::Empty => 0,
            Link::Leaf(block) => Arc::strong_count(block),
            Link::Inner(node) => Arc::strong_count(node),
        }
    }

    /// Starts to load the node without waiting for it.
    #[inline]
    pub(crate) fn touch(&self) {
        black_box(self.count());
    }
}

/// Fetches what an update of `key` copies.
#[inline]
pub(crate) fn warm_path<K, V, Q, S, const B: usize>(mut link: &Link<K, V, S, B>, key: &Q)
where
    K: Borrow<Q>,
    Q: Ord + ?Sized,
{
    let mut counts = 0usize;
    while let Link::Inner(node) = link {
        counts = counts.wrapping_add(node.left.count()).wrapping_add(node.right.count());
        link = if key < node.separator.borrow() { &node.left } else { &node.right };
    }
    // Without a use the loads would be left out.
    black_box(counts);
}

/// Bytes that come from memory together.
pub(crate) const LINE: usize = 64;

/// Looks at a key in each line of a block that is about to be copied, where keys are compared as they lie; a search would
/// wait for the lines one by one. The result means nothing, but has to be used for the loads to be made.
#[inline]
fn touch_block<K: Ord, V>(entries: &[(K, V)], key: &K) -> usize {
    if !is_cheap::<K>() {
        return 0;
    }
    let stride = (LINE / size_of::<(K, V)>().max(1)).max(1);
    entries.iter().step_by(stride).map(|entry| usize::from(entry.0 <= *key)).sum()
}

/// Fetches what updates of these keys copy.
pub(crate) fn warm_paths<'k, K, V, S, const B: usize>(
    root: &Link<K, V, S, B>,
    mut keys: impl ExactSizeIterator<Item = &'k K>,
) where
    K: Ord + 'k,
{
    while keys.len() > 0 {
        let mut lanes: arrayvec::ArrayVec<(&Link<K, V, S, B>, &K), LANES> =
            keys.by_ref().take(LANES).map(|key| (root, key)).collect();
        let mut counts = 0usize;
        while !lanes.is_empty() {
            lanes.retain(|(link, key)| match *link {
                Link::Empty => false,
                Link::Leaf(leaf) => {
                    counts = counts.wrapping_add(touch_block(leaf, *key));
                    false
                }
                Link::Inner(node) => {
                    counts = counts.wrapping_add(node.left.count()).wrapping_add(node.right.count());
                    *link = if **key < node.separator { &node.left } else { &node.right };
                    true
                }
            });
        }
        black_box(counts);
    }
}
