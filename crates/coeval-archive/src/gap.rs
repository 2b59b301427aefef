// SPDX-License-Identifier: Apache-2.0
//! What an archive lacks of a log.

use coeval_store::log::Lsn;
use std::fmt;

/// A stretch of log that is not archived: nothing in it can be restored, unless to its very beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gap {
    /// Up to here the log is there.
    pub from: Lsn,
    /// It goes on here.
    pub to: Lsn,
    /// The id of the term that it goes on in.
    pub term: u64,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the log between {} and {} is missing (term {:016x})", self.from, self.to, self.term)
    }
}
