// SPDX-License-Identifier: Apache-2.0
//! What a promise holds, and what it ends.

use super::*;
use crate::catalog::CatalogChange;
use crate::files::SimulatedFiles;
use crate::id_value::{row, table};
use crate::log::LogOptions;
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::store::Store;
use crate::transaction::AccessMode;
use coeval_txn::Isolation;
use std::sync::Arc;

const DIR: &str = "/database";

fn open(files: &SimulatedFiles) -> Store {
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let sizes = Sizes { begins_terms: true, ..Sizes::default() };
    let files = Arc::new(files.clone());
    Store::open_tuned(files, Path::new(DIR), options, LogOptions::default(), sizes).unwrap()
}

fn asked_for(timeline: u32) -> Promise {
    Promise::asked_for(Timeline::new(timeline))
}

#[test]
fn a_promise_is_kept_and_damage_is_found() {
    let (files, dir) = (SimulatedFiles::new(1), Path::new(DIR));
    files.create_dir_all(dir).unwrap();
    assert_eq!(KeptPromise::read(&files, dir).unwrap(), None);
    for to in [PromisedTo::Another, PromisedTo::Itself] {
        let kept = KeptPromise { promise: asked_for(7), to };
        kept.write(&files, dir).unwrap();
        assert_eq!(KeptPromise::read(&files, dir).unwrap(), Some(kept));
    }
    for at in 0..BYTES as u64 {
        KeptPromise { promise: asked_for(7), to: PromisedTo::Another }.write(&files, dir).unwrap();
        files.damage(&dir.join(FILE_NAME), at, 1);
        assert!(matches!(KeptPromise::read(&files, dir), Err(StoreError::Corrupt { .. })), "byte {at}");
    }
}

#[test]
fn a_timeline_is_promised_to_one_and_lower_ones_to_nobody() {
    let store = open(&SimulatedFiles::new(2));
    let refused = |promise: Promise| match store.promise(promise) {
        Err(StoreError::PromisedAnother { promised, .. }) => promised.get(),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(asked_for(1)), 1, "the log is in it");
    assert_eq!(refused(asked_for(u32::MAX)), 1, "there would be none left");
    let promise = asked_for(5);
    let standing = store.promise(promise).unwrap();
    assert_eq!(store.promise(promise).unwrap(), standing, "the same one asks again");
    assert_eq!(refused(asked_for(5)), 5);
    assert_eq!(refused(asked_for(4)), 5);
    store.promise(asked_for(6)).unwrap();
    assert_eq!(store.timeline(), Timeline::new(6));
    assert!(matches!(
        Store::in_memory(StoreOptions::default()).promise(asked_for(2)),
        Err(StoreError::NoDirectory)
    ));
}

#[test]
fn a_primary_that_has_promised_takes_no_commits_and_can_be_read() {
    let files = SimulatedFiles::new(3);
    let store = open(&files);
    let def = table(&store, "t");
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.insert(def.id, row(&def, 1, 1)).unwrap();
    tx.commit().unwrap();
    let mut open_one = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    open_one.insert(def.id, row(&def, 2, 2)).unwrap();
    store.promise(asked_for(2)).unwrap();
    let is_superseded =
        |error: &StoreError| matches!(error, StoreError::Stopped(reason) if reason.is_superseded());
    let refused = open_one.commit();
    assert!(refused.as_ref().is_err_and(is_superseded), "{refused:?}");
    let (end, _) = store.log_position().unwrap();
    // It stays so, whatever is done to it, and adds nothing to its log.
    drop(store);
    let store = open(&files.crash());
    assert_eq!(store.superseded_by(), Some(Timeline::new(2)));
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    assert!(tx.get(def.id, &crate::id_value::key(1)).unwrap().is_some());
    tx.insert(def.id, row(&def, 3, 3)).unwrap();
    let refused = tx.commit();
    assert!(refused.as_ref().is_err_and(is_superseded), "{refused:?}");
    assert_eq!(store.log_position().unwrap().0, end);
}
