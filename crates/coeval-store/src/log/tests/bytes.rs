// SPDX-License-Identifier: Apache-2.0
//! The format: golden bytes, and bytes that nobody wrote.

use std::sync::Arc;

use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng};

use crate::files::{FileSystem, OpenMode};
use crate::log::format::{PayloadTail, encode_segment_header, parse_segment_name, segment_path};
use crate::log::tests::{Replayed, log_dir, open, payloads, put, simulated, small};
use crate::log::{ChecksumPolicy, LogError, LogOptions, Lsn, OpenError, Tail, verify};

/// Format version 1, computed by an independent program. If this test has to change, so has the version.
const GOLDEN: &[u8] = &[
    // Segment header: magic, version, checksum, first LSN.
    0x43, 0x4f, 0x45, 0x56, 0x41, 0x4c, 0x4f, 0x47, //
    0x01, 0x00, 0x00, 0x00, 0xd2, 0x2e, 0x5d, 0x37, //
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
    // Record at LSN 0: length, header checksum, synced, payload checksum, payload.
    0x05, 0x00, 0x00, 0x00, 0x41, 0x2e, 0x92, 0x60, //
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
    0x50, 0xa1, 0x3e, 0x8a, b'f', b'i', b'r', b's', b't', //
    // Record at LSN 25, written when the first one was durable.
    0x0a, 0x00, 0x00, 0x00, 0xf2, 0x13, 0xec, 0x84, //
    0x19, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
    0xf1, 0xea, 0x86, 0x82, b't', b'h', b'e', b' ', b's', b'e', b'c', b'o', b'n', b'd',
];

/// Messages had decimals, which no argument takes.
#[test]
fn a_place_is_shown_as_it_is_given_as_an_argument() {
    for (place, text) in [(0, "0/0"), (26, "0/1A"), (1 << 32 | 0xAB, "1/AB"), (u64::MAX, "FFFFFFFF/FFFFFFFF")]
    {
        let place = Lsn::new(place);
        assert_eq!(place.to_wal_text(), text);
        assert_eq!(place.to_string(), format!("LSN {text}"));
        assert_eq!(format!("{place:?}"), format!("Lsn({text})"));
        assert_eq!(Lsn::from_wal_text(text), Some(place));
    }
}

#[test]
fn a_payload_whose_tail_was_checksummed_before_is_written_as_the_golden_bytes() {
    for cut in [0, 1, 4] {
        let (_, files) = simulated(1);
        let no_room_ahead = LogOptions { extend_bytes: 1, ..small() };
        let (mut log, _) = open(&files, Lsn::START, no_room_ahead).unwrap();
        for payload in [b"first".as_slice(), b"the second"] {
            let (head, bytes) = payload.split_at(cut);
            let tail = PayloadTail { bytes: bytes.len(), checksum: PayloadTail::checksum_of(bytes) };
            let (lsn, place) = log.append_with_tail(|out| out.extend_from_slice(head), tail).unwrap();
            place.expect("there are bytes to come").fill(bytes).unwrap();
            log.handle().sync(lsn).unwrap();
        }
        assert_eq!(files.read(&log_dir().join("00000000000000000000.log")).unwrap(), GOLDEN, "cut at {cut}");
    }
}

#[test]
fn two_records_are_written_as_the_golden_bytes() {
    let (_, files) = simulated(1);
    let no_room_ahead = LogOptions { extend_bytes: 1, ..small() };
    let (mut log, _) = open(&files, Lsn::START, no_room_ahead).unwrap();
    let first = log.append(b"first").unwrap();
    assert_eq!(log.handle().sync(first).unwrap(), Lsn::new(25));
    assert_eq!(log.append(b"the second").unwrap(), Lsn::new(55));
    let path = log_dir().join("00000000000000000000.log");
    assert_eq!(files.read(&path).unwrap(), GOLDEN);
}

