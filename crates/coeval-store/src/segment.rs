// SPDX-License-Identifier: Apache-2.0
//! Segment files: chunks as Arrow IPC, read back by mmap.

use crate::chunk::Chunk;
use crate::disk::Disk;
use crate::error::StoreError;
use std::sync::Arc;

/// Writes these chunks into a new segment file, durably, and tells each its place.
pub(crate) fn write_segment(disk: &Disk, chunks: &[Arc<Chunk>]) -> Result<(), StoreError> {
    let _ = (disk.new_segment(), disk.files(), disk.dir(), chunks);
    Err(StoreError::Stopped("segments are written by the next commit".to_owned()))
}
