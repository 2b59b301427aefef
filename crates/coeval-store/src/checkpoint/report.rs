// SPDX-License-Identifier: Apache-2.0
//! What a checkpoint has done.

use std::time::Duration;

/// What a checkpoint has done. All zero: there was nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointReport {
    /// From beginning to end.
    pub duration: Duration,
    /// The longest time that commits were held up.
    pub longest_pause: Duration,
    /// Tables and indexes that got new chunks.
    pub spaces: usize,
    /// New chunks.
    pub chunks_written: usize,
    /// Chunks that stayed as they were.
    pub chunks_kept: usize,
    /// Rows and index entries in new chunks.
    pub rows: u64,
    /// Bytes written to segment files and the manifest.
    pub bytes_written: u64,
    /// Segment files that nothing needs any more.
    pub segments_removed: usize,
    /// Files of the log that the manifest has made superfluous.
    pub log_segments_removed: usize,
}

/// How long a checkpoint may hold the leader's lock before it is worth a line in the trace.
const LONG_PAUSE: Duration = Duration::from_millis(10);

impl CheckpointReport {
    /// Notes that commits were held up for so long.
    pub(super) fn note_pause(&mut self, pause: Duration) {
        if pause > LONG_PAUSE {
            tracing::info!(pause_ms = pause.as_millis(), "a checkpoint held commits up");
        }
        self.longest_pause = self.longest_pause.max(pause);
    }
}
