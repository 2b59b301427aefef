// SPDX-License-Identifier: Apache-2.0
//! Slots: what is kept for one follower while it is away.

use super::*;
use crate::catalog::TableDef;
use crate::retention::SlotError;

/// So many commits.
fn put(primary: &Store, def: &TableDef, (count, value): (i32, i32)) {
    for id in 0..count {
        let mut transaction = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        transaction.put(def.id, row(def, id, value)).unwrap();
        transaction.commit().unwrap();
    }
}

/// A hundred commits, and a checkpoint behind them.
fn change(primary: &Store, def: &TableDef, value: i32) {
    put(primary, def, (100, value));
    primary.checkpoint().unwrap();
}

/// The primary behind a crash of its machine. What is open of it until then is not closed before, which would note what it keeps.
fn crashed(open: impl Sized, files: &SimulatedFiles) -> Store {
    let files = files.crash();
    drop(open);
    open_primary(&files)
}

#[test]
fn a_slot_keeps_the_log_for_one_who_is_away() {
    let (primary, primary_files, store, mut follower) = small_pair();
    take_all(&mut feed_of(&primary, &follower).unwrap(), &mut follower);
    primary.create_slot("copy").unwrap();
    let feed = feed_of(&primary, &follower).unwrap().with_slot("copy").unwrap();
    assert!(primary.slots()[0].is_active);
    drop(feed);
    let def = store.world().tables().next().unwrap().def().clone();
    let change = |primary: &Store, value| change(primary, &def, value);
    change(&primary, 2);
    let primary = crashed(primary, &primary_files);
    change(&primary, 3);
    let mut feed = feed_of(&primary, &follower).unwrap().with_slot("copy").unwrap();
    take_all(&mut feed, &mut follower);
    assert_eq!(store.world().version(), primary.world().version());
    feed.confirm(follower.sync().unwrap());
    drop(feed);
    // With a bound it is let go of, and says so.
    primary.set_slot_bytes_max(Some(1_000));
    change(&primary, 4);
    assert!(primary.slots()[0].is_lost);
    let refused = feed_of(&primary, &follower).unwrap().with_slot("copy");
    assert!(matches!(refused, Err(StoreError::Slot(SlotError::Lost(_)))), "{refused:?}");
    let mut feed = feed_of(&primary, &follower).unwrap();
    assert!(matches!(feed.next_piece(), Err(StoreError::Log(LogError::Gone { .. }))));
    // It is made anew for who has caught up elsewhere, and keeps from there on, over a crash as well.
    drop(feed);
    let files = SimulatedFiles::new(9);
    copy(&primary, &files);
    let (store, mut follower) = open_follower(&files);
    primary.create_slot("copy").unwrap();
    let feed = feed_of(&primary, &follower).unwrap().with_slot("copy").unwrap();
    assert_eq!((primary.slots()[0].log, primary.slots()[0].is_lost), (follower.position(), false));
    let primary = crashed((feed, primary), &primary_files);
    change(&primary, 5);
    let mut feed = feed_of(&primary, &follower).unwrap().with_slot("copy").unwrap();
    take_all(&mut feed, &mut follower);
    assert_eq!(store.world().version(), primary.world().version());
    drop(feed);
    primary.drop_slot("copy").unwrap();
    assert!(primary.slots().is_empty());
}