#[test]
fn the_golden_bytes_are_read_as_two_records() {
    let (_, files) = simulated(1);
    put(&*files, &log_dir().join("00000000000000000000.log"), GOLDEN);
    let (log, records) = open(&files, Lsn::START, small()).unwrap();
    let expected: Replayed = vec![(Lsn::new(25), b"first".to_vec()), (Lsn::new(55), b"the second".to_vec())];
    assert_eq!(records, expected);
    assert_eq!(log.end_lsn(), Lsn::new(55));
    assert_eq!(log.handle().durable_lsn(), Lsn::new(55));
}

#[test]
fn a_segment_of_another_version_is_told_from_damage() {
    let (_, files) = simulated(1);
    let mut header = encode_segment_header(Lsn::START);
    header[8] = 2;
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&header[..12]), &header[16..]);
    header[12..16].copy_from_slice(&checksum.to_le_bytes());
    put(&*files, &segment_path(&log_dir(), Lsn::START), &header);
    let error = open(&files, Lsn::START, small()).err().unwrap();
    assert!(matches!(error, OpenError::Log(LogError::UnsupportedVersion { found: 2, supported: 1, .. })));
}

#[test]
fn only_twenty_digits_and_the_suffix_are_a_segment_name() {
    assert_eq!(parse_segment_name("00000000000000000042.log"), Some(Lsn::new(42)));
    assert_eq!(parse_segment_name("18446744073709551615.log"), Some(Lsn::new(u64::MAX)));
    for name in [
        "42.log",
        "00000000000000000042.log.tmp",
        "00000000000000000042",
        "+0000000000000000042.log",
        "99999999999999999999.log",
        "",
    ] {
        assert_eq!(parse_segment_name(name), None, "{name}");
    }
}

#[test]
fn zeros_are_written_ahead_and_end_at_the_segment() {
    let (_, files) = simulated(1);
    let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
    let path = segment_path(&log_dir(), Lsn::START);
    assert_eq!(files.len(&path).unwrap(), 24);
    log.append(b"short").unwrap();
    assert_eq!(files.len(&path).unwrap(), 128);
    log.append(&[7; 350]).unwrap();
    assert_eq!(files.len(&path).unwrap(), 24 + 400);
    // The next record does not fit: the segment is cut to its length and the next one starts.
    let end = log.end_lsn();
    log.append(&[8; 300]).unwrap();
    assert_eq!(files.len(&path).unwrap(), 24 + end.get());
    assert!(files.exists(&segment_path(&log_dir(), end)).unwrap());
}

#[test]
fn a_record_larger_than_a_segment_has_one_to_itself() {
    let (_, files) = simulated(1);
    let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
    log.append(b"before").unwrap();
    log.append(&[9; 5000]).unwrap();
    log.append(b"after").unwrap();
    drop(log);
    let (_, records) = open(&files, Lsn::START, small()).unwrap();
    assert_eq!(payloads(&records), [b"before".as_slice(), &[9; 5000], b"after"]);
    assert_eq!(verify(&*files, &log_dir(), Lsn::START).unwrap().segments, 3);
}

/// Bytes of a log of one segment with some records, for mutation.
fn some_log() -> Vec<u8> {
    let (_, files) = simulated(1);
    let options = LogOptions { segment_bytes: 1 << 20, ..small() };
    let (mut log, _) = open(&files, Lsn::START, options).unwrap();
    for size in [1, 40, 7, 200, 3] {
        let lsn = log.append(&vec![size as u8; size]).unwrap();
        if size != 40 {
            log.handle().sync(lsn).unwrap();
        }
    }
    files.read(&segment_path(&log_dir(), Lsn::START)).unwrap()
}

