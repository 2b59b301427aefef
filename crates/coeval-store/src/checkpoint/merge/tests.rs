// SPDX-License-Identifier: Apache-2.0
//! Merging against the naive merge of two maps; the bounds of new chunks; what is kept as it was.

use super::{Merged, merge};
use crate::catalog::{ColumnDef, QualifiedName, TableDef};
use crate::chunk::{Chunk, ChunkSize};
use crate::column::ColumnBuilder;
use crate::delta::{BasePosition, Delta, DeltaEntry};
use crate::error::StoreError;
use crate::ids::SpaceId;
use crate::key::Key;
use crate::key_column::KeyColumnBuilder;
use crate::row::{Row, RowWriter};
use crate::space::{Found, Space};
use crate::table::{RowRef, missing_values};
use crate::types::ColumnType;
use crate::value::{KeyWriter, Value};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;

const CHUNK_ROWS: usize = 10;

/// `(id int primary key, name text)`, and a column that was added when chunks were there already.
fn table() -> TableDef {
    let columns = vec![ColumnDef::new("id", ColumnType::Int), ColumnDef::new("name", ColumnType::Text)];
    let mut def = TableDef::new(SpaceId::new(1), QualifiedName::new("public", "t"), columns, vec![0]);
    let mut added = ColumnDef::new("added", ColumnType::Int);
    let mut missing = KeyWriter::new();
    missing.push(Value::Int32(7).borrow());
    added.missing = Some(missing.as_slice().to_vec());
    def.add_column(added);
    def
}

type Values = Vec<Value>;

fn key(id: i32) -> Key {
    let mut writer = KeyWriter::new();
    writer.push(Value::Int32(id).borrow());
    writer.finish()
}

fn row(def: &TableDef, values: &[Value]) -> Row {
    let mut writer = RowWriter::new(def.layout());
    values.iter().for_each(|value| writer.push(value.borrow()).unwrap());
    writer.finish()
}

/// A chunk with or without the column that was added.
fn chunk(def: &TableDef, rows: &[(i32, Values)], columns: usize) -> Arc<Chunk> {
    let mut keys = KeyColumnBuilder::with_capacity(rows.len());
    rows.iter().for_each(|(id, _)| keys.push(key(*id).as_slice()));
    let column = |column: usize| {
        let mut builder = ColumnBuilder::new(def.columns[column].ty, rows.len());
        rows.iter().for_each(|(_, values)| builder.push(values[column].borrow()));
        builder.finish()
    };
    Arc::new(Chunk::new(keys.finish(), (0..columns).map(column).collect()))
}

fn random_values(dice: &mut StdRng, id: i32) -> Values {
    let name = if dice.random_ratio(1, 5) {
        Value::Null
    } else {
        Value::from(format!("name {}", dice.random::<u16>()))
    };
    vec![Value::Int32(id), name, Value::Int32(dice.random_range(0..100))]
}

/// A random space and its contents.
fn random_space(dice: &mut StdRng, def: &TableDef) -> (Space, BTreeMap<i32, Values>) {
    let mut contents = BTreeMap::new();
    let mut chunks = Vec::new();
    let mut id = dice.random_range(0..50);
    for _ in 0..dice.random_range(0..8) {
        // As after loads and deletes: of any size, old ones without the new column.
        let columns = dice.random_range(2..=3);
        let rows: Vec<(i32, Values)> = (0..dice.random_range(1..2 * CHUNK_ROWS))
            .map(|_| {
                id += dice.random_range(1..4);
                let mut values = random_values(dice, id);
                if columns == 2 {
                    values[2] = Value::Int32(7);
                }
                (id, values)
            })
            .collect();
        chunks.push(chunk(def, &rows, columns));
        contents.extend(rows);
        id += dice.random_range(0..10);
    }
    let mut space = Space::from_chunks(chunks);
    // Changes near one another and far apart, so that some chunks have none.
    for _ in 0..dice.random_range(0..4) {
        let near = dice.random_range(-5..id + 20);
        let mut changes = BTreeMap::new();
        for id in near..near + dice.random_range(1..15) {
            let is_there = contents.contains_key(&id);
            let values = random_values(dice, id);
            let position = match space.find(&key(id)).unwrap() {
                Some(Found::Base(_, index)) if dice.random() => BasePosition::at(index),
                _ => BasePosition::UNKNOWN,
            };
            let entry = match (is_there, dice.random_range(0..3)) {
                (_, 0) => continue,
                (true, 1) => {
                    contents.remove(&id);
                    DeltaEntry::deleted(position)
                }
                (true, _) => {
                    contents.insert(id, values.clone());
                    DeltaEntry::replaced(row(def, &values), position)
                }
                (false, _) => {
                    contents.insert(id, values.clone());
                    DeltaEntry::inserted(Some(row(def, &values)))
                }
            };
            changes.insert(key(id), entry);
        }
        let base = space.base().clone();
        space.apply(&Delta::from_sorted(changes.into_iter().collect()), Some(&base));
    }
    (space, contents)
}

