// SPDX-License-Identifier: Apache-2.0
//! How a reader at SERIALIZABLE waits for the first safe snapshot of a replica that has just been copied, or has crashed.

use super::token_wait::END_LOOK;
use crate::cancel::CancelHandle;
use crate::error::{SqlError, SqlState};
use coeval_store::Store;
use std::time::{Duration, Instant};

/// The first safe snapshot of a replica is waited for no longer. A primary that is there says once a second how far they go, and whoever
/// is told after this time that there is none is rather told why.
pub(super) const FIRST_SNAPSHOT_PATIENCE: Duration = Duration::from_secs(5);

/// Blocks the thread until the replica has a safe snapshot, but no longer than `patience`.
///
/// # Errors
/// `57P03` if there is none by then; that of a statement that was cancelled while it waited.
pub(super) fn await_first_snapshot(
    store: &Store,
    patience: Duration,
    cancel: &CancelHandle,
) -> Result<(), SqlError> {
    let begun = Instant::now();
    loop {
        // Taken first: what changes behind the look ends the wait at once.
        let seen = store.shown_changes();
        if store.has_safe_snapshot() {
            return Ok(());
        }
        if let Some(reason) = cancel.requested() {
            return Err(reason.error());
        }
        let rest = patience.saturating_sub(begun.elapsed());
        if rest.is_zero() {
            return Err(none_yet(begun.elapsed()));
        }
        store.wait_shown(seen, rest.min(END_LOOK));
    }
}

/// A replica's copy is newer than what is known to be safe.
fn none_yet(waited: Duration) -> SqlError {
    SqlError::new(SqlState::CannotConnectNow, "this replica has no serializable snapshot yet")
        .with_detail(format!(
            "Waited for {} ms. Behind a copy, and behind a crash of the replica, there is one when the primary has said which \
             transactions at SERIALIZABLE have ended.",
            waited.as_millis(),
        ))
        .with_hint(
            "Try again, or read at REPEATABLE READ. Whether the primary can be reached: SELECT * FROM pg_stat_wal_receiver.",
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::CancelReason;
    use crate::engine::Engine;
    use crate::session::staleness::tests::replica;

    /// Whatever may be a table of a user needs a snapshot of them.
    const QUERY: &str = "WITH v AS (SELECT 1 AS n) SELECT count(*) FROM v";

    /// So long that somebody waits by now.
    const WHILE: Duration = Duration::from_millis(60);

    #[test]
    fn a_reader_waits_for_the_first_snapshot_of_a_replica() {
        let (_dir, store, follower) = replica();
        let version = store.world().version();
        let mut session = Engine::new(store).unwrap().session();
        let begun = Instant::now();
        let counted = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| session.execute(QUERY).map(drop));
            std::thread::sleep(WHILE);
            assert!(!waiting.is_finished(), "there is no safe snapshot yet");
            follower.note_boundary(version);
            waiting.join().unwrap()
        });
        assert_eq!(counted, Ok(()));
        assert!(begun.elapsed() < FIRST_SNAPSHOT_PATIENCE);
    }

    #[test]
    fn a_wait_for_the_first_snapshot_can_be_cancelled() {
        let (_dir, store, _follower) = replica();
        let (cancel, begun) = (CancelHandle::new(), Instant::now());
        let ended = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| await_first_snapshot(&store, FIRST_SNAPSHOT_PATIENCE, &cancel));
            std::thread::sleep(WHILE);
            cancel.cancel();
            waiting.join().unwrap()
        });
        assert_eq!(ended, Err(CancelReason::Request.error()));
        assert!(begun.elapsed() < FIRST_SNAPSHOT_PATIENCE);
    }

    #[test]
    fn the_first_snapshot_is_waited_for_no_longer_than_the_patience() {
        let (_dir, store, _follower) = replica();
        let begun = Instant::now();
        let error = await_first_snapshot(&store, WHILE, &CancelHandle::new()).unwrap_err();
        assert_eq!(error.state, SqlState::CannotConnectNow, "{error}");
        assert!(begun.elapsed() >= WHILE && begun.elapsed() < FIRST_SNAPSHOT_PATIENCE);
    }
}
