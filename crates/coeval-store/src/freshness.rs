// SPDX-License-Identifier: Apache-2.0
//! [`Freshness`]: when readers of a follower last saw all that its primary had, and who wants to hear that anew.
//!
//! A primary without commits reports once a second that it has nothing new. A reader that needs a newer report [asks](Freshness::ask),
//! and the connection to the primary passes the question on. The answer counts as any other report of the primary.

use parking_lot::{Condvar, Mutex};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// See the module.
///
/// # Locking
/// `current_at` and `level_at` are leaf locks, held for moments. Waiting with `current_noted` releases that of `current_at`.
#[derive(Debug, Default)]
pub(crate) struct Freshness {
    /// When readers last saw all that the primary had published, if they have since the store was opened.
    current_at: Mutex<Option<Instant>>,
    /// `current_at` was noted anew.
    current_noted: Condvar,
    /// The time of the last report of the log's source whose contents readers have seen completely. In a chain of replicas the
    /// primary's own report may be older.
    level_at: Mutex<Option<Instant>>,
    /// How many [`Questions`] there are.
    listeners: AtomicU32,
    is_asked: AtomicBool,
}

impl Freshness {
    pub(crate) fn note_current(&self, at: Instant) {
        {
            let mut current_at = self.current_at.lock();
            *current_at = (*current_at).max(Some(at));
        }
        // Mostly nobody waits: that costs one look.
        self.current_noted.notify_all();
    }

    pub(crate) fn current_at(&self) -> Option<Instant> {
        *self.current_at.lock()
    }

    /// Blocks the thread until readers have seen all that the primary had published at `at` or later, but no longer than `patience`.
    /// Whether they have.
    ///
    /// No word is missed: the moment is looked at under the lock under which it is noted, and the wait gives that lock up in the same
    /// step in which it begins. So a word is noted either before the look, which finds it, or within the wait, which its notification
    /// ends, as that is given after the lock.
    pub(crate) fn wait_current(&self, at: Instant, patience: Duration) -> bool {
        let mut current_at = self.current_at.lock();
        self.current_noted.wait_while_for(&mut current_at, |current_at| *current_at < Some(at), patience);
        *current_at >= Some(at)
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

/// The questions of readers to the primary, for the connection to it. Once this is dropped, readers know that there is none.
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

    /// A word is said at about the time at which it is looked for, before or after. If nobody is notified, or if the lock is given up
    /// between the look and the wait, one of them is missed.
    #[test]
    fn who_waits_for_a_word_goes_on_when_it_comes() {
        let patience = Duration::from_secs(20);
        let freshness = Arc::new(Freshness::default());
        for round in 0..500 {
            let (waiting, at) = (Arc::clone(&freshness), Instant::now());
            let waits = std::thread::spawn(move || (waiting.wait_current(at, patience), at.elapsed()));
            if round == 0 {
                // So long that it waits by now.
                std::thread::sleep(Duration::from_millis(20));
            }
            let earlier = freshness.current_at();
            assert!(earlier < Some(at));
            earlier.into_iter().for_each(|earlier| freshness.note_current(earlier));
            freshness.note_current(Instant::now());
            let (is_current, waited) = waits.join().unwrap();
            assert!(is_current && waited < patience, "{round}: {waited:?}");
        }
    }

    #[test]
    fn who_hears_nothing_new_waits_no_longer_than_he_may() {
        let freshness = Freshness::default();
        let (at, patience) = (Instant::now(), Duration::from_millis(5));
        assert!(!freshness.wait_current(at, patience), "nothing was ever said");
        assert!(at.elapsed() >= patience);
        freshness.note_current(at);
        assert!(freshness.wait_current(at, Duration::ZERO), "it is here");
        assert!(!freshness.wait_current(at + patience, patience), "that is older");
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
