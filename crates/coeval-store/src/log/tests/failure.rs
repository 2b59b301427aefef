// SPDX-License-Identifier: Apache-2.0
//! Failed calls stop the log; what was durable stays durable; handles work beside the appender.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::files::{DiskFiles, Fault, FileSystem};
use crate::log::tests::{log_dir, open, payloads, simulated, small};
use crate::log::{Log, LogError, LogOptions, Lsn, OpenError, PAYLOAD_BYTES_MAX};

/// The write of a record failed on a full disk, the caller was told so, and after a restart the record was there: the part
/// that was written was all of it. Now there is room before anything is written.
#[test]
fn a_record_without_room_is_refused_never_found_and_the_log_goes_on() {
    let (mut refused, mut taken_again) = (0, 0);
    for (seed, calls) in (0..60).flat_map(|seed| (0..8).map(move |calls| (seed, calls))) {
        let (simulation, files) = simulated(seed);
        let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
        let handle = log.handle();
        let mut expected: Vec<Vec<u8>> = Vec::new();
        simulation.fail_from(calls, Fault::DiskFull);
        let mut has_stopped = false;
        for index in 0..12_u8 {
            let payload = vec![index + 1; 60];
            match log.append(&payload) {
                Ok(_) => expected.push(payload),
                Err(error @ LogError::NoRoom(_)) => {
                    assert!(error.is_disk_full() && error.to_string().contains("disk full"), "{error}");
                    refused += 1;
                }
                // The sync of what was written before, at a change of segment.
                Err(LogError::File(error)) if error.to_string().starts_with("cannot sync") => {
                    has_stopped = true
                }
                Err(LogError::Stopped { .. }) if has_stopped => {}
                Err(error) => panic!("seed {seed}, call {calls}: {error}"),
            }
            if index == 8 {
                simulation.heal();
            }
        }
        if !has_stopped {
            assert!(expected.len() >= 3, "with room the log takes records again");
            taken_again += 1;
            handle.sync(log.end_lsn()).unwrap();
        }
        let after: Arc<dyn FileSystem> =
            Arc::new(if seed % 2 == 0 { simulation.crash() } else { simulation.restart() });
        let (_, records) = open(&after, Lsn::START, small()).unwrap();
        let found = payloads(&records);
        assert!(expected.iter().take(found.len()).eq(found.iter().copied()), "seed {seed}, call {calls}");
        assert!(has_stopped || found.len() == expected.len(), "seed {seed}, call {calls}");
    }
    assert!(refused > 500 && taken_again > 100, "{refused} {taken_again}");
}

#[test]
fn a_sync_without_room_stops_the_log_and_every_later_call_says_so() {
    let (simulation, files) = simulated(3);
    let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
    let handle = log.handle();
    let acknowledged = log.append(b"acknowledged").unwrap();
    handle.sync(acknowledged).unwrap();
    let unsynced = log.append(&[1; 200]).unwrap();

    simulation.fail_after(0, Fault::DiskFull);
    let first = handle.sync(unsynced).unwrap_err();
    assert!(first.is_disk_full());
    assert!(first.to_string().contains("disk full"), "{first}");

    // The disk has room again, and the log does not act as if nothing had happened.
    for error in [log.append(b"more").unwrap_err(), handle.sync(unsynced).unwrap_err()] {
        assert!(
            matches!(&error, LogError::Stopped { first: reason } if reason.to_string() == first.to_string())
        );
        assert!(error.is_disk_full());
    }
    assert_eq!(handle.durable_lsn(), acknowledged);
    assert_eq!(handle.sync(acknowledged).unwrap(), acknowledged, "what is durable stays so");

    let after: Arc<dyn FileSystem> = Arc::new(simulation.crash());
    let (_, records) = open(&after, Lsn::START, small()).unwrap();
    assert_eq!(payloads(&records)[0], b"acknowledged");
}

