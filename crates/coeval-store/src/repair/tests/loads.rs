// SPDX-License-Identifier: Apache-2.0
//! Bulk loads that only the log names are mended as what a checkpoint has written.

use super::{DIR, begin, damage_chunk_of, empty_table, manifest, mend, open, problems, row, rows};
use crate::catalog::{CatalogChange, TableDef};
use crate::chunk::CHUNK_ROWS;
use crate::disk::Disk;
use crate::files::{FileSystem, OpenMode, SimulatedFiles};
use crate::log::{ChecksumPolicy, Lsn, read};
use crate::recovery::{MendTables, Replayer};
use crate::repair::Mender;
use crate::segment::{Segment, SegmentRef, segment_path};
use crate::value::ValueRef;
use arrow::array::{Int64Array, RecordBatch};
use crc32c::crc32c;
use std::path::Path;
use std::sync::Arc;

/// Three chunks and a half.
const ROWS: i64 = CHUNK_ROWS as i64 * 7 / 2;

/// `t (id, v)` with an index on `v`: ids from 1 on in one load that the log names, then 5 has another v, 6 and the last but
/// one are gone. Closed.
fn database() -> (SimulatedFiles, TableDef) {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let def = empty_table(&store);
    let ids: Int64Array = (1..=ROWS).map(Some).collect();
    let values: Int64Array = (1..=ROWS).map(|id| Some(1_000 + id)).collect();
    let batch =
        RecordBatch::try_from_iter([("id", Arc::new(ids) as _), ("v", Arc::new(values) as _)]).unwrap();
    let mut tx = begin(&store);
    tx.bulk_insert(def.id, &[batch]).unwrap();
    tx.commit().unwrap();
    let mut tx = begin(&store);
    tx.put(def.id, row(&def, 5, 2_005)).unwrap();
    for id in [6, ROWS - 1] {
        assert!(tx.delete(def.id, &def.key_of(|_| ValueRef::Int64(id))).unwrap());
    }
    tx.commit().unwrap();
    drop(store);
    (files.restart(), def)
}

fn all_rows() -> Vec<(i64, i64)> {
    let value = |id| if id == 5 { 2_005 } else { 1_000 + id };
    (1..=ROWS).filter(|id| ![6, ROWS - 1].contains(id)).map(|id| (id, value(id))).collect()
}

/// The segments of the one load in the log: of the rows and of the index.
fn segments(files: &SimulatedFiles) -> (SegmentRef, SegmentRef) {
    let named = named(files);
    (named[0], named[1])
}

/// The segments that the log names.
fn named(files: &SimulatedFiles) -> Vec<SegmentRef> {
    let mut found = Vec::new();
    let from = Lsn::new(manifest(files).log);
    let mut note = |_: Lsn, payload: &[u8]| {
        found.extend(Replayer::segments_of(payload)?);
        Ok::<(), crate::recovery::ReplayError>(())
    };
    read(files, &Path::new(DIR).join("log"), from, &mut note).unwrap();
    found
}

/// `t (id, v)` with 40 rows, then a new index on `v`, whose file the log alone names; then 5 has another v, 6 is gone and 50 is
/// new. Closed.
fn database_with_new_index() -> (SimulatedFiles, TableDef) {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let mut def = empty_table(&store);
    let mut tx = begin(&store);
    (1..=40).for_each(|id| drop(tx.insert(def.id, row(&def, id, 1_000 + id)).unwrap()));
    tx.commit().unwrap();
    def.indexes[0].id = store.new_space_id();
    let mut tx = begin(&store);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    let mut tx = begin(&store);
    tx.put(def.id, row(&def, 5, 2_005)).unwrap();
    tx.put(def.id, row(&def, 50, 2_050)).unwrap();
    assert!(tx.delete(def.id, &def.key_of(|_| ValueRef::Int64(6))).unwrap());
    tx.commit().unwrap();
    drop(store);
    (files.restart(), def)
}

fn damage_keys_of(files: &SimulatedFiles, reference: SegmentRef) {
    let (disk, dir): (Arc<dyn FileSystem>, _) = (Arc::new(files.clone()), Path::new(DIR));
    let segment = Segment::open(&disk, dir, reference, ChecksumPolicy::Verified, &Arc::default()).unwrap();
    files.damage(segment.path(), segment.chunk(0).part_offset(0), 1);
}

/// Fails if a repair takes the file of a new index as it is, or counts it as rows that are lost.
#[test]
fn a_damaged_file_of_a_new_index_is_named_and_mended_of_the_rows() {
    for damage in 0..3 {
        let (files, def) = database_with_new_index();
        let before = rows(&files.copy(), &def);
        assert_eq!(before.len(), 40);
        let all = named(&files);
        assert_eq!(all.len(), 1, "one index in a file");
        let segment = all[0];
        match damage {
            0 => damage_keys_of(&files, segment),
            1 => files.remove(&path_of(segment)).unwrap(),
            _ => files.damage(&path_of(segment), files.len(&path_of(segment)).unwrap() - 40, 1),
        }
        let found = problems(&files);
        let name = path_of(segment).display().to_string();
        assert!(found.iter().any(|problem| problem.contains(&name)), "{found:?}");
        let report = mend(&files);
        assert_eq!(report.rebuilt, ["index t_v of table t"]);
        assert_eq!(report.lost, Vec::<String>::new());
        assert_eq!(problems(&files), Vec::<String>::new());
        assert_eq!(rows(&files, &def), before);
    }
}

