// SPDX-License-Identifier: Apache-2.0
//! A place in a queue, and how its owner hears that its turn has come.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::Thread;

/// A place in a queue: granted once, by whoever ends the lock before.
///
/// # Locking
/// `waker` is a leaf, held for a move. [`Turn::come`] is called under a shard's lock, [`Turn::notify`] under
/// none: what a waker runs is not ours.
#[derive(Debug, Default)]
pub(super) struct Turn {
    has_come: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Turn {
    /// Whether the lock is granted. If not, `waker` is woken when it is; it takes the place of an earlier one.
    pub(super) fn poll(&self, waker: &Waker) -> bool {
        let mut registered = self.waker.lock();
        // Read behind the lock that notify takes: either it finds this waker, or this sees what it announces.
        if self.has_come() {
            return true;
        }
        match &mut *registered {
            Some(known) if known.will_wake(waker) => {}
            other => *other = Some(waker.clone()),
        }
        false
    }

    pub(super) fn has_come(&self) -> bool {
        self.has_come.load(Ordering::Acquire)
    }

    /// The lock is granted; [`notify`](Self::notify) must follow.
    pub(super) fn come(&self) {
        let had_come = self.has_come.swap(true, Ordering::AcqRel);
        assert!(!had_come, "a turn comes once");
    }

    /// Wakes who waits.
    pub(super) fn notify(&self) {
        assert!(self.has_come(), "nobody is woken before its turn");
        let waker = self.waker.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Tells those whose turn has come; dropped, it does so too, so that none is forgotten.
#[derive(Debug, Default)]
pub(super) struct Woken(Vec<Arc<Turn>>);

impl Woken {
    pub(super) fn push(&mut self, turn: Arc<Turn>) {
        turn.come();
        self.0.push(turn);
    }
}

impl Drop for Woken {
    fn drop(&mut self) {
        for turn in &self.0 {
            turn.notify();
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Wakes the calling thread out of [`std::thread::park`].
pub(crate) fn waker_of_this_thread() -> Waker {
    Waker::from(Arc::new(Unpark(std::thread::current())))
}
