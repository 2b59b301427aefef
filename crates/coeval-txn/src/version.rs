// SPDX-License-Identifier: Apache-2.0
//! The numbers that order and name commits.

use std::fmt;

/// The number of a world's contents: grows by one with each commit batch, not with a checkpoint.
///
/// A snapshot at version `v` sees every commit of `v` and of the versions before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u64);

impl Version {
    /// The version of an empty database. No commit ever has it, so a mark at `ZERO` is older than every
    /// snapshot.
    pub const ZERO: Self = Self(0);

    /// The version with this number, as read back from a log record or a manifest.
    #[inline]
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, as a log record or a manifest stores it.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The version of the next commit batch.
    ///
    /// # Panics
    ///
    /// After 2^64 - 1 commit batches, which no machine lives to make; a number that large means corruption.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.checked_add(1).expect("fewer than 2^64 commit batches"))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// A commit's place among all commits: by version, then by position in the commit batch.
///
/// Two members of one batch have an order (the later overwrites the earlier), although no snapshot lies
/// between them; so compare commits by `CommitOrder` and a snapshot with a commit by `version` alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitOrder {
    /// The version that the commit's batch makes. First field: it decides the order.
    pub version: Version,
    /// The place in the batch, from 0.
    pub position: u32,
}

impl fmt::Display for CommitOrder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.version, self.position)
    }
}

/// The name of a transaction, for messages and for the log. Carries no order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(u64);

impl TransactionId {
    /// The transaction with this number.
    #[inline]
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, as a log record stores it.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_ordered_by_version_and_then_by_position_in_the_batch() {
        let at = |version, position| CommitOrder { version: Version::new(version), position };
        let mut orders = [at(2, 0), at(1, 7), at(2, 1), at(1, 0)];
        orders.sort_unstable();
        assert_eq!(orders, [at(1, 0), at(1, 7), at(2, 0), at(2, 1)]);
        assert_eq!(at(12, 3).to_string(), "12.3");
    }

    #[test]
    fn versions_grow_by_one_from_zero() {
        assert_eq!(Version::ZERO.next(), Version::new(1));
        assert_eq!(Version::new(41).next().get(), 42);
        assert_eq!(Version::new(41).to_string(), "41");
        assert_eq!(TransactionId::new(9).to_string(), "9");
    }

    #[test]
    #[should_panic(expected = "fewer than 2^64 commit batches")]
    fn the_last_version_has_no_next() {
        let _ = Version::new(u64::MAX).next();
    }
}
