// SPDX-License-Identifier: Apache-2.0
//! [`Pace`]: how fast bricks come to a node, so that loads and queries go on meanwhile.

use parking_lot::Mutex;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// How fast bricks come to a node: so many bytes a second, from all that give some together.
///
/// What has come is paid for afterwards, by a pause as long as it may have taken. So a part that is larger than what may come
/// in a second passes too, and what waited is not caught up on.
///
/// # Locking
/// `free` is held to move it, and nothing else is locked meanwhile.
#[derive(Debug)]
pub(super) struct Pace {
    bytes_a_second: Option<NonZeroU64>,
    /// From when on the next part may come.
    free: Mutex<Option<Instant>>,
}

impl Pace {
    /// So many bytes a second; as fast as may be, if nothing is said.
    pub(super) fn new(bytes_a_second: Option<NonZeroU64>) -> Self {
        Self { bytes_a_second, free: Mutex::default() }
    }

    /// So many bytes have come: waits until the next ones may.
    pub(super) async fn keep(&self, bytes: usize) {
        let now = Instant::now();
        let pause = self.pause(bytes, now);
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }

    /// How long whoever has got so many bytes now has to wait.
    fn pause(&self, bytes: usize, now: Instant) -> Duration {
        let Some(rate) = self.bytes_a_second else { return Duration::ZERO };
        let bytes = u128::try_from(bytes).unwrap_or(u128::MAX);
        let nanos = bytes.saturating_mul(1_000_000_000) / u128::from(rate.get());
        let time = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let mut free = self.free.lock();
        let begins = free.map_or(now, |free| free.max(now));
        // No node is there for so long that this is too late.
        let ends = begins.checked_add(time).unwrap_or(begins);
        *free = Some(ends);
        ends.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(bytes_a_second: u64) -> Pace {
        Pace::new(NonZeroU64::new(bytes_a_second))
    }

    #[test]
    fn bytes_come_as_fast_as_they_may_from_all_together() {
        let (pace, now) = (pace(1_000), Instant::now());
        let pauses: Vec<_> = [100, 400, 2_000].map(|bytes| pace.pause(bytes, now).as_millis()).into();
        assert_eq!(pauses, [100, 500, 2_500], "each waits for those before it too");
        let later = now + Duration::from_millis(2_000);
        assert_eq!(pace.pause(100, later).as_millis(), 600);
    }

    #[test]
    fn what_was_not_used_is_not_caught_up_on() {
        let (pace, now) = (pace(1_000), Instant::now());
        let later = now + Duration::from_secs(60);
        assert_eq!(pace.pause(10, now).as_millis(), 10);
        assert_eq!(pace.pause(500, later).as_millis(), 500);
        assert_eq!(pace.pause(500, later).as_millis(), 1_000);
    }

    #[test]
    fn without_a_bound_nobody_waits() {
        assert_eq!(pace(0).pause(usize::MAX, Instant::now()), Duration::ZERO);
    }
}
