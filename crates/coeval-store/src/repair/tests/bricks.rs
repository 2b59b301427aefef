// SPDX-License-Identifier: Apache-2.0
//! Brick tables: what is left of one of which flush rounds are damaged.

use super::{DIR, SIZES, begin, manifest, mend, open, problems};
use crate::brick_def::{BrickDef, BrickDimension};
use crate::catalog::{CatalogChange, ColumnDef, ColumnState, QualifiedName, TableDef};
use crate::files::{Fault, FileSystem, SimulatedFiles};
use crate::repair::repair_tuned;
use crate::segment::round_path;
use crate::store::Store;
use crate::types::ColumnType;
use arrow::array::{AsArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whether a table has a column of strings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Numbers,
    Strings,
}

/// `b (id bigint, v bigint or text)`, partitioned by `id`.
fn table(store: &Store, kind: Kind) -> TableDef {
    let ty = if kind == Kind::Strings { ColumnType::Text } else { ColumnType::BigInt };
    let mut hidden = ColumnDef::new("row id", ColumnType::BigInt);
    hidden.state = ColumnState::Hidden;
    let columns = vec![ColumnDef::new("id", ColumnType::BigInt).not_null(), ColumnDef::new("v", ty), hidden];
    let name = QualifiedName::new("public", "b");
    let mut def = TableDef::new(store.new_space_id(), name, columns, vec![2]);
    let dimension = BrickDimension { column: 0, cardinality: 1_000, range_size: 10, origin: 0 };
    def.bricks = Some(BrickDef { dimensions: vec![dimension], retention: None, replicas: None });
    let mut tx = begin(store);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    def
}

fn append(store: &Store, def: &TableDef, kind: Kind, rows: &[(i64, i64)]) {
    let ids: Int64Array = rows.iter().map(|(id, _)| Some(*id)).collect();
    let values = match kind {
        Kind::Numbers => Arc::new(rows.iter().map(|(_, v)| Some(*v)).collect::<Int64Array>()) as _,
        Kind::Strings => {
            Arc::new(rows.iter().map(|(_, v)| Some(v.to_string())).collect::<StringArray>()) as _
        }
    };
    let batch = RecordBatch::try_from_iter([("id", Arc::new(ids) as _), ("v", values)]).unwrap();
    let mut tx = begin(store);
    tx.append(def.id, &batch, 0).unwrap();
    tx.commit().unwrap();
}

fn rows_of(store: &Store, def: &TableDef) -> Vec<(i64, i64)> {
    let tx = begin(store);
    let snapshot = tx.brick_view(def.id, |all| all).unwrap();
    let batches = snapshot.bricks().iter().flat_map(|brick| snapshot.batches(brick, &[0, 1]));
    let mut rows = Vec::new();
    for batch in batches {
        let columns = [0, 1].map(|column| cast(batch.column(column), &DataType::Int64).unwrap());
        let [ids, values] = columns.each_ref().map(|column| column.as_primitive::<Int64Type>().values());
        rows.extend(ids.iter().copied().zip(values.iter().copied()));
    }
    rows.sort_unstable();
    rows
}

/// Rows 1 and 2 in the first round, 21 in the second, 31 in the third; in the log then 41, and 42, which has the string of
/// row 1. Row 2 is deleted in the log, with its brick; so is row 1, and comes again.
fn database(kind: Kind) -> (SimulatedFiles, TableDef) {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let def = table(&store, kind);
    append(&store, &def, kind, &[(1, 100), (2, 200), (11, 100)]);
    store.checkpoint().unwrap();
    append(&store, &def, kind, &[(21, 300)]);
    store.checkpoint().unwrap();
    append(&store, &def, kind, &[(31, 400)]);
    store.checkpoint().unwrap();
    append(&store, &def, kind, &[(41, 500)]);
    append(&store, &def, kind, &[(42, 100)]);
    let mut tx = begin(&store);
    assert_eq!(tx.delete_bricks(def.id, |all| all.within(0, &[0..=9])).unwrap(), 2);
    tx.commit().unwrap();
    append(&store, &def, kind, &[(1, 100)]);
    drop(store);
    (files.restart(), def)
}

fn rounds(files: &SimulatedFiles) -> Vec<PathBuf> {
    let bricks = manifest(files).tables[0].bricks.clone().unwrap();
    bricks.rounds.iter().map(|round| round_path(Path::new(DIR), round.number)).collect()
}

/// What is left with this round damaged.
fn left(kind: Kind, round: usize) -> Vec<(i64, i64)> {
    let rows = match (kind, round) {
        // No string has its code any more.
        (Kind::Strings, 0) => vec![],
        (Kind::Strings, 1) => vec![(1, 100), (11, 100), (42, 100)],
        (Kind::Strings, _) => vec![(1, 100), (11, 100), (21, 300), (42, 100)],
        (Kind::Numbers, 0) => vec![(1, 100), (21, 300), (31, 400), (41, 500), (42, 100)],
        (Kind::Numbers, 1) => vec![(1, 100), (11, 100), (31, 400), (41, 500), (42, 100)],
        (Kind::Numbers, _) => vec![(1, 100), (11, 100), (21, 300), (41, 500), (42, 100)],
    };
    rows.into_iter().collect()
}

