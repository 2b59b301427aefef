// SPDX-License-Identifier: Apache-2.0
//! A log that is cut off has the records before the place, and what was copied aside has those behind it.

use std::path::Path;
use std::sync::Arc;

use super::{copy_between, cut};
use crate::files::{Fault, FileSystem, SimulatedFiles};
use crate::log::tests::{Replayed, log_dir, open, payloads, simulated, small};
use crate::log::{Log, Lsn, read};

const ASIDE: &str = "/aside";

/// A closed log of several segments, the end of which is noted, and the ends of its records.
fn closed(seed: u64) -> (SimulatedFiles, Vec<Lsn>) {
    let (simulation, files) = simulated(seed);
    let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
    let ends: Vec<Lsn> = (0..12_u8).map(|n| log.append(&[n; 90]).unwrap()).collect();
    let handle = log.handle();
    handle.sync(log.end_lsn()).unwrap();
    handle.note_end().unwrap();
    drop(log);
    (simulation.copy(), ends)
}

fn shared(files: &SimulatedFiles) -> Arc<dyn FileSystem> {
    Arc::new(files.clone())
}

fn opened(files: &SimulatedFiles) -> (Log, Replayed) {
    open(&shared(files), Lsn::START, small()).unwrap()
}

fn aside(files: &SimulatedFiles, from: Lsn) -> Vec<u8> {
    let mut first_bytes = Vec::new();
    let mut take = |_: Lsn, payload: &[u8]| {
        first_bytes.push(payload[0]);
        Ok::<_, String>(())
    };
    read(files, Path::new(ASIDE), from, &mut take).unwrap();
    first_bytes
}

#[test]
fn a_log_is_cut_off_at_any_border_and_goes_on_there() {
    let (before, ends) = closed(1);
    let last = *ends.last().unwrap();
    for (kept, at) in std::iter::once(Lsn::START).chain(ends).enumerate() {
        let files = before.copy();
        files.create_dir_all(Path::new(ASIDE)).unwrap();
        copy_between(&files, &log_dir(), (at, last), Path::new(ASIDE)).unwrap();
        if at < last {
            let behind: Vec<u8> = (u8::try_from(kept).unwrap()..12).collect();
            assert_eq!(aside(&files, at), behind);
        }
        cut(&files, &log_dir(), at).unwrap();
        // Once more, as behind a crash.
        cut(&files, &log_dir(), at).unwrap();
        let files = files.crash();
        let (mut log, records) = opened(&files);
        let first_bytes: Vec<usize> =
            payloads(&records).iter().map(|payload| usize::from(payload[0])).collect();
        assert_eq!(first_bytes, (0..kept).collect::<Vec<_>>());
        assert_eq!(log.end_lsn(), at);
        let end = log.append(&[77; 90]).unwrap();
        log.handle().sync(end).unwrap();
        drop(log);
        let (_, records) = opened(&files.crash());
        assert_eq!((records.len(), records.last().unwrap().1[0]), (kept + 1, 77));
    }
}

/// Whatever call fails, and whatever of it a crash leaves: it is done again, and the log is what it is to be.
#[test]
fn a_cut_that_fails_or_ends_anywhere_is_done_again() {
    let (before, ends) = closed(2);
    let at = ends[2];
    for calls in 0.. {
        let files = before.copy();
        files.fail_after(calls, Fault::Io);
        let outcome = cut(&files, &log_dir(), at);
        let files = files.crash();
        cut(&files, &log_dir(), at).unwrap();
        let (log, records) = opened(&files);
        assert_eq!((log.end_lsn(), records.len()), (at, 3), "call {calls}");
        if outcome.is_ok() {
            assert!(calls > 6, "it makes calls");
            break;
        }
    }
}

#[test]
fn what_the_log_does_not_have_is_neither_cut_nor_copied() {
    let (files, ends) = closed(3);
    let (last, beyond) = (*ends.last().unwrap(), Lsn::new(1 << 20));
    assert!(cut(&files, &log_dir(), beyond).is_err());
    files.create_dir_all(Path::new(ASIDE)).unwrap();
    assert!(copy_between(&files, &log_dir(), (last, beyond), Path::new(ASIDE)).is_err());
    let (log, records) = opened(&files);
    assert_eq!((log.end_lsn(), records.len()), (last, 12));
}
