// SPDX-License-Identifier: Apache-2.0
//! What an open finds, what it refuses, and what it leaves behind.

mod times;

use crate::catalog::{CatalogChange, ColumnDef, QualifiedName, SequenceDef, TableDef};
use crate::error::StoreError;
use crate::files::{Fault, FileSystem, OpenMode, SimulatedFiles};
use crate::log::{ChecksumPolicy, Damage, Log, LogError, LogOptions, Lsn};
use crate::manifest::{BatchRun, Manifest};
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::range::{Direction, KeyRange};
use crate::record::{encode_batch, encode_sequence};
use crate::row::RowWriter;
use crate::store::{SetValue, Store};
use crate::transaction::{AccessMode, Transaction};
use crate::types::ColumnType;
use crate::value::Value;
use crate::verify::verify;
use coeval_txn::{Isolation, Version};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIR: &str = "/db";

fn try_open(files: &SimulatedFiles) -> Result<Store, StoreError> {
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let log = LogOptions { segment_bytes: 10_000, extend_bytes: 128, checksums: ChecksumPolicy::Verified };
    let sizes = Sizes { chunk_rows: 16, direct_load_rows_min: 8, ..Sizes::default() };
    Store::open_tuned(Arc::new(files.clone()), Path::new(DIR), options, log, sizes)
}

fn open(files: &SimulatedFiles) -> Store {
    try_open(files).unwrap()
}

fn begin(store: &Store) -> Transaction {
    store.begin(Isolation::Snapshot, AccessMode::ReadWrite)
}

fn make_table(store: &Store) -> TableDef {
    let columns = vec![ColumnDef::new("id", ColumnType::BigInt)];
    let def = TableDef::new(store.new_space_id(), QualifiedName::new("public", "t"), columns, vec![0]);
    let mut tx = begin(store);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    def
}

fn insert(store: &Store, def: &TableDef, id: i64) {
    let mut writer = RowWriter::new(def.layout());
    writer.push(Value::Int64(id).borrow()).unwrap();
    let mut tx = begin(store);
    tx.insert(def.id, writer.finish()).unwrap();
    tx.commit().unwrap();
}

fn ids(store: &Store, def: &TableDef) -> Vec<i64> {
    let tx = begin(store);
    let rows = tx.scan(def.id, &KeyRange::all(), Direction::Forward).unwrap();
    rows.map(|row| row.unwrap().1.get(0).as_i64().unwrap()).collect()
}

fn segments(files: &SimulatedFiles) -> Vec<String> {
    files.list(&Path::new(DIR).join("segments")).unwrap()
}

fn log_segments(files: &SimulatedFiles) -> Vec<PathBuf> {
    let dir = Path::new(DIR).join("log");
    let names = files.list(&dir).unwrap();
    names.iter().filter(|name| name.ends_with(".log")).map(|name| dir.join(name)).collect()
}

/// Changes the manifest of a closed database.
fn change_manifest(files: &SimulatedFiles, change: impl FnOnce(&mut Manifest)) {
    let dir = Path::new(DIR);
    let mut manifest = Manifest::read(files, dir, ChecksumPolicy::Verified).unwrap().unwrap();
    change(&mut manifest);
    manifest.write(files, dir).unwrap();
}

/// A closed database with the rows 1 to 3 in one chunk and 4 in the log.
fn database() -> (SimulatedFiles, TableDef) {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let def = make_table(&store);
    (1..=3).for_each(|id| insert(&store, &def, id));
    store.checkpoint().unwrap();
    insert(&store, &def, 4);
    drop(store);
    (files.restart(), def)
}

/// The error of an open, which must not change the files.
fn refused(files: &SimulatedFiles) -> StoreError {
    let manifest = files.read(&Path::new(DIR).join("MANIFEST")).ok();
    let before = (manifest.clone(), segments(files));
    let error = try_open(files).expect_err("the open is refused");
    assert_eq!((files.read(&Path::new(DIR).join("MANIFEST")).ok(), segments(files)), before);
    error
}

