// SPDX-License-Identifier: Apache-2.0
//! Records come back as they were written; other bytes never panic.

use super::{
    ENDED_BYTES, MalformedRecord, Record, changes_bytes, decode, decode_count, decode_definitions,
    decode_earliest_out, decode_mark, decode_places, encode_batch, encode_batch_with_indexes, encode_body,
    encode_boundary, encode_changes, encode_ended, encode_sequence, encode_time,
};
use crate::catalog::{CatalogChange, QualifiedName};
use crate::clock::LogTime;
use crate::delta::{BasePosition, Change, Delta, DeltaEntry};
use crate::ids::{SequenceId, SpaceId};
use crate::index_file::{IndexFile, LateEntries, LateIndex};
use crate::key::Key;
use crate::record::LogMark;
use crate::row::Row;
use crate::segment::SegmentRef;
use crate::space::Space;
use crate::submission::{LoadedEntries, RebuiltIndex, Submission};
use crate::table::Table;
use crate::table_writes::TableWrites;
use crate::world::World;
use coeval_txn::{Epoch, Version};
use proptest::prelude::*;
use std::sync::Arc;

fn submission(catalog_changes: Vec<CatalogChange>, writes: Vec<TableWrites>) -> Submission {
    Submission {
        priority: None,
        transaction: coeval_txn::TransactionId::default(),
        party: crate::conflicts::Party {
            transaction: coeval_txn::TransactionId::default(),
            origin: None,
            is_declared_reader: false,
        },
        written: std::sync::Arc::default(),
        certification: None,
        begin: Version::ZERO,
        snapshot_version: Version::ZERO,
        footprint: Vec::new(),
        large_footprint: None,
        names_age: false,
        catalog_changes,
        loads: Vec::new(),
        bricks: Default::default(),
        writes,
        snapshot: Arc::new(World::empty()),
        rebuilt: Vec::new(),
        synchronous_commit: crate::replicas::SynchronousCommit::On,
        body_checksum: None,
        body: Vec::new(),
    }
}

/// A batch of two transactions: definitions, then rows and entries of a table with one index.
fn some_batch() -> Vec<u8> {
    let rows = Delta::from_sorted(vec![
        (Key::from_slice(b"a"), DeltaEntry::inserted(Some(Row::from_bytes(b"row of a")))),
        (Key::from_slice(b"b"), DeltaEntry::replaced(Row::from_bytes(b"row of b"), BasePosition::at(3))),
        (Key::from_slice(b"c"), DeltaEntry::deleted(BasePosition::UNKNOWN)),
    ]);
    let entries = Delta::from_sorted(vec![(Key::from_slice(b"x"), DeltaEntry::inserted(None))]);
    let changes = vec![
        CatalogChange::PutSchema("s".into()),
        CatalogChange::RemoveView(QualifiedName::new("s", "v")),
        CatalogChange::Truncate(SpaceId::new(4)),
    ];
    let writes = vec![TableWrites { table: SpaceId::new(7), rows, indexes: vec![entries] }];
    let bodies = [submission(changes, Vec::new()), submission(Vec::new(), writes)].map(|submission| {
        let mut body = Vec::new();
        encode_body(&submission, &mut body);
        body
    });
    let mut record = Vec::new();
    let first_outs = [None, Some(Version::new(8))];
    let transactions = first_outs.into_iter().zip(bodies.iter().map(Vec::as_slice));
    encode_batch(Version::new(9), Version::new(7), transactions, &mut record);
    record
}

