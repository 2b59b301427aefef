// SPDX-License-Identifier: Apache-2.0
//! What can be derived is mended without a loss, the rest is named, and what is left is whole.

mod bricks;
mod loads;
mod random;

use super::{RepairReport, repair, repair_tuned};
use crate::catalog::{CatalogChange, ColumnDef, IndexDef, QualifiedName, TableDef, Uniqueness};
use crate::error::StoreError;
use crate::files::{FileSystem, OpenMode, SimulatedFiles};
use crate::log::{ChecksumPolicy, LogOptions};
use crate::manifest::Manifest;
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::range::{Direction, KeyRange};
use crate::row::{Row, RowWriter};
use crate::segment::{Segment, SegmentRef, segment_path};
use crate::store::Store;
use crate::transaction::{AccessMode, Transaction};
use crate::types::ColumnType;
use crate::value::{Value, ValueRef};
use crate::verify::verify;
use coeval_txn::Isolation;
use crc32c::crc32c;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIR: &str = "/db";
/// Where the keys of the first chunk of a segment file lie.
const IN_FIRST_CHUNK: u64 = 30;
/// Small, and the same for stores and repairs: to these, the chunks of a test are full ones.
const SIZES: fn() -> Sizes = || Sizes { chunk_rows: 16, direct_load_rows_min: 8, ..Sizes::default() };

fn mend(files: &SimulatedFiles) -> RepairReport {
    repair_tuned(Arc::new(files.clone()), Path::new(DIR), SIZES()).unwrap()
}

fn open(files: &SimulatedFiles) -> Store {
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let log = LogOptions { extend_bytes: 128, ..LogOptions::default() };
    Store::open_tuned(Arc::new(files.clone()), Path::new(DIR), options, log, SIZES()).unwrap()
}

fn begin(store: &Store) -> Transaction {
    store.begin(Isolation::Snapshot, AccessMode::ReadWrite)
}

fn row(def: &TableDef, id: i64, v: i64) -> Row {
    let mut writer = RowWriter::new(def.layout());
    [id, v].iter().for_each(|value| writer.push(Value::Int64(*value).borrow()).unwrap());
    writer.finish()
}

/// `t (id, v)` with an index on `v`: ids 1 to 40 in three chunks, with v = 1,000 + id; then, in the log, 5 and 30 have
/// another v, 6 and 31 are gone, 50 is new. Closed.
fn database() -> (SimulatedFiles, TableDef) {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let def = filled_table(&store, 40);
    let mut tx = begin(&store);
    for id in [5, 30, 50] {
        tx.put(def.id, row(&def, id, 2_000 + id)).unwrap();
    }
    for id in [6, 31] {
        assert!(tx.delete(def.id, &def.key_of(|_| ValueRef::Int64(id))).unwrap());
    }
    tx.commit().unwrap();
    drop(store);
    (files.restart(), def)
}

/// `t (id, v)` with an index on `v`: ids 1 to 112 in seven chunks of one segment, and nothing in the log. Closed.
fn database_of_full_chunks() -> (SimulatedFiles, TableDef) {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let def = filled_table(&store, 112);
    drop(store);
    (files.restart(), def)
}

/// `t (id, v)` with an index on `v`, with ids from 1 on and v = 1,000 + id, all in files.
fn filled_table(store: &Store, last: i64) -> TableDef {
    let def = empty_table(store);
    let mut tx = begin(store);
    (1..=last).for_each(|id| drop(tx.insert(def.id, row(&def, id, 1_000 + id)).unwrap()));
    tx.commit().unwrap();
    store.checkpoint().unwrap();
    def
}

fn empty_table(store: &Store) -> TableDef {
    let columns = vec![ColumnDef::new("id", ColumnType::BigInt), ColumnDef::new("v", ColumnType::BigInt)];
    let mut def = TableDef::new(store.new_space_id(), QualifiedName::new("public", "t"), columns, vec![0]);
    def.indexes.push(IndexDef {
        id: store.new_space_id(),
        name: "t_v".into(),
        columns: vec![1],
        uniqueness: Uniqueness::Any,
        declared_order: Vec::new(),
    });
    let mut tx = begin(store);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    def
}

/// All rows, by id; the index has the same.
fn rows(files: &SimulatedFiles, def: &TableDef) -> Vec<(i64, i64)> {
    let store = open(files);
    let tx = begin(&store);
    let rows = tx.scan(def.id, &KeyRange::all(), Direction::Forward).unwrap();
    let rows: Vec<(i64, i64)> = rows
        .map(|found| found.unwrap().1)
        .map(|row| (row.get(0).as_i64().unwrap(), row.get(1).as_i64().unwrap()))
        .collect();
    let entries = tx.scan_index(def.id, def.indexes[0].id, &KeyRange::all(), Direction::Forward).unwrap();
    assert_eq!(entries.map(|entry| drop(entry.unwrap())).count(), rows.len());
    rows
}

