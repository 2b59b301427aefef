// SPDX-License-Identifier: Apache-2.0
//! What a transaction did to a key, and which two accesses conflict.
//!
//! The rules speak of an access that is committed after my snapshot, and of mine. They are data
//! ([`CONFLICT_RULES`]); the compiler proves that each pair of accesses meets exactly one of them.
//!
//! | committed after my snapshot | mine | outcome |
//! |---|---|---|
//! | `Update`, `Identity` | `Update`, `Identity` | conflict: first committer wins |
//! | `Identity` | `Reference` | conflict: what I relied on is gone |
//! | `Reference` | `Identity` | conflict: I take away what the other relied on |
//! | `Update` | `Reference` | compatible: the key stays, only its row changed |
//! | `Reference` | `Update` | compatible: the key stays, only its row changed |
//! | `Reference` | `Reference` | compatible: both rely on the same |
//!
//! # How constraints become accesses
//!
//! - **Rows.** UPDATE of columns outside the primary key is `Update` on the primary key's key; INSERT and
//!   DELETE are `Identity` on it; a changed primary key is `Identity` on the old one and on the new one.
//! - **Unique index entries.** Removing an old entry and adding a new one are `Identity` on the entry's key,
//!   which is the indexed value *without* the primary key: two transactions that both become the owner of a
//!   value then meet, which neither snapshot could show. (An entry of any other index contains the primary
//!   key, so it conflicts only where the row does already; under snapshot isolation it may be left out.)
//! - **Foreign keys.** What makes a child point to a parent is a `Reference` on the parent's key: the parent
//!   exists. Deleting the parent, or changing its referenced columns, is `Identity` on it. Updates of the
//!   parent's other columns never meet the child (PostgreSQL's FOR KEY SHARE). If the foreign key points to a
//!   unique index instead of the primary key, the key is that index's entry.
//! - **Table definitions.** Every statement has a `Reference` on the definition of each table whose rows or
//!   rules it relied on; an INSERT into a child therefore also on the parent's, and a DELETE of a parent on
//!   its children's. DDL has `Identity` on the definition of each table whose statements must notice: DROP
//!   and TRUNCATE on the table's own, ADD FOREIGN KEY on both tables'. So DDL makes the concurrent writers
//!   of those tables fail, and nobody else.

/// What a transaction did to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// The key's row was replaced; the key stays.
    Update,
    /// The key was inserted or deleted, or the definition it stands for was changed.
    Identity,
    /// Validated read: the transaction relied on the key being as it saw it.
    Reference,
}

impl Access {
    /// Every access, in the order of the rows and columns of a table with one for each.
    pub const ALL: [Self; 3] = [Self::Update, Self::Identity, Self::Reference];

    /// The place in [`Access::ALL`], for tables with a row per access.
    #[inline]
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Whether this access of mine conflicts with a `committed` one that my snapshot does not see.
    #[inline]
    #[must_use]
    pub const fn conflicts_with(self, committed: Self) -> bool {
        matches!(OUTCOMES[committed.index()][self.index()], Outcome::Conflict)
    }
}

/// What follows when two concurrent transactions access the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The one that certifies second is refused.
    Conflict,
    /// Both may commit.
    Compatible,
}

/// One row of the table of conflicts: all pairs out of `committed` and `mine` have the same outcome.
#[derive(Clone, Copy, Debug)]
pub struct ConflictRule {
    /// Accesses of a transaction that committed after my snapshot.
    pub committed: &'static [Access],
    /// Accesses of the transaction being certified.
    pub mine: &'static [Access],
    /// What follows.
    pub outcome: Outcome,
    /// Why, in a sentence.
    pub reason: &'static str,
}

