// SPDX-License-Identifier: Apache-2.0
//! The strengths of row locks and their conflicts.

use crate::Access;
use std::fmt;

/// How much a lock of a row keeps others from, from the least to the most.
///
/// | held | KEY SHARE | SHARE | NO KEY UPDATE | UPDATE |
/// |---|---|---|---|---|
/// | KEY SHARE | | | | waits |
/// | SHARE | | | waits | waits |
/// | NO KEY UPDATE | | waits | waits | waits |
/// | UPDATE | waits | waits | waits | waits |
///
/// What a strength conflicts with, each stronger one conflicts with too (the compiler checks that). So only
/// the strongest of several locks has to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockStrength {
    /// The key stays: what a foreign key needs of its parent.
    KeyShare,
    /// The row stays as it is.
    Share,
    /// The row is about to change, its keys are not.
    NoKeyUpdate,
    /// The row is about to go, or its keys are about to change.
    Update,
}

/// [`LockStrength`]'s table: `[held][wanted]`.
const CONFLICTS: [[bool; 4]; 4] = [
    [false, false, false, true],
    [false, false, true, true],
    [false, true, true, true],
    [true, true, true, true],
];

const _: () = {
    let mut row = 0;
    while row < 4 {
        let mut column = 0;
        while column < 4 {
            assert!(CONFLICTS[row][column] == CONFLICTS[column][row], "conflicts are mutual");
            let is_kept = row == 3 || !CONFLICTS[row][column] || CONFLICTS[row + 1][column];
            assert!(is_kept, "a stronger lock conflicts with all that a weaker one does");
            column += 1;
        }
        row += 1;
    }
};

impl LockStrength {
    /// Every strength, from the least to the most.
    pub const ALL: [Self; 4] = [Self::KeyShare, Self::Share, Self::NoKeyUpdate, Self::Update];

    /// Whether two owners cannot have these at the same time.
    #[inline]
    #[must_use]
    pub const fn conflicts_with(self, other: Self) -> bool {
        CONFLICTS[other as usize][self as usize]
    }

    /// The lock that keeps away all accesses that conflict with this one, so that its owner is not refused at
    /// commit because of anybody else who takes locks.
    #[inline]
    #[must_use]
    pub const fn of_access(access: Access) -> Self {
        match access {
            Access::Update => Self::NoKeyUpdate,
            Access::Identity => Self::Update,
            Access::Reference => Self::KeyShare,
        }
    }
}

impl fmt::Display for LockStrength {
    /// As in `SELECT ... FOR ...`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::KeyShare => "KEY SHARE",
            Self::Share => "SHARE",
            Self::NoKeyUpdate => "NO KEY UPDATE",
            Self::Update => "UPDATE",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_is_that_of_postgresql() {
        use LockStrength::{KeyShare, NoKeyUpdate, Share, Update};
        let partners = |one: LockStrength| -> Vec<LockStrength> {
            LockStrength::ALL.into_iter().filter(|other| one.conflicts_with(*other)).collect()
        };
        assert_eq!(partners(KeyShare), [Update]);
        assert_eq!(partners(Share), [NoKeyUpdate, Update]);
        assert_eq!(partners(NoKeyUpdate), [Share, NoKeyUpdate, Update]);
        assert_eq!(partners(Update), LockStrength::ALL);
    }

    #[test]
    fn accesses_that_conflict_have_locks_that_conflict() {
        for mine in Access::ALL {
            for other in Access::ALL {
                let locks = LockStrength::of_access(mine).conflicts_with(LockStrength::of_access(other));
                assert_eq!(locks, mine.conflicts_with(other), "{mine:?}, {other:?}");
            }
        }
    }
}
