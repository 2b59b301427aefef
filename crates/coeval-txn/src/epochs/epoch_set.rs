// SPDX-License-Identifier: Apache-2.0
//! The epochs that a snapshot sees.

use std::fmt;
use std::sync::Arc;

use super::Epoch;

/// A set of epochs: all up to one of them, except a few.
///
/// That is what a snapshot of brick tables is: everything that has ended, without what was pending when the
/// snapshot was made (AOSI's `deps`). It says the same as "LCE plus the committed epochs above it", and is
/// small where that is large: when one long load holds LCE back while thousands of others commit. Epochs of
/// transactions that were rolled back may be in the set; their rows are gone by then.
///
/// A clone costs a reference count; [`contains`](Self::contains) a comparison, or a binary search among the
/// exceptions for an epoch above the first of them.
///
/// ```
/// use coeval_txn::{Epoch, EpochSet};
///
/// let seen = EpochSet::through(Epoch::new(7)).without([Epoch::new(3), Epoch::new(5)]);
/// let numbers: Vec<u64> = (0..10).filter(|n| seen.contains(Epoch::new(*n))).collect();
/// assert_eq!(numbers, [0, 1, 2, 4, 6, 7]);
/// assert_eq!(seen.horizon(), Epoch::new(2));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct EpochSet {
    through: Epoch,
    /// Strictly ascending, all below `through`: so equal sets are equal values.
    except: Option<Arc<[Epoch]>>,
}

impl EpochSet {
    /// The set that holds [`Epoch::ZERO`] alone: what an empty database has committed.
    #[must_use]
    pub const fn none() -> Self {
        Self { through: Epoch::ZERO, except: None }
    }

    /// All epochs up to `newest`, which is among them.
    #[must_use]
    pub const fn through(newest: Epoch) -> Self {
        Self { through: newest, except: None }
    }

    /// All epochs below `epoch`: what a delete covers in the paper (AOSI III-C2).
    ///
    /// # Panics
    ///
    /// If `epoch` is [`Epoch::ZERO`], below which there is none.
    #[must_use]
    pub const fn below(epoch: Epoch) -> Self {
        assert!(epoch.get() > 0, "no epoch is below zero");
        Self::through(epoch.previous())
    }

    /// This set without `pending`. Cost: sorting them.
    ///
    /// # Panics
    ///
    /// If [`Epoch::ZERO`] is among `pending`; it is nobody's epoch.
    #[must_use]
    pub fn without(&self, pending: impl IntoIterator<Item = Epoch>) -> Self {
        let mut through = self.through;
        let mut except: Vec<Epoch> = self.except().to_vec();
        except.extend(pending.into_iter().filter(|epoch| *epoch <= through));
        except.sort_unstable();
        except.dedup();
        assert!(except.first() != Some(&Epoch::ZERO), "epoch 0 is no transaction's");
        while except.last() == Some(&through) {
            except.pop();
            through = through.previous();
        }
        Self { through, except: (!except.is_empty()).then(|| except.into()) }
    }

    /// This set with `epochs` as well. Cost: an exception for each epoch that lies below the newest of them and in
    /// neither.
    #[must_use]
    pub fn with(&self, epochs: &[Epoch]) -> Self {
        let newest = epochs.iter().copied().fold(self.through, Epoch::max);
        let between = (self.through.get() + 1..=newest.get()).map(Epoch::new);
        let except = self.except().iter().copied().chain(between).filter(|epoch| !epochs.contains(epoch));
        Self::through(newest).without(except)
    }

    /// This set with all epochs up to `epoch` that lie below its newest one. Cost: a copy of the exceptions that stay.
    #[must_use]
    pub fn filled_through(&self, epoch: Epoch) -> Self {
        if self.except().first().is_none_or(|first| *first > epoch) {
            return self.clone();
        }
        Self::through(self.through).without(self.except().iter().copied().filter(|except| *except > epoch))
    }

