// SPDX-License-Identifier: Apache-2.0
//! [`Freshness`]: when readers of a follower last saw all that its primary had, and who wants to hear that anew.
//!
//! A primary without commits says once a second that it has nothing new. Who takes less than that [asks](Freshness::ask), and whoever
//! talks to the primary passes that on. The answer counts as any other word of the primary.

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
