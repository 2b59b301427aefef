// SPDX-License-Identifier: Apache-2.0
//! [`Word`]: what a store says of the primary's log to who takes it from there, and what a follower knows of it by such words.

use crate::log::Lsn;
use crate::store::Store;
use std::time::{Duration, Instant};

/// What whoever gives the log says of the primary's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Who has the log up to here, has all ...
    pub end: Lsn,
    /// ... that the primary had published at this moment; `None` if nobody knows of any.
    pub at: Option<Instant>,
}

impl Store {
    /// Of a follower: when its readers last saw all that the primary had published, by the primary's own word; `None` if they
    /// have not since it was opened.
    #[must_use]
    pub fn current_at(&self) -> Option<Instant> {
        self.shared.freshness.current_at()
    }

    /// What this says of the primary's log to who takes it from here.
    #[must_use]
    pub fn word(&self) -> Word {
        // The moment first: what is shown, or durable, afterwards has all of it. The other way round the place might lack some. A
        // follower shows what is not durable, so its moment is not one of the durable log.
        let at = if self.is_following() { self.current_at() } else { Some(Instant::now()) };
        Word { end: self.shown_position().unwrap_or(Lsn::START), at }
    }

    /// Of a follower: when it last heard something of whoever gives it the log, be that the primary or a replica, of which its readers
    /// see all by now; `None` if they have seen that of nothing since it was opened.
    #[must_use]
    pub fn level_at(&self) -> Option<Instant> {
        self.shared.freshness.level_at()
    }

    /// Of a follower: has the primary asked where its log ends, which it says by itself once a second if nothing is new. Whether
    /// somebody is connected to it, so that an answer can come: [`wait_current`](Self::wait_current) waits for it.
    #[must_use]
    pub fn ask_primary(&self) -> bool {
        self.shared.freshness.ask()
    }

    /// Of a follower: blocks the thread until its readers have seen all that the primary had published at this moment or later, but no
    /// longer than `patience`. Whether they have: then [`current_at`](Self::current_at) says so.
    #[must_use]
    pub fn wait_current(&self, at: Instant, patience: Duration) -> bool {
        self.shared.freshness.wait_current(at, patience)
    }

    /// Of a follower: how often what its readers see, or the terms of its log, may have changed since it was opened:
    /// [`wait_shown`](Self::wait_shown) waits for the next time.
    #[must_use]
    pub fn shown_changes(&self) -> u64 {
        self.shared.showing.changes()
    }

    /// Of a follower: blocks the thread until [`shown_changes`](Self::shown_changes) gives another number than this one, but no longer
    /// than `patience`. Who takes the number, looks for what he waits for, and waits then, misses no change.
    pub fn wait_shown(&self, seen: u64, patience: Duration) {
        self.shared.showing.wait(seen, patience);
    }
}