    /// The epochs of both sets. Cost: a look at each exception of the larger one, and the sorted list of those that stay.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let (large, small) = if self.through >= other.through { (self, other) } else { (other, self) };
        if large.except().iter().all(|epoch| !small.contains(*epoch)) {
            return large.clone();
        }
        let except = large.except().iter().copied().filter(|epoch| !small.contains(*epoch));
        Self::through(large.through).without(except)
    }

    /// Whether `epoch` is in the set.
    #[inline]
    #[must_use]
    pub fn contains(&self, epoch: Epoch) -> bool {
        if epoch > self.through {
            return false;
        }
        match &self.except {
            None => true,
            Some(except) => epoch < except[0] || except.binary_search(&epoch).is_err(),
        }
    }

    /// The newest epoch of the set.
    #[must_use]
    pub const fn newest(&self) -> Epoch {
        self.through
    }

    /// The epochs below the newest one that are not in the set, in ascending order.
    #[must_use]
    pub fn except(&self) -> &[Epoch] {
        self.except.as_deref().unwrap_or_default()
    }

    /// The newest epoch up to which the set has all: what LSE must not pass while somebody reads by this set.
    #[must_use]
    pub fn horizon(&self) -> Epoch {
        self.except().first().map_or(self.through, |first| first.previous())
    }

    /// The bytes that the set holds on the heap; clones share them.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        /// An `Arc` keeps two counts before its contents.
        const COUNTS: usize = 2 * size_of::<usize>();
        self.except.as_ref().map_or(0, |except| COUNTS + size_of_val::<[Epoch]>(except))
    }
}

impl fmt::Debug for EpochSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Display for EpochSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "up to {}", self.through)?;
        for (index, epoch) in self.except().iter().enumerate() {
            write!(formatter, "{} {epoch}", if index == 0 { " except" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn a_set_agrees_with_a_model_for_random_exceptions() {
        let mut random = StdRng::seed_from_u64(1);
        for _ in 0..2_000 {
            let newest = random.random_range(0..40);
            let mut model: BTreeSet<u64> = (0..=newest).collect();
            let mut set = EpochSet::through(Epoch::new(newest));
            for _ in 0..random.random_range(0..3) {
                let pending: Vec<u64> =
                    (0..random.random_range(0..6)).map(|_| random.random_range(1..50)).collect();
                model.retain(|number| !pending.contains(number));
                set = set.without(pending.into_iter().map(Epoch::new));
            }
            let members: BTreeSet<u64> = (0..60).filter(|n| set.contains(Epoch::new(*n))).collect();
            assert_eq!(members, model, "{set}");
            assert_eq!(set.newest().get(), model.last().copied().unwrap_or_default());
            let horizon = (0..).find(|n| !model.contains(&(n + 1)));
            assert_eq!(Some(set.horizon().get()), horizon, "{set}");
        }
    }

    #[test]
    fn epochs_join_a_set_wherever_they_lie() {
        let at = Epoch::new;
        let set = EpochSet::through(at(7)).without([at(3), at(5)]);
        assert_eq!(set.with(&[]), set);
        assert_eq!(set.with(&[at(5)]).to_string(), "up to 7 except 3");
        assert_eq!(set.with(&[at(3), at(10)]).to_string(), "up to 10 except 5, 8, 9");
        assert_eq!(EpochSet::none().with(&[at(2)]).to_string(), "up to 2 except 1");
    }

    #[test]
    fn a_union_has_what_one_of_both_has() {
        let mut random = StdRng::seed_from_u64(2);
        for _ in 0..2_000 {
            let mut set = || {
                let except: Vec<_> =
                    (0..random.random_range(0..8)).map(|_| random.random_range(1..30)).collect();
                EpochSet::through(Epoch::new(random.random_range(0..30)))
                    .without(except.into_iter().map(Epoch::new))
            };
            let (one, other) = (set(), set());
            let union = one.union(&other);
            assert_eq!(union, other.union(&one));
            for epoch in (0..40).map(Epoch::new) {
                let is_expected = one.contains(epoch) || other.contains(epoch);
                assert_eq!(union.contains(epoch), is_expected, "{epoch} in {one} and {other}");
            }
        }
    }

    #[test]
    fn equal_sets_are_equal_values() {
        let at = Epoch::new;
        assert_eq!(EpochSet::through(at(7)).without([at(7), at(6)]), EpochSet::through(at(5)));
        assert_eq!(EpochSet::below(at(6)), EpochSet::through(at(5)));
        assert_eq!(EpochSet::through(at(5)).without([at(9)]), EpochSet::through(at(5)));
        assert_eq!(EpochSet::through(at(0)), EpochSet::none());
        assert_eq!(EpochSet::through(at(5)).without([at(4), at(2)]).to_string(), "up to 5 except 2, 4");
    }
}
