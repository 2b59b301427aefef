// SPDX-License-Identifier: Apache-2.0
//! What the primary was told of this replica, and when readers here last saw all that the primary had.

use coeval_store::Follower;
use coeval_store::log::Lsn;
use std::collections::VecDeque;
use std::time::Instant;

/// As many ends of the log are kept; of more, the ones in between are forgotten.
const ENDS_MAX: usize = 256;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Up to where the primary knows that readers see the log here.
    pub(super) told: Lsn,
    /// Where the log ended on the primary, and when that was heard, of what readers do not see yet.
    ends: VecDeque<(Lsn, Instant)>,
}

impl Progress {
    /// Notes where the log ends on the primary, as its message says.
    pub(super) fn note_end(&mut self, bytes: Option<&[u8]>) {
        let Some(bytes) = bytes.and_then(|bytes| bytes.try_into().ok()) else { return };
        let end = Lsn::new(u64::from_be_bytes(bytes));
        if self.ends.back().is_some_and(|(last, _)| *last >= end) || self.ends.len() >= ENDS_MAX {
            self.ends.pop_back();
        }
        self.ends.push_back((end, Instant::now()));
    }

    /// Bytes of log that the primary had, when it was last heard of, behind this place.
    pub(super) fn lacks(&self, position: Lsn) -> u64 {
        self.ends.back().map_or(0, |(end, _)| end.get().saturating_sub(position.get()))
    }

    /// Notes how far readers see the log.
    pub(super) fn note_shown(&mut self, follower: &Follower) {
        let shown = follower.shown_position();
        while let Some((_, at)) = self.ends.pop_front_if(|(end, _)| *end <= shown) {
            follower.note_current(at);
        }
    }
}