fn corruption(error: &StoreError) -> (PathBuf, &str) {
    match error {
        StoreError::Corrupt { file, what, .. } => (PathBuf::from(file), what),
        error => panic!("another error: {error}"),
    }
}

#[test]
fn a_first_open_that_ended_anywhere_is_taken_up_by_the_next() {
    for (calls, seed) in (0..40).flat_map(|calls| (0..16).map(move |seed| (calls, seed))) {
        let files = SimulatedFiles::new(seed);
        files.fail_from(calls, Fault::Io);
        let failed = try_open(&files).is_err();
        assert!(failed || calls > 8, "an open makes several calls");
        let files = if seed % 4 == 0 { files.restart() } else { files.crash() };
        // And once more.
        files.fail_from(calls / 2, Fault::Io);
        drop(try_open(&files));
        let files = files.crash();
        let store = try_open(&files).unwrap_or_else(|error| panic!("{calls} {seed}: {error}"));
        let def = make_table(&store);
        insert(&store, &def, 1);
        let files = files.crash();
        assert_eq!(ids(&open(&files), &def), [1]);
    }
}

/// What an error says that is missing, and what it found.
fn missing(error: &StoreError) -> (&str, &str) {
    match error {
        StoreError::IncompleteDatabase { missing, found, .. } => (missing, found),
        error => panic!("another error: {error}"),
    }
}

/// Removes the files of a directory.
fn empty(files: &SimulatedFiles, dir: &str) {
    let dir = Path::new(DIR).join(dir);
    files.list(&dir).unwrap().iter().for_each(|name| files.remove(&dir.join(name)).unwrap());
}

/// A missing manifest used to make a new database whose first open removed every segment; a missing log was made anew.
#[test]
fn a_database_of_which_files_are_missing_is_never_made_anew() {
    let (files, _) = database();
    let manifest = Path::new(DIR).join("MANIFEST");
    files.remove(&manifest).unwrap();
    let first_segment = format!("segments/{}", segments(&files)[0]);
    assert_eq!(missing(&refused(&files)), ("MANIFEST", first_segment.as_str()));
    empty(&files, "log");
    assert_eq!(missing(&refused(&files)), ("MANIFEST", first_segment.as_str()));
    assert!(!segments(&files).is_empty());
    empty(&files, "segments");
    drop(open(&files));

    // A manifest that was written aside is somebody's, too.
    let (files, _) = database();
    files.rename(&manifest, &Path::new(DIR).join("MANIFEST.tmp")).unwrap();
    empty(&files, "log");
    empty(&files, "segments");
    assert_eq!(missing(&refused(&files)), ("MANIFEST", "MANIFEST.tmp"));

    // A log alone.
    let (files, _) = database();
    files.remove(&manifest).unwrap();
    empty(&files, "segments");
    assert_eq!(missing(&refused(&files)), ("MANIFEST", "log/00000000000000000000.log"));
}

/// What a former primary had acknowledged, and what was cut off its log, lay in a directory that was taken for a new one, as did a
/// promise without which a machine acknowledges what another one has superseded, and the rows of a node of a cluster, or of an engine.
#[test]
fn what_a_database_writes_beside_its_rows_is_never_taken_for_a_new_one() {
    let of_server = ["cluster/held.log", "engine/t.parquet"];
    let of_store = ["kept-log", "promise", "promise.tmp", "rewound/term-1/00000000000000000000.log"];
    for mark in of_store.into_iter().chain(of_server) {
        let files = SimulatedFiles::new(1);
        let (path, first) = (Path::new(DIR).join(mark), mark.split('/').next().unwrap());
        files.create_dir_all(path.parent().unwrap()).unwrap();
        files.open(&path, OpenMode::Create).unwrap();
        let error = try_open(&files).expect_err("the open is refused");
        assert_eq!(missing(&error), ("MANIFEST", first), "{error}");
        assert!(files.exists(&path).unwrap() && !files.exists(&Path::new(DIR).join("MANIFEST")).unwrap());
        // Nor is it beside a log without records.
        let files = SimulatedFiles::new(2);
        drop(open(&files));
        files.remove(&Path::new(DIR).join("MANIFEST")).unwrap();
        files.create_dir_all(path.parent().unwrap()).unwrap();
        files.open(&path, OpenMode::Create).unwrap();
        assert_eq!(missing(&refused(&files)).0, "MANIFEST", "{mark}");
    }
}

