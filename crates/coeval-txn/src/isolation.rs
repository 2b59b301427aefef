// SPDX-License-Identifier: Apache-2.0
//! The isolation levels a transaction can ask for.

use std::fmt;

/// What a transaction may notice of others, from the least to the most that it is kept from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isolation {
    /// Each statement reads its own snapshot.
    ReadCommitted,
    /// One snapshot for the whole transaction; first committer wins. Write skew is possible, except through
    /// a constraint.
    Snapshot,
    /// As if transactions ran one after another.
    #[default]
    Serializable,
}

impl fmt::Display for Isolation {
    /// The level's SQL name. Snapshot isolation goes by REPEATABLE READ, as in PostgreSQL.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::ReadCommitted => "READ COMMITTED",
            Self::Snapshot => "REPEATABLE READ",
            Self::Serializable => "SERIALIZABLE",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_print_their_sql_names() {
        assert_eq!(Isolation::ReadCommitted.to_string(), "READ COMMITTED");
        assert_eq!(Isolation::Snapshot.to_string(), "REPEATABLE READ");
        assert_eq!(Isolation::Serializable.to_string(), "SERIALIZABLE");
    }

    #[test]
    fn levels_are_ordered_by_strength() {
        assert!(Isolation::ReadCommitted < Isolation::Snapshot);
        assert!(Isolation::Snapshot < Isolation::Serializable);
    }
}
