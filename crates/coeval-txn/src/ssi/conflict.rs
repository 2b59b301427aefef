// SPDX-License-Identifier: Apache-2.0
//! Why a serializable transaction may not commit.

use std::fmt;

use thiserror::Error;

use crate::{CommitOrder, TransactionId, Version};

/// The rule of certification, or of safe snapshots, that refused a transaction `T`. `->` is a read-write antidependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SsiRule {
    /// `V -> T -> U`, where `V` wrote something and `U` is `V` or committed before it.
    Pivot,
    /// `V -> T -> U`, where `V` wrote nothing and its snapshot holds `U`.
    PivotOfReader,
    /// `T -> U -> W`, where `W` committed before `U`, and `T` writes.
    Source,
    /// `T -> U -> W`, where `T` wrote nothing and its snapshot holds `W`.
    ReadingSource,
    /// The boundary of safe snapshots has passed `T`, which ran longer than the bound on their age, and `T`
    /// has an antidependency to a transaction within it.
    PassedByBoundary,
}

impl SsiRule {
    /// Every rule.
    pub const ALL: [Self; 5] =
        [Self::Pivot, Self::PivotOfReader, Self::Source, Self::ReadingSource, Self::PassedByBoundary];
}

impl fmt::Display for SsiRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Pivot => "it stands between two concurrent transactions",
            Self::PivotOfReader => "it stands between a concurrent reader and what that reader saw",
            Self::Source => "it read what a transaction has overwritten that stands before a third one",
            Self::ReadingSource => {
                "it read what a transaction has overwritten that stands before its snapshot"
            }
            Self::PassedByBoundary => "it ran longer than the bound on the age of safe snapshots",
        })
    }
}

/// Where an antidependency lies: what one transaction read and the other wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place<S, K> {
    /// The space; `None` if the reader read so many that they are not known one by one.
    pub space: Option<S>,
    /// The key; `None` if reader or writer took the whole space, or too much has happened to know it.
    pub key: Option<K>,
}

/// The other transaction of an antidependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counterpart {
    /// One that wrote something.
    Writer {
        /// Its name.
        transaction: TransactionId,
        /// Its place among the commits; the version may not be published yet.
        order: CommitOrder,
    },
    /// One that wrote nothing.
    Reader {
        /// Its name.
        transaction: TransactionId,
        /// The version of its snapshot.
        begin: Version,
    },
    /// One of the many that committed since a very old snapshot.
    Unknown,
}

impl fmt::Display for Counterpart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Writer { transaction, order } => {
                write!(formatter, "transaction {transaction}, committed in version {}", order.version)
            }
            Self::Reader { transaction, begin } => {
                write!(formatter, "transaction {transaction}, which read version {begin}")
            }
            Self::Unknown => formatter.write_str("one of the transactions that committed since it began"),
        }
    }
}

/// Why a serializable transaction may not commit. Starting again may help.
///
/// The message leaves the place out, because here keys are opaque; who knows what they stand for adds it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("could not serialize access: {rule} ({other})")]
pub struct SsiConflict<S, K> {
    /// The rule that refused it.
    pub rule: SsiRule,
    /// The neighbour in the dangerous structure: `V` of a pivot, `U` of the other rules.
    pub other: Counterpart,
    /// Where the edge to or from `other` lies.
    pub place: Place<S, K>,
    /// The commit at the end of the dangerous structure, which is the first of the three in order; as early
    /// as it can be if it is not known.
    pub first_out: CommitOrder,
}