#[test]
fn a_database_without_its_log_is_refused_whether_it_had_a_checkpoint_or_not() {
    for has_checkpoint in [false, true] {
        let files = SimulatedFiles::new(1);
        let store = open(&files);
        let def = make_table(&store);
        insert(&store, &def, 1);
        if has_checkpoint {
            store.checkpoint().unwrap();
        }
        drop(store);
        let files = files.restart();
        empty(&files, "log");
        let error = refused(&files);
        assert_eq!(missing(&error), ("log segment (log/*.log)", "MANIFEST"));
        assert!(error.to_string().contains("put it back"), "{error}");
        let report = verify(Arc::new(files), Path::new(DIR), None).unwrap();
        assert_eq!(report.problem_count, 1, "{:?}", report.problems);
    }
}

/// Without a record behind it, a damaged last record looked like a torn tail, and was cut off in silence.
#[test]
fn after_a_clean_close_damage_in_the_last_record_is_named() {
    let (files, def) = database();
    let path = log_segments(&files).pop().unwrap();
    let bytes = files.read(&path).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64;
    let mut named = 0;
    for offset in 0..=end {
        files.damage(&path, offset, 0x10);
        let copy = files.copy();
        match try_open(&copy) {
            Ok(store) => {
                assert_eq!(ids(&store, &def), [1, 2, 3, 4], "offset {offset}");
            }
            Err(_) => named += 1,
        }
        files.damage(&path, offset, 0x10);
    }
    // What lies before the checkpoint's place is not looked at, nor is there anything that needs it.
    assert!(named > 60, "{named}");
    // A database that is opened and closed takes no more room for it.
    let length = |files: &SimulatedFiles| files.read(&path).unwrap().iter().rposition(|byte| *byte != 0);
    let before = length(&files);
    drop(open(&files));
    assert_eq!(length(&files), before);
}

/// A closed database whose log has several segments, with rows that only its last ones have: its rows, and the files of the
/// log's segments.
fn long_database() -> (SimulatedFiles, TableDef, Vec<i64>, Vec<PathBuf>) {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let def = make_table(&store);
    (1..=3).for_each(|id| insert(&store, &def, id));
    store.checkpoint().unwrap();
    (4..=260).for_each(|id| insert(&store, &def, id));
    drop(store);
    let files = files.restart();
    let segments = log_segments(&files);
    assert!(segments.len() >= 3, "{segments:?}");
    (files, def, (1..=260).collect(), segments)
}

/// Without the last segment, what was left looked like a shorter log that is whole: acknowledged rows were gone in silence.
#[test]
fn after_a_clean_close_a_missing_last_log_segment_is_named() {
    let (files, def, _, _) = long_database();
    for (close, missing) in [("the first", 1), ("the first", 2), ("a later", 1), ("a later", 2)] {
        let copy = files.copy();
        if close == "a later" {
            let store = open(&copy);
            (1_000..1_200).for_each(|id| insert(&store, &def, id));
        }
        let copy = copy.restart();
        let segments = log_segments(&copy);
        let (kept, gone) = segments.split_at(segments.len() - missing);
        gone.iter().for_each(|path| copy.remove(path).unwrap());
        let error = refused(&copy);
        let StoreError::Log(LogError::MissingSegment { path }) = &error else { panic!("{error}") };
        assert_eq!(*path, gone[0], "{close} close, the first of {missing} behind {kept:?}");
        let report = verify(Arc::new(copy.clone()), Path::new(DIR), None).unwrap();
        let named: Vec<_> = report.problems.iter().map(|problem| problem.file.clone()).collect();
        assert_eq!(named, [Some(gone[0].display().to_string())], "{:?}", report.problems);
    }
}

