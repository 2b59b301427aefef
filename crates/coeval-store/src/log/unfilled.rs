// SPDX-License-Identifier: Apache-2.0
//! A record that has its place in the log, and not yet its last bytes.

use std::sync::Arc;

use crate::files::File;
use crate::log::format::PayloadTail;
use crate::log::handle::Shared;
use crate::log::{LogError, Lsn};

/// The place of a record's last bytes. Others may append behind it; nothing from the record on becomes durable before they
/// are written, so a crash meanwhile leaves a torn tail. Dropped without them, it stops the log.
#[must_use = "the log waits for the bytes"]
pub(crate) struct Unfilled {
    shared: Arc<Shared>,
    file: Arc<dyn File>,
    /// Where the record begins in the log, and where its last bytes begin in the file.
    record: Lsn,
    offset: u64,
    tail: PayloadTail,
    is_filled: bool,
}

impl Unfilled {
    pub(crate) fn new(
        shared: Arc<Shared>,
        file: Arc<dyn File>,
        record: Lsn,
        offset: u64,
        tail: PayloadTail,
    ) -> Unfilled {
        Unfilled { shared, file, record, offset, tail, is_filled: false }
    }

    /// Writes the bytes.
    ///
    /// # Errors
    /// A failed write, which stops the log; [`LogError::Stopped`]. Nobody knows then whether the record is there after a
    /// restart.
    ///
    /// # Panics
    /// When they are not as many as were announced.
    pub(crate) fn fill(mut self, bytes: &[u8]) -> Result<(), LogError> {
        assert_eq!(bytes.len(), self.tail.bytes, "the bytes are those that were announced");
        self.shared.check_running()?;
        self.file.write_all_at(self.offset, bytes).map_err(|error| self.shared.stop(error))?;
        self.is_filled = true;
        Ok(())
    }
}

impl Drop for Unfilled {
    fn drop(&mut self) {
        if !self.is_filled {
            // A log that has stopped keeps its first reason.
            let text = "the last bytes of a record were not written".to_owned();
            self.shared.stop(LogError::Panicked { during: "while a record was written", text });
        }
        self.shared.written.lock().unfilled.remove(&self.record);
        self.shared.filled.notify_all();
    }
}

#[cfg(test)]
mod tests;
