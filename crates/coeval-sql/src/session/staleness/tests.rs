// SPDX-License-Identifier: Apache-2.0
//! How a session of a replica waits for the word of its primary. There is none here: what a test notes is what the replica hears.

use super::*;
use crate::cancel::CancelReason;
use coeval_store::files::DiskFiles;
use coeval_store::{AccessMode, CatalogChange, Follower, StoreOptions, demote};
use std::sync::Arc;
use tempfile::TempDir;

const MAX: Duration = Duration::from_millis(250);

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A replica that has a commit, and has heard nothing yet.
pub(in crate::session) fn replica() -> (TempDir, Store, Follower) {
    let dir = tempfile::tempdir().unwrap();
    let primary = Store::open(dir.path(), StoreOptions::default()).unwrap();
    let mut writer = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    writer.change_catalog(CatalogChange::PutSchema("s".to_owned())).unwrap();
    writer.commit().unwrap();
    drop(primary);
    demote(&DiskFiles, dir.path()).unwrap();
    let files = Arc::new(DiskFiles);
    let (store, follower) = Store::open_follower(files, dir.path(), StoreOptions::default()).unwrap();
    (dir, store, follower)
}

#[test]
fn a_session_that_waits_for_the_primarys_word_goes_on_when_it_comes() {
    let (_dir, store, follower) = replica();
    let _questions = follower.questions();
    let (cancel, asked) = (CancelHandle::new(), Instant::now());
    let heard = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| ask_primary(&store, (asked, MAX), PATIENCE, &cancel));
        if let Some(too_old) = asked.checked_sub(2 * MAX) {
            follower.note_current(too_old);
        }
        // So long that it waits by now, and has asked again.
        std::thread::sleep(3 * ASK_AGAIN);
        assert!(!waiting.is_finished(), "what it has heard is too old");
        follower.note_current(Instant::now());
        waiting.join().unwrap()
    });
    assert_eq!(heard, Ok(Duration::ZERO));
    assert!(asked.elapsed() < PATIENCE);
}

#[test]
fn a_session_that_waits_for_the_primarys_word_can_be_cancelled() {
    let (_dir, store, follower) = replica();
    let _questions = follower.questions();
    let (cancel, asked) = (CancelHandle::new(), Instant::now());
    let ended = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| ask_primary(&store, (asked, MAX), PATIENCE, &cancel));
        std::thread::sleep(3 * ASK_AGAIN);
        cancel.cancel();
        waiting.join().unwrap()
    });
    assert_eq!(ended, Err(CancelReason::Request.error()));
    assert!(asked.elapsed() < PATIENCE);
}

#[test]
fn a_primary_that_does_not_answer_is_waited_for_no_longer_than_the_patience() {
    let (_dir, store, follower) = replica();
    let (cancel, asked) = (CancelHandle::new(), Instant::now());
    assert_eq!(ask_primary(&store, (asked, MAX), PATIENCE, &cancel), Ok(Duration::MAX));
    assert!(asked.elapsed() < PATIENCE, "nobody talks to it");

    let _questions = follower.questions();
    let (asked, patience) = (Instant::now(), 3 * ASK_AGAIN);
    assert_eq!(ask_primary(&store, (asked, MAX), patience, &cancel), Ok(Duration::MAX));
    assert!(asked.elapsed() >= patience && asked.elapsed() < PATIENCE);
}
