// SPDX-License-Identifier: Apache-2.0
//! What coeval-txn uses of parking_lot, on loom's locks.

use loom::sync::LockResult;
use std::fmt;

pub use loom::sync::MutexGuard;

/// A lock that loom schedules.
pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// An open lock.
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        whole(self.0.lock())
    }

    /// The lock, if nobody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
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
