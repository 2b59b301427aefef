// SPDX-License-Identifier: Apache-2.0
//! Records come back as they were written; other bytes never panic.

use super::{
    ENDED_BYTES, MalformedRecord, Record, decode, decode_mark, encode_batch, encode_body, encode_boundary,
    encode_ended, encode_sequence, encode_time,
};
use crate::catalog::{CatalogChange, QualifiedName};
use crate::clock::LogTime;
use crate::delta::{BasePosition, Change, Delta, DeltaEntry};
use crate::ids::{SequenceId, SpaceId};
use crate::key::Key;
use crate::record::LogMark;
use crate::row::Row;
use crate::submission::Submission;
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
    ) {
        let mut record = some_batch();
        for (index, value) in changes {
            let place = index.index(record.len());
            record[place] = value;
        }
        if let Some(cut) = cut {
            record.truncate(cut.index(record.len()));
        }
        if let Err(MalformedRecord { offset }) = decode(&record) {
            prop_assert!(offset <= record.len());
        }
    }
}
