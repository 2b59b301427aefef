// SPDX-License-Identifier: Apache-2.0
//! A follower that goes through its own log: records are durable there before they are applied, and may be applied once more.
//!
//! A feed of changes gives out what a record did while it applies it, and somebody may rely on that at once. So the record is
//! in the own log before; and a feed that is begun again at an earlier place opens a world of that place, and goes on through
//! the log that it has.

use super::{FollowError, Follower};
use crate::error::StoreError;
use crate::log::{LogReader, LogRecord, Lsn};
use crate::recovery::ObserveReplay;
use crate::world::World;
use std::sync::Arc;

impl Follower {
    /// Has it go through its own log, from [`position`](Self::position) on.
    pub(super) fn go_through_own_log(&self) {
        self.shared.applied_end.begin(self.position);
    }

    /// The end of its log.
    pub(super) fn own_end(&self) -> Lsn {
        self.shared.pipeline.log().map_or(Lsn::START, |log| log.end_lsn())
    }

    /// Its own log from [`position`](Self::position) on.
    pub(super) fn own_log(&self) -> Result<LogReader, StoreError> {
        let log = self.shared.pipeline.log().ok_or(StoreError::NoDirectory)?;
        Ok(log.reader(self.position))
    }

    /// Takes records into its own log, durably, and applies none.
    ///
    /// # Errors
    /// [`FollowError::OutOfPlace`] if they do not follow on from the log's end, which is as before; those of the log.
    ///
    /// # Panics
    /// If the log gives a record another place than it says: a bug.
    pub(super) fn log_ahead(&self, records: &[LogRecord]) -> Result<(), FollowError> {
        let mut position = self.own_end();
        for record in records {
            if record.start() != position {
                return Err(FollowError::OutOfPlace { start: record.start(), position });
            }
            position = record.end;
        }
        let mut leader = self.shared.pipeline.lock_leader(&self.shared);
        let log = leader.log.as_mut().expect("a follower has a log");
        for record in records {
            let end = log.append(&record.payload).map_err(StoreError::from)?;
            assert_eq!(end, record.end, "records have their places in both logs");
        }
        drop(leader);
        let log = self.shared.pipeline.log().expect("a follower has a log");
        let publishing = &self.shared.pipeline.publishing;
        log.sync(position).map_err(|error| StoreError::Stopped(publishing.stop(error)))?;
        Ok(())
    }

    /// Applies records that its log has already, and shows them: they are published. The observer hears of each transaction.
    ///
    /// # Errors
    /// As [`take`](Self::take); [`FollowError::Observer`].
    pub(super) fn take_logged(
        &mut self,
        records: &[LogRecord],
        observer: Option<&mut dyn ObserveReplay>,
    ) -> Result<(), FollowError> {
        self.take_observed(records, observer)?;
        self.note_all_published();
        Ok(())
    }

    /// The world that has what its log has up to [`position`](Self::position).
    pub(super) fn world(&self) -> Arc<World> {
        self.shared.applied()
    }
}
