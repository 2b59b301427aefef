// SPDX-License-Identifier: Apache-2.0
//! A follower takes the file of a new index, and builds nothing.

use super::*;
use crate::catalog::{IndexDef, TableDef, Uniqueness};
use crate::cursor::SpaceCursor;
use crate::key::Key;
use crate::range::{Direction, KeyRange};
use crate::segment::{SEGMENT_DIR, parse_segment_name};
use crate::space::Space;
use std::collections::BTreeSet;

/// Commits rows of these ids, in one transaction.
fn insert(primary: &Store, def: &TableDef, ids: std::ops::Range<i32>) {
    let mut transaction = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    for id in ids {
        transaction.put(def.id, row(def, id, id * 7 % 100)).unwrap();
    }
    transaction.commit().unwrap();
}

fn put_table(primary: &Store, def: &TableDef) {
    let mut transaction = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    transaction.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    transaction.commit().unwrap();
}

/// The only table, with a new index, which is committed; and as it was before.
fn make_index(primary: &Store) -> (TableDef, TableDef) {
    let plain = primary.world().tables().next().unwrap().def().as_ref().clone();
    let mut indexed = plain.clone();
    indexed.indexes.push(IndexDef {
        id: primary.new_space_id(),
        name: "by_value".to_owned(),
        columns: vec![1],
        uniqueness: Uniqueness::Any,
        declared_order: Vec::new(),
    });
    put_table(primary, &indexed);
    (indexed, plain)
}

fn segments(files: &SimulatedFiles, dir: &str) -> BTreeSet<u64> {
    let names = files.list(&Path::new(dir).join(SEGMENT_DIR)).unwrap();
    names.iter().filter_map(|name| parse_segment_name(name)).collect()
}

fn entries(space: &Space) -> Vec<Key> {
    let all = SpaceCursor::new(space, None, &KeyRange::all(), Direction::Forward);
    all.map(|entry| entry.unwrap().0).collect()
}

/// Both have the same rows and entries.
#[track_caller]
fn assert_same(primary: &Store, copy: &Store) {
    let (ours, theirs) = (primary.world(), copy.world());
    assert_eq!(ours.version(), theirs.version());
    for table in ours.tables() {
        let copied = theirs.table(table.id()).unwrap();
        assert_eq!(table.def(), copied.def());
        assert_eq!(entries(table.rows()), entries(copied.rows()));
        for (index, copied) in table.indexes().iter().zip(copied.indexes()) {
            assert_eq!(entries(index), entries(copied));
        }
    }
}

/// The file in which the only chunk of the only index lies, if it lies in one.
fn file_of_index(store: &Store) -> Option<u64> {
    let world = store.world();
    let table = world.tables().next().unwrap();
    let chunks: Vec<_> = table.indexes()[0].base().iter().map(|(_, chunk)| chunk.place()).collect();
    assert_eq!(chunks.len(), 1);
    chunks[0].map(|place| place.segment)
}

/// Fails if who applies the record builds the index: its chunk lies in no file then.
#[test]
fn a_follower_has_a_new_index_in_the_file_of_its_primary() {
    let (primary, primary_files, store, mut follower) = small_pair();
    let mut feed = feed_of(&primary, &follower).unwrap();
    let def = primary.world().tables().next().unwrap().def().clone();
    insert(&primary, &def, 10..200);
    take_all(&mut feed, &mut follower);
    let (indexed, _) = make_index(&primary);
    insert(&primary, &indexed, 300..320);
    take_all(&mut feed, &mut follower);
    assert_same(&primary, &store);
    let file = file_of_index(&primary).unwrap();
    assert_eq!(file_of_index(&store), Some(file));
    assert!(segments(&primary_files, PRIMARY).contains(&file));
}

/// Behind what a follower ends, and begins again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restart {
    File,
    Record,
    Sync,
    Checkpoint,
}

