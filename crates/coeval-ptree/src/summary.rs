// SPDX-License-Identifier: Apache-2.0
//! Augmented maps: what every node knows about the entries below it (PAM, PPoPP 2018).
//!
//! A summary is a monoid over entries. Each node keeps the summary of its subtree, so that the summary of any
//! range is put together from `O(log n)` nodes and a search can pass over subtrees that cannot hold what it looks
//! for. Every operation keeps summaries up to date, at the cost of one [`Summary::combine`] per node that it makes
//! or changes and one [`Summary::of`] per entry of a leaf that it makes or changes.
//!
//! `()` is the summary that says nothing: it takes no memory, and all code about it compiles to nothing. So it is for every
//! summary type without size, since all of its values are the same.

use std::ops::Add;

/// What is known about a run of entries: a monoid, `empty` its neutral element.
///
/// `combine` must be associative, and is always called with neighbouring runs in key order; it need not be
/// commutative. If it panics, or [`of`](Self::of) does, an operation that changes a tree leaves that tree empty; clones
/// made before are intact.
///
/// ```
/// use coeval_ptree::{PTree, Summary};
///
/// struct Order { amount: u64 }
///
/// #[derive(Clone, Copy)]
/// struct Turnover(u64);
///
/// impl<K> Summary<K, Order> for Turnover {
///     fn empty() -> Self { Turnover(0) }
///     fn of(_: &K, order: &Order) -> Self { Turnover(order.amount) }
///     fn combine(&self, later: &Self) -> Self { Turnover(self.0 + later.0) }
///     fn agrees_with(&self, other: &Self) -> bool { self.0 == other.0 }
/// }
///
/// # impl Clone for Order { fn clone(&self) -> Self { Order { amount: self.amount } } }
/// let days = (0..365).map(|day| (day, Order { amount: 10 })).collect();
/// let orders: PTree<u32, Order, Turnover> = PTree::from_sorted(days);
/// assert_eq!(orders.aggregate(100..200).0, 1000); // O(log n)
/// ```
pub trait Summary<K, V>: Clone + Send + Sync {
    /// The summary of no entries.
    fn empty() -> Self;

    /// The summary of one entry.
    fn of(key: &K, value: &V) -> Self;

    /// The summary of the run of `self` followed by that of `later`.
    #[must_use]
    fn combine(&self, later: &Self) -> Self;

    /// Whether a node that keeps `self` is right if the summaries below it combine to `other`; for
    /// [`check_invariants`](crate::PTree::check_invariants).
    ///
    /// A node's summary is always combined of the same parts in the same order, so this is equality, also where
    /// `combine` rounds.
    fn agrees_with(&self, other: &Self) -> bool;
}

/// Whether nodes have to be kept up to date at all: not if all values of the type are one and the same.
#[inline]
pub(crate) const fn is_kept<S>() -> bool {
    size_of::<S>() > 0
}

impl<K, V> Summary<K, V> for () {
    #[inline]
    fn empty() -> Self {}

    #[inline]
    fn of(_key: &K, _value: &V) -> Self {}

    #[inline]
    fn combine(&self, _later: &Self) -> Self {}

    #[inline]
    fn agrees_with(&self, _other: &Self) -> bool {
        true
    }
}

/// The number of entries. (Every tree knows it as `len`; as part of a pair it counts beside something else.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count(pub usize);

impl<K, V> Summary<K, V> for Count {
    fn agrees_with(&self, other: &Self) -> bool {
        self == other
    }

    fn empty() -> Self {
        Count(0)
    }

    fn of(_key: &K, _value: &V) -> Self {
        Count(1)
    }

    fn combine(&self, later: &Self) -> Self {
        Count(self.0 + later.0)
    }
}

/// The sum of the values, with their own `+` (and its behaviour on overflow).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum<T>(pub T);

impl<K, T: Copy + Default + PartialEq + Add<Output = T> + Send + Sync> Summary<K, T> for Sum<T> {
    fn agrees_with(&self, other: &Self) -> bool {
        // What is not a number does not equal itself.
        let is_odd = |sum: T| sum.ne(&sum);
        self == other || (is_odd(self.0) && is_odd(other.0))
    }

    fn empty() -> Self {
        Sum(T::default())
    }

    fn of(_key: &K, value: &T) -> Self {
        Sum(*value)
    }

    fn combine(&self, later: &Self) -> Self {
        Sum(self.0 + later.0)
    }
}

/// The smallest value; `None` of no entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Min<T>(pub Option<T>);

impl<K, T: Clone + Ord + Send + Sync> Summary<K, T> for Min<T> {
    fn agrees_with(&self, other: &Self) -> bool {
        self == other
    }

    fn empty() -> Self {
        Min(None)
    }

    fn of(_key: &K, value: &T) -> Self {
        Min(Some(value.clone()))
    }

    fn combine(&self, later: &Self) -> Self {
        let smaller = match (&self.0, &later.0) {
            (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
            (one, other) => one.as_ref().or(other.as_ref()),
        };
        Min(smaller.cloned())
    }
}

/// The largest value; `None` of no entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Max<T>(pub Option<T>);

impl<K, T: Clone + Ord + Send + Sync> Summary<K, T> for Max<T> {
    fn agrees_with(&self, other: &Self) -> bool {
        self == other
    }

    fn empty() -> Self {
        Max(None)
    }

    fn of(_key: &K, value: &T) -> Self {
        Max(Some(value.clone()))
    }

    fn combine(&self, later: &Self) -> Self {
        let larger = match (&self.0, &later.0) {
            (Some(mine), Some(theirs)) => Some(mine.max(theirs)),
            (one, other) => one.as_ref().or(other.as_ref()),
        };
        Max(larger.cloned())
    }
}

/// Two summaries side by side.
impl<K, V, A: Summary<K, V>, Z: Summary<K, V>> Summary<K, V> for (A, Z) {
    fn empty() -> Self {
        (A::empty(), Z::empty())
    }

    fn of(key: &K, value: &V) -> Self {
        (A::of(key, value), Z::of(key, value))
    }

    fn combine(&self, later: &Self) -> Self {
        (self.0.combine(&later.0), self.1.combine(&later.1))
    }

    fn agrees_with(&self, other: &Self) -> bool {
        self.0.agrees_with(&other.0) && self.1.agrees_with(&other.1)
    }
}

/// The summary of a run of entries.
#[inline]
pub(crate) fn of_entries<K, V, S: Summary<K, V>>(entries: &[(K, V)]) -> S {
    if !is_kept::<S>() {
        return S::empty();
    }
    entries.iter().fold(S::empty(), |sum, (key, value)| sum.combine(&S::of(key, value)))
}
