// SPDX-License-Identifier: Apache-2.0
//! What is kept of the log, noted in the directory.

use super::Shared;
use crate::error::StoreError;
use crate::kept_log::KeptLog;
use coeval_txn::Version;

impl Shared {
    /// Notes in the directory what is kept of the log; `through` is the newest version that there may be of a
    /// bulk load whose fate is not known here. What was left and is too much by now is let go of first.
    ///
    /// # Errors
    /// [`StoreError::File`]; what was noted before is there then.
    pub(crate) fn note_kept_log(&self, through: Version) -> Result<(), StoreError> {
        let Some((disk, log)) = self.disk.as_ref().zip(self.pipeline.log()) else { return Ok(()) };
        // Looked at and written by one at a time: what is newer is not replaced by what is older.
        let _turn = disk.noting_turn();
        if let Some(from) = self.retention.let_go_of_too_much(log.end_lsn()) {
            tracing::warn!(%from, "more log is kept for an archive or a slot than may be: it is let go of");
        }
        let (files, dir) = (&**disk.files(), disk.dir());
        let (kept, slots) = (self.retention.kept(), self.retention.slots());
        let places = self.retention.earlier_places();
        if kept.is_none() && slots.is_empty() && places.is_empty() {
            return Ok(KeptLog::remove(files, dir)?);
        }
        let loads = disk.loads_behind(self.retention.loads_through(through), through);
        Ok(KeptLog { kept, slots, places, loads }.write(files, dir)?)
    }
}
