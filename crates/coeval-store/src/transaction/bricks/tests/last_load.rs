// SPDX-License-Identifier: Apache-2.0
//! What is known of a brick's last load: its epoch, and when it was committed.

use super::*;
use crate::clock::LogTime;
use std::ops::RangeInclusive;

const EARLY: RangeInclusive<i64> = 0..=9;
const LATE: RangeInclusive<i64> = 10..=19;

/// The last load of a brick, as a transaction sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LastLoad {
    epoch: Option<u64>,
    at: Option<u64>,
}

/// Of the one brick that has rows of these days.
#[track_caller]
fn last_load(tx: &Transaction, def: &TableDef, days: RangeInclusive<i64>) -> LastLoad {
    let snapshot = tx.brick_view(def.id, |all| all.within(1, &[days])).unwrap();
    assert_eq!(snapshot.bricks().len(), 1);
    let brick = &snapshot.bricks()[0];
    LastLoad { epoch: snapshot.newest_epoch(brick).map(Epoch::get), at: brick.loaded_at() }
}

fn now() -> u64 {
    LogTime::now().micros()
}

fn load(store: &Store, def: &TableDef, rows: &[(&str, i64, i64)]) {
    let mut tx = begin(store);
    append(&mut tx, def, rows);
    tx.commit().unwrap();
}

#[test]
fn a_brick_says_what_was_loaded_last_and_when() {
    let store = Store::in_memory(options());
    let def = events(&store, "e");
    let begun = now();
    let mut tx = begin(&store);
    append(&mut tx, &def, &[("a", 1, 1), ("a", 11, 2)]);
    let pending = last_load(&tx, &def, EARLY);
    assert!(pending.epoch.is_some() && pending.at.is_none(), "it may never be committed: {pending:?}");
    assert_eq!(last_load(&begin(&store), &def, EARLY), LastLoad { epoch: None, at: None });
    tx.commit().unwrap();
    // Held, so that purge stays behind it.
    let held = begin(&store);
    let first = last_load(&held, &def, EARLY);
    assert_eq!(first.epoch, pending.epoch);
    assert!((begun..=now()).contains(&first.at.unwrap()), "{first:?}");

    std::thread::sleep(Duration::from_millis(2));
    load(&store, &def, &[("a", 12, 3)]);
    let late = last_load(&begin(&store), &def, LATE);
    assert!(late.epoch > first.epoch && late.at > first.at, "{late:?} {first:?}");
    assert_eq!(last_load(&begin(&store), &def, EARLY), first, "nothing came into this one");
    assert_eq!(last_load(&held, &def, LATE).epoch, first.epoch, "an epoch is seen or not; the time is known");
}

#[test]
fn what_was_rolled_back_and_what_was_deleted_is_no_load() {
    let store = Store::in_memory(options());
    let def = events(&store, "e");
    load(&store, &def, &[("a", 1, 1)]);
    let held = begin(&store);
    let first = last_load(&held, &def, EARLY);
    std::thread::sleep(Duration::from_millis(2));
    let mut undone = begin(&store);
    append(&mut undone, &def, &[("a", 2, 2)]);
    drop(undone);
    let mut tx = begin(&store);
    let savepoint = tx.savepoint();
    append(&mut tx, &def, &[("a", 3, 3)]);
    tx.rollback_to(&savepoint);
    append(&mut tx, &def, &[("a", 15, 4)]);
    tx.commit().unwrap();
    assert_eq!(last_load(&begin(&store), &def, EARLY), first);

    let mut tx = begin(&store);
    assert_eq!(tx.delete_bricks(def.id, |all| all.within(1, &[EARLY])).unwrap(), 1);
    tx.commit().unwrap();
    let deleted = last_load(&begin(&store), &def, EARLY);
    assert_eq!(deleted, LastLoad { epoch: None, at: first.at }, "it was loaded, and nothing of that is left");
    assert_eq!(last_load(&held, &def, EARLY), first);
}

/// Flush rounds have epochs and no times; the log has both.
#[test]
fn after_a_restart_epochs_are_known_and_times_of_what_the_log_still_has() {
    let open = |files: &SimulatedFiles| {
        let log = LogOptions { segment_bytes: 5_000, extend_bytes: 128, checksums: ChecksumPolicy::Verified };
        let sizes = Sizes { begins_terms: true, ..Sizes::default() };
        Store::open_tuned(Arc::new(files.clone()), Path::new(DIR), options(), log, sizes).unwrap()
    };
    let files = SimulatedFiles::new(1);
    let opened = now();
    let store = open(&files);
    let def = events(&store, "e");
    load(&store, &def, &[("a", 1, 1)]);
    store.checkpoint().unwrap();
    load(&store, &def, &[("a", 11, 2)]);
    let done = now();
    let before = [EARLY, LATE].map(|days| last_load(&begin(&store), &def, days));
    assert!(before.iter().all(|load| load.at.is_some()), "{before:?}");
    let files = files.crash();
    drop(store);
    // The log says what time it was when its records were written, and not when they are read.
    std::thread::sleep(Duration::from_millis(5));
    let store = open(&files);
    let after = [EARLY, LATE].map(|days| last_load(&begin(&store), &def, days));
    assert_eq!(after.map(|load| load.epoch), before.map(|load| load.epoch));
    assert_eq!(after[0].at, None);
    assert!((opened..=done).contains(&after[1].at.unwrap()), "{opened}..={done}: {after:?}");
    load(&store, &def, &[("a", 2, 3)]);
    assert!(last_load(&begin(&store), &def, EARLY).at > after[1].at);
}
