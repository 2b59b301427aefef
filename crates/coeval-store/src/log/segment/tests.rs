// SPDX-License-Identifier: Apache-2.0
//! A change of segment, step by step.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::files::{FileError, FileSystem, Lie, Operation};
use crate::log::tests::{log_dir, open, payloads, simulated, small};
use crate::log::{LogError, Lsn};

/// A sync on another thread fails while this one waits to change the segment: the system has reported the failure to that
/// thread, and this one's sync of the same file would succeed and prove nothing.
#[test]
fn a_change_of_segment_after_a_failed_sync_does_not_claim_durability() {
    let (_, files) = simulated(1);
    let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
    log.append(b"written, not durable").unwrap();
    let next = log.reserve(390).unwrap().expect("the record needs another segment");
    let failure = FileError::new(Operation::Sync, Path::new("/log/x"), io::Error::other("failed"));
    log.handle().stop(failure.into());
    assert!(matches!(next.make(), Err(LogError::Stopped { .. })));
    assert_eq!(log.handle().durable_lsn(), Lsn::START);
}

/// Who asks for room syncs nothing and waits for nothing: the change is made by whom it was given to, or by the next one
/// who asks if that one is gone; and what is appended meanwhile all the same is behind the change.
#[test]
fn a_segment_is_changed_by_whom_the_change_was_given_to_and_once() {
    let (simulation, files) = simulated(1);
    let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
    let handle = log.handle();
    let first = log.append(&[1; 300]).unwrap();
    let calls = simulation.call_count();
    drop(log.reserve(300).unwrap().expect("the record needs another segment"));
    let one = log.reserve(300).unwrap().expect("nobody has made it");
    let other = log.reserve(1).unwrap().expect("a small record waits as well: the segment ends here");
    assert_eq!(simulation.call_count(), calls, "asking for room is no call of the disk");
    assert_eq!(handle.durable_lsn(), Lsn::START);

    one.make().unwrap();
    assert_eq!(handle.durable_lsn(), first, "a segment with a successor is durable");
    assert_eq!(files.list(&log_dir()).unwrap().len(), 2);
    let calls = simulation.call_count();
    other.make().unwrap();
    assert_eq!(simulation.call_count(), calls, "it has been made");
    assert!(log.reserve(300).unwrap().is_none());

    log.append(&[2; 300]).unwrap();
    let next = log.reserve(300).unwrap().expect("the record needs another segment");
    // An append in spite of it makes the change itself.
    let last = log.append(&[3; 20]).unwrap();
    next.make().unwrap();
    handle.sync(last).unwrap();
    assert_eq!(files.list(&log_dir()).unwrap().len(), 3);
    let after: Arc<dyn FileSystem> = Arc::new(simulation.crash());
    drop(log);
    let (_, records) = open(&after, Lsn::START, small()).unwrap();
    assert_eq!(payloads(&records), [&[1; 300][..], &[2; 300], &[3; 20]]);
}

/// The name of the next segment says that this one is whole. A disk that says so and lies is seen.
#[test]
fn a_segment_gets_its_name_behind_the_sync_of_the_one_before() {
    let damaged = |lie: Option<Lie>| {
        (0..200_u64).filter(move |seed| {
            let (simulation, files) = simulated(*seed);
            let (mut log, _) = open(&files, Lsn::START, small()).unwrap();
            if let Some(lie) = lie {
                simulation.tell(lie);
            }
            for size in [300, 300, 300] {
                log.append(&vec![7; size]).unwrap();
            }
            let after: Arc<dyn FileSystem> = Arc::new(simulation.crash());
            open(&after, Lsn::START, small()).is_err()
        })
    };
    assert_eq!(damaged(None).count(), 0);
    assert!(damaged(Some(Lie::IgnoreSync)).count() > 20);
}
