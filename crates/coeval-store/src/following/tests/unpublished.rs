// SPDX-License-Identifier: Apache-2.0
//! What a follower has and its primary has not said to be published: nobody reads it, and who waits for it may.
//!
//! A replica had one of ten commits when its connection fell silent, without the word that it is published. Over the next one came the
//! other nine as one group, and behind them a boundary that stood in the log. Until the word came, sessions at SERIALIZABLE read the
//! safe snapshot of that boundary, and asked for the publication of its version. That was looked for where it would be if each version
//! had its world: the session ended by a panic, and its client saw a closed connection.

use super::*;
use crate::following::Word;
use coeval_txn::Version;
use coeval_txn::ssi::SessionFloor;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

#[test]
fn a_safe_snapshot_waits_for_the_word_and_who_asks_for_a_version_within_a_group_waits_too() {
    let (primary, _, store, mut follower) = small_pair();
    let mut feed = feed_of(&primary, &follower).unwrap();
    take_all(&mut feed, &mut follower);
    let def = primary.world().tables().next().unwrap().def().clone();
    let before = store.world().version();
    for id in 1_000..1_010 {
        let mut tx = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        tx.insert(def.id, row(&def, id, 0)).unwrap();
        tx.commit().unwrap();
    }
    let newest = primary.world().version();
    let mut records = Vec::new();
    while let Some(fed) = feed.next_piece().unwrap() {
        if let Fed::Records(more) = fed {
            records.extend(more);
        }
    }
    for group in records.chunks(3) {
        follower.take(group).unwrap();
    }
    follower.note_boundary(newest);
    let safe = || store.begin_safe(&SessionFloor::default()).unwrap().begin_version();
    assert_eq!((store.world().version(), safe()), (before, before));

    let versions = (before.get() + 1..=newest.get()).map(Version::new);
    let mut waiting: Vec<_> = versions.map(|version| store.publication(version).unwrap()).collect();
    assert_eq!(waiting.len(), 10);
    let mut poll_all = || -> Vec<_> {
        let mut context = Context::from_waker(Waker::noop());
        waiting.iter_mut().map(|publication| Pin::new(publication).poll(&mut context)).collect()
    };
    assert!(poll_all().iter().all(Poll::is_pending));
    follower.note_published(newest);
    assert!(poll_all().iter().all(|polled| matches!(polled, Poll::Ready(Ok(())))));
    assert_eq!((store.world().version(), safe()), (newest, newest));
}

/// It gave out the end of what is durable as of a moment for which what is shown counts.
#[test]
fn what_a_follower_says_is_of_what_it_shows_which_may_not_be_durable() {
    let (primary, _, store, mut follower) = small_pair();
    let mut feed = feed_of(&primary, &follower).unwrap();
    take_all(&mut feed, &mut follower);
    follower.sync().unwrap();
    assert_eq!(store.word().at, None, "it has heard nothing");

    let def = primary.world().tables().next().unwrap().def().clone();
    let mut tx = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.insert(def.id, row(&def, 1_000, 0)).unwrap();
    tx.commit().unwrap();
    let at = Instant::now();
    while take(&mut feed, &mut follower).unwrap() {}
    follower.note_current(at);
    let word = store.word();
    assert_eq!(word, Word { end: follower.shown_position(), at: Some(at) });
    assert!(word.end > follower.durable());

    let before = Instant::now();
    let of_primary = primary.word();
    assert!(of_primary.at >= Some(before) && of_primary.end >= word.end);
}
