// SPDX-License-Identifier: Apache-2.0
//! A list that one writer appends to while anybody reads it, without a lock.

use std::sync::{Arc, OnceLock};

/// The reading side: the elements that have been appended so far.
///
/// An element never moves and is freed with the list. Reading costs an atomic load for each element.
pub(crate) struct Chain<T> {
    first: OnceLock<Arc<Link<T>>>,
}

struct Link<T> {
    value: T,
    next: OnceLock<Arc<Link<T>>>,
}

/// The end of a chain, known to the writer alone, so that appending need not walk.
pub(crate) struct ChainEnd<T> {
    last: Option<Arc<Link<T>>>,
}

impl<T> Chain<T> {
    /// An empty chain and its end.
    pub(crate) fn new() -> (Self, ChainEnd<T>) {
        (Self { first: OnceLock::new() }, ChainEnd { last: None })
    }

    /// The elements, in the order in which they were appended.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let mut next = self.first.get();
        std::iter::from_fn(move || {
            let link = next?;
            next = link.next.get();
            Some(&link.value)
        })
    }

    /// The bytes that an element takes, without what it owns itself.
    pub(crate) const fn element_bytes() -> usize {
        /// The counts of the `Arc`.
        const COUNTS: usize = 2 * size_of::<usize>();
        COUNTS + size_of::<Link<T>>()
    }
}

impl<T> ChainEnd<T> {
    /// Appends to `chain`, whose end this is.
    ///
    /// # Panics
    ///
    /// If it is the end of another chain.
    pub(crate) fn push(&mut self, chain: &Chain<T>, value: T) {
        let link = Arc::new(Link { value, next: OnceLock::new() });
        let slot = self.last.as_ref().map_or(&chain.first, |last| &last.next);
        let was_empty = slot.set(Arc::clone(&link)).is_ok();
        assert!(was_empty, "the end of a chain has nothing behind it");
        self.last = Some(link);
    }

    /// The last element.
    pub(crate) fn last(&self) -> Option<&T> {
        self.last.as_ref().map(|link| &link.value)
    }
}

impl<T> Drop for Chain<T> {
    /// Link by link: a recursion over a long chain would overflow the stack.
    fn drop(&mut self) {
        let mut next = self.first.take();
        while let Some(mut link) = next.and_then(Arc::into_inner) {
            next = link.next.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_see_a_growing_prefix() {
        let (chain, mut end) = Chain::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut seen = 0;
                while seen < 2_000 {
                    let now: Vec<u32> = chain.iter().copied().collect();
                    assert_eq!(now, (0..now.len() as u32).collect::<Vec<_>>());
                    assert!(now.len() >= seen);
                    seen = now.len();
                }
            });
            for value in 0..2_000 {
                end.push(&chain, value);
                assert_eq!(end.last(), Some(&value));
            }
        });
    }

    #[test]
    fn a_long_chain_is_freed_without_recursion_and_nothing_leaks() {
        let value = Arc::new(());
        let (chain, mut end) = Chain::new();
        for _ in 0..300_000 {
            end.push(&chain, Arc::clone(&value));
        }
        drop((end, chain));
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    #[should_panic(expected = "has nothing behind it")]
    fn the_end_of_another_chain_is_refused() {
        let (chain, mut end) = Chain::new();
        end.push(&chain, 1);
        let (_other, mut other_end) = Chain::new();
        other_end.push(&chain, 2);
    }
}