/// A slot that is made when its follower comes back begins at the end of the log, and the follower is behind that: what lies between
/// is kept from when it follows by the slot.
#[test]
fn a_slot_keeps_from_where_its_follower_is() {
    let (primary, primary_files, store, mut follower) = small_pair();
    take_all(&mut feed_of(&primary, &follower).unwrap(), &mut follower);
    let def = store.world().tables().next().unwrap().def().clone();
    primary.set_log_keep_bytes(1 << 20);
    change(&primary, &def, 2);
    primary.create_slot("copy").unwrap();
    assert!(primary.slots()[0].log > follower.position());
    let feed = feed_of(&primary, &follower).unwrap().with_slot("copy").unwrap();
    assert_eq!(primary.slots()[0].log, follower.position());
    // It goes without having said how far it is, and the primary crashes.
    let primary = crashed((feed, primary), &primary_files);
    primary.set_log_keep_bytes(0);
    change(&primary, &def, 3);
    change(&primary, &def, 4);
    let mut feed = feed_of(&primary, &follower).unwrap().with_slot("copy").unwrap();
    take_all(&mut feed, &mut follower);
    assert_eq!(store.world().version(), primary.world().version());
}

/// A follower asks for log from where it has that durably, and has more by then, which it says next. Fails if all that it says it has goes:
/// then what it has asked for is gone before it was given.
#[test]
fn a_slot_keeps_what_was_asked_for_and_not_given() {
    let (primary, _, store, mut follower) = small_pair();
    take_all(&mut feed_of(&primary, &follower).unwrap(), &mut follower);
    let asked = follower.sync().unwrap();
    let def = store.world().tables().next().unwrap().def().clone();
    primary.create_slot("copy").unwrap();
    let mut feed = feed_of(&primary, &follower).unwrap().with_slot("copy").unwrap();
    put(&primary, &def, (200, 2));
    take_all(&mut feed, &mut follower);
    // The connection is cut before the follower has said anything.
    drop(feed);
    let term = follower.terms().last().map(|term| term.id);
    let mut feed = primary.log_feed(term, asked).unwrap().ahead_of_publication().with_slot("copy").unwrap();
    let has = follower.sync().unwrap();
    feed.confirm(has);
    assert_eq!(primary.slots()[0].log, asked);
    let report = primary.checkpoint().unwrap();
    assert!(has.get() - asked.get() > log_options().segment_bytes, "{report:?}");
    while feed.position() < has {
        assert!(feed.next_piece().unwrap().is_some(), "at {}", feed.position());
    }
    feed.confirm(has);
    assert_eq!(primary.slots()[0].log, has);
}

/// The log of a replica that is followed ends with what it may lose, and its follower has that durably. Fails if the slot goes beyond
/// what is durable where it is: behind a crash, log of another history would go there that nobody has confirmed.
#[test]
fn a_slot_on_a_replica_is_not_beyond_what_is_durable_there() {
    let (primary, _, store, mut follower) = small_pair();
    let last_files = SimulatedFiles::new(3);
    copy_to(&primary, &last_files, Path::new("/last"));
    let dir = Path::new("/last");
    let last = Store::open_follower_tuned(Arc::new(last_files), dir, options(), log_options(), sizes());
    let (_last_store, mut last) = last.unwrap();
    take_all(&mut feed_of(&primary, &follower).unwrap(), &mut follower);
    let durable = follower.sync().unwrap();
    store.create_slot("last").unwrap();
    let def = store.world().tables().next().unwrap().def().clone();
    // Less than a segment: a full one is synced when the next one is made.
    put(&primary, &def, (10, 2));
    let mut from_primary = feed_of(&primary, &follower).unwrap();
    let begun = follower.position();
    while follower.position() == begun {
        take(&mut from_primary, &mut follower).unwrap();
    }
    assert_eq!((follower.durable(), begun), (durable, durable), "nobody has synced what it has taken");
    // It was given by the primary.
    take_all(&mut feed_of(&primary, &last).unwrap(), &mut last);
    let has = last.sync().unwrap();
    let term = last.terms().last().map(|term| term.id);
    let feed = store.log_feed(term, follower.position()).unwrap().ahead_of_publication();
    let mut feed = feed.with_slot("last").unwrap();
    feed.confirm(has);
    assert_eq!(store.slots()[0].log, durable);
    follower.sync().unwrap();
    feed.confirm(has);
    assert_eq!(store.slots()[0].log, follower.position());
}