/// The merged chunks, kept and new ones in their order.
fn merged(space: &Space, def: &TableDef, keep: impl Fn(&Chunk) -> bool) -> (Vec<Merged>, Vec<Arc<Chunk>>) {
    let mut new = Vec::new();
    let missing = missing_values(def);
    let parts = merge(space, Some((def, &missing)), CHUNK_ROWS, keep, |chunk| {
        new.push(Arc::new(chunk));
        Ok(())
    });
    let parts = parts.unwrap();
    let mut rest = new.iter();
    let chunks = parts.iter().map(|part| match part {
        Merged::Kept(chunk) => Arc::clone(chunk),
        Merged::New => Arc::clone(rest.next().unwrap()),
    });
    let chunks = chunks.collect();
    assert!(rest.next().is_none());
    (parts, chunks)
}

fn rows_of(def: &TableDef, chunks: &[Arc<Chunk>]) -> Vec<(Key, Values)> {
    let missing = missing_values(def);
    let of_chunk = |chunk: &Arc<Chunk>| {
        (0..chunk.rows())
            .map(|index| {
                let row = RowRef::new(def, &missing, Found::Base(chunk, index));
                let values = (0..def.columns.len()).map(|column| row.get(column).to_owned()).collect();
                (Key::from_slice(chunk.keys().get(index)), values)
            })
            .collect::<Vec<_>>()
    };
    chunks.iter().flat_map(of_chunk).collect()
}

#[test]
fn merged_chunks_hold_what_the_naive_merge_holds_and_unchanged_ones_are_kept() {
    let def = table();
    let (mut kept, mut written) = (0, 0);
    for seed in 0..3_000 {
        let mut dice = StdRng::seed_from_u64(seed);
        let (space, contents) = random_space(&mut dice, &def);
        let (parts, chunks) = merged(&space, &def, |_| true);
        let expected: Vec<_> = contents.into_iter().map(|(id, values)| (key(id), values)).collect();
        assert_eq!(rows_of(&def, &chunks), expected, "seed {seed}");
        for chunk in &chunks {
            assert_eq!(chunk.first_key().as_slice(), chunk.keys().get(0));
            assert_eq!(chunk.last_key().as_slice(), chunk.keys().get(chunk.rows() - 1));
        }
        assert!(chunks.windows(2).all(|pair| pair[0].last_key() < pair[1].first_key()), "seed {seed}");
        for part in &parts {
            match part {
                Merged::Kept(chunk) => {
                    kept += 1;
                    let same = space.base().get(&chunk.first_key()).unwrap();
                    assert!(Arc::ptr_eq(same, chunk), "a kept chunk is the old one");
                }
                Merged::New => written += 1,
            }
        }
        if space.delta().is_empty() {
            let full = |chunk: &Arc<Chunk>| chunk.rows() >= CHUNK_ROWS / 2;
            let all_full = space.base().iter().all(|(_, chunk)| full(chunk));
            assert!(!all_full || parts.iter().all(|part| matches!(part, Merged::Kept(_))), "seed {seed}");
        }
    }
    assert!(kept > 1_000 && written > 1_000, "{kept} {written}");
}

#[test]
fn new_chunks_are_of_equal_size_near_a_full_one() {
    let def = table();
    for rows in 1..120 {
        let inserted = (0..rows).map(|id| {
            let values = vec![Value::Int32(id), Value::Null, Value::Int32(0)];
            (key(id), DeltaEntry::inserted(Some(row(&def, &values))))
        });
        let mut space = Space::new();
        space.apply(&Delta::from_sorted(inserted.collect()), None);
        let (_, chunks) = merged(&space, &def, |_| true);
        let sizes: Vec<usize> = chunks.iter().map(|chunk| chunk.rows()).collect();
        assert_eq!(sizes.iter().sum::<usize>(), rows as usize);
        let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
        assert!(most - least <= sizes.len() && *most < CHUNK_ROWS * 3 / 2 + 1, "{rows} rows: {sizes:?}");
        assert!(sizes.len() == 1 || *least >= CHUNK_ROWS / 2, "{rows} rows: {sizes:?}");
    }
}

#[test]
fn a_chunk_that_is_not_to_be_kept_is_written_anew_with_its_contents() {
    let def = table();
    let rows = |ids: std::ops::Range<i32>| -> Vec<(i32, Values)> {
        ids.map(|id| (id, vec![Value::Int32(id), Value::from("x"), Value::Int32(7)])).collect()
    };
    let chunks = [chunk(&def, &rows(0..10), 3), chunk(&def, &rows(10..20), 2), chunk(&def, &rows(20..30), 3)];
    let space = Space::from_chunks(chunks.clone());
    let (parts, new) = merged(&space, &def, |chunk| chunk.first_key() != key(10));
    assert!(matches!(parts[..], [Merged::Kept(_), Merged::New, Merged::Kept(_)]), "{parts:?}");
    assert_eq!(rows_of(&def, &new), rows_of(&def, &chunks));
    assert_eq!(new[1].column_count(), 3, "the column that was added is there now");
}