/// The same of a log that was cut off: at the border of a record, behind the header of its last segment, or to nothing.
#[test]
fn after_a_clean_close_a_log_that_was_cut_off_anywhere_is_named() {
    let (files, def, rows, segments) = long_database();
    let last = segments.last().unwrap();
    let bytes = files.read(last).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64;
    let mut at_borders = 0;
    for length in 0..=end {
        let copy = files.copy();
        copy.open(last, OpenMode::Existing).unwrap().set_len(length).unwrap();
        let error = refused(&copy);
        let StoreError::Log(LogError::Damaged { path, offset, damage }) = &error else { panic!("{error}") };
        assert_eq!(path, last);
        assert!(*offset <= length, "{length}: {error}");
        at_borders += u32::from(matches!(damage, Damage::EndsBeforeNoted(_)));
    }
    assert!(at_borders > 10, "{at_borders} borders of records");
    // What is behind the end is room for more; the last record ends with a number, whose last bytes are zeros.
    let copy = files.copy();
    copy.open(last, OpenMode::Existing).unwrap().set_len(end + 8).unwrap();
    assert_eq!(ids(&open(&copy), &def), rows);
}

/// A log that went on is longer than its last close says, and one whose note was lost has none: both are whole.
#[test]
fn an_old_note_of_the_end_of_the_log_and_none_are_as_good() {
    let (files, def, mut rows, segments) = long_database();
    let note = Path::new(DIR).join("log/end");
    let old = files.read(&note).unwrap();
    let store = open(&files);
    (261..=400).for_each(|id| insert(&store, &def, id));
    rows.extend(261..=400);
    let crashed = files.restart();
    drop(store);
    assert_eq!(crashed.read(&note).unwrap(), old, "only a close notes the end");
    assert!(crashed.list(note.parent().unwrap()).unwrap().len() > segments.len() + 1, "the log goes on");
    let store = open(&crashed);
    assert_eq!(ids(&store, &def), rows);
    // A checkpoint removes the segment that the note names.
    store.checkpoint().unwrap();
    let crashed = crashed.restart();
    drop(store);
    assert!(!crashed.exists(segments.last().unwrap()).unwrap());
    assert_eq!(ids(&open(&crashed), &def), rows);
    let closed = crashed.restart();
    closed.remove(&note).unwrap();
    assert_eq!(ids(&open(&closed), &def), rows);
    let damaged = closed.restart();
    assert_ne!(damaged.read(&note).unwrap(), old);
    damaged.damage(&note, 20, 1);
    let error = refused(&damaged);
    assert!(matches!(&error, StoreError::Log(LogError::Damaged { path, .. }) if *path == note), "{error}");
}

/// The manifest of an earlier checkpoint, put back beside a log that has gone on, gives the same rows, or is refused for what
/// is not there any more.
#[test]
fn an_older_manifest_than_the_log_gives_all_rows_or_names_what_is_missing() {
    let manifest = Path::new(DIR).join("MANIFEST");
    let put_back = |files: &SimulatedFiles, bytes: &[u8]| {
        crate::files::replace_file(files, &manifest, bytes).unwrap();
    };
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let def = make_table(&store);
    insert(&store, &def, 1);
    let empty = files.read(&manifest).unwrap();
    store.checkpoint().unwrap();
    let old = files.read(&manifest).unwrap();
    (2..=20).for_each(|id| insert(&store, &def, id));
    drop(store);
    let closed = files.restart();
    put_back(&closed, &empty);
    assert_eq!(ids(&open(&closed), &def), (1..=20).collect::<Vec<_>>(), "all is in the log yet");
    let store = open(&closed.restart());
    store.checkpoint().unwrap();
    (21..=200).for_each(|id| insert(&store, &def, id));
    store.checkpoint().unwrap();
    drop(store);
    // The first segment of the log is gone, and so are the chunks of the first checkpoint.
    let missing = |older: &[u8]| {
        let copy = closed.copy();
        put_back(&copy, older);
        refused(&copy).to_string()
    };
    let (log, chunks) = (missing(&empty), missing(&old));
    assert!(log.contains("/db/log/00000000000000000000.log is missing"), "{log}");
    assert!(chunks.contains("/db/segments/00000000000000000001.arrow"), "{chunks}");
}

