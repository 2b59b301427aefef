// SPDX-License-Identifier: Apache-2.0
//! What a replica has heard of its primary last.

use crate::clock::LogTime;
use crate::log::Lsn;

/// A message of the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastWord {
    /// When it was sent, by the primary's clock.
    pub sent: LogTime,
    /// When it came.
    pub received: LogTime,
    /// Where the primary's log ends, as it says.
    pub end: Lsn,
    /// When it said that first.
    pub end_sent: LogTime,
}