/// Fails if a follower that starts removes the file of a record that it has, or misses it where the record comes again.
#[test]
fn a_follower_that_restarts_meanwhile_has_the_whole_index() {
    for restart in [Restart::File, Restart::Record, Restart::Sync, Restart::Checkpoint] {
        let (primary, _primary_files, mut files, store, mut follower) = small_pair_with_files();
        let mut feed = feed_of(&primary, &follower).unwrap();
        let def = primary.world().tables().next().unwrap().def().clone();
        insert(&primary, &def, 10..200);
        take_all(&mut feed, &mut follower);
        follower.sync().unwrap();
        let before = segments(&files, COPY);
        make_index(&primary);
        if restart == Restart::File {
            while segments(&files, COPY) == before {
                take(&mut feed, &mut follower).unwrap();
            }
            assert!(store.world().tables().next().unwrap().indexes().is_empty());
        } else {
            take_all(&mut feed, &mut follower);
        }
        if matches!(restart, Restart::Sync | Restart::Checkpoint) {
            follower.sync().unwrap();
        }
        if restart == Restart::Checkpoint {
            store.checkpoint().unwrap();
        }
        files = files.crash();
        drop((feed, store, follower));
        let (store, mut follower) = open_follower(&files);
        let mut feed = feed_of(&primary, &follower).unwrap();
        take_all(&mut feed, &mut follower);
        assert_same(&primary, &store);
        assert_eq!(file_of_index(&store), file_of_index(&primary), "{restart:?}");
        // And once more, by its own log alone.
        follower.sync().unwrap();
        drop((feed, store, follower));
        let report = verify(Arc::new(files.clone()), Path::new(COPY), None).unwrap();
        assert!(report.problems.is_empty(), "{restart:?}: {:?}", report.problems);
        let (store, _follower) = open_follower(&files.restart());
        assert_same(&primary, &store);
    }
}

/// Fails if a checkpoint does not count the file of a new index among those that a slot holds.
#[test]
fn a_slot_keeps_the_file_of_an_index_that_is_dropped_meanwhile() {
    let (primary, primary_files, store, mut follower) = small_pair();
    take_all(&mut feed_of(&primary, &follower).unwrap(), &mut follower);
    primary.create_slot("copy").unwrap();
    drop(feed_of(&primary, &follower).unwrap().with_slot("copy").unwrap());
    let def = primary.world().tables().next().unwrap().def().clone();
    insert(&primary, &def, 10..200);
    let (_, plain) = make_index(&primary);
    let file = file_of_index(&primary).unwrap();
    put_table(&primary, &plain);
    primary.checkpoint().unwrap();
    assert!(segments(&primary_files, PRIMARY).contains(&file), "nobody has got it yet");
    let primary_files = primary_files.crash();
    drop(primary);
    let primary = open_primary(&primary_files);
    primary.checkpoint().unwrap();
    assert!(segments(&primary_files, PRIMARY).contains(&file), "also behind a crash");
    let mut feed = feed_of(&primary, &follower).unwrap().with_slot("copy").unwrap();
    take_all(&mut feed, &mut follower);
    assert_same(&primary, &store);
    feed.confirm(follower.sync().unwrap());
    insert(&primary, &def, 200..210);
    primary.checkpoint().unwrap();
    assert!(!segments(&primary_files, PRIMARY).contains(&file), "who has it needs it no more");
}

#[test]
fn a_follower_that_is_promoted_behind_a_new_index_goes_on_with_it() {
    let (primary, _primary_files, files, store, mut follower) = small_pair_with_files();
    let mut feed = feed_of(&primary, &follower).unwrap();
    let def = primary.world().tables().next().unwrap().def().clone();
    insert(&primary, &def, 10..200);
    let (indexed, plain) = make_index(&primary);
    take_all(&mut feed, &mut follower);
    follower.sync().unwrap();
    let file = file_of_index(&store).unwrap();
    drop((feed, store, follower));
    promote(&files, Path::new(COPY), Promise::asked_for(Timeline::new(2))).unwrap();
    let promoted =
        Store::open_tuned(Arc::new(files.clone()), Path::new(COPY), options(), log_options(), sizes())
            .unwrap();
    assert_same(&primary, &promoted);
    insert(&promoted, &indexed, 300..310);
    let table = Arc::clone(promoted.world().tables().next().unwrap());
    assert_eq!(table.indexes()[0].len(), table.row_count());
    put_table(&promoted, &plain);
    promoted.checkpoint().unwrap();
    assert!(!segments(&files, COPY).contains(&file));
}
