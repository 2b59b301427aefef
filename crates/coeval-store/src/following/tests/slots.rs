// SPDX-License-Identifier: Apache-2.0
//! Slots: what is kept for one follower while it is away.

use super::*;
use crate::catalog::TableDef;
use crate::retention::SlotError;

/// A hundred commits, and a checkpoint behind them.
fn change(primary: &Store, def: &TableDef, value: i32) {
    for id in 0..100 {
        let mut transaction = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        transaction.put(def.id, row(def, id, value)).unwrap();
        transaction.commit().unwrap();
    }
    primary.checkpoint().unwrap();
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
    drop(primary);
    let primary = open_primary(&primary_files.crash());
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
    drop((feed, primary));
    let primary = open_primary(&primary_files.crash());
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
    drop((feed, primary));
    let primary = open_primary(&primary_files.crash());
    primary.set_log_keep_bytes(0);
    change(&primary, &def, 3);
    change(&primary, &def, 4);
    let mut feed = feed_of(&primary, &follower).unwrap().with_slot("copy").unwrap();
    take_all(&mut feed, &mut follower);
    assert_eq!(store.world().version(), primary.world().version());
}