#[test]
fn a_batch_is_read_as_it_was_written() {
    let Record::Batch { version, boundary, transactions } = decode(&some_batch()).unwrap() else {
        panic!("a batch")
    };
    assert_eq!((version, boundary, transactions.len()), (Version::new(9), Version::new(7), 2));
    assert_eq!((transactions[0].first_out, transactions[1].first_out), (None, Some(Version::new(8))));
    assert_eq!(transactions[0].catalog_changes.len(), 3);
    assert_eq!(transactions[0].catalog_changes[2], CatalogChange::Truncate(SpaceId::new(4)));
    let writes = &transactions[1].writes[0];
    assert_eq!(writes.table, SpaceId::new(7));
    let read: Vec<_> = writes
        .rows
        .iter()
        .map(|(key, entry)| (key.as_slice(), entry.change(), entry.row().map(|row| row.as_bytes().to_vec())))
        .collect();
    assert_eq!(
        read,
        [
            (b"a".as_slice(), Change::Inserted, Some(b"row of a".to_vec())),
            (b"b", Change::Replaced, Some(b"row of b".to_vec())),
            (b"c", Change::Deleted, None),
        ]
    );
    assert_eq!(writes.indexes[0].len(), 1);
    assert!(writes.indexes[0][0].1.row().is_none());
}

fn inserted(key: &[u8]) -> Delta {
    Delta::from_sorted(vec![(Key::from_slice(key), DeltaEntry::inserted(None))])
}

fn deleted(key: &[u8]) -> Delta {
    Delta::from_sorted(vec![(Key::from_slice(key), DeltaEntry::deleted(BasePosition::UNKNOWN))])
}

const FILE: SegmentRef = SegmentRef { number: 0x0a0b, footer_checksum: 0x0c0d };

/// A batch of a transaction with two new indexes in files: the first has changed twice since, and both are of the leader's
/// last rows in this way.
fn batch_with_indexes(late: &[LateIndex]) -> Vec<u8> {
    let def = crate::catalog::TableDef::new(
        SpaceId::new(7),
        QualifiedName::new("s", "t"),
        vec![crate::catalog::ColumnDef::new("id", crate::types::ColumnType::Int)],
        vec![0],
    );
    let read = Arc::new(Table::new(Arc::new(def)));
    let rebuilt = |index: u32, loaded: LoadedEntries, lists: &[Delta]| {
        let mut changes = Vec::new();
        lists.iter().for_each(|list| encode_changes(list, &mut changes));
        RebuiltIndex {
            index: SpaceId::new(index),
            version: Version::new(8),
            read: Arc::clone(&read),
            entries: Space::new(),
            loaded,
            file: Some(IndexFile { segment: FILE, changes }),
        }
    };
    let mut submission = submission(vec![CatalogChange::Truncate(SpaceId::new(4))], Vec::new());
    let lists = [inserted(b"x"), deleted(b"x")];
    submission.rebuilt =
        vec![rebuilt(8, LoadedEntries::Apart, &lists), rebuilt(9, LoadedEntries::Merged, &[])];
    let (mut body, mut record) = (Vec::new(), Vec::new());
    encode_body(&submission, &mut body);
    let (version, boundary, first_out) = (Version::new(9), Version::new(7), Some(Version::new(8)));
    encode_batch_with_indexes(version, boundary, late, first_out, body.len(), &mut record);
    record.extend_from_slice(&body);
    record
}

fn late(index: u32, entries: LateEntries) -> LateIndex {
    LateIndex { index: SpaceId::new(index), entries }
}

#[test]
fn new_indexes_in_files_are_read_as_they_were_written() {
    let late = [late(8, LateEntries::Changes(inserted(b"z"))), late(9, LateEntries::OfRows)];
    let record = batch_with_indexes(&late);
    let Record::Batch { version, boundary, transactions } = decode(&record).unwrap() else {
        panic!("a batch")
    };
    assert_eq!((version, boundary, transactions.len()), (Version::new(9), Version::new(7), 1));
    assert_eq!(
        (transactions[0].first_out, transactions[0].catalog_changes.len()),
        (Some(Version::new(8)), 1)
    );
    let [changed, of_rows] = &transactions[0].indexes[..] else { panic!("two indexes") };
    assert_eq!((changed.index, changed.segment), (SpaceId::new(8), FILE));
    assert_eq!((changed.loaded, of_rows.loaded), (LoadedEntries::Apart, LoadedEntries::Merged));
    let lists = changed.changes.as_ref().unwrap().iter();
    let read: Vec<_> = lists
        .flat_map(|list| list.iter().map(|(key, entry)| (key.as_slice().to_vec(), entry.change())))
        .collect();
    let expected = [(b"x", Change::Inserted), (b"x", Change::Deleted), (b"z", Change::Inserted)]
        .map(|(key, change)| (key.to_vec(), change));
    assert_eq!(read, expected);
    assert!(of_rows.index == SpaceId::new(9) && of_rows.changes.is_none());
    // What reads a part of it, too.
    assert_eq!(decode_mark(&record), Ok(LogMark::Batch(Version::new(9))));
    assert_eq!(decode_count(&record), Ok(1));
    assert_eq!(decode_places(&record), Ok(Some((Version::new(9), vec![FILE, FILE]))));
    assert_eq!(decode_earliest_out(&record), Ok(Some(Version::new(8))));
    assert_eq!(decode_definitions(&record), Ok(vec![CatalogChange::Truncate(SpaceId::new(4))]));
}

