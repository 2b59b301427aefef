// SPDX-License-Identifier: Apache-2.0
//! The directory of a store: its files, its lock, the numbers of its segment files.

use crate::bulk::BulkLoad;
use crate::error::StoreError;
use crate::files::{DirectoryLock, FileSystem};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An open, locked directory.
#[derive(Debug)]
pub(crate) struct Disk {
    files: Arc<dyn FileSystem>,
    dir: PathBuf,
    _lock: DirectoryLock,
    next_segment: AtomicU64,
}

impl Disk {
    pub(crate) fn new(
        files: Arc<dyn FileSystem>,
        dir: PathBuf,
        lock: DirectoryLock,
        next_segment: u64,
    ) -> Self {
        Self { files, dir, _lock: lock, next_segment: AtomicU64::new(next_segment) }
    }

    pub(crate) fn files(&self) -> &Arc<dyn FileSystem> {
        &self.files
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// A number that no segment file of this directory has had.
    pub(crate) fn new_segment(&self) -> u64 {
        self.next_segment.fetch_add(1, Ordering::Relaxed)
    }

    /// Writes the chunks of bulk loads to segment files, durably, so that the log can refer to them.
    pub(crate) fn write_loads(&self, loads: &[BulkLoad]) -> Result<(), StoreError> {
        let chunks: Vec<_> = loads
            .iter()
            .flat_map(|load| load.chunks().iter().chain(load.indexes().iter().flatten()))
            .filter(|chunk| chunk.place().is_none())
            .cloned()
            .collect();
        if chunks.is_empty() { Ok(()) } else { crate::segment::write_segment(self, &chunks) }
    }
}