fn all_rows() -> Vec<(i64, i64)> {
    let changed = |id| if [5, 30, 50].contains(&id) { 2_000 + id } else { 1_000 + id };
    (1..=40).chain([50]).filter(|id| ![6, 31].contains(id)).map(|id| (id, changed(id))).collect()
}

fn manifest(files: &SimulatedFiles) -> Manifest {
    Manifest::read(files, Path::new(DIR), ChecksumPolicy::Verified).unwrap().unwrap()
}

/// The segments of the rows and of the index.
fn paths(files: &SimulatedFiles) -> (PathBuf, PathBuf) {
    let table = &manifest(files).tables[0];
    let path = |number| segment_path(Path::new(DIR), number);
    (path(table.rows[0].segment), path(table.indexes[0][0].segment))
}

fn problems(files: &SimulatedFiles) -> Vec<String> {
    let report = verify(Arc::new(files.clone()), Path::new(DIR), None).unwrap();
    report.problems.iter().map(ToString::to_string).collect()
}

/// Puts another number in the place of the first least value of the segment's index, with checksums that fit: as a faulty
/// program would write it.
fn falsify_least_value(files: &SimulatedFiles, path: &Path) {
    let mut bytes = files.read(path).unwrap();
    let text = b"\"min\":\"";
    let place = bytes.windows(text.len()).rposition(|window| window == text).unwrap() + text.len();
    // The greatest digit that a key of this type begins with: hardly any value is as great.
    bytes[place] = b'f';
    let length = bytes.len();
    let footer = u32::from_le_bytes(bytes[length - 10..length - 6].try_into().unwrap()) as usize;
    let checksum = crc32c(&bytes[length - 10 - footer..]);
    files.open(path, OpenMode::Create).unwrap().write_all_at(0, &bytes).unwrap();
    let mut manifest = manifest(files);
    let number = manifest.tables[0].rows[0].segment;
    manifest
        .segments
        .iter_mut()
        .filter(|entry| entry.number == number)
        .for_each(|entry| entry.footer_checksum = checksum);
    manifest.write(files, Path::new(DIR)).unwrap();
}

#[test]
fn a_sound_database_is_left_alone() {
    let (files, def) = database();
    let before = manifest(&files);
    assert!(repair(Arc::new(files.clone()), Path::new(DIR)).unwrap().is_empty());
    assert!(mend(&files).is_empty());
    assert_eq!(manifest(&files), before);
    assert_eq!(rows(&files, &def), all_rows());
}

/// A least value above what is there hides rows from every scan that looks for them, with all checksums as they must be.
#[test]
fn a_wrong_least_value_is_found_and_mended_without_a_loss() {
    let (files, def) = database();
    let (path, _) = paths(&files);
    falsify_least_value(&files, &path);
    let found = problems(&files);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("another least value than the index of the segment says"), "{found:?}");
    let report = mend(&files);
    assert_eq!((report.rebuilt.len(), report.lost.len()), (1, 0), "{report:?}");
    assert!(report.rebuilt[0].starts_with("statistics of a chunk of table t"), "{report:?}");
    assert_eq!(problems(&files), Vec::<String>::new());
    assert_eq!(rows(&files, &def), all_rows());
}

#[test]
fn a_damaged_index_is_built_again_without_a_loss() {
    for from_end in [40, 1] {
        let (files, def) = database();
        let (_, path) = paths(&files);
        let end = files.len(&path).unwrap();
        files.damage(&path, if from_end == 1 { IN_FIRST_CHUNK } else { end - from_end }, 1);
        assert!(!problems(&files).is_empty());
        let report = mend(&files);
        assert_eq!(report.rebuilt, ["index t_v of table t"]);
        assert_eq!(report.lost, Vec::<String>::new());
        assert_eq!(problems(&files), Vec::<String>::new());
        assert_eq!(rows(&files, &def), all_rows());
    }
}

#[test]
fn of_a_damaged_chunk_what_is_in_the_log_is_left_and_the_rest_is_said_to_be_lost() {
    let (files, def) = database();
    let (path, _) = paths(&files);
    // In the first of three chunks: ids 1 to 14, of which 5 has been changed and 6 deleted since.
    files.damage(&path, IN_FIRST_CHUNK, 1);
    let report = mend(&files);
    assert_eq!(report.lost.len(), 1, "{report:?}");
    assert!(report.lost[0].starts_with("table t: 14 rows from "), "{report:?}");
    assert!(report.lost[0].contains(&path.display().to_string()), "{report:?}");
    assert_eq!(report.kept, [format!("{}.damaged", path.display())]);
    assert!(files.exists(Path::new(&report.kept[0])).unwrap());
    assert_eq!(problems(&files), Vec::<String>::new());
    let left: Vec<_> = all_rows().into_iter().filter(|(id, _)| *id > 14 || *id == 5).collect();
    assert_eq!(rows(&files.crash(), &def), left);
}