#[test]
fn a_missing_segment_file_is_named() {
    let (files, _) = database();
    let path = Path::new(DIR).join("segments").join(&segments(&files)[0]);
    files.remove(&path).unwrap();
    let error = refused(&files);
    assert_eq!(corruption(&error), (path, "the file is missing"));
}

#[test]
fn a_manifest_that_refers_to_chunks_that_are_not_there_is_damage() {
    let run = |segment, first_batch, count| BatchRun { segment, first_batch, count };
    let cases: [(&str, BatchRun); 4] = [
        ("a chunk lies in a segment that is not listed", run(99, 0, 1)),
        ("a chunk has a number that its segment does not have", run(1, 0, 2)),
        ("a chunk has an impossible number", run(1, u32::MAX, 1)),
        ("chunks are not in the order of their keys", run(1, 0, 1)),
    ];
    for (what, bad) in cases {
        let (files, _) = database();
        change_manifest(&files, |manifest| {
            assert_eq!(manifest.tables[0].rows, [run(1, 0, 1)]);
            manifest.tables[0].rows.push(bad);
        });
        let error = refused(&files);
        assert_eq!(
            corruption(&error),
            (Path::new(DIR).join("MANIFEST"), format!("table t: {what}").as_str())
        );
    }
    let (files, _) = database();
    change_manifest(&files, |manifest| manifest.tables[0].indexes.push(Vec::new()));
    let error = refused(&files);
    assert!(corruption(&error).1.contains("another number of indexes"), "{error}");
}

#[test]
fn a_manifest_beyond_the_end_of_the_log_is_damage_of_the_log() {
    let (files, _) = database();
    change_manifest(&files, |manifest| manifest.log += 10_000);
    assert!(matches!(refused(&files), StoreError::Log(LogError::Damaged { .. })));
}

/// Appends a record to the log of a closed database; its file and the offset in it.
fn append(files: &SimulatedFiles, payload: &[u8]) -> (PathBuf, u64) {
    let dir = Path::new(DIR).join("log");
    let options =
        LogOptions { segment_bytes: 10_000, extend_bytes: 128, checksums: ChecksumPolicy::Verified };
    let mut ignore = |_: Lsn, _: &[u8]| Ok::<(), String>(());
    let mut log = Log::open_with(Arc::new(files.clone()), &dir, Lsn::START, options, &mut ignore).unwrap();
    let offset = 24 + log.end_lsn().get();
    let lsn = log.append(payload).unwrap();
    log.handle().sync(lsn).unwrap();
    (dir.join("00000000000000000000.log"), offset)
}

#[test]
fn records_that_no_writer_of_ours_wrote_are_named_by_file_and_offset() {
    let batch = |version: u64, body: &[u8]| {
        let mut out = Vec::new();
        encode_batch(Version::new(version), Version::ZERO, [(None, body)].into_iter(), &mut out);
        out
    };
    let empty = [0; 12];
    let change_of = |table: u32, row: &[u8]| {
        let mut body = vec![0; 8];
        body.extend_from_slice(&1u32.to_le_bytes());
        body.extend_from_slice(&table.to_le_bytes());
        body.extend_from_slice(&1u32.to_le_bytes());
        body.push(0x81);
        body.extend_from_slice(&1u32.to_le_bytes());
        body.push(b'k');
        body.extend_from_slice(&(row.len() as u32).to_le_bytes());
        body.extend_from_slice(row);
        body.extend_from_slice(&0u32.to_le_bytes());
        body
    };
    let cases: [(&str, Vec<u8>); 6] = [
        ("version 7 does not follow 5", batch(7, &empty)),
        ("version 5 does not follow 5", batch(5, &empty)),
        ("a log record is malformed at byte 0", vec![9]),
        ("a log record is malformed at byte", batch(6, &[0; 13])),
        ("a change of table 77, which is not there", batch(6, &change_of(77, &[]))),
        ("a row that is none of table 1", batch(6, &change_of(1, &[1, 0, 0, 5]))),
    ];
    for (what, payload) in cases {
        let (files, def) = database();
        assert_eq!(def.id.get(), 1);
        let (path, offset) = append(&files, &payload);
        let error = refused(&files);
        let StoreError::Corrupt { offset: named, .. } = &error else { panic!("{error}") };
        let (file, said) = corruption(&error);
        assert_eq!((file, *named), (path, offset), "{error}");
        assert!(said.starts_with(what), "{said}");
    }
}

