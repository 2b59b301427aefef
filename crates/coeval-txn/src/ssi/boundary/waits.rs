// SPDX-License-Identifier: Apache-2.0
//! Those who wait until nobody holds the boundary before a version: `DEFERRABLE` readers.

use super::Boundary;
use crate::Version;
use crate::row_locks::{Interrupt, waker_of_this_thread};
use std::task::Waker;
use std::time::{Duration, Instant};

/// How long a wait lasts at most before the caller looks again: a bound of age may have been set meanwhile.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Who waits, for which version.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    wakers: Vec<(u64, Version, Waker)>,
    next: u64,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.wakers.is_empty()
    }

    fn add(&mut self, version: Version, waker: Waker) -> u64 {
        let number = self.next;
        self.next += 1;
        self.wakers.push((number, version, waker));
        number
    }

    fn remove(&mut self, number: u64) {
        self.wakers.retain(|(other, ..)| *other != number);
    }

    /// Takes those whose version is not held back by somebody at `held_at`.
    pub(super) fn take_released(&mut self, held_at: Option<Version>) -> Vec<Waker> {
        let is_held = |version: Version| held_at.is_some_and(|held_at| held_at < version);
        self.wakers.extract_if(.., |(_, version, _)| !is_held(*version)).map(|(.., waker)| waker).collect()
    }
}

/// What became of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBack {
    /// Nobody holds the boundary before the version.
    No,
    /// Somebody did: it has ended, or it is time to look again, or the wait was interrupted.
    Was,
}

impl<W: Clone> Boundary<W> {
    /// Blocks the thread while somebody holds the boundary before `version`, for a second at most, or until somebody
    /// who does may be passed (`lag_max`, as for [`advance`](Self::advance)), or until `interrupt` is set. The caller
    /// looks again then, by [`advance`](Self::advance).
    ///
    /// The wait ends for good: who begins after `version` was published does not hold the boundary before it.
    pub fn wait_while_held(
        &self,
        version: Version,
        lag_max: Option<Duration>,
        interrupt: Option<&(dyn Interrupt + Send + Sync)>,
    ) -> HeldBack {
        let waker = waker_of_this_thread();
        let (number, patience) = {
            let mut registry = self.registry.lock();
            let Some(holder) = registry.first_holder().filter(|holder| holder.begin < version) else {
                return HeldBack::No;
            };
            // A moment more, for one is passed that runs for longer than the bound.
            let late_in = |max: Duration| (holder.since + max).saturating_duration_since(Instant::now());
            let until_late = lag_max.map(|max| late_in(max) + Duration::from_millis(1));
            let patience = until_late.map_or(LOOK_AGAIN, |until_late| until_late.min(LOOK_AGAIN));
            (registry.waiting.add(version, waker.clone()), patience)
        };
        if let Some(interrupt) = interrupt {
            interrupt.notify(waker);
        }
        if !interrupt.is_some_and(Interrupt::is_set) {
            std::thread::park_timeout(patience);
        }
        if let Some(interrupt) = interrupt {
            interrupt.wait_ended();
        }
        self.registry.lock().waiting.remove(number);
        HeldBack::Was
    }

    /// How many wait in [`wait_while_held`](Self::wait_while_held).
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.registry.lock().waiting.wakers.len()
    }
}