#[test]
fn a_failed_sync_is_never_tried_again() {
    for seed in 0..100 {
        let (simulation, files) = simulated(seed);
        let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
        let handle = log.handle();
        let lsn = log.append(b"perhaps").unwrap();
        simulation.fail_after(0, Fault::Io);
        let first = handle.sync(lsn).unwrap_err();
        assert!(first.to_string().starts_with("cannot sync /db/log/"), "{first}");
        let again = handle.sync(lsn).unwrap_err();
        assert_eq!(again.to_string(), format!("the log has stopped: {first}"));
        assert!(matches!(log.append(b"more"), Err(LogError::Stopped { .. })));
        assert!(handle.check_running().is_err());
        assert_eq!(handle.durable_lsn(), Lsn::START);
    }
}

/// After a failed sync the page cache may show what the disk never got. The next process finds the record there,
/// and from then on it must be durable.
#[test]
fn what_an_open_returns_survives_a_crash_even_after_a_failed_sync() {
    let mut found = 0;
    for seed in 0..200 {
        let (simulation, files) = simulated(seed);
        let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
        let lsn = log.append(b"perhaps").unwrap();
        simulation.fail_after(0, Fault::Io);
        log.handle().sync(lsn).unwrap_err();

        let next = simulation.restart();
        let (_, seen) = open(&(Arc::new(next.clone()) as Arc<dyn FileSystem>), Lsn::START, small()).unwrap();
        let after: Arc<dyn FileSystem> = Arc::new(next.crash());
        let (_, survived) = open(&after, Lsn::START, small()).unwrap();
        assert_eq!(seen, survived, "seed {seed}");
        found += survived.len();
    }
    assert_eq!(found, 200, "a page cache loses nothing when only the process ends");
}

/// The name of a new segment was seen but not durable when its process failed and ended. The next process went on
/// in that segment and acknowledged records, and a crash took the name and the records with it.
#[test]
fn a_segment_whose_name_was_not_durable_is_not_lost_after_an_open() {
    for seed in 0..100 {
        let (simulation, files) = simulated(seed);
        let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
        log.append(&[1; 300]).unwrap();
        // The calls of a change of segment up to the one that fails: cut, sync, open, write, sync, rename.
        simulation.fail_after(6, Fault::Io);
        assert!(log.append(&[2; 300]).unwrap_err().to_string().starts_with("cannot sync directory"));

        let next = simulation.restart();
        let (mut log, _) =
            open(&(Arc::new(next.clone()) as Arc<dyn FileSystem>), Lsn::START, small()).unwrap();
        let lsn = log.append(b"acknowledged").unwrap();
        log.handle().sync(lsn).unwrap();
        let after: Arc<dyn FileSystem> = Arc::new(next.crash());
        let (_, records) = open(&after, Lsn::START, small()).unwrap();
        assert_eq!(payloads(&records), [[1; 300].as_slice(), b"acknowledged"], "seed {seed}");
    }
}

#[test]
fn a_failure_at_any_call_of_an_open_leaves_a_log_that_opens() {
    for call in 0.. {
        let (simulation, files) = simulated(call);
        let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
        for index in 0..20_u8 {
            let lsn = log.append(&[index; 30]).unwrap();
            if index < 15 {
                log.handle().sync(lsn).unwrap();
            }
        }
        let next = simulation.crash();
        let before = next.call_count();
        next.fail_after(call, Fault::Io);
        let shared: Arc<dyn FileSystem> = Arc::new(next.clone());
        let failed = matches!(open(&shared, Lsn::START, small()), Err(OpenError::Log(LogError::File(_))));
        assert_eq!(failed, next.call_count() - before > call, "each failed call is reported");
        let last: Arc<dyn FileSystem> = Arc::new(next.crash());
        let (_, records) = open(&last, Lsn::START, small()).unwrap();
        assert!(records.len() >= 15, "call {call}: {} records", records.len());
        if !failed {
            assert!(call > 4, "an open makes several calls");
            break;
        }
    }
}

#[test]
fn a_refused_record_stops_the_open_and_is_named() {
    let (_, files) = simulated(1);
    let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
    log.append(b"good").unwrap();
    log.append(b"strange").unwrap();
    drop(log);
    let mut refuse =
        |_: Lsn, payload: &[u8]| if payload == b"strange" { Err("unknown table") } else { Ok(()) };
    let error = Log::open(Arc::clone(&files), &log_dir(), Lsn::START, &mut refuse).err().unwrap();
    assert_eq!(
        error.to_string(),
        "replay of the log stopped at /db/log/00000000000000000000.log, offset 48: unknown table"
    );
}

