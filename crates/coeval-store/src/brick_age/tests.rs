// SPDX-License-Identifier: Apache-2.0
//! What worlds name, and who sees it.

use crate::catalog::{CatalogChange, TableDef};
use crate::error::StoreError;
use crate::files::SimulatedFiles;
use crate::id_value::{key, row, table};
use crate::log::LogOptions;
use crate::options::{Sizes, StoreOptions};
use crate::store::Store;
use crate::transaction::{AccessMode, Transaction};
use coeval_txn::ssi::SessionFloor;
use coeval_txn::{Epoch, Isolation};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn age(epoch: u64) -> Option<Epoch> {
    Some(Epoch::new(epoch))
}

fn with_table(store: &Store) -> TableDef {
    let def = table(store, "t");
    let mut transaction = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    transaction.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    transaction.put(def.id, row(&def, 1, 0)).unwrap();
    transaction.commit().unwrap();
    def
}

fn age_of(transaction: &Transaction) -> Option<Epoch> {
    transaction.world().brick_age().unwrap()
}

/// To break it: note an age whatever is noted.
#[test]
fn ages_only_grow_and_begin_anew_with_a_cluster() {
    let store = Store::in_memory(StoreOptions::default());
    store.begin_brick_ages().unwrap();
    assert_eq!(store.world().brick_age().unwrap(), None, "there was no cluster before");
    for (noted, named) in [(7, 7), (5, 7), (7, 7), (9, 9)] {
        store.note_brick_age(Epoch::new(noted)).unwrap();
        assert_eq!(store.world().brick_age().unwrap(), age(named));
    }
    let version = store.world().version();
    store.note_brick_age(Epoch::new(9)).unwrap();
    assert_eq!(store.world().version(), version, "what is named already takes no commit");
    store.begin_brick_ages().unwrap();
    assert_eq!(store.world().brick_age().unwrap(), age(0));
    store.note_brick_age(Epoch::new(2)).unwrap();
    assert_eq!(store.world().brick_age().unwrap(), age(2));
}

/// To break it: read the age of the newest world, whatever the reader's is.
#[test]
fn each_snapshot_has_the_age_of_its_rows() {
    let store = Store::in_memory(StoreOptions::default());
    let def = with_table(&store);
    store.note_brick_age(Epoch::new(3)).unwrap();
    let mut writer = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
    assert!(writer.get(def.id, &key(1)).unwrap().is_some());
    let before = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
    store.note_brick_age(Epoch::new(8)).unwrap();
    let after = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
    assert_eq!([age_of(&before), age_of(&after)], [age(3), age(8)]);
    // The writer began before, so declared readers have the rows that it has.
    let safe = store.begin_safe(&SessionFloor::default()).unwrap();
    assert_eq!((safe.begin_version(), age_of(&safe)), (before.begin_version(), age(3)));
    assert_eq!(store.oldest_readable(), Some(before.begin_version()));
    drop((before, safe));
    writer.put(def.id, row(&def, 1, 1)).unwrap();
    writer.commit().unwrap();
    let safe = store.begin_safe(&SessionFloor::default()).unwrap();
    assert_eq!(age_of(&safe), age(8));
    drop((after, safe));
    assert_eq!(store.oldest_readable(), Some(store.world().version()));
}

#[test]
fn an_age_that_was_seen_is_there_after_a_crash() {
    let files = SimulatedFiles::new(1);
    let open = |files: &SimulatedFiles| {
        let (log, sizes) = (LogOptions::default(), Sizes::default());
        let dir = Path::new("/db");
        Store::open_tuned(Arc::new(files.clone()), dir, StoreOptions::default(), log, sizes).unwrap()
    };
    let store = open(&files);
    store.note_brick_age(Epoch::new(4)).unwrap();
    assert_eq!(store.world().brick_age().unwrap(), age(4));
    let files = files.crash();
    drop(store);
    assert_eq!(open(&files).world().brick_age().unwrap(), age(4));
}

/// To break it: certify the row with the age as one that is updated.
#[test]
fn a_transaction_names_an_age_whatever_was_noted_since_it_began() {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let store = Store::in_memory(StoreOptions::default());
        let def = with_table(&store);
        store.note_brick_age(Epoch::new(3)).unwrap();
        let mut writer = store.begin(isolation, AccessMode::ReadWrite);
        writer.put(def.id, row(&def, 2, 0)).unwrap();
        store.note_brick_age(Epoch::new(5)).unwrap();
        writer.name_brick_age(Epoch::new(8)).unwrap();
        assert_eq!(store.world().brick_age().unwrap(), age(5));
        writer.commit().unwrap();
        assert_eq!(store.world().brick_age().unwrap(), age(8));
        for (noted, named) in [(7, 8), (9, 9)] {
            store.note_brick_age(Epoch::new(noted)).unwrap();
            assert_eq!(store.world().brick_age().unwrap(), age(named));
        }
    }
}

/// To break it: leave `names_age` out of `Submission::stands_at_its_version`.
#[test]
fn what_names_an_age_has_read_nothing_that_was_overwritten() {
    let store = Store::in_memory(StoreOptions::default());
    let def = with_table(&store);
    store.note_brick_age(Epoch::new(3)).unwrap();
    for (names, value) in [(false, 1), (true, 2)] {
        let mut writer = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
        assert!(writer.get(def.id, &key(1)).unwrap().is_some());
        let mut other = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        other.put(def.id, row(&def, 1, value)).unwrap();
        other.commit().unwrap();
        writer.put(def.id, row(&def, 1 + value, 0)).unwrap();
        if names {
            writer.name_brick_age(Epoch::new(8)).unwrap();
        }
        let committed = writer.commit();
        assert_eq!(matches!(committed, Err(StoreError::Conflict(_))), names, "{committed:?}");
    }
    assert_eq!(store.world().brick_age().unwrap(), age(3));
}

/// Who has a load that is one with it hears by that whether its version may come. To break it: have it said by `name_brick_age`, or by nobody.
#[test]
fn what_names_an_age_says_when_it_is_handed_in() {
    let store = Store::in_memory(StoreOptions::default());
    let def = with_table(&store);
    store.note_brick_age(Epoch::new(3)).unwrap();
    for commits in [false, true] {
        let mut writer = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
        writer.put(def.id, row(&def, 2, 0)).unwrap();
        let is_handed_in = writer.name_brick_age(Epoch::new(8)).unwrap();
        assert!(!is_handed_in.load(Ordering::SeqCst));
        if commits {
            writer.commit().unwrap();
        } else {
            drop(writer);
        }
        assert_eq!(is_handed_in.load(Ordering::SeqCst), commits);
    }
}

/// To break it: make the table where it is not there.
#[test]
fn who_began_before_ages_were_kept_names_none() {
    let store = Store::in_memory(StoreOptions::default());
    let mut writer = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    store.note_brick_age(Epoch::new(3)).unwrap();
    assert!(matches!(writer.name_brick_age(Epoch::new(8)), Err(StoreError::Conflict(_))));
    let mut again = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    again.name_brick_age(Epoch::new(8)).unwrap();
    again.commit().unwrap();
    assert_eq!(store.world().brick_age().unwrap(), age(8));
}
