// SPDX-License-Identifier: Apache-2.0
//! How much work goes on that nobody waits for any more.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// While so many pieces of it go on, new work waits before it begins: so a session that cancels statements and begins new ones
/// again and again takes no more of the machine than this.
pub(super) const LEFT_BEHIND_MAX: usize = 8;

/// The time between two looks of a thread that waits.
pub(super) const LEFT_BEHIND_WAIT: Duration = Duration::from_millis(10);

/// Work that was left behind and has not ended.
#[derive(Debug, Default)]
pub(super) struct LeftBehind(Arc<AtomicUsize>);

/// One piece of work, shared by the thread that does it and the one that waits for it.
///
/// # Locking
/// `state` is a leaf, held for a move.
#[derive(Debug)]
pub(super) struct Ticket {
    left: Arc<AtomicUsize>,
    state: Mutex<State>,
}

/// Work is waited for, may be left, and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    WaitedFor,
    Left,
    Ended,
}

impl LeftBehind {
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn ticket(&self) -> Arc<Ticket> {
        Arc::new(Ticket { left: Arc::clone(&self.0), state: Mutex::new(State::WaitedFor) })
    }
}

impl Ticket {
    /// Nobody waits for the work any more.
    pub(super) fn leave(&self) {
        let mut state = self.state.lock();
        if *state == State::WaitedFor {
            *state = State::Left;
            self.left.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The work ends when what this gives is dropped, by a panic too.
    pub(super) fn work(&self) -> Working<'_> {
        Working(self)
    }
}

/// See [`Ticket::work`].
pub(super) struct Working<'t>(&'t Ticket);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut *self.0.state.lock(), State::Ended);
        if before == State::Left {
            self.0.left.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_counts_from_when_it_is_left_until_it_ends() {
        let left_behind = LeftBehind::default();
        let (left, waited_for) = (left_behind.ticket(), left_behind.ticket());
        let (left_works, other_works) = (left.work(), waited_for.work());
        left.leave();
        assert_eq!(left_behind.count(), 1);
        drop(left_works);
        drop(other_works);
        assert_eq!(left_behind.count(), 0);
        // It had ended when it was left.
        waited_for.leave();
        assert_eq!(left_behind.count(), 0);
    }
}