fn path_of(segment: SegmentRef) -> std::path::PathBuf {
    segment_path(Path::new(DIR), segment.number)
}

/// It was said to be rows out of order, and stayed.
#[test]
fn of_a_load_in_the_log_the_damaged_chunk_alone_is_lost() {
    let (files, def) = database();
    let path = damage_chunk_of(&files, segments(&files).0, 1);
    let report = mend(&files);
    assert_eq!(report.lost.len(), 1, "{report:?}");
    assert!(report.lost[0].starts_with("table t: 65536 rows from "), "{report:?}");
    assert_eq!(report.kept, [format!("{}.damaged", path.display())]);
    assert_eq!(problems(&files), Vec::<String>::new());
    let is_lost = |id: i64| (65_537..=131_072).contains(&id);
    let left: Vec<_> = all_rows().into_iter().filter(|(id, _)| !is_lost(*id)).collect();
    assert!(rows(&files.crash(), &def) == left);
}

/// It was a refusal.
#[test]
fn of_a_load_whose_file_is_gone_later_changes_are_left() {
    for is_gone in [true, false] {
        let (files, def) = database();
        let path = path_of(segments(&files).0);
        match is_gone {
            true => files.remove(&path).unwrap(),
            false => files.damage(&path, files.len(&path).unwrap() - 40, 1),
        }
        let report = mend(&files);
        assert_eq!((report.lost.len(), report.kept.len()), (1, usize::from(!is_gone)), "{report:?}");
        assert!(report.lost[0].starts_with("table t: the rows of a load: "), "{report:?}");
        assert_eq!(problems(&files), Vec::<String>::new());
        assert_eq!(rows(&files.crash(), &def), [(5, 2_005)]);
    }
}

#[test]
fn a_damaged_index_of_a_load_is_built_again_without_a_loss() {
    for damage in 0..3 {
        let (files, def) = database();
        let segment = segments(&files).1;
        match damage {
            0 => damage_chunk_of_keys(&files, segment),
            1 => files.remove(&path_of(segment)).unwrap(),
            _ => files.damage(&path_of(segment), files.len(&path_of(segment)).unwrap() - 40, 1),
        }
        let report = mend(&files);
        assert_eq!(report.rebuilt, ["index t_v of table t"]);
        assert_eq!(report.lost, Vec::<String>::new());
        assert_eq!(problems(&files), Vec::<String>::new());
        assert!(rows(&files, &def) == all_rows());
    }
}

fn damage_chunk_of_keys(files: &SimulatedFiles, segment: SegmentRef) {
    files.damage(&path_of(segment), files.len(&path_of(segment)).unwrap() / 2, 1);
}

/// Rows that a load brought and that were removed as a whole later are no loss, and keep no database from being opened.
#[test]
fn what_was_emptied_or_dropped_since_is_not_lost() {
    for change in [
        |def: &TableDef| CatalogChange::Truncate(def.id),
        |def: &TableDef| CatalogChange::RemoveTable(def.id),
    ] {
        let (files, def) = database();
        let store = open(&files);
        let mut tx = begin(&store);
        tx.change_catalog(change(&def)).unwrap();
        tx.commit().unwrap();
        drop(store);
        let files = files.restart();
        let path = path_of(segments(&files).0);
        files.damage(&path, files.len(&path).unwrap() - 40, 1);
        let report = mend(&files);
        assert_eq!(report.lost, Vec::<String>::new());
        assert_eq!(report.rebuilt[0], "table t, whose damaged rows were gone already");
        assert_eq!(problems(&files), Vec::<String>::new());
        drop(open(&files));
    }
}

/// Its checksum is in the log, so a file that says something wrong is given to what mends loads.
#[test]
fn wrong_statistics_of_a_load_are_found() {
    let (files, def) = database();
    let segment = segments(&files).0;
    let mut bytes = files.read(&path_of(segment)).unwrap();
    let text = b"\"min\":\"";
    let place = bytes.windows(text.len()).rposition(|window| window == text).unwrap() + text.len();
    bytes[place] = b'f';
    files.open(&path_of(segment), OpenMode::Create).unwrap().write_all_at(0, &bytes).unwrap();
    let length = bytes.len();
    let footer = u32::from_le_bytes(bytes[length - 10..length - 6].try_into().unwrap()) as usize;
    let wrong = SegmentRef { footer_checksum: crc32c(&bytes[length - 10 - footer..]), ..segment };
    let disk: Arc<dyn FileSystem> = Arc::new(files.clone());
    let lock = disk.lock(Path::new(DIR)).unwrap();
    let disk = Disk::new(disk, DIR.into(), lock, ChecksumPolicy::Verified, 100);
    let mut mender = Mender::new(&disk);
    let chunks = mender.load(&def, &[wrong, segments(&files).1]);
    assert_eq!(chunks.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4]);
    let (report, damaged, emptied, _) = mender.finish();
    assert_eq!((report.rebuilt.len(), report.lost.len(), damaged.len()), (1, 0, 0), "{report:?}");
    assert!(report.rebuilt[0].starts_with("statistics of a chunk of table t"), "{report:?}");
    assert_eq!(emptied.into_iter().collect::<Vec<_>>(), [segment.number]);
}
