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

/// A program that compared numbers alone may have promised one candidate, and others have followed another of that number.
#[test]
fn a_promise_of_an_older_program_is_of_a_number_alone() {
    let (files, dir) = (SimulatedFiles::new(5), Path::new(DIR));
    files.create_dir_all(dir).unwrap();
    let mut bytes = [7_u32.to_le_bytes().as_slice(), &[0], &9_u64.to_le_bytes()].concat();
    bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
    replace_file(&files, &dir.join(FILE_NAME), &bytes).unwrap();
    let kept = KeptPromise::read(&files, dir).unwrap().unwrap();
    let promise = Promise { timeline: Timeline::new(7), candidate: 9 };
    assert_eq!(kept, KeptPromise { promise, to: PromisedTo::Another });
    // It began the timeline under another id than it was promised.
    let itself = KeptPromise { promise: Promise::of(Timeline::new(7), 9), to: PromisedTo::Itself };
    let begun = Timeline::new(7).of_candidate(3);
    assert_eq!(itself.beside(begun).promise, Promise::of_begun(begun));
    assert_eq!(itself.beside(Timeline::new(6)), itself, "it has not begun it yet");
    assert_eq!(kept.beside(begun), kept);
}

/// Of a candidate whose program compares numbers alone the number says nothing about the term that it begins. Fails if such a request is
/// taken for one of a candidate that knows the rule (`Promise::of` in the place of `Promise::of_number`), and, behind the restart, if the file says 2
/// for it: a replica that had promised refused the primary that was promoted, in three of eight attempts.
#[test]
fn a_number_that_is_promised_to_an_older_program_is_followed_whoever_begins_it() {
    let files = SimulatedFiles::new(7);
    let number = Timeline::new(2);
    let asked = Promise::of_number(number, 51);
    assert_eq!((asked.timeline, asked.candidate), (number, 51));
    let store = open(&files);
    store.promise(asked).unwrap();
    assert_eq!(store.timeline(), number);
    assert!(store.promise(Promise::of(number, 53)).is_err(), "the number is given away");
    let files = files.crash();
    drop(store);
    let store = open(&files);
    assert_eq!(store.timeline(), number, "no timeline is above those of that number");
    assert!(number <= number.of_candidate(49) && number <= number.of_candidate(48));
    store.promise(asked).unwrap();
    assert!(store.promise(Promise::of_number(number, 55)).is_err(), "another one asks");
}

/// Two that were promoted into timelines of one number, by other machines each. Fails if numbers alone are compared: both would take
/// commits for as long as nobody is promoted again.
#[test]
fn of_two_of_one_number_the_lower_one_is_superseded_and_not_the_higher_one() {
    let files = SimulatedFiles::new(6);
    drop(open(&files));
    let own = Promise::of(Timeline::new(2), 51);
    KeptPromise { promise: own, to: PromisedTo::Itself }.write(&files, Path::new(DIR)).unwrap();
    let store = open(&files);
    let def = table(&store, "t");
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def))).unwrap();
    tx.commit().unwrap();
    assert_eq!(store.terms().timeline(), own.timeline);
    assert!(store.promise(Promise::of(Timeline::new(2), 49)).is_err());
    assert_eq!(store.superseded_by(), None);
    let higher = Promise::of_begun(Timeline::new(2).of_candidate(53));
    store.promise(higher).unwrap();
    assert_eq!(store.superseded_by(), Some(higher.timeline));
    let files = files.crash();
    drop(store);
    assert_eq!(open(&files).superseded_by(), Some(higher.timeline));
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
    assert_eq!(store.timeline().get(), 6);
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
    assert_eq!(store.superseded_by().map(Timeline::get), Some(2));
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    assert!(tx.get(def.id, &crate::id_value::key(1)).unwrap().is_some());
    tx.insert(def.id, row(&def, 3, 3)).unwrap();
    let refused = tx.commit();
    assert!(refused.as_ref().is_err_and(is_superseded), "{refused:?}");
    assert_eq!(store.log_position().unwrap().0, end);
}
