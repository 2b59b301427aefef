// SPDX-License-Identifier: Apache-2.0
//! Damage before the tail stops the open and is named; a torn tail does not.

use std::path::Path;
use std::sync::Arc;

use crate::files::{FileSystem, SimulatedFiles};
use crate::log::format::{RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, segment_path};
use crate::log::tests::{log_dir, open, payloads, simulated, small};
use crate::log::{ChecksumPolicy, Damage, LogError, LogOptions, Lsn, OpenError, Tail, verify};

/// A log whose records are `record 0` to `record n-1`, each durable before the next; their LSNs.
fn synced_log(files: &Arc<dyn FileSystem>, count: usize, options: LogOptions) -> Vec<Lsn> {
    let (mut log, _) = open(files, Lsn::START, options).unwrap();
    let mut lsns = Vec::new();
    for index in 0..count {
        let lsn = log.append(format!("record {index}").as_bytes()).unwrap();
        log.handle().sync(lsn).unwrap();
        lsns.push(lsn);
    }
    lsns
}

fn one_segment() -> LogOptions {
    LogOptions { segment_bytes: 1 << 20, ..small() }
}

fn damage_of(files: &Arc<dyn FileSystem>, from: Lsn) -> LogError {
    let verified = verify(&**files, &log_dir(), from).unwrap_err();
    let Err(OpenError::Log(opened)) = open(files, from, small()) else {
        panic!("the log opened, though {verified}");
    };
    assert_eq!(verified.to_string(), opened.to_string(), "verify and open see the same");
    assert!(opened.is_damage());
    opened
}

fn flipped(simulation: &SimulatedFiles, path: &Path, offset: u64, mask: u8, look: impl FnOnce()) {
    simulation.damage(path, offset, mask);
    look();
    simulation.damage(path, offset, mask);
}

#[test]
fn a_flipped_byte_in_the_middle_is_named_by_file_and_offset() {
    let (simulation, files) = simulated(1);
    let lsns = synced_log(&files, 5, one_segment());
    let path = segment_path(&log_dir(), Lsn::START);
    let in_third = SEGMENT_HEADER_BYTES as u64 + lsns[1].get() + RECORD_HEADER_BYTES as u64 + 2;
    simulation.damage(&path, in_third, 0x10);
    let error = damage_of(&files, Lsn::START);
    let offset = SEGMENT_HEADER_BYTES as u64 + lsns[1].get();
    assert!(matches!(&error, LogError::Damaged { path: at, offset: o, damage: Damage::Record }
            if *at == path && *o == offset));
    assert_eq!(
        error.to_string(),
        "the log is damaged: file /db/log/00000000000000000000.log, offset 80: \
         a record that was durable is not valid"
    );
}

#[test]
fn every_flipped_byte_before_an_attested_place_is_damage() {
    let (simulation, files) = simulated(1);
    let lsns = synced_log(&files, 6, one_segment());
    let path = segment_path(&log_dir(), Lsn::START);
    // The last record attests all before it, and nobody attests the last one.
    let attested = SEGMENT_HEADER_BYTES as u64 + lsns[4].get();
    for offset in 0..attested {
        for mask in [0x01, 0x80, 0xff] {
            flipped(&simulation, &path, offset, mask, || {
                let LogError::Damaged { offset: named, damage, .. } = damage_of(&files, Lsn::START) else {
                    panic!("another error");
                };
                if offset < SEGMENT_HEADER_BYTES as u64 {
                    assert_eq!((named, damage), (0, Damage::SegmentHeader));
                } else {
                    let record =
                        lsns.iter().rposition(|lsn| SEGMENT_HEADER_BYTES as u64 + lsn.get() <= offset);
                    let start = record.map_or(0, |index| lsns[index].get());
                    assert_eq!((named, damage), (SEGMENT_HEADER_BYTES as u64 + start, Damage::Record));
                }
            });
        }
    }
    assert_eq!(open(&files, Lsn::START, small()).unwrap().1.len(), 6, "all flips were taken back");
}

#[test]
fn a_flipped_byte_in_the_unattested_last_record_is_a_torn_tail() {
    let (simulation, files) = simulated(1);
    let lsns = synced_log(&files, 3, one_segment());
    let path = segment_path(&log_dir(), Lsn::START);
    simulation.damage(&path, SEGMENT_HEADER_BYTES as u64 + lsns[1].get() + 1, 0x01);
    let summary = verify(&*files, &log_dir(), Lsn::START).unwrap();
    assert_eq!((summary.records, summary.end), (2, lsns[1]));
    assert!(matches!(summary.tail, Tail::Torn { .. }));
    let (_, records) = open(&files, Lsn::START, small()).unwrap();
    assert_eq!(payloads(&records), [b"record 0", b"record 1"]);
    assert_eq!(verify(&*files, &log_dir(), Lsn::START).unwrap().tail, Tail::Clean);
}

