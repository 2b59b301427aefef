// SPDX-License-Identifier: Apache-2.0
//! The store's log as sequences need it.

use super::Shared;
use crate::commit_context::CommitContext;
use crate::error::StoreError;
use crate::ids::SequenceId;
use crate::log::Lsn;
use crate::pipeline::Leader;
use crate::record::{SEQUENCE_BYTES, encode_sequence};
use crate::sequence::SequenceLog;

impl SequenceLog for Shared {
    fn append(&self, id: SequenceId, resume: Option<i64>) -> Result<Option<Lsn>, StoreError> {
        let mut leader = self.pipeline.lock_leader_to_append(self, SEQUENCE_BYTES)?;
        append_sequence(&mut leader, id, resume)
    }

    fn try_append(&self, id: SequenceId, resume: Option<i64>) -> Option<Result<Option<Lsn>, StoreError>> {
        let mut leader = self.pipeline.try_lock_leader()?;
        // If a new segment of the log has to be made first, that is done without the lock.
        let next = leader.log.as_mut().map_or(Ok(None), |log| log.reserve(SEQUENCE_BYTES));
        if matches!(next, Ok(Some(_))) {
            return None;
        }
        Some(append_sequence(&mut leader, id, resume))
    }

    fn is_durable(&self, lsn: Lsn) -> bool {
        self.pipeline.log().is_none_or(|log| log.durable_lsn() >= lsn)
    }

    fn sync(&self, lsn: Lsn) -> Result<(), StoreError> {
        let Some(log) = self.pipeline.log() else { return Ok(()) };
        CommitContext::aside(self, || log.sync(lsn))?;
        Ok(())
    }

    fn aside(&self, wait: &mut dyn FnMut()) {
        CommitContext::aside(self, wait);
    }
}

fn append_sequence(
    leader: &mut Leader,
    id: SequenceId,
    resume: Option<i64>,
) -> Result<Option<Lsn>, StoreError> {
    let Some(log) = &mut leader.log else { return Ok(None) };
    Ok(Some(log.append_with(|out| encode_sequence(id, resume, out))?))
}
