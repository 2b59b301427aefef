// SPDX-License-Identifier: Apache-2.0
//! A reader beside an appender gives what is durable, in order, and nothing twice.

use super::{LogRecord, READ_BYTES};
use crate::files::SimulatedFiles;
use crate::log::{Log, LogError, LogOptions, Lsn};
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/log";

fn open(files: &SimulatedFiles, options: LogOptions) -> Log {
    let mut ignore = |_: Lsn, _: &[u8]| Ok::<(), Infallible>(());
    Log::open_with(Arc::new(files.clone()), Path::new(DIR), Lsn::START, options, &mut ignore).unwrap()
}

fn small_segments() -> LogOptions {
    LogOptions { segment_bytes: 300, extend_bytes: 64, ..LogOptions::default() }
}

#[test]
fn records_come_when_they_are_durable_across_segments() {
    let files = SimulatedFiles::new(1);
    let mut log = open(&files, small_segments());
    let handle = log.handle();
    let mut reader = handle.reader(Lsn::START);
    let mut written: Vec<LogRecord> = Vec::new();
    let mut read: Vec<LogRecord> = Vec::new();
    for number in 0_u16..200 {
        let payload = vec![number.to_le_bytes()[0]; usize::from(number % 37) + 1];
        let end = log.append(&payload).unwrap();
        written.push(LogRecord { end, payload });
        let durable = handle.durable_lsn();
        read.extend(reader.next_records().unwrap());
        assert!(reader.position() <= durable, "nothing that can be lost");
        if number % 5 == 0 {
            handle.sync(end).unwrap();
        }
    }
    handle.sync(log.end_lsn()).unwrap();
    while reader.position() < log.end_lsn() {
        read.extend(reader.next_records().unwrap());
    }
    assert_eq!(read, written);
    assert_eq!(reader.next_records().unwrap(), []);
    // From any record on.
    let mut reader = handle.reader(written[70].end);
    assert_eq!(reader.next_records().unwrap()[0], written[71]);
    assert_eq!(written[71].start(), written[70].end);
}

#[test]
fn a_record_that_is_longer_than_a_read_comes_whole() {
    let files = SimulatedFiles::new(1);
    let mut log = open(&files, LogOptions::default());
    let long = vec![7; usize::try_from(3 * READ_BYTES).unwrap()];
    log.append(b"before").unwrap();
    log.append(&long).unwrap();
    let end = log.append(b"behind").unwrap();
    log.handle().sync(end).unwrap();
    let mut reader = log.handle().reader(Lsn::START);
    let mut payloads = Vec::new();
    while reader.position() < end {
        payloads.extend(reader.next_records().unwrap().into_iter().map(|record| record.payload));
    }
    assert_eq!(payloads, [b"before".to_vec(), long, b"behind".to_vec()]);
}

#[test]
fn what_a_checkpoint_has_removed_is_gone() {
    let files = SimulatedFiles::new(1);
    let mut log = open(&files, small_segments());
    let ends: Vec<Lsn> = (0..100).map(|_| log.append(&[1; 40]).unwrap()).collect();
    let handle = log.handle();
    handle.sync(log.end_lsn()).unwrap();
    let mut open = handle.reader(Lsn::START);
    assert!(!open.next_records().unwrap().is_empty());
    handle.remove_before(ends[60]).unwrap();
    let gone = handle.reader(ends[2]).next_records();
    assert!(
        matches!(gone, Err(LogError::Gone { wanted, first }) if wanted == ends[2] && first <= ends[60]),
        "{gone:?}"
    );
    assert!(handle.reader(ends[60]).next_records().is_ok());
}

#[test]
fn damage_is_named() {
    let files = SimulatedFiles::new(1);
    let mut log = open(&files, LogOptions::default());
    log.append(b"sound").unwrap();
    let end = log.append(b"unsound").unwrap();
    log.handle().sync(end).unwrap();
    files.damage(&crate::log::segment_path(Path::new(DIR), Lsn::START), 24 + 25 + 22, 1);
    let mut reader = log.handle().reader(Lsn::START);
    assert!(matches!(reader.next_records(), Err(LogError::Damaged { offset: 49, .. })));
}