/// The conflicts of snapshot isolation with validated reads. Each pair of accesses meets exactly one rule.
pub const CONFLICT_RULES: [ConflictRule; 6] = [
    ConflictRule {
        committed: &[Access::Update, Access::Identity],
        mine: &[Access::Update, Access::Identity],
        outcome: Outcome::Conflict,
        reason: "first committer wins",
    },
    ConflictRule {
        committed: &[Access::Identity],
        mine: &[Access::Reference],
        outcome: Outcome::Conflict,
        reason: "what I relied on is gone",
    },
    ConflictRule {
        committed: &[Access::Reference],
        mine: &[Access::Identity],
        outcome: Outcome::Conflict,
        reason: "I take away what the other relied on",
    },
    ConflictRule {
        committed: &[Access::Update],
        mine: &[Access::Reference],
        outcome: Outcome::Compatible,
        reason: "the key stays, only its row changed",
    },
    ConflictRule {
        committed: &[Access::Reference],
        mine: &[Access::Update],
        outcome: Outcome::Compatible,
        reason: "the key stays, only its row changed",
    },
    ConflictRule {
        committed: &[Access::Reference],
        mine: &[Access::Reference],
        outcome: Outcome::Compatible,
        reason: "both rely on the same",
    },
];

/// [`CONFLICT_RULES`] as a matrix, `[committed][mine]`, so that a lookup is one load.
const OUTCOMES: [[Outcome; Access::ALL.len()]; Access::ALL.len()] = outcomes_of(&CONFLICT_RULES);

/// Spreads the rules into a matrix; stops the compiler if a pair meets no rule or more than one.
const fn outcomes_of(rules: &[ConflictRule]) -> [[Outcome; Access::ALL.len()]; Access::ALL.len()] {
    let mut outcomes = [[Outcome::Conflict; Access::ALL.len()]; Access::ALL.len()];
    let mut matched = [[false; Access::ALL.len()]; Access::ALL.len()];
    let mut rule = 0;
    while rule < rules.len() {
        let mut committed = 0;
        while committed < rules[rule].committed.len() {
            let row = rules[rule].committed[committed].index();
            let mut mine = 0;
            while mine < rules[rule].mine.len() {
                let column = rules[rule].mine[mine].index();
                assert!(!matched[row][column], "a pair of accesses meets more than one conflict rule");
                matched[row][column] = true;
                outcomes[row][column] = rules[rule].outcome;
                mine += 1;
            }
            committed += 1;
        }
        rule += 1;
    }
    let mut pair = 0;
    while pair < Access::ALL.len() * Access::ALL.len() {
        let is_matched = matched[pair / Access::ALL.len()][pair % Access::ALL.len()];
        assert!(is_matched, "a pair of accesses meets no conflict rule");
        pair += 1;
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_of_accesses_meets_exactly_one_rule() {
        for committed in Access::ALL {
            for mine in Access::ALL {
                let rules: Vec<_> = CONFLICT_RULES
                    .iter()
                    .filter(|rule| rule.committed.contains(&committed) && rule.mine.contains(&mine))
                    .collect();
                assert_eq!(rules.len(), 1, "committed {committed:?}, mine {mine:?}");
                assert_eq!(mine.conflicts_with(committed), rules[0].outcome == Outcome::Conflict);
            }
        }
    }

    #[test]
    fn a_conflict_does_not_depend_on_who_committed_first() {
        for one in Access::ALL {
            for other in Access::ALL {
                assert_eq!(one.conflicts_with(other), other.conflicts_with(one), "{one:?}, {other:?}");
            }
        }
    }

    #[test]
    fn a_reference_conflicts_with_identity_alone() {
        let partners: Vec<_> =
            Access::ALL.into_iter().filter(|other| Access::Reference.conflicts_with(*other)).collect();
        assert_eq!(partners, [Access::Identity]);
    }

    #[test]
    fn every_access_stands_at_its_own_index() {
        for (index, access) in Access::ALL.into_iter().enumerate() {
            assert_eq!(access.index(), index);
        }
    }

    #[test]
    #[should_panic(expected = "meets no conflict rule")]
    fn a_table_with_a_missing_pair_is_refused() {
        outcomes_of(&CONFLICT_RULES[..5]);
    }

    #[test]
    #[should_panic(expected = "more than one conflict rule")]
    fn a_table_with_a_pair_named_twice_is_refused() {
        let mut rules = CONFLICT_RULES;
        rules[5] = rules[4];
        outcomes_of(&rules);
    }
}
