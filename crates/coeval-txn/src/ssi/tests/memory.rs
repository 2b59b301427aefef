// SPDX-License-Identifier: Apache-2.0
//! Tests of what is remembered and for how long, and of what an error says.

use std::ops::Bound;

use super::super::{Counterpart, Place, ReadSet, Ssi, SsiConflict, SsiLimits, SsiRule, SsiSize, Written};
use super::pipeline::id_of;
use crate::{CommitOrder, Version};

type Keys = [(u8, u64)];

fn reads_of(keys: &Keys) -> ReadSet<u8, u64> {
    let mut reads = ReadSet::new();
    keys.iter().for_each(|(space, key)| reads.read_key(*space, key));
    reads
}

/// Certifies and admits a transaction as the only one of its batch.
fn commit(
    ssi: &mut Ssi<u8, u64>,
    begin: u64,
    version: u64,
    reads: &ReadSet<u8, u64>,
    writes: &Keys,
) -> Result<Option<CommitOrder>, SsiConflict<u8, u64>> {
    let writes = || writes.iter().map(|(space, key)| (*space, Written::Key(key)));
    let certified = ssi.certify(Version::new(begin), reads, writes(), None)?;
    let first_out = certified.first_out();
    let order = CommitOrder { version: Version::new(version), position: 0 };
    ssi.admit(order, id_of(version as usize), reads, writes(), certified);
    Ok(first_out)
}

fn at(version: u64) -> CommitOrder {
    CommitOrder { version: Version::new(version), position: 0 }
}

#[test]
fn an_error_names_the_rule_the_other_transaction_and_the_key() {
    let mut ssi = Ssi::new();
    // 1 writes a row; 2 read it before and writes another; 3 read that one before and the row of 1 not.
    commit(&mut ssi, 0, 1, &ReadSet::new(), &[(1, 10)]).unwrap();
    let first_out = commit(&mut ssi, 0, 2, &reads_of(&[(1, 10)]), &[(2, 20)]).unwrap();
    assert_eq!(first_out, Some(at(1)));
    let mut reads = ReadSet::new();
    reads.read_range(2, Bound::Included(&15), Bound::Excluded(&25));
    let conflict = commit(&mut ssi, 0, 3, &reads, &[(3, 30)]).unwrap_err();
    let other = Counterpart::Writer { transaction: id_of(2), order: at(2) };
    let place = Place { space: Some(2), key: Some(20) };
    assert_eq!(conflict, SsiConflict { rule: SsiRule::Source, other, place, first_out: at(1) });
    assert!(conflict.to_string().contains("transaction 3, committed in version 2"), "{conflict}");
}

#[test]
fn first_committer_wins_is_not_decided_here() {
    let mut ssi = Ssi::new();
    commit(&mut ssi, 0, 1, &ReadSet::new(), &[(1, 10)]).unwrap();
    assert_eq!(commit(&mut ssi, 0, 2, &ReadSet::new(), &[(1, 10)]), Ok(None));
}

#[test]
fn a_space_that_changed_as_a_whole_meets_every_read_of_it() {
    let mut ssi = Ssi::<u8, u64>::new();
    let truncate = || [(1, Written::WholeSpace)].into_iter();
    let certified = ssi.certify(Version::ZERO, &ReadSet::new(), truncate(), None).unwrap();
    ssi.admit(at(1), id_of(0), &ReadSet::new(), truncate(), certified);
    let mut range = ReadSet::new();
    range.read_range(1, Bound::Unbounded, Bound::Included(&3));
    let mut whole = ReadSet::new();
    whole.read_space(1);
    for reads in [reads_of(&[(1, 10)]), range, whole] {
        assert_eq!(ssi.first_overwrite(Version::ZERO, &reads), Some(at(1)));
        assert_eq!(ssi.first_overwrite(Version::new(1), &reads), None);
    }
    assert_eq!(ssi.first_overwrite(Version::ZERO, &reads_of(&[(2, 10)])), None);
}

#[test]
fn a_read_of_everything_meets_every_write() {
    let limits = super::super::ReadLimits { spaces_max: 1, ..Default::default() };
    let mut reads = ReadSet::with_limits(limits);
    (0..3).for_each(|space| reads.read_key(space, &0));
    let mut ssi = Ssi::new();
    commit(&mut ssi, 0, 1, &ReadSet::new(), &[(9, 90)]).unwrap();
    assert_eq!(ssi.first_overwrite(Version::ZERO, &reads), Some(at(1)));
    // And as a committed reader it makes a pivot of whoever it cannot have seen.
    commit(&mut ssi, 0, 2, &reads, &[(8, 80)]).unwrap();
    let conflict = commit(&mut ssi, 0, 3, &reads_of(&[(8, 80)]), &[(7, 70)]).unwrap_err();
    assert_eq!((conflict.rule, conflict.place.key), (SsiRule::Source, Some(80)));
}

#[test]
fn everything_is_forgotten_when_nobody_can_ask_for_it() {
    let mut ssi = Ssi::with_limits(SsiLimits { generation_min: 0, ..SsiLimits::default() });
    for version in 1..=1000 {
        let (space, key) = ((version % 90) as u8, version % 7);
        commit(&mut ssi, version - 1, version, &reads_of(&[(space, key + 1)]), &[(space, key)]).unwrap();
    }
    let held = ssi.size();
    assert!(held.commits == 1000 && held.written_keys == 1000 && held.read_marks > 500, "{held:?}");
    let newest = Version::new(1000);
    (0..4).for_each(|_| ssi.prune(newest, newest));
    assert_eq!(ssi.size(), SsiSize { commits: 0, written_keys: 0, read_marks: 0, heap_bytes: 0 });
}

