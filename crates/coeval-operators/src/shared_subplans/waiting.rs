// SPDX-License-Identifier: Apache-2.0
//! Who waits for the rows of one partition: the stream that makes them wakes all, as any of them can poll it next.

use super::lock;
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

/// What wakes each reader that waits.
///
/// # Locking
///
/// `wakers` is locked while one is put in or some are taken out, and nothing else is locked meanwhile. Wakers are called without it.
pub(super) struct Waiting {
    wakers: Mutex<Vec<Option<Waker>>>,
}

impl Waiting {
    /// Nobody of so many readers waits.
    pub(super) fn new(readers: usize) -> Self {
        Self { wakers: Mutex::new(vec![None; readers]) }
    }

    /// The reader waits, and is woken by this.
    pub(super) fn wait(&self, reader: usize, waker: &Waker) {
        let mut wakers = lock(&self.wakers);
        let known = &mut wakers[reader];
        if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *known = Some(waker.clone());
        }
    }

    /// The reader does not wait any more.
    pub(super) fn leave(&self, reader: usize) {
        let waker = lock(&self.wakers)[reader].take();
        drop(waker);
    }

    /// Wakes all that wait, except this reader, which is awake.
    pub(super) fn wake_others(&self, reader: usize) {
        self.wake_where(|other| other != reader);
    }

    fn wake_where(&self, is_meant: impl Fn(usize) -> bool) {
        let mut wakers = lock(&self.wakers);
        let meant = wakers.iter_mut().enumerate().filter(|(reader, _)| is_meant(*reader));
        let taken: Vec<Waker> = meant.filter_map(|(_, waker)| waker.take()).collect();
        drop(wakers);
        taken.into_iter().for_each(Waker::wake);
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wake_where(|_| true);
    }
}