#[test]
fn small_neighbours_join_and_a_small_chunk_alone_stays() {
    let def = table();
    let rows = |ids: std::ops::Range<i32>| -> Vec<(i32, Values)> {
        ids.map(|id| (id, vec![Value::Int32(id), Value::from("x"), Value::Int32(7)])).collect()
    };
    let of = |ranges: &[std::ops::Range<i32>]| {
        let chunks = ranges.iter().map(|range| chunk(&def, &rows(range.clone()), 3));
        merged(&Space::from_chunks(chunks), &def, |_| true)
            .1
            .iter()
            .map(|chunk| chunk.rows())
            .collect::<Vec<_>>()
    };
    assert_eq!(of(&[0..10, 10..12, 20..23, 30..40]), [10, 5, 10]);
    assert_eq!(of(&[0..10, 10..12, 20..30]), [10, 2, 10]);
}

#[test]
fn a_space_whose_keys_are_all_gone_has_no_chunks() {
    let def = table();
    let rows: Vec<_> = (0..10).map(|id| (id, vec![Value::Int32(id), Value::Null, Value::Int32(7)])).collect();
    let mut space = Space::from_chunks([chunk(&def, &rows, 3)]);
    let deleted = (0..10).map(|id| (key(id), DeltaEntry::deleted(BasePosition::UNKNOWN)));
    space.apply(&Delta::from_sorted(deleted.collect()), None);
    assert!(merged(&space, &def, |_| true).1.is_empty());
}

#[test]
fn entries_of_an_index_are_merged_without_rows() {
    let mut keys = KeyColumnBuilder::with_capacity(3);
    [10, 20, 30].iter().for_each(|id| keys.push(key(*id).as_slice()));
    let mut space = Space::from_chunks([Arc::new(Chunk::new(keys.finish(), Vec::new()))]);
    let changes = vec![
        (key(5), DeltaEntry::inserted(None)),
        (key(20), DeltaEntry::deleted(BasePosition::UNKNOWN)),
        (key(25), DeltaEntry::inserted(None)),
    ];
    space.apply(&Delta::from_sorted(changes), None);
    let mut found = Vec::new();
    let outcome = merge(
        &space,
        None,
        CHUNK_ROWS,
        |_| true,
        |chunk| {
            found.extend((0..chunk.rows()).map(|index| Key::from_slice(chunk.keys().get(index))));
            Ok(())
        },
    );
    outcome.unwrap();
    assert_eq!(found, [5, 10, 25, 30].map(key));
}

#[test]
fn the_error_of_the_sink_ends_the_merge() {
    let def = table();
    let values = vec![Value::Int32(1), Value::Null, Value::Int32(0)];
    let mut space = Space::new();
    let entry = DeltaEntry::inserted(Some(row(&def, &values)));
    space.apply(&Delta::from_sorted(vec![(key(1), entry)]), None);
    let missing = missing_values(&def);
    let refuse = |_| Err(StoreError::Closing);
    let outcome = merge(&space, Some((&def, &missing)), CHUNK_ROWS, |_| true, refuse);
    assert!(matches!(outcome, Err(StoreError::Closing)));
}

/// Chunks were bounded by rows alone: 65,536 rows of a mebibyte made one of 64 GiB.
#[test]
fn wide_rows_make_chunks_of_fewer_and_a_chunk_that_is_full_by_its_bytes_is_kept() {
    const BYTES_MAX: usize = 5_000;
    let def = table();
    let size = ChunkSize { rows: 100, bytes: BYTES_MAX };
    let missing = missing_values(&def);
    let wide = |id: i32| vec![Value::Int32(id), Value::from("x".repeat(1_000).as_str()), Value::Int32(id)];
    let inserted = |id: i32| (key(id), DeltaEntry::inserted(Some(row(&def, &wide(id)))));
    let merged = |space: &Space| {
        let mut chunks = Vec::new();
        let parts = merge(
            space,
            Some((&def, &missing)),
            size,
            |_| true,
            |chunk| {
                chunks.push(Arc::new(chunk));
                Ok(())
            },
        );
        (parts.unwrap(), chunks)
    };
    let mut space = Space::new();
    space.apply(&Delta::from_sorted((0..60).map(|id| inserted(id * 2)).collect()), None);
    let (_, chunks) = merged(&space);
    assert!(chunks.iter().all(|chunk| chunk.bytes() < BYTES_MAX + 1_200 && chunk.rows() <= 6), "{chunks:?}");
    assert_eq!(rows_of(&def, &chunks), (0..60).map(|id| (key(id * 2), wide(id * 2))).collect::<Vec<_>>());
    // One more row: the chunk that it belongs to is written anew, as two, and no other one.
    let mut space = Space::from_chunks(chunks.clone());
    let base = space.base().clone();
    space.apply(&Delta::from_sorted(vec![inserted(61)]), Some(&base));
    let (parts, new) = merged(&space);
    let kept = parts.iter().filter(|part| matches!(part, Merged::Kept(_))).count();
    assert_eq!((kept, new.len()), (chunks.len() - 1, 2));
    assert!(new.iter().all(|chunk| chunk.bytes() < BYTES_MAX + 1_200), "{new:?}");
    assert_eq!(new.iter().map(|chunk| chunk.rows()).sum::<usize>(), chunks[0].rows() + 1);
}
