// SPDX-License-Identifier: Apache-2.0
//! Tests of steps that only the appender itself can call.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::files::{FileError, Operation, SimulatedFiles};
use crate::log::{Log, LogError, Lsn};

/// A sync on another thread fails while the appender waits to change the segment: the system has reported the
/// failure to that thread, and the appender's own sync of the same file would succeed and prove nothing.
#[test]
fn a_change_of_segment_after_a_failed_sync_does_not_claim_durability() {
    let files = Arc::new(SimulatedFiles::new(1));
    let mut nothing = |_: Lsn, _: &[u8]| Err("a new log has no records");
    let mut log = Log::open(files, Path::new("/log"), Lsn::START, &mut nothing).unwrap();
    log.append(b"written, not durable").unwrap();
    let failure = FileError::new(Operation::Sync, Path::new("/log/x"), io::Error::other("failed"));
    log.shared.stop(failure);
    assert!(matches!(log.change_segment(), Err(LogError::Stopped { .. })));
    assert_eq!(log.handle().durable_lsn(), Lsn::START);
}