/// Fails if the terms stay what they were: a replica had the rows that its primary had lost, took both logs for one, and followed.
#[test]
fn what_is_left_behind_a_loss_is_a_history_of_its_own() {
    let open = |files: &SimulatedFiles| {
        let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
        let sizes = Sizes { begins_terms: true, ..SIZES() };
        let (files, log) = (Arc::new(files.clone()), LogOptions::default());
        Store::open_tuned(files, Path::new(DIR), options, log, sizes).unwrap()
    };
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    filled_table(&store, 40);
    let (terms, (end, _)) = (store.terms(), store.log_position().unwrap());
    drop(store);
    let files = files.restart();
    let (rows, index) = paths(&files);
    let without_loss = files.copy();
    without_loss.damage(&index, IN_FIRST_CHUNK, 1);
    assert!(mend(&without_loss).lost.is_empty());
    assert_eq!(open(&without_loss).terms().terms()[..1], terms.terms()[..1]);
    files.damage(&rows, IN_FIRST_CHUNK, 1);
    assert_eq!(mend(&files).lost.len(), 1);
    let files = files.crash();
    for _ in 0..2 {
        let store = open(&files);
        let own = store.terms();
        assert_ne!(own.database_id(), terms.database_id());
        assert!(own.terms().iter().all(|term| !terms.terms().contains(term)), "{own:?}");
        assert_eq!((own.timeline(), store.superseded_by()), (terms.timeline(), None));
        let refused = store.log_feed(terms.last().map(|term| term.id), end);
        let is_foreign = |error: &StoreError| matches!(error, StoreError::ForeignHistory(_));
        assert!(refused.as_ref().is_err_and(is_foreign), "{refused:?}");
    }
}

#[test]
fn of_a_segment_without_its_footer_the_log_is_left() {
    let (files, def) = database();
    let (path, _) = paths(&files);
    files.remove(&path).unwrap();
    let report = mend(&files);
    assert_eq!((report.lost.len(), report.kept.len()), (1, 0), "{report:?}");
    assert!(report.lost[0].starts_with("table t: the rows of 3 chunks: "), "{report:?}");
    assert_eq!(problems(&files), Vec::<String>::new());
    assert_eq!(rows(&files, &def), [(5, 2_005), (30, 2_030), (50, 2_050)]);
}

/// Damages a chunk of the rows' first segment, in its first column.
fn damage_chunk(files: &SimulatedFiles, batch: u32) -> PathBuf {
    let manifest = manifest(files);
    let number = manifest.tables[0].rows[0].segment;
    let entry = manifest.segments.iter().find(|entry| entry.number == number).unwrap();
    damage_chunk_of(files, SegmentRef { number, footer_checksum: entry.footer_checksum }, batch)
}

fn damage_chunk_of(files: &SimulatedFiles, reference: SegmentRef, batch: u32) -> PathBuf {
    let (disk, dir): (Arc<dyn FileSystem>, _) = (Arc::new(files.clone()), Path::new(DIR));
    let segment = Segment::open(&disk, dir, reference, ChecksumPolicy::Verified, &Arc::default()).unwrap();
    files.damage(segment.path(), segment.chunk(batch).part_offset(1), 1);
    segment.path().to_owned()
}

/// The manifest went on naming the file of which one chunk was damaged, as the others were not written anew; then the file
/// got another name, and all of its chunks were gone.
#[test]
fn the_other_chunks_of_a_damaged_segment_stay() {
    let (files, def) = database_of_full_chunks();
    assert_eq!(manifest(&files).tables[0].rows[0].count, 7);
    let path = damage_chunk(&files, 3);
    let damaged = files.read(&path).unwrap();
    let report = mend(&files);
    assert_eq!(report.lost.len(), 1, "{report:?}");
    assert!(report.lost[0].starts_with("table t: 16 rows from "), "{report:?}");
    assert_eq!(report.kept, [format!("{}.damaged", path.display())]);
    assert_eq!(files.read(Path::new(&report.kept[0])).unwrap(), damaged);
    assert_eq!(problems(&files), Vec::<String>::new());
    let left = (1..=112).filter(|id| !(49..=64).contains(id)).map(|id| (id, 1_000 + id));
    assert_eq!(rows(&files.crash(), &def), left.collect::<Vec<_>>());
    assert!(mend(&files.crash()).is_empty());
}

