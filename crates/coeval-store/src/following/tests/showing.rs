// SPDX-License-Identifier: Apache-2.0
//! Whoever waits for something that a follower does not show yet hears of each change of what it shows.
//!
//! `Follower` and `Store::{pause_showing, resume_showing}` note them, at five places. Without any one of these notes an assertion here
//! fails.

use super::*;
use crate::log::Lsn;
use coeval_txn::Version;

/// All that somebody may wait for: up to where readers see the log, the version of the safe snapshot, how many terms are known.
fn seen(store: &Store) -> (Option<Lsn>, Option<Version>, usize) {
    let safe = store.shared.serializable.safe(store.shared.published_slot());
    (store.shown_position(), safe.map(|safe| safe.boundary()), store.terms().terms().len())
}

/// Does something, and those who wait hear of it if it changes what is shown. Whether it does.
fn change<T>(store: &Store, what: &str, change: impl FnOnce() -> T) -> (T, bool) {
    let (changes, before) = (store.shown_changes(), seen(store));
    let done = change();
    let after = seen(store);
    let is_heard = store.shown_changes() > changes;
    assert!(is_heard || after == before, "{what}: nobody hears of {before:?} -> {after:?}");
    (done, after != before)
}

/// Takes all that there is. Whether that changed what is shown.
fn take_all_watched(feed: &mut LogFeed, store: &Store, follower: &mut Follower) -> bool {
    let mut has_changed = false;
    for _ in 0..3 {
        loop {
            let (has_taken, changed) = change(store, "a piece", || take(feed, follower).unwrap());
            has_changed |= changed;
            if !has_taken {
                break;
            }
        }
        // A record that nobody waits for is synced a moment later.
        std::thread::sleep(std::time::Duration::from_millis(6));
    }
    has_changed
}

fn commit_one(primary: &Store, id: i32) {
    let def = primary.world().tables().next().unwrap().def().clone();
    let mut transaction = primary.begin(Isolation::Serializable, AccessMode::ReadWrite);
    transaction.put(def.id, row(&def, id, 0)).unwrap();
    transaction.commit().unwrap();
}

#[test]
fn whatever_changes_what_a_follower_shows_is_heard_of() {
    let (mut primary, primary_files, store, mut follower) = small_pair();
    let mut feed = feed_of(&primary, &follower).unwrap();
    for id in 2..6 {
        commit_one(&primary, id);
        assert!(take_all_watched(&mut feed, &store, &mut follower), "a commit");
    }
    // The record of the last commit has an older boundary: this one came by itself, as the last piece.
    assert_eq!(seen(&store).1, Some(primary.world().version()));

    // A term shows with its record, before anybody says that anything is published.
    drop(feed);
    drop(primary);
    primary = open_primary(&primary_files);
    commit_one(&primary, 20);
    let mut feed = feed_of(&primary, &follower).unwrap();
    let terms = store.terms().terms().len();
    assert!(take_all_watched(&mut feed, &store, &mut follower), "a term");
    assert!(store.terms().terms().len() > terms);

    store.pause_showing(None).unwrap();
    let before = store.world().version();
    for id in 6..9 {
        commit_one(&primary, id);
    }
    take_all_watched(&mut feed, &store, &mut follower);
    let (_, changed) = change(&store, "a later pause", || store.pause_showing(Some(before.next())).unwrap());
    assert!(changed);
    let (_, changed) = change(&store, "the end of the pause", || store.resume_showing().unwrap());
    assert!(changed);
}
