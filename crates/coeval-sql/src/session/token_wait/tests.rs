// SPDX-License-Identifier: Apache-2.0
//! How a session of a replica waits for the snapshot of a token. There is no primary here: what a test notes is what the replica is told.

use super::*;
use crate::cancel::CancelReason;
use crate::session::staleness::tests::replica;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// So long that somebody waits by now.
const WHILE: Duration = Duration::from_millis(60);

fn wait<'w>(token: &'w SnapshotToken, needs: Needs, cancel: &'w CancelHandle) -> TokenWait<'w> {
    TokenWait { token, floor: SessionFloor::default(), needs, limit: Some(2 * PATIENCE), cancel }
}

/// The look for an end takes longer than the test may: nothing but the change itself ends the wait.
#[test]
fn who_waits_for_a_token_is_woken_by_what_it_waits_for() {
    let (_dir, store, follower) = replica();
    let version = store.world().version();
    let (token, cancel) = (SnapshotToken::of(&store, version).unwrap(), CancelHandle::new());
    let begun = Instant::now();
    assert_eq!(wait(&token, Needs::Shown, &cancel).until_there(&store, PATIENCE), Ok(()));
    let outcome = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| wait(&token, Needs::Safe, &cancel).until_there(&store, PATIENCE));
        std::thread::sleep(WHILE);
        assert!(!waiting.is_finished(), "there is no safe snapshot yet");
        follower.note_boundary(version);
        waiting.join().unwrap()
    });
    assert_eq!(outcome, Ok(()));
    assert!(begun.elapsed() < PATIENCE);
}

#[test]
fn who_waits_for_a_token_can_be_cancelled() {
    let (_dir, store, _follower) = replica();
    let token = SnapshotToken::of(&store, store.world().version()).unwrap();
    let (cancel, begun) = (CancelHandle::new(), Instant::now());
    let outcome = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| wait(&token, Needs::Safe, &cancel).until_there(&store, END_LOOK));
        std::thread::sleep(WHILE);
        cancel.cancel();
        waiting.join().unwrap()
    });
    assert_eq!(outcome, Err(CancelReason::Request.error()));
    assert!(begun.elapsed() < PATIENCE);
}

#[test]
fn who_waits_for_a_token_waits_no_longer_than_its_limit() {
    let (_dir, store, _follower) = replica();
    let token = SnapshotToken::of(&store, store.world().version()).unwrap();
    let (cancel, begun) = (CancelHandle::new(), Instant::now());
    let short = TokenWait { limit: Some(WHILE), ..wait(&token, Needs::Safe, &cancel) };
    let error = short.until_there(&store, PATIENCE).unwrap_err();
    assert_eq!(error.state, SqlState::QueryCanceled, "{error}");
    assert!(begun.elapsed() >= WHILE && begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}