#[test]
fn all_chunks_of_a_segment_with_wrong_statistics_are_written_anew() {
    let (files, def) = database_of_full_chunks();
    let (path, _) = paths(&files);
    falsify_least_value(&files, &path);
    let report = mend(&files);
    assert_eq!((report.rebuilt.len(), report.lost.len(), report.kept.len()), (1, 0, 0), "{report:?}");
    assert_eq!(problems(&files), Vec::<String>::new());
    assert_eq!(rows(&files, &def), (1..=112).map(|id| (id, 1_000 + id)).collect::<Vec<_>>());
}

/// A check named it, and a repair said that there was nothing to repair.
#[test]
fn a_damaged_chunk_that_nobody_needs_any_more_is_left_out() {
    let (files, def) = database_of_full_chunks();
    let store = open(&files);
    let mut tx = begin(&store);
    tx.put(def.id, row(&def, 50, 5_000)).unwrap();
    tx.commit().unwrap();
    store.checkpoint().unwrap();
    drop(store);
    let files = files.restart();
    // The chunk of 50 has been written anew, the others are where they were.
    let path = damage_chunk(&files, 3);
    assert_eq!(problems(&files).len(), 1);
    let report = mend(&files);
    assert_eq!((report.rebuilt.len(), report.lost.len()), (1, 0), "{report:?}");
    assert_eq!(report.kept, [format!("{}.damaged", path.display())]);
    assert_eq!(problems(&files), Vec::<String>::new());
    let expected = (1..=112).map(|id| (id, if id == 50 { 5_000 } else { 1_000 + id }));
    assert_eq!(rows(&files, &def), expected.collect::<Vec<_>>());
}

/// An open was refused, and a repair said that there was nothing to repair.
#[test]
fn a_damaged_index_that_was_dropped_since_is_left_out() {
    let (files, def) = database_of_full_chunks();
    let store = open(&files);
    let mut tx = begin(&store);
    let mut bare = def;
    bare.indexes.clear();
    tx.change_catalog(CatalogChange::PutTable(Box::new(bare))).unwrap();
    tx.commit().unwrap();
    drop(store);
    let files = files.restart();
    let (_, path) = paths(&files);
    files.damage(&path, files.len(&path).unwrap() - 40, 1);
    let report = mend(&files);
    assert_eq!((report.rebuilt.len(), report.lost.len()), (1, 0), "{report:?}");
    assert_eq!(report.kept, [format!("{}.damaged", path.display())]);
    assert_eq!(problems(&files), Vec::<String>::new());
    drop(open(&files));
}

/// What a repair finds damaged is there after it, under one name or the other, wherever it ended and whoever opened the
/// database then.
#[test]
fn the_damaged_file_is_kept_by_a_repair_that_ends_anywhere() {
    for calls in 0.. {
        let (files, def) = database_of_full_chunks();
        let path = damage_chunk(&files, 3);
        let damaged = files.read(&path).unwrap();
        files.fail_from(calls, crate::files::Fault::Io);
        let outcome = repair_tuned(Arc::new(files.clone()), Path::new(DIR), SIZES());
        let files = files.crash();
        drop(open(&files));
        let kept = PathBuf::from(format!("{}.damaged", path.display()));
        let is_kept = |path: &Path| files.exists(path).unwrap() && files.read(path).unwrap() == damaged;
        assert!(is_kept(&path) || is_kept(&kept), "call {calls}");
        mend(&files);
        assert!(is_kept(&kept), "call {calls}");
        assert_eq!(rows(&files, &def).len(), 96, "call {calls}");
        assert_eq!(problems(&files), Vec::<String>::new(), "call {calls}");
        if outcome.is_ok() {
            break;
        }
    }
}

/// Numbers of files come again where somebody puts a directory back from a copy.
#[test]
fn a_file_that_was_kept_before_stays_as_it_is() {
    let (files, _) = database_of_full_chunks();
    let path = damage_chunk(&files, 3);
    let kept = PathBuf::from(format!("{}.damaged", path.display()));
    files.open(&kept, OpenMode::Create).unwrap().write_all_at(0, b"of before").unwrap();
    assert_eq!(mend(&files).kept, [format!("{}.damaged-2", path.display())]);
    assert_eq!(files.read(&kept).unwrap(), b"of before");
}

#[test]
fn a_repair_that_fails_anywhere_can_be_run_again() {
    for calls in 0.. {
        let (files, def) = database();
        let (path, _) = paths(&files);
        files.damage(&path, IN_FIRST_CHUNK, 1);
        files.fail_from(calls, crate::files::Fault::Io);
        let outcome = repair_tuned(Arc::new(files.clone()), Path::new(DIR), SIZES());
        let files = files.crash();
        // Perhaps the manifest is in place, and only a name is not.
        mend(&files);
        let left: Vec<_> = all_rows().into_iter().filter(|(id, _)| *id > 14 || *id == 5).collect();
        assert_eq!(rows(&files, &def), left, "call {calls}");
        if outcome.is_ok() {
            break;
        }
    }
}
