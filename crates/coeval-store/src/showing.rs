// SPDX-License-Identifier: Apache-2.0
//! [`Showing`]: that what readers of a follower see has changed, for those who wait for something in it.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// See the module.
///
/// # Locking
/// `changes` is a leaf lock, held for moments. Waiting with `changed` releases it.
#[derive(Debug, Default)]
pub(crate) struct Showing {
    /// How often something has changed.
    changes: Mutex<u64>,
    /// `changes` has grown.
    changed: Condvar,
}

impl Showing {
    /// What readers see has changed, or may have: said behind the change.
    pub(crate) fn note(&self) {
        *self.changes.lock() += 1;
        // Mostly nobody waits: that costs one look.
        self.changed.notify_all();
    }

    pub(crate) fn changes(&self) -> u64 {
        *self.changes.lock()
    }

    /// Blocks the thread until there are other [changes](Self::changes) than these, but no longer than `patience`.
    ///
    /// No change is missed by one who takes the number first, looks then, and waits last. A change that the look did not find is noted
    /// behind the taking of the number; so it is counted before the wait, which ends at once then, or within it: the number is compared
    /// under the lock under which it grows, and the wait gives that up in the same step in which it begins.
    pub(crate) fn wait(&self, seen: u64, patience: Duration) {
        let mut changes = self.changes.lock();
        self.changed.wait_while_for(&mut changes, |changes| *changes == seen, patience);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Instant;

    /// A change comes at about the time at which it is looked for, before or after. If nobody is notified, or if the number is not
    /// compared under the lock, one of them is missed.
    #[test]
    fn who_waits_for_a_change_goes_on_when_it_comes() {
        let patience = Duration::from_secs(20);
        let showing = Arc::new(Showing::default());
        for round in 0..500 {
            let (waiting, begun) = (Arc::clone(&showing), Instant::now());
            let seen = showing.changes();
            let waits = std::thread::spawn(move || {
                waiting.wait(seen, patience);
                begun.elapsed()
            });
            if round == 0 {
                // So long that it waits by now.
                std::thread::sleep(Duration::from_millis(20));
            }
            showing.note();
            let waited = waits.join().unwrap();
            assert!(waited < patience, "{round}: {waited:?}");
        }
    }

    #[test]
    fn who_sees_no_change_waits_no_longer_than_he_may() {
        let showing = Showing::default();
        let (begun, patience) = (Instant::now(), Duration::from_millis(5));
        showing.note();
        showing.wait(showing.changes(), patience);
        assert!(begun.elapsed() >= patience, "that was before");
    }
}