#[test]
fn memory_stays_bounded_beside_a_transaction_that_never_ends() {
    let limits = SsiLimits {
        commits_max: 100,
        keys_max: 300,
        marks_max: 200,
        generation_min: 0,
        ..SsiLimits::default()
    };
    let mut ssi = Ssi::with_limits(limits);
    for version in 1..=5_000_u64 {
        let keys: Vec<_> = (0..5).map(|key| ((version % 3) as u8, version * 10 + key)).collect();
        commit(&mut ssi, version - 1, version, &reads_of(&keys), &keys).unwrap();
        ssi.prune(Version::ZERO, Version::ZERO);
    }
    let held = ssi.size();
    assert!(held.commits <= 100 && held.read_marks <= 400, "{held:?}");
    assert!(held.written_keys <= 300 + 3 * 5, "{held:?}");
    // Whoever is younger than what was given up gets exact answers; the old one gets the earliest that can be.
    let old = reads_of(&[(1, 3)]);
    assert_eq!(ssi.first_overwrite(Version::ZERO, &old), Some(at(1)));
    assert_eq!(ssi.first_overwrite(Version::new(4_990), &old), None);
    let young = reads_of(&[((4_995 % 3) as u8, 49_953)]);
    assert_eq!(ssi.first_overwrite(Version::new(4_990), &young), Some(at(4_995)));
    assert_eq!(ssi.first_overwrite(Version::ZERO, &reads_of(&[(200, 1)])), None, "nobody wrote there");
}

/// Four million keys were the bound, of whatever length: 34 GB of the longest.
#[test]
fn long_keys_are_bounded_by_their_bytes_beside_a_transaction_that_never_ends() {
    const LENGTH: usize = 8_000;
    let key = |number: u64| format!("{number:0>LENGTH$}");
    let limits = SsiLimits {
        key_heap_bytes_max: 50 * LENGTH,
        mark_heap_bytes_max: 20 * LENGTH,
        generation_min: 0,
        ..SsiLimits::default()
    };
    let mut ssi = Ssi::<u8, String>::weighing(limits, String::len);
    for version in 1..=500_u64 {
        let written = [key(version * 2), key(version * 2 + 1)];
        let mut reads = ReadSet::new();
        reads.read_key(1, &written[0]);
        reads.read_range(2, Bound::Included(&written[0]), Bound::Excluded(&written[1]));
        let writes = || written.iter().map(|key| (1, Written::Key(key)));
        let certified = ssi.certify(Version::new(version - 1), &reads, writes(), None).unwrap();
        ssi.admit(at(version), id_of(version as usize), &reads, writes(), certified);
        ssi.prune(Version::ZERO, Version::ZERO);
        assert!(ssi.size().heap_bytes <= (50 + 2 * 20) * LENGTH, "{:?}", ssi.size());
    }
    assert!(ssi.size().written_keys < 60, "{:?}", ssi.size());
    let mut overwritten = |begin: u64, number: u64| {
        let mut reads = ReadSet::new();
        reads.read_key(1, &key(number));
        ssi.first_overwrite(Version::new(begin), &reads)
    };
    // Whoever is younger than what was given up gets exact answers; the old one gets the earliest that can be.
    assert_eq!(overwritten(490, 3), None);
    assert_eq!(overwritten(490, 990), Some(at(495)));
    assert_eq!(overwritten(0, 3), Some(at(1)));
}

#[test]
fn one_certification_looks_at_a_bounded_number_of_ranges_of_readers() {
    let verdict = |examined_max: usize| {
        let mut ssi = Ssi::with_limits(SsiLimits { examined_max, ..SsiLimits::default() });
        commit(&mut ssi, 0, 1, &ReadSet::new(), &[(2, 20)]).unwrap();
        let mut reads = ReadSet::new();
        for key in 0..6 {
            reads.read_range(1, Bound::Included(&(key * 10)), Bound::Included(&(key * 10 + 1)));
        }
        commit(&mut ssi, 0, 2, &reads, &[(3, 30)]).unwrap();
        // It has an out-edge, and writes between what was read.
        commit(&mut ssi, 0, 3, &reads_of(&[(2, 20)]), &[(1, 5), (1, 15)])
    };
    assert_eq!(verdict(12), Ok(Some(at(1))));
    assert_eq!(
        verdict(11).map_err(|conflict| conflict.rule),
        Err(SsiRule::Pivot),
        "the second key is too much"
    );
}

#[test]
fn a_hot_key_answers_with_its_earliest_writer_after_the_snapshot() {
    let mut ssi = Ssi::new();
    for version in 1..=50 {
        commit(&mut ssi, version - 1, version, &ReadSet::new(), &[(1, 10), (1, 100 + version)]).unwrap();
    }
    for begin in 0..50 {
        let first = ssi.first_overwrite(Version::new(begin), &reads_of(&[(1, 10)]));
        assert_eq!(first, Some(at(begin + 1)));
        ssi.prune(Version::new(begin / 2), Version::new(begin / 2));
    }
}

#[test]
#[should_panic(expected = "snapshot 1 is older than the pruned version 2")]
fn a_snapshot_that_was_not_registered_is_noticed() {
    let mut ssi = Ssi::<u8, u64>::new();
    ssi.prune(Version::new(2), Version::new(2));
    let _ = ssi.first_overwrite(Version::new(1), &ReadSet::new());
}

#[test]
#[should_panic(expected = "version 1 has a snapshot already")]
fn a_snapshot_of_a_batch_still_being_formed_is_noticed() {
    let mut ssi = Ssi::<u8, u64>::new();
    let _ = commit(&mut ssi, 1, 1, &ReadSet::new(), &[(1, 1)]);
}
