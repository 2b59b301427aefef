// SPDX-License-Identifier: Apache-2.0
//! [`OwnerId`]: who has locks and waits for them.

use std::fmt;

/// A lock owner: one for each transaction that takes locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId {
    pub(super) number: u64,
    pub(super) session: Option<i32>,
}

impl fmt::Display for OwnerId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(formatter)
    }
}

impl OwnerId {
    /// The number itself, for views that show it.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.number
    }

    /// The session that it is of, if it was [said](super::RowLocks::owner_of).
    #[must_use]
    pub const fn session(self) -> Option<i32> {
        self.session
    }
}
