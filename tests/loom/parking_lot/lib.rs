// SPDX-License-Identifier: Apache-2.0
//! What coeval-txn and the store's queue of commits use of parking_lot, on loom's locks.

use loom::sync::LockResult;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A lock that is held.
pub struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

/// Nobody sees a guard while its lock is given back in a wait.
const HELD: &str = "the lock is held";

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().expect(HELD)
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_deref_mut().expect(HELD)
    }
}

/// Waits that loom schedules.
#[derive(Default)]
pub struct Condvar(loom::sync::Condvar);

impl Condvar {
    /// Nobody waits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the lock back until somebody notifies.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().expect(HELD);
        guard.0 = Some(whole(self.0.wait(held)));
    }

    /// Wakes one who waits.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }
}

/// A lock that loom schedules.
pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// An open lock.
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(whole(self.0.lock())))
    }

    /// The lock, if nobody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
    }
}

fn whole<T>(outcome: LockResult<T>) -> T {
    outcome.unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Mutex")
    }
}
