// SPDX-License-Identifier: Apache-2.0
//! [`Freshness`]: when readers of a follower last saw all that its primary had, and who wants to hear that anew.
//!
//! A primary without commits says once a second that it has nothing new. Who takes less than that [asks](Freshness::ask), and whoever
//! talks to the primary passes that on. The answer counts as any other word of the primary.

use crate::log::Lsn;
use crate::store::Store;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

/// See the module.
///
/// # Locking
/// `current_at` and `level_at` are leaf locks, held for moments.
#[derive(Debug, Default)]
pub(crate) struct Freshness {
    /// When readers last saw all that the primary had published, if they have since the store was opened.
    current_at: Mutex<Option<Instant>>,
    /// When whoever gives the log said something last of which readers have seen all. In a chain the primary's word may be older.
    level_at: Mutex<Option<Instant>>,
    /// How many [`Questions`] there are.
    listeners: AtomicU32,
    is_asked: AtomicBool,
}

impl Freshness {
    pub(crate) fn note_current(&self, at: Instant) {
        let mut current_at = self.current_at.lock();
        *current_at = (*current_at).max(Some(at));
    }

    pub(crate) fn current_at(&self) -> Option<Instant> {
        *self.current_at.lock()
    }

    pub(crate) fn note_level(&self, at: Instant) {
        let mut level_at = self.level_at.lock();
        *level_at = (*level_at).max(Some(at));
    }

    pub(crate) fn level_at(&self) -> Option<Instant> {
        *self.level_at.lock()
    }

    /// Has the primary say anew where its log ends. Whether somebody is there who passes that on.
    pub(crate) fn ask(&self) -> bool {
        self.is_asked.store(true, Ordering::Release);
        self.listeners.load(Ordering::Acquire) > 0
    }
}

/// What whoever gives the log says of the primary's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Who has the log up to here, has all ...
    pub end: Lsn,
    /// ... that the primary had published at this moment; `None` if nobody knows of any.
    pub at: Option<Instant>,
}

/// What readers want to hear of the primary, for whoever talks to it. Once this is dropped, they know that nobody does.
pub struct Questions(Arc<Freshness>);

impl fmt::Debug for Questions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Questions")
    }
}

impl Questions {
    pub(crate) fn of(freshness: &Arc<Freshness>) -> Self {
        freshness.listeners.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(freshness))
    }

    /// Whether somebody has asked since this was called last.
    #[must_use]
    pub fn have_come(&self) -> bool {
        // Mostly nobody has: then nothing is written.
        self.0.is_asked.load(Ordering::Relaxed) && self.0.is_asked.swap(false, Ordering::AcqRel)
    }
}

impl Drop for Questions {
    fn drop(&mut self) {
        self.0.listeners.fetch_sub(1, Ordering::AcqRel);
    }
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
    /// somebody is connected to it, so that an answer can come: [`current_at`](Self::current_at) has it then.
    #[must_use]
    pub fn ask_primary(&self) -> bool {
        self.shared.freshness.ask()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_heard_once_while_somebody_listens() {
        let freshness = Arc::new(Freshness::default());
        assert!(!freshness.ask(), "nobody talks to the primary");
        let questions = Questions::of(&freshness);
        assert!(questions.have_come(), "it was asked before");
        assert!(!questions.have_come());
        assert!(freshness.ask() && freshness.ask());
        assert!(questions.have_come() && !questions.have_come());
        drop(questions);
        assert!(!freshness.ask());
    }

    #[test]
    fn the_latest_moment_counts_in_whatever_order_they_are_noted() {
        let freshness = Freshness::default();
        assert_eq!(freshness.current_at(), None);
        let earlier = Instant::now();
        let later = earlier + std::time::Duration::from_millis(5);
        for (noted, counts) in [(earlier, earlier), (later, later), (earlier, later)] {
            freshness.note_current(noted);
            assert_eq!(freshness.current_at(), Some(counts));
        }
        assert_eq!(freshness.level_at(), None, "that is another thing");
        for (noted, counts) in [(earlier, earlier), (later, later), (earlier, later)] {
            freshness.note_level(noted);
            assert_eq!(freshness.level_at(), Some(counts));
        }
    }
}
