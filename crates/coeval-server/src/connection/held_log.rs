// SPDX-License-Identifier: Apache-2.0
//! How much log is held for who follows without a slot.
//!
//! What a follower does not have durably stays here while it is connected. One that takes nothing more and says that it is there, as a feed
//! does whose reader has stopped, would have the disk fill up, and then no commit has room. So it is held for as it would be by a slot: up
//! to `max_slot_wal_keep_size`, and what it lacked when it came. A slot has that bound by itself.

use coeval::{Lsn, SqlError, SqlState, Store};

/// Whatever is set for slots: of a follower that is connected this is on its way.
const HELD_MIN: u64 = 16 << 20;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldLog {
    /// Bytes that the follower lacked when it came.
    lacked: u64,
}

impl HeldLog {
    /// Of a follower that has the log up to here.
    pub(super) fn of(store: &Store, position: Lsn) -> Self {
        Self { lacked: lacks(store, position.get()) }
    }

    /// Fails if nothing more is to be held for the follower, which has the log durably up to here.
    ///
    /// # Errors
    /// `53400`.
    pub(super) fn check(self, store: &Store, confirmed: u64) -> Result<(), SqlError> {
        let bytes = lacks(store, confirmed);
        let Some(max) = self.exceeded(bytes, store.slot_bytes_max()) else { return Ok(()) };
        tracing::warn!(
            bytes,
            max,
            "more log is held for a follower than for a slot: it is not held for any longer"
        );
        let message = format!("the follower lacks {bytes} bytes of log, and max_slot_wal_keep_size is {max}");
        Err(SqlError::new(SqlState::ConfigurationLimitExceeded, message).with_hint(
            "What it lacks goes with the next checkpoint. It may go on before, from the archive, or with a new copy.",
        ))
    }

    /// The bound, if there is one and so many bytes are more.
    fn exceeded(self, bytes: u64, max: Option<u64>) -> Option<u64> {
        max.filter(|max| bytes > (*max).max(HELD_MIN).saturating_add(self.lacked))
    }
}

fn lacks(store: &Store, confirmed: u64) -> u64 {
    let durable = store.log_position().map_or(0, |(_, durable)| durable.get());
    durable.saturating_sub(confirmed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follower_is_held_for_as_far_as_a_slot_and_what_it_lacked_besides() {
        let (new, late) = (HeldLog { lacked: 0 }, HeldLog { lacked: 5_000 });
        let max = 2 * HELD_MIN;
        assert_eq!((new.exceeded(max, Some(max)), new.exceeded(max + 1, Some(max))), (None, Some(max)));
        assert_eq!(
            (late.exceeded(max + 5_000, Some(max)), late.exceeded(max + 5_001, Some(max))),
            (None, Some(max))
        );
        assert_eq!((new.exceeded(HELD_MIN, Some(0)), new.exceeded(HELD_MIN + 1, Some(0))), (None, Some(0)));
        assert_eq!(new.exceeded(u64::MAX, None), None, "there is no bound");
        assert_eq!(HeldLog { lacked: u64::MAX }.exceeded(u64::MAX, Some(max)), None);
    }
}