/// Opens a log of one segment with these bytes. Whatever they are: no panic, `verify` and `open` agree, and a log
/// that opened opens again with the same records and takes new ones.
fn open_anything(bytes: &[u8]) {
    let (_, files) = simulated(1);
    put(&*files, &segment_path(&log_dir(), Lsn::START), bytes);
    let verified = verify(&*files, &log_dir(), Lsn::START);
    match open(&files, Lsn::START, small()) {
        Ok((mut log, records)) => {
            assert_eq!(verified.unwrap().records, records.len() as u64);
            log.append(b"one more").unwrap();
            drop(log);
            let (_, again) = open(&files, Lsn::START, small()).unwrap();
            assert_eq!(again[..records.len()], records);
            assert_eq!(payloads(&again)[records.len()..], [b"one more"]);
            let tail = verify(&*files, &log_dir(), Lsn::START).unwrap().tail;
            assert_eq!(tail, Tail::Clean);
        }
        Err(OpenError::Log(error)) => assert_eq!(verified.unwrap_err().to_string(), error.to_string()),
        Err(OpenError::Replay { .. }) => unreachable!("the caller took every record"),
    }
    let unchecked = LogOptions { checksums: ChecksumPolicy::IgnoredOnPurpose, ..small() };
    let _ = open(&files, Lsn::START, unchecked);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        open_anything(&bytes);
        let mut with_header = encode_segment_header(Lsn::START).to_vec();
        with_header.extend_from_slice(&bytes);
        open_anything(&with_header);
    }

    #[test]
    fn mutated_logs_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = some_log();
        for (index, value) in changes {
            let place = index.index(bytes.len());
            bytes[place] = value;
        }
        open_anything(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        open_anything(&bytes);
    }

    #[test]
    fn what_is_appended_is_read(records in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..30)) {
        let (_, files) = simulated(1);
        let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
        let mut lsns = Vec::new();
        for record in &records {
            lsns.push(log.append(record).unwrap());
        }
        drop(log);
        let (_, all) = open(&files, Lsn::START, small()).unwrap();
        prop_assert_eq!(payloads(&all), records.iter().map(Vec::as_slice).collect::<Vec<_>>());
        prop_assert_eq!(all.iter().map(|(lsn, _)| *lsn).collect::<Vec<_>>(), lsns.clone());
        // From every LSN that an append returned, exactly the records behind it.
        for (index, lsn) in lsns.iter().enumerate() {
            let (_, behind) = open(&files, *lsn, small()).unwrap();
            prop_assert_eq!(&all[index + 1..], &behind[..]);
        }
    }
}

#[test]
fn opening_for_append_needs_no_new_file() {
    let (simulation, files) = simulated(1);
    let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
    let lsn = log.append(b"kept").unwrap();
    log.handle().sync(lsn).unwrap();
    let after: Arc<dyn FileSystem> = Arc::new(simulation.restart());
    let (log, records) = open(&after, Lsn::START, small()).unwrap();
    assert_eq!(payloads(&records), [b"kept"]);
    assert_eq!(after.list(&log_dir()).unwrap().len(), 1);
    assert!(after.open(&log_dir().join("none"), OpenMode::Existing).is_err());
    drop(log);
}

#[test]
fn records_that_are_appended_together_are_where_they_are_one_by_one() {
    for seed in 0..200 {
        let mut dice = StdRng::seed_from_u64(seed);
        let written: Vec<Vec<u8>> = (0..dice.random_range(1..40))
            .map(|number| vec![number; dice.random_range(1..if number % 10 == 9 { 600 } else { 80 })])
            .collect();
        let [one_by_one, together] = [false, true].map(|is_together| {
            let (_, shared) = simulated(seed);
            let (mut log, _) = open(&shared, Lsn::START, small()).unwrap();
            for some in written.chunks(7) {
                if is_together {
                    log.append_all(some.iter().map(Vec::as_slice)).unwrap();
                } else {
                    for payload in some {
                        log.append(payload).unwrap();
                    }
                }
            }
            log.handle().sync(log.end_lsn()).unwrap();
            drop(log);
            let mut segments = shared.list(&log_dir()).unwrap();
            segments.sort();
            (segments, open(&shared, Lsn::START, small()).unwrap().1)
        });
        assert_eq!(together, one_by_one, "seed {seed}");
        assert_eq!(payloads(&together.1), written, "seed {seed}");
        assert!(written.len() < 30 || together.0.len() > 1, "seed {seed}: several segments");
    }
}
