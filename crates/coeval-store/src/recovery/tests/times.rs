// SPDX-License-Identifier: Apache-2.0
//! The time in the log is found again by whoever opens the database, and never goes back.

use super::{DIR, append, insert, log_segments, make_table};
use crate::clock::LogTime;
use crate::files::SimulatedFiles;
use crate::log::{ChecksumPolicy, LogOptions, Lsn, read};
use crate::manifest::Manifest;
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::record::{MalformedRecord, Record, decode, encode_time};
use crate::store::Store;
use std::path::Path;
use std::sync::Arc;

/// A store that writes what time it is.
fn open(files: &SimulatedFiles) -> Store {
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let log = LogOptions { segment_bytes: 10_000, extend_bytes: 128, checksums: ChecksumPolicy::Verified };
    let sizes = Sizes { begins_terms: true, ..Sizes::default() };
    Store::open_tuned(Arc::new(files.clone()), Path::new(DIR), options, log, sizes).unwrap()
}

/// The times in the log behind the checkpoint, in their order.
fn times(files: &SimulatedFiles) -> Vec<LogTime> {
    let dir = Path::new(DIR);
    let from = Manifest::read(files, dir, ChecksumPolicy::Verified).unwrap().unwrap().log;
    let mut times = Vec::new();
    let mut note = |_: Lsn, payload: &[u8]| {
        if let Record::Time(time) = decode(payload)? {
            times.push(time);
        }
        Ok::<_, MalformedRecord>(())
    };
    read(files, &dir.join("log"), Lsn::new(from), &mut note).unwrap();
    times
}

/// Appends a time to the log of a closed database, as a machine whose clock says so would.
fn say(files: &SimulatedFiles, time: LogTime) {
    let mut record = Vec::new();
    encode_time(time, &mut record);
    append(files, &record);
}

fn in_an_hour() -> LogTime {
    LogTime::from_micros(LogTime::now().micros() + 3_600_000_000)
}

#[test]
fn the_time_of_the_log_is_found_again_by_each_open_whatever_the_machine_says() {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    assert_eq!(store.log_time(), LogTime::ZERO, "an empty log has no time");
    let begun = LogTime::now();
    let def = make_table(&store);
    let first = store.log_time();
    assert!(begun <= first && first <= LogTime::now(), "the first batch comes behind a time");
    drop(store);
    let files = files.restart();
    assert_eq!(times(&files), [first]);

    // Another machine's clock was ahead when it wrote, and then one that was behind.
    let (ahead, behind) = (in_an_hour(), LogTime::from_micros(first.micros() - 1));
    say(&files, ahead);
    say(&files, behind);
    let store = open(&files);
    assert_eq!(
        store.log_time(),
        ahead,
        "of the times in the log the last one counts that is not before others"
    );
    insert(&store, &def, 1);
    assert_eq!(store.log_time(), ahead, "a clock that is ahead is waited for");
    drop(store);
    let files = files.crash();
    assert_eq!(times(&files), [first, ahead, behind], "no record says that it is earlier than it was");

    // The log with it goes; the manifest knows.
    let store = open(&files);
    store.checkpoint().unwrap();
    (2..=100).for_each(|id| insert(&store, &def, id));
    store.checkpoint().unwrap();
    drop(store);
    let files = files.restart();
    assert!(
        log_segments(&files)[0] > Path::new(DIR).join("log/00000000000000000000.log"),
        "the log was cut off"
    );
    assert_eq!(times(&files), []);
    let store = open(&files);
    assert_eq!(store.log_time(), ahead);
    insert(&store, &def, 101);
    assert_eq!(store.log_time(), ahead);
}