/// The loads in the log were blamed for the codes of strings that a damaged round had: a refusal.
#[test]
fn of_a_brick_table_what_does_not_build_upon_a_damaged_round_is_left() {
    for kind in [Kind::Numbers, Kind::Strings] {
        for (round, is_gone) in [(0, false), (1, false), (2, false), (1, true)] {
            let (files, def) = database(kind);
            let paths = rounds(&files);
            assert_eq!(paths.len(), 3);
            match is_gone {
                true => files.remove(&paths[round]).unwrap(),
                false => files.damage(&paths[round], 30, 1),
            }
            let report = mend(&files);
            assert!(report.lost[0].starts_with("brick table b: rows of a flush round: "), "{report:?}");
            assert!(report.lost[0].contains(&paths[round].display().to_string()), "{report:?}");
            let blamed = match kind {
                Kind::Numbers => round..round + 1,
                Kind::Strings => round..3,
            };
            let kept = paths[blamed.clone()].iter().skip(usize::from(is_gone));
            assert_eq!(
                report.kept,
                kept.map(|path| format!("{}.damaged", path.display())).collect::<Vec<_>>()
            );
            let loads = match (kind, round) {
                (Kind::Numbers, _) => None,
                (Kind::Strings, 0) => Some(3),
                (Kind::Strings, _) => Some(1),
            };
            assert_eq!(report.lost.len(), blamed.len() + usize::from(loads.is_some()), "{report:?}");
            if let Some(count) = loads {
                let what = format!("brick table b: {count} loads in the log: ");
                assert!(report.lost.last().unwrap().starts_with(&what), "{report:?}");
            }
            assert_eq!(problems(&files), Vec::<String>::new());
            // New strings do not get the codes of others.
            let files = files.crash();
            let store = open(&files);
            assert_eq!(rows_of(&store, &def), left(kind, round));
            append(&store, &def, kind, &[(51, 600), (52, 300)]);
            store.checkpoint().unwrap();
            drop(store);
            let store = open(&files.restart());
            assert_eq!(rows_of(&store, &def), [left(kind, round), vec![(51, 600), (52, 300)]].concat());
        }
    }
}

/// An error of the disk was taken for a damaged round, and its rows were lost.
#[test]
fn rounds_that_the_disk_does_not_give_now_are_not_lost() {
    for calls in 0.. {
        let (files, def) = database(Kind::Strings);
        files.damage(&rounds(&files)[2], 30, 1);
        files.fail_after(calls, Fault::Reading);
        let outcome = repair_tuned(Arc::new(files.clone()), Path::new(DIR), SIZES());
        let files = files.crash();
        mend(&files);
        assert_eq!(rows_of(&open(&files), &def), left(Kind::Strings, 2), "call {calls}");
        if outcome.is_ok() {
            break;
        }
    }
}

#[test]
fn a_repair_of_rounds_that_fails_anywhere_can_be_run_again() {
    for calls in 0.. {
        let (files, def) = database(Kind::Strings);
        let path = rounds(&files)[1].clone();
        files.damage(&path, 30, 1);
        let damaged = files.read(&path).unwrap();
        files.fail_from(calls, Fault::Io);
        let outcome = repair_tuned(Arc::new(files.clone()), Path::new(DIR), SIZES());
        let files = files.crash();
        mend(&files);
        assert_eq!(problems(&files), Vec::<String>::new(), "call {calls}");
        assert_eq!(rows_of(&open(&files), &def), left(Kind::Strings, 1), "call {calls}");
        let kept = PathBuf::from(format!("{}.damaged", path.display()));
        assert_eq!(files.read(&kept).unwrap(), damaged, "call {calls}");
        if outcome.is_ok() {
            break;
        }
    }
}

#[test]
fn rounds_of_a_table_that_was_emptied_since_are_not_lost() {
    let (files, def) = database(Kind::Strings);
    let store = open(&files);
    let mut tx = begin(&store);
    tx.change_catalog(CatalogChange::Truncate(def.id)).unwrap();
    tx.commit().unwrap();
    append(&store, &def, Kind::Strings, &[(7, 700)]);
    drop(store);
    let files = files.restart();
    files.damage(&rounds(&files)[1], 30, 1);
    let report = mend(&files);
    assert_eq!((report.rebuilt.len(), report.lost.len()), (1, 0), "{report:?}");
    assert_eq!(problems(&files), Vec::<String>::new());
    assert_eq!(rows_of(&open(&files), &def), [(7, 700)]);
}

/// A round that says something else than was written under a checksum that fits, as a faulty program would write it.
#[test]
fn a_round_that_was_written_wrong_is_named_itself() {
    let (files, def) = database(Kind::Numbers);
    let path = rounds(&files)[1].clone();
    let mut bytes = files.read(&path).unwrap();
    let end = bytes.len() - 4;
    bytes[end - 1] = 1;
    let checksum = crc32c::crc32c(&bytes[..end]);
    bytes[end..].copy_from_slice(&checksum.to_le_bytes());
    files.open(&path, crate::files::OpenMode::Create).unwrap().write_all_at(0, &bytes).unwrap();
    let mut manifest = manifest(&files);
    manifest.tables[0].bricks.as_mut().unwrap().rounds[1].footer_checksum = checksum;
    manifest.write(&files, Path::new(DIR)).unwrap();
    let report = mend(&files);
    assert_eq!(report.lost.len(), 1, "{report:?}");
    assert!(report.lost[0].ends_with("the contents are malformed"), "{report:?}");
    let rows = rows_of(&open(&files), &def);
    assert!(left(Kind::Numbers, 1).iter().all(|row| rows.contains(row)), "{rows:?}");
}
