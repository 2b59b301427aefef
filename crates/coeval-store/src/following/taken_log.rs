// SPDX-License-Identifier: Apache-2.0
//! The part of a follower's log that was taken up to a moment.

use crate::error::StoreError;
use crate::log::Lsn;
use crate::shared::Shared;
use std::fmt;
use std::sync::Arc;

/// What a [`Follower`](super::Follower) had taken at a moment. It can be made durable by any thread, while the follower takes more.
pub struct TakenLog {
    pub(super) shared: Arc<Shared>,
    pub(super) end: Lsn,
}

impl fmt::Debug for TakenLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TakenLog(to {})", self.end)
    }
}

impl TakenLog {
    /// Makes it durable, and returns up to where the log is, which may be further.
    ///
    /// # Errors
    /// [`StoreError::Stopped`]: the follower takes no further record.
    ///
    /// # Panics
    /// Never: a follower has a log.
    ///
    /// Cost: one sync of the log's last segment, or nothing if it is durable already.
    pub fn sync(&self) -> Result<Lsn, StoreError> {
        let log = self.shared.pipeline.log().expect("a follower has a log");
        let publishing = &self.shared.pipeline.publishing;
        let durable = log.sync(self.end).map_err(|error| StoreError::Stopped(publishing.stop(error)))?;
        publishing.note_durable();
        Ok(durable)
    }
}