#[test]
fn leftovers_are_removed_and_their_numbers_not_given_again_in_that_process() {
    let (files, def) = database();
    let leftover = Path::new(DIR).join("segments/00000000000000000020.arrow");
    let unfinished = Path::new(DIR).join("segments/00000000000000000021.arrow.tmp");
    let foreign = Path::new(DIR).join("segments/notes.txt");
    for path in [&leftover, &unfinished, &foreign] {
        files.open(path, OpenMode::Create).unwrap().write_all_at(0, b"x").unwrap();
    }
    let store = open(&files);
    assert_eq!(segments(&files), ["00000000000000000001.arrow", "notes.txt"]);
    insert(&store, &def, 100);
    store.checkpoint().unwrap();
    assert_eq!(segments(&files), ["00000000000000000022.arrow", "notes.txt"]);
    assert_eq!(ids(&store, &def), [1, 2, 3, 4, 100]);
}

/// A checkpoint put its manifest in place, and the sync of the directory failed. The next process saw the new
/// manifest and removed the files that only the old one names; then a crash brought the old one back.
#[test]
fn files_of_the_old_manifest_stay_until_the_new_one_is_durable() {
    for seed in 0..40 {
        let files = SimulatedFiles::new(seed);
        let store = open(&files);
        let def = make_table(&store);
        insert(&store, &def, 1);
        store.checkpoint().unwrap();
        insert(&store, &def, 2);
        drop(store);
        let files = files.restart();
        let calls = {
            let files = files.copy();
            let store = open(&files);
            let before = files.call_count();
            let mut checkpoint = crate::checkpoint::Checkpoint::freeze(&store.shared);
            checkpoint.write().unwrap();
            files.call_count() - before
        };
        let store = open(&files);
        files.fail_after(calls - 1, Fault::Io);
        let error = store.checkpoint().unwrap_err();
        assert!(error.to_string().starts_with("cannot sync directory"), "{error}");
        drop(store);
        let files = files.restart();
        assert_eq!(ids(&open(&files), &def), [1, 2]);
        let files = files.crash();
        assert_eq!(ids(&open(&files), &def), [1, 2], "seed {seed}");
    }
}

fn numbers(store: &Store) -> SequenceDef {
    SequenceDef {
        id: store.new_sequence_id(),
        name: QualifiedName::new("public", "numbers"),
        start: 1,
        increment: 1,
        min: 1,
        max: i64::MAX,
        cycle: false,
        ty: Default::default(),
        owned_by: None,
        access: Default::default(),
    }
}

#[test]
fn a_sequence_goes_on_behind_everything_it_handed_out_whatever_ends_the_process() {
    for seed in 0..60 {
        let mut files = SimulatedFiles::new(seed);
        let store = open(&files);
        let def = numbers(&store);
        let mut tx = begin(&store);
        tx.change_catalog(CatalogChange::PutSequence(def.clone())).unwrap();
        // Numbers may be taken before the definition is committed.
        let mut last = store.next_value(&def).unwrap();
        tx.commit().unwrap();
        drop(store);
        for life in 0..4 {
            let store = open(&files);
            for _ in 0..[1, 3, 1_024, 1_025][(seed as usize + life) % 4] {
                let next = store.next_value(&def).unwrap();
                assert!(next > last, "seed {seed}: {next} after {last}");
                last = next;
            }
            match (seed + life as u64) % 5 {
                0 => drop(store.checkpoint().unwrap()),
                1 => {
                    last += 10;
                    store.set_value(&def, last, SetValue::Used).unwrap();
                }
                _ => {}
            }
            files = if seed % 2 == 0 { files.crash() } else { files.restart() };
        }
    }
}

