// SPDX-License-Identifier: Apache-2.0
//! What is kept of the log for an archive, whoever comes and goes.

use super::{PRIMARY, feed_of, open_primary, small_pair, take_all};
use crate::disk::LOG_DIR;
use crate::error::StoreError;
use crate::files::{FileSystem, SimulatedFiles};
use crate::id_value::row;
use crate::kept_log::FILE_NAME;
use crate::log::LogError;
use crate::store::Store;
use crate::transaction::AccessMode;
use coeval_txn::Isolation;
use std::path::Path;

fn commits(primary: &Store, count: i32) {
    let def = primary.world().tables().next().unwrap().def().clone();
    for id in 0..count {
        let mut transaction = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        transaction.put(def.id, row(&def, id, id)).unwrap();
        transaction.commit().unwrap();
    }
}

fn is_noted(files: &SimulatedFiles) -> bool {
    files.exists(&Path::new(PRIMARY).join(FILE_NAME)).unwrap()
}

fn log_segments(files: &SimulatedFiles) -> usize {
    files.list(&Path::new(PRIMARY).join(LOG_DIR)).unwrap().len()
}

#[test]
fn what_is_kept_is_there_until_it_is_let_go_of() {
    let (primary, files, store, mut follower) = small_pair();
    take_all(&mut feed_of(&primary, &follower).unwrap(), &mut follower);
    let mut feed = feed_of(&primary, &follower).unwrap();
    feed.keep_over_closes(1 << 30);
    commits(&primary, 200);
    primary.checkpoint().unwrap();
    assert!(is_noted(&files) && log_segments(&files) > 2);
    drop((feed, primary));
    let mut files = files.restart();
    for _ in 0..2 {
        let primary = open_primary(&files);
        commits(&primary, 20);
        primary.checkpoint().unwrap();
        // Also whoever ends it.
        files = files.crash();
        drop(primary);
    }
    let primary = open_primary(&files);
    let mut feed = feed_of(&primary, &follower).unwrap();
    feed.keep_over_closes(1 << 30);
    take_all(&mut feed, &mut follower);
    assert_eq!(store.world().version(), primary.world().version());
    feed.confirm(follower.sync().unwrap());
    primary.checkpoint().unwrap();
    commits(&primary, 20);
    primary.checkpoint().unwrap();
    assert!(is_noted(&files) && log_segments(&files) <= 2);
    feed.let_go();
    assert!(!is_noted(&files));
}

/// Seen to fail if a hold that is kept goes when it is dropped.
#[test]
fn what_is_not_kept_goes_with_who_needs_it() {
    for keeps in [false, true] {
        let (primary, files, _, mut follower) = small_pair();
        take_all(&mut feed_of(&primary, &follower).unwrap(), &mut follower);
        let mut feed = feed_of(&primary, &follower).unwrap();
        if keeps {
            feed.keep_over_closes(1 << 30);
        }
        commits(&primary, 200);
        drop(feed);
        primary.checkpoint().unwrap();
        assert_eq!(is_noted(&files), keeps);
        let fed = feed_of(&primary, &follower).unwrap().next_piece();
        match keeps {
            true => assert!(fed.unwrap().is_some()),
            false => assert!(matches!(fed, Err(StoreError::Log(LogError::Gone { .. })))),
        }
    }
}

#[test]
fn no_more_is_left_than_may_be() {
    let (primary, files, _, mut follower) = small_pair();
    take_all(&mut feed_of(&primary, &follower).unwrap(), &mut follower);
    let mut feed = feed_of(&primary, &follower).unwrap();
    feed.keep_over_closes(6_000);
    commits(&primary, 20);
    // Who is there lets go himself.
    primary.checkpoint().unwrap();
    drop((feed, primary));
    let files = files.restart();
    let primary = open_primary(&files);
    primary.checkpoint().unwrap();
    assert!(feed_of(&primary, &follower).unwrap().next_piece().unwrap().is_some());
    commits(&primary, 200);
    primary.checkpoint().unwrap();
    assert!(!is_noted(&files));
    let fed = feed_of(&primary, &follower).unwrap().next_piece();
    assert!(matches!(fed, Err(StoreError::Log(LogError::Gone { .. }))), "{fed:?}");
}

/// Seen to fail if a checkpoint that runs meanwhile does not look at who holds the log, or if nothing is noted before the next one.
#[test]
fn who_does_not_know_yet_what_he_needs_holds_all() {
    let (primary, files, _, mut follower) = small_pair();
    primary.checkpoint().unwrap();
    take_all(&mut feed_of(&primary, &follower).unwrap(), &mut follower);
    let mut held = primary.whole_log_feed().unwrap();
    held.keep_over_closes(1 << 30);
    assert!(is_noted(&files), "before any checkpoint");
    commits(&primary, 200);
    primary.checkpoint().unwrap();
    let files = files.crash();
    drop((held, primary));
    let primary = open_primary(&files);
    // Where it was kept, and not where the last checkpoint stands.
    let mut held = primary.whole_log_feed().unwrap();
    held.keep_over_closes(1 << 30);
    assert!(held.position() <= follower.position());
    commits(&primary, 20);
    primary.checkpoint().unwrap();
    take_all(&mut feed_of(&primary, &follower).unwrap(), &mut follower);
    held.let_go();
    assert!(!is_noted(&files));
}

/// Seen to fail without the turn: one renames the file that the other one is about to rename.
#[test]
fn several_note_what_they_keep_at_once() {
    let (primary, files, _, _) = small_pair();
    std::thread::scope(|scope| {
        for name in ["a", "b", "c"] {
            let primary = &primary;
            scope.spawn(move || {
                for _ in 0..50 {
                    primary.create_slot(name).unwrap();
                    primary.checkpoint().unwrap();
                    primary.drop_slot(name).unwrap();
                }
            });
        }
    });
    assert!(!is_noted(&files), "the last one says what is there");
}
