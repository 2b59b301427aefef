// SPDX-License-Identifier: Apache-2.0
//! How long a storage is waited for.

use std::time::Duration;

/// How often something is tried, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// So many attempts, at least one.
    pub attempts: u32,
    /// The pause behind the first attempt that failed; it doubles from one to the next.
    pub pause: Duration,
    /// The longest pause.
    pub pause_max: Duration,
    /// How long one attempt may take, and a second for each mebibyte that is sent or fetched beside.
    pub attempt_max: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            attempts: 8,
            pause: Duration::from_millis(200),
            pause_max: Duration::from_secs(20),
            attempt_max: Duration::from_secs(60),
        }
    }
}

impl Patience {
    /// The same with one attempt: for who tries again by himself.
    #[must_use]
    pub fn once(self) -> Self {
        Self { attempts: 1, ..self }
    }

    /// The pause behind so many attempts that failed.
    pub(crate) fn pause_after(&self, attempts: u32) -> Duration {
        let doubled = self.pause.saturating_mul(1 << attempts.saturating_sub(1).min(20));
        doubled.min(self.pause_max)
    }
}