#[test]
fn a_sequence_at_its_end_stays_there_and_loses_no_number_to_a_crash_near_it() {
    let mut files = SimulatedFiles::new(1);
    let store = open(&files);
    let def = SequenceDef { max: 5, ..numbers(&store) };
    let mut tx = begin(&store);
    tx.change_catalog(CatalogChange::PutSequence(def.clone())).unwrap();
    tx.commit().unwrap();
    drop(store);
    for expected in 1..=5 {
        let store = open(&files);
        assert_eq!(store.next_value(&def).unwrap(), expected);
        files = files.crash();
    }
    let store = open(&files);
    assert!(matches!(store.next_value(&def), Err(StoreError::SequenceExhausted(_))));
    store.checkpoint().unwrap();
    assert!(matches!(open(&files.crash()).next_value(&def), Err(StoreError::SequenceExhausted(_))));
}

#[test]
fn the_number_of_a_sequence_in_the_log_is_not_given_again_though_it_was_never_committed() {
    let (files, _) = database();
    let mut record = Vec::new();
    encode_sequence(crate::ids::SequenceId::new(6), Some(1_000), &mut record);
    append(&files, &record);
    assert_eq!(open(&files).new_sequence_id().get(), 7);
}

#[test]
fn a_directory_with_somebody_elses_files_is_refused_and_left_alone() {
    let files = SimulatedFiles::new(1);
    let dir = Path::new(DIR);
    files.create_dir_all(dir).unwrap();
    let theirs = files.open(&dir.join("letter.txt"), OpenMode::Create).unwrap();
    theirs.write_all_at(0, b"dear").unwrap();
    let refused = try_open(&files).unwrap_err();
    assert!(
        matches!(&refused, StoreError::ForeignDirectory { file, .. } if file == "letter.txt"),
        "{refused}"
    );
    assert_eq!(files.list(dir).unwrap(), ["letter.txt"]);
}

/// Who wrote the rules before the first start had somebody else's directory.
#[test]
fn what_a_server_keeps_there_makes_a_directory_nobody_elses() {
    let files = SimulatedFiles::new(1);
    let dir = Path::new(DIR);
    files.create_dir_all(dir).unwrap();
    for name in ["pg_hba.conf", "mock-secret", "served"] {
        files.open(&dir.join(name), OpenMode::Create).unwrap().write_all_at(0, b"local").unwrap();
    }
    let store = open(&files);
    let def = make_table(&store);
    insert(&store, &def, 1);
    drop(store);
    assert_eq!(files.read(&dir.join("pg_hba.conf")).unwrap(), b"local");

    // And no more than that: a database without its manifest is not made anew for it.
    let files = files.restart();
    files.remove(&dir.join("MANIFEST")).unwrap();
    assert_eq!(missing(&refused(&files)).0, "MANIFEST");
    let files = SimulatedFiles::new(1);
    files.create_dir_all(dir).unwrap();
    for name in ["pg_hba.conf", "pg_hba.conf.old"] {
        files.open(&dir.join(name), OpenMode::Create).unwrap();
    }
    let refused = try_open(&files).unwrap_err();
    assert!(
        matches!(&refused, StoreError::ForeignDirectory { file, .. } if file == "pg_hba.conf.old"),
        "{refused}"
    );
}

#[test]
fn files_beside_a_database_do_not_keep_it_from_opening() {
    let files = SimulatedFiles::new(1);
    drop(open(&files));
    files.open(&Path::new(DIR).join("letter.txt"), OpenMode::Create).unwrap();
    drop(open(&files));
}