#[test]
fn a_payload_of_a_wrong_size_changes_nothing() {
    let (_, files) = simulated(1);
    let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
    assert!(matches!(log.append(b""), Err(LogError::PayloadSize { bytes: 0 })));
    let too_long = vec![0; PAYLOAD_BYTES_MAX + 1];
    assert!(matches!(log.append(&too_long), Err(LogError::PayloadSize { .. })));
    assert_eq!(log.end_lsn(), Lsn::START);
    log.append(b"the log goes on").unwrap();
}

#[test]
fn old_segments_are_removed_and_the_last_one_stays() {
    let (simulation, files) = simulated(1);
    let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
    let lsns: Vec<Lsn> = (0..40).map(|index: u8| log.append(&[index; 50]).unwrap()).collect();
    let handle = log.handle();
    handle.sync(lsns[39]).unwrap();
    let count = files.list(&log_dir()).unwrap().len();
    assert_eq!(handle.remove_before(Lsn::START).unwrap(), 0);
    let removed = handle.remove_before(lsns[20]).unwrap();
    assert!(removed > 0 && removed < count);
    assert_eq!(files.list(&log_dir()).unwrap().len(), count - removed);
    let (_, records) = open(&files, lsns[20], small()).unwrap();
    assert_eq!(records.len(), 19);

    // A removal that fails in the middle is taken up again.
    simulation.fail_after(1, Fault::Io);
    handle.remove_before(lsns[39]).unwrap_err();
    handle.remove_before(lsns[39]).unwrap();
    assert_eq!(files.list(&log_dir()).unwrap().len(), 1);
    assert_eq!(handle.remove_before(Lsn::new(u64::MAX)).unwrap(), 0);
    log.append(b"the log goes on").unwrap();
}

#[test]
#[should_panic(expected = "only what was appended can be synced")]
fn nobody_can_wait_for_what_was_not_appended() {
    let (_, files) = simulated(1);
    let (log, _) = open(&files, Lsn::START, small()).unwrap();
    let _ = log.handle().sync(Lsn::new(1));
}

#[test]
fn syncs_from_many_threads_on_a_real_disk_acknowledge_only_what_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("log");
    let files: Arc<dyn FileSystem> = Arc::new(DiskFiles);
    let options = LogOptions { segment_bytes: 20_000, extend_bytes: 4096, ..LogOptions::default() };
    let mut nothing = |_: Lsn, _: &[u8]| Err("a new log has no records");
    let mut log = Log::open_with(Arc::clone(&files), &dir, Lsn::START, options, &mut nothing).unwrap();
    let running = AtomicBool::new(true);
    let mut lsns = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let handle = log.handle();
            let running = &running;
            scope.spawn(move || {
                let mut durable = Lsn::START;
                while running.load(Ordering::Relaxed) {
                    let end = handle.end_lsn();
                    let now = handle.sync(end).unwrap();
                    assert!(now >= end && now >= durable);
                    durable = now;
                }
            });
        }
        for index in 0..2000_u32 {
            lsns.push(log.append(&index.to_le_bytes().repeat(1 + index as usize % 30)).unwrap());
        }
        running.store(false, Ordering::Relaxed);
    });
    let handle = log.handle();
    handle.sync(lsns[1999]).unwrap();
    handle.remove_before(lsns[1000]).unwrap();
    drop(log);
    let mut count = 0;
    let mut check = |lsn: Lsn, payload: &[u8]| {
        let index = 1001 + count;
        count += 1;
        let expected = (index as u32).to_le_bytes().repeat(1 + index % 30);
        if payload == expected && lsn == lsns[index] { Ok(()) } else { Err(format!("record {index}")) }
    };
    Log::open(files, &dir, lsns[1000], &mut check).unwrap();
    assert_eq!(count, 999);
}