#[test]
fn late_entries_of_an_index_that_has_no_file_and_rows_among_entries_are_refused() {
    let of_others = batch_with_indexes(&[late(10, LateEntries::OfRows)]);
    assert!(matches!(decode(&of_others), Err(MalformedRecord { offset }) if offset > 0));
    let behind =
        batch_with_indexes(&[late(8, LateEntries::OfRows), late(8, LateEntries::Changes(inserted(b"z")))]);
    assert!(decode(&behind).is_err(), "an index of rows has nothing that changes it");
    let with_row = DeltaEntry::inserted(Some(Row::from_bytes(b"row")));
    let with_row = Delta::from_sorted(vec![(Key::from_slice(b"z"), with_row)]);
    assert!(decode(&batch_with_indexes(&[late(8, LateEntries::Changes(with_row))])).is_err());
    let record = batch_with_indexes(&[late(8, LateEntries::Changes(inserted(b"z")))]);
    assert!((0..record.len()).all(|end| decode(&record[..end]).is_err()));
    assert!(decode(&[record, vec![0]].concat()).is_err());
}

#[test]
fn the_bytes_of_new_indexes_in_files_are_pinned() {
    let late = [late(8, LateEntries::Changes(inserted(b"z"))), late(9, LateEntries::OfRows)];
    let record = batch_with_indexes(&late);
    let head = [
        7, 9, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, // kind, version, boundary
        24, 0, 0, 0, 2, 0, 0, 0, // bytes of late entries, two indexes
        8, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, b'z', // of number 8: one entry inserted
        9, 0, 0, 0, 0, // number 9: of the rows
        1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, // one transaction, its first out
    ];
    assert_eq!(record[..head.len()], head);
    let body = &record[head.len() + 4..];
    let files = [
        0, 0, 0, 0, // no loads
        2, 0, 0, 0, // two index files
        8, 0, 0, 0, 0x0b, 0x0a, 0, 0, 0, 0, 0, 0, 0x0d, 0x0c, 0, 0, // index, segment, checksum
        0, 20, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, b'x', 1, 0, 0, 0, 3, 1, 0, 0, 0,
        b'x', // without loads, two lists of changes
        9, 0, 0, 0, 0x0b, 0x0a, 0, 0, 0, 0, 0, 0, 0x0d, 0x0c, 0, 0, // the other one
        1, 0, 0, 0, 0, // has the entries of loads, and has not changed
        0, 0, 0, 0, // no tables
    ];
    assert_eq!(body[body.len() - files.len()..], files);
    let mut encoded = Vec::new();
    encode_changes(&inserted(b"z"), &mut encoded);
    assert_eq!(changes_bytes(&inserted(b"z")), encoded.len());
}

