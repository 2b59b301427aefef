// SPDX-License-Identifier: Apache-2.0
//! Records whose last bytes come later.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::files::{Fault, FileSystem};
use crate::log::format::PayloadTail;
use crate::log::tests::{open, payloads, simulated, small};
use crate::log::{Log, LogError, Lsn, Unfilled};

fn append_unfilled(log: &mut Log, head: &[u8], tail: &[u8]) -> (Lsn, Unfilled) {
    let tail = PayloadTail { bytes: tail.len(), checksum: PayloadTail::checksum_of(tail) };
    let (lsn, unfilled) = log.append_with_tail(|out| out.extend_from_slice(head), tail).unwrap();
    (lsn, unfilled.expect("there are bytes to come"))
}

#[test]
fn nothing_from_an_unfilled_record_on_becomes_durable_and_then_all_does() {
    let (simulation, files) = simulated(1);
    let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
    let handle = log.handle();
    let before = log.append(b"before").unwrap();
    let (record, unfilled) = append_unfilled(&mut log, b"head ", b"and tail");
    let behind = log.append(b"behind").unwrap();
    assert_eq!(handle.sync(before).unwrap(), before, "what is before it is synced, and no more");

    // A crash now leaves what is before.
    let now: Arc<dyn FileSystem> = Arc::new(simulation.copy());
    let (_, records) = open(&now, Lsn::START, small()).unwrap();
    assert_eq!(payloads(&records), [b"before"]);

    let (tell, told) = mpsc::channel();
    let waiting = handle.clone();
    let syncer = thread::spawn(move || tell.send(waiting.sync(record).unwrap()).unwrap());
    assert!(told.recv_timeout(Duration::from_millis(50)).is_err(), "the sync waits for the bytes");
    assert_eq!(handle.durable_lsn(), before);
    unfilled.fill(b"and tail").unwrap();
    assert_eq!(told.recv().unwrap(), behind);
    syncer.join().unwrap();
    let after: Arc<dyn FileSystem> = Arc::new(simulation.crash());
    let (_, records) = open(&after, Lsn::START, small()).unwrap();
    assert_eq!(payloads(&records), [&b"before"[..], b"head and tail", b"behind"]);
}

#[test]
fn a_segment_with_an_unfilled_record_is_not_complete() {
    let (simulation, files) = simulated(1);
    let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
    let (_, unfilled) = append_unfilled(&mut log, b"head", &[1; 300]);
    let next = log.reserve(300).unwrap().expect("the record needs another segment");
    let maker = thread::spawn(move || next.make().unwrap());
    thread::sleep(Duration::from_millis(20));
    assert_eq!(log.handle().durable_lsn(), Lsn::START);
    unfilled.fill(&[1; 300]).unwrap();
    maker.join().unwrap();
    let last = log.append(&[2; 300]).unwrap();
    log.handle().sync(last).unwrap();
    let after: Arc<dyn FileSystem> = Arc::new(simulation.crash());
    let (_, records) = open(&after, Lsn::START, small()).unwrap();
    assert_eq!(records.len(), 2);
}

#[test]
fn bytes_that_never_come_stop_the_log_and_wake_who_waits_for_them() {
    for fails in [false, true] {
        let (simulation, files) = simulated(1);
        let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
        let (record, unfilled) = append_unfilled(&mut log, b"head", b"tail");
        let waiting = log.handle();
        let syncer = thread::spawn(move || waiting.sync(record));
        if fails {
            simulation.fail_after(0, Fault::Io);
            unfilled.fill(b"tail").unwrap_err();
        } else {
            drop(unfilled);
        }
        assert!(matches!(syncer.join().unwrap(), Err(LogError::Stopped { .. })));
        let stopped = log.append(b"more").unwrap_err().to_string();
        let reason = if fails { "cannot write" } else { "the last bytes of a record were not written" };
        assert!(stopped.contains(reason), "{stopped}");
    }
}

/// Beside a crash at any moment: a record is there whole, or neither it nor what is behind it is.
#[test]
fn a_crash_leaves_an_unfilled_record_and_all_behind_it_away() {
    let mut lost = 0;
    for seed in 0..300 {
        let (simulation, files) = simulated(seed);
        let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
        let acknowledged = log.append(b"acknowledged").unwrap();
        log.handle().sync(acknowledged).unwrap();
        let (_, unfilled) = append_unfilled(&mut log, b"head", &[9; 100]);
        log.append(b"behind").unwrap();
        if seed % 2 == 0 {
            unfilled.fill(&[9; 100]).unwrap();
        } else {
            drop(unfilled);
        }
        let after: Arc<dyn FileSystem> = Arc::new(simulation.crash());
        let (_, records) = open(&after, Lsn::START, small()).unwrap();
        let whole = [b"head".as_slice(), &[9; 100]].concat();
        let all = [&b"acknowledged"[..], &whole, b"behind"];
        assert_eq!(payloads(&records), all[..records.len()], "seed {seed}");
        assert!(!records.is_empty() && (seed % 2 == 0 || records.len() == 1), "seed {seed}");
        lost += u32::from(records.len() < 3);
    }
    assert!(lost > 150, "{lost}");
}
