// SPDX-License-Identifier: Apache-2.0
//! A copy of an open database, for a follower to begin with.
//!
//! It is the newest checkpoint: its manifest, and the files that this names. They never change, and are kept for as long as
//! the copy lasts, as is the log from the manifest's place on. So the copy is read while commits and checkpoints go on.

use super::LogFeed;
use crate::clock::LogTime;
use crate::error::StoreError;
use crate::files::ReadFile;
use crate::log::Lsn;
use crate::manifest::{Manifest, manifest_path};
use crate::retention::Hold;
use crate::segment::{SEGMENT_DIR, round_path, segment_path};
use crate::shared::Shared;
use coeval_txn::Version;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A checkpoint of an open database, held for whoever copies it.
pub struct BaseCopy {
    shared: Arc<Shared>,
    manifest: Vec<u8>,
    position: Lsn,
    version: Version,
    time: LogTime,
    files: Vec<String>,
    hold: Hold,
}

impl fmt::Debug for BaseCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BaseCopy(at {}, {} files)", self.position, self.files.len())
    }
}

impl BaseCopy {
    /// Holds the newest checkpoint; waits for one that is under way.
    pub(crate) fn begin(shared: &Arc<Shared>) -> Result<Self, StoreError> {
        let disk = shared.disk.as_ref().ok_or(StoreError::NoDirectory)?;
        // A copy without the term of its primary would be one of a history that nobody knows.
        shared.pipeline.log_term(shared)?;
        let _turn = shared.checkpoints.turn();
        let path = manifest_path(disk.dir());
        let bytes = disk.files().read(&path)?;
        let manifest = Manifest::decode(&bytes, &path, disk.checksums())?;
        let position = Lsn::new(manifest.log);
        let version = Version::new(manifest.version);
        let hold = shared.retention.hold(position, version, manifest.files().collect());
        let rounds = manifest.tables.iter().flat_map(|table| &table.bricks).flat_map(|bricks| &bricks.rounds);
        let rounds = rounds.map(|entry| round_path(Path::new(""), entry.number));
        let segments = manifest.segments.iter().map(|entry| segment_path(Path::new(""), entry.number));
        let name = |path: std::path::PathBuf| {
            path.file_name()
                .and_then(|name| name.to_str())
                .expect("names of segment files are digits")
                .to_owned()
        };
        let files = segments.chain(rounds).map(name).collect();
        let time = LogTime::from_micros(manifest.time);
        Ok(Self { shared: Arc::clone(shared), manifest: bytes, position, version, time, files, hold })
    }

    /// The manifest's bytes, for [`CopyWriter::finish`](super::CopyWriter::finish).
    #[must_use]
    pub fn manifest(&self) -> &[u8] {
        &self.manifest
    }

    /// The names of the files.
    #[must_use]
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// Opens one of them.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn open(&self, name: &str) -> Result<CopiedFile, StoreError> {
        CopiedFile::open(&self.shared, name)
    }

    /// Where the log begins that belongs to it.
    #[must_use]
    pub fn position(&self) -> Lsn {
        self.position
    }

    /// The version of its world.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The last time that the log has before [`position`](Self::position): the copy has nothing of later.
    #[must_use]
    pub fn time(&self) -> LogTime {
        self.time
    }

    /// The log behind it. What the copy holds stays held.
    ///
    /// # Errors
    /// [`StoreError::NoDirectory`].
    pub fn into_feed(self) -> Result<LogFeed, StoreError> {
        LogFeed::new(self.shared, self.position, self.hold)
    }
}

/// A segment file that is being copied.
pub struct CopiedFile {
    file: Arc<dyn ReadFile>,
    length: u64,
    offset: u64,
}

impl fmt::Debug for CopiedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CopiedFile({} of {} bytes)", self.offset, self.length)
    }
}

impl CopiedFile {
    pub(super) fn open(shared: &Shared, name: &str) -> Result<Self, StoreError> {
        let disk = shared.disk.as_ref().ok_or(StoreError::NoDirectory)?;
        let file = disk.files().open_to_read(&disk.dir().join(SEGMENT_DIR).join(name))?;
        let length = file.len()?;
        Ok(Self { file, length, offset: 0 })
    }

    /// How long it is.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Its bytes from a place on, as many as there is room for. What is [read](Self::read) next stays the same.
    ///
    /// # Errors
    /// [`StoreError::File`], also if it ends before.
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), StoreError> {
        Ok(self.file.read_exact_at(offset, bytes)?)
    }

    /// The next bytes, at most so many; none at the end.
    ///
    /// # Errors
    /// [`StoreError::File`].
    ///
    /// # Panics
    /// Never: no more than a `usize` is asked for.
    pub fn read(&mut self, bytes_max: usize) -> Result<Vec<u8>, StoreError> {
        let count = (self.length - self.offset).min(bytes_max as u64);
        let mut bytes = vec![0; usize::try_from(count).expect("at most a usize was asked for")];
        self.file.read_exact_at(self.offset, &mut bytes)?;
        self.offset += count;
        Ok(bytes)
    }
}