#[test]
fn the_bytes_of_a_small_record_are_pinned() {
    let mut record = Vec::new();
    encode_sequence(SequenceId::new(0x0102), Some(-2), &mut record);
    assert_eq!(record, [2, 2, 1, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
    record.clear();
    encode_sequence(SequenceId::new(3), None, &mut record);
    assert_eq!(record, [2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    record.clear();
    encode_boundary(Version::new(0x0403), &mut record);
    assert_eq!(record, [3, 3, 4, 0, 0, 0, 0, 0, 0]);
    assert!(matches!(decode(&record), Ok(Record::Boundary(boundary)) if boundary == Version::new(0x0403)));
    record.clear();
    encode_time(LogTime::from_micros(0x0506), &mut record);
    assert_eq!(record, [5, 6, 5, 0, 0, 0, 0, 0, 0]);
    assert!(matches!(decode(&record), Ok(Record::Time(time)) if time == LogTime::from_micros(0x0506)));
    assert_eq!(decode_mark(&record), Ok(LogMark::Time(LogTime::from_micros(0x0506))));
    record.clear();
    encode_ended(Epoch::new(0x0708), &mut record);
    assert_eq!(record, [6, 8, 7, 0, 0, 0, 0, 0, 0]);
    assert_eq!(record.len(), ENDED_BYTES);
    assert!(matches!(decode(&record), Ok(Record::Ended(epoch)) if epoch == Epoch::new(0x0708)));
    assert_eq!(decode_mark(&record), Ok(LogMark::Other));
    for no_epoch in [0, Epoch::MAX.get() + 1] {
        record[1..].copy_from_slice(&no_epoch.to_le_bytes());
        assert!(decode(&record).is_err(), "{no_epoch}");
    }
    let entries = Delta::from_sorted(vec![(Key::from_slice(b"k"), DeltaEntry::inserted(None))]);
    let rows =
        Delta::from_sorted(vec![(Key::from_slice(b"p"), DeltaEntry::inserted(Some(Row::from_bytes(b"rr"))))]);
    let mut body = Vec::new();
    let writes = vec![TableWrites { table: SpaceId::new(5), rows, indexes: vec![entries] }];
    encode_body(&submission(Vec::new(), writes), &mut body);
    let golden = [
        0, 0, 0, 0, 0, 0, 0, 0, // no definitions, no loads
        1, 0, 0, 0, 5, 0, 0, 0, // one table: number 5
        1, 0, 0, 0, 0x81, 1, 0, 0, 0, b'p', 2, 0, 0, 0, b'r', b'r', // one row inserted
        1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, b'k', // one index: one entry inserted
    ];
    assert_eq!(body, golden);
}

#[test]
fn keys_out_of_order_and_bytes_behind_the_record_are_refused() {
    let record = some_batch();
    let place = record.windows(4).position(|bytes| bytes == [1, 0, 0, 0]).unwrap();
    assert!(place > 0);
    let mut swapped = record.clone();
    let (a, b) = (find(&record, b"row of a") - 5, find(&record, b"row of b") - 5);
    swapped.swap(a, b);
    assert!(matches!(decode(&swapped), Err(MalformedRecord { offset }) if offset > 0));
    let mut longer = record.clone();
    longer.push(0);
    assert!(matches!(decode(&longer), Err(MalformedRecord { offset }) if offset == record.len()));
    assert!((0..record.len()).all(|end| decode(&record[..end]).is_err()));
}

fn find(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|window| window == part).unwrap()
}

#[test]
fn a_made_up_count_allocates_nothing() {
    let mut record = Vec::new();
    encode_batch(Version::new(1), Version::ZERO, std::iter::empty(), &mut record);
    let count = record.len() - 4;
    record[count..].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(decode(&record).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_records_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        cut in prop::option::of(any::<prop::sample::Index>()),
        has_indexes in any::<bool>(),
    ) {
        let mut record = if has_indexes {
            batch_with_indexes(&[late(8, LateEntries::Changes(inserted(b"z"))), late(9, LateEntries::OfRows)])
        } else {
            some_batch()
        };
        for (index, value) in changes {
            let place = index.index(record.len());
            record[place] = value;
        }
        if let Some(cut) = cut {
            record.truncate(cut.index(record.len()));
        }
        match decode(&record) {
            Ok(_) => prop_assert!(decode_places(&record).is_ok(), "what reads whole reads in part"),
            Err(MalformedRecord { offset }) => prop_assert!(offset <= record.len()),
        }
    }
}