/// The case that the rule is for: of three records none of which was synced, the middle one did not reach the
/// disk. And the case that cutting off durably is for: a new record of the same size takes its place, and the
/// old third one must not come back behind it.
#[test]
fn a_hole_among_unsynced_records_is_a_torn_tail_and_what_followed_never_comes_back() {
    let (simulation, files) = simulated(1);
    let (mut log, _) = open(&files, Lsn::START, one_segment()).unwrap();
    let synced = log.append(b"synced").unwrap();
    log.handle().sync(synced).unwrap();
    let kept = log.append(b"kept").unwrap();
    log.append(b"lost").unwrap();
    log.append(b"late").unwrap();
    drop(log);
    let path = segment_path(&log_dir(), Lsn::START);
    simulation.damage(&path, SEGMENT_HEADER_BYTES as u64 + kept.get() + RECORD_HEADER_BYTES as u64, 0x40);
    let (mut log, records) = open(&files, Lsn::START, one_segment()).unwrap();
    assert_eq!(payloads(&records), [b"synced".as_slice(), b"kept"]);
    log.append(b"anew").unwrap();
    drop(log);
    let (_, records) = open(&files, Lsn::START, one_segment()).unwrap();
    assert_eq!(payloads(&records), [b"synced".as_slice(), b"kept", b"anew"]);
}

#[test]
fn damage_in_a_segment_that_is_not_the_last_is_never_a_torn_tail() {
    let (simulation, files) = simulated(1);
    // Nothing is synced by the caller: the change of segment makes the earlier ones durable.
    let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
    let mut lsns = Vec::new();
    for _ in 0..30 {
        lsns.push(log.append(b"thirty bytes, more or less.").unwrap());
    }
    drop(log);
    let segments: Vec<String> = files.list(&log_dir()).unwrap();
    assert!(segments.len() >= 3);
    let first = log_dir().join(&segments[0]);
    for offset in 0..files.len(&first).unwrap() {
        flipped(&simulation, &first, offset, 0x20, || {
            assert!(matches!(damage_of(&files, Lsn::START), LogError::Damaged { path, .. } if path == first));
        });
    }
    let last = log_dir().join(segments.last().unwrap());
    for offset in 0..SEGMENT_HEADER_BYTES as u64 {
        flipped(&simulation, &last, offset, 0x20, || {
            let error = damage_of(&files, Lsn::START);
            assert!(matches!(error, LogError::Damaged { damage: Damage::SegmentHeader, .. }));
        });
    }
}

#[test]
fn a_missing_segment_is_named() {
    for missing in [0, 1] {
        let (_, files) = simulated(1);
        synced_log(&files, 40, small());
        let segments = files.list(&log_dir()).unwrap();
        assert!(segments.len() >= 3);
        let path = log_dir().join(&segments[missing]);
        files.remove(&path).unwrap();
        assert!(
            matches!(damage_of(&files, Lsn::START), LogError::MissingSegment { path: named } if named == path)
        );
    }
}

#[test]
fn a_log_that_ends_before_the_checkpoint_is_damage() {
    let (_, files) = simulated(1);
    let lsns = synced_log(&files, 3, one_segment());
    let end = lsns[2];
    let beyond = Lsn::new(end.get() + 100);
    let error = damage_of(&files, beyond);
    assert!(
        matches!(error, LogError::Damaged { damage: Damage::EndsBeforeCheckpoint(from), .. } if from == beyond)
    );
    let inside = Lsn::new(lsns[1].get() + 3);
    let error = damage_of(&files, inside);
    assert!(
        matches!(error, LogError::Damaged { damage: Damage::CheckpointInsideRecord(from), .. } if from == inside)
    );
}

#[test]
fn no_segment_at_all_is_a_new_log_only_at_the_start() {
    let (_, files) = simulated(1);
    files.create_dir_all(&log_dir()).unwrap();
    assert!(matches!(damage_of(&files, Lsn::new(7)), LogError::MissingSegment { .. }));
    assert_eq!(verify(&*files, &log_dir(), Lsn::START).unwrap().records, 0);
    assert!(open(&files, Lsn::START, small()).is_ok());
}

#[test]
fn a_payload_that_looks_like_an_attesting_header_raises_no_alarm() {
    use crate::log::format::{PayloadTail, seal_record};
    let (simulation, files) = simulated(1);
    let (mut log, _) = open(&files, Lsn::START, one_segment()).unwrap();
    log.append(b"bad").unwrap();
    // What a header at its very place would look like, attesting everything before it.
    let place = Lsn::new(log.end_lsn().get() + RECORD_HEADER_BYTES as u64);
    let mut forged = vec![0; RECORD_HEADER_BYTES + 4];
    seal_record(&mut forged, PayloadTail::NONE, place, place);
    log.append(&forged).unwrap();
    drop(log);
    let payload = SEGMENT_HEADER_BYTES as u64 + RECORD_HEADER_BYTES as u64;
    simulation.damage(&segment_path(&log_dir(), Lsn::START), payload, 0x01);
    let (_, records) = open(&files, Lsn::START, one_segment()).unwrap();
    assert_eq!(records, []);
}

#[test]
fn without_checksums_a_flipped_byte_goes_unseen() {
    let (simulation, files) = simulated(1);
    synced_log(&files, 3, one_segment());
    let path = segment_path(&log_dir(), Lsn::START);
    simulation.damage(&path, (SEGMENT_HEADER_BYTES + RECORD_HEADER_BYTES) as u64, 0x01);
    let unchecked = LogOptions { checksums: ChecksumPolicy::IgnoredOnPurpose, ..small() };
    let (_, records) = open(&files, Lsn::START, unchecked).unwrap();
    assert_eq!(payloads(&records), [b"secord 0", b"record 1", b"record 2"]);
}
