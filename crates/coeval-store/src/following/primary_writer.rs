// SPDX-License-Identifier: Apache-2.0
//! Making a directory of its own of a copy and of the log behind it: what a restore ends with.
//!
//! # Order of writes
//! As with a follower's copy (`copy_writer.rs`): while the marker is there the directory is opened by nobody. The log's records
//! are synced before the manifest is written, and the marker goes last. There is no marker of a follower: who opens the
//! directory writes it, and begins a term at the end of the log. That term is of a timeline of its own, as behind a promotion: the
//! directory has promised it to itself, before it can be opened. The database that the copy is of may be opened again and again,
//! and each time begins a term with a higher number; in its own timeline none of them comes behind this one.

use super::{CopyWriter, FileWriter};
use crate::catalog::CatalogChange;
use crate::error::StoreError;
use crate::log::{ChecksumPolicy, Log, LogOptions, LogRecord, Lsn, OpenError};
use crate::manifest::{Manifest, manifest_path};
use crate::promises::{KeptPromise, Promise, PromisedTo};
use crate::record::decode_definitions;
use crate::replicas::SynchronousReplicas;
use crate::terms::Timeline;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

/// Writes the log behind a copy of a database.
pub struct PrimaryWriter {
    copy: CopyWriter,
    manifest: Manifest,
    log: Log,
    /// As the manifest and the log so far say.
    required: Option<SynchronousReplicas>,
}

impl fmt::Debug for PrimaryWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrimaryWriter(at {})", self.position())
    }
}

impl PrimaryWriter {
    pub(super) fn begin(copy: CopyWriter, manifest: &[u8]) -> Result<Self, StoreError> {
        let manifest = Manifest::decode(manifest, &manifest_path(copy.dir()), ChecksumPolicy::Verified)?;
        let (position, dir) = (Lsn::new(manifest.log), copy.log_dir());
        Log::create_at(&**copy.files(), &dir, position)?;
        let mut nothing = |_, _: &[u8]| Ok::<(), Infallible>(());
        let options = LogOptions::default();
        let opened = Log::open_with(Arc::clone(copy.files()), &dir, position, options, &mut nothing);
        let log = opened.map_err(|error| match error {
            OpenError::Log(error) => StoreError::Log(error),
            OpenError::Replay { source, .. } => match source {},
        })?;
        let required = manifest.synchronous_replicas.clone();
        Ok(Self { copy, manifest, log, required })
    }

    /// The end of the log: [`append`](Self::append) goes on here.
    #[must_use]
    pub fn position(&self) -> Lsn {
        self.log.end_lsn()
    }

    /// Begins a file that a record to come names: it is finished before the record is appended.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if that is no name of a segment file; [`StoreError::File`].
    pub fn file(&self, name: &str) -> Result<FileWriter, StoreError> {
        self.copy.file(name)
    }

    /// Appends records that follow on, at the places that they had.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if they do not follow on; [`StoreError::Log`].
    ///
    /// # Panics
    /// If the log gives a record another place: a bug.
    pub fn append(&mut self, records: &[LogRecord]) -> Result<(), StoreError> {
        for record in records {
            if record.start() != self.position() {
                let what = format!("the next record begins at {}", record.start());
                return Err(StoreError::corrupt(&self.copy.log_dir(), self.position().get(), &what));
            }
            self.note_required(record)?;
            let end = self.log.append(&record.payload)?;
            assert_eq!(end, record.end, "records have their places in both logs");
        }
        Ok(())
    }

    /// Which replicas the commits of the database are going to wait for, as those of the one that it is a copy of.
    #[must_use]
    pub fn synchronous_replicas(&self) -> Option<&SynchronousReplicas> {
        self.required.as_ref()
    }

    fn note_required(&mut self, record: &LogRecord) -> Result<(), StoreError> {
        let changes = decode_definitions(&record.payload).map_err(|error| {
            StoreError::corrupt(&self.copy.log_dir(), record.start().get(), &error.to_string())
        })?;
        for change in changes {
            if let CatalogChange::PutSynchronousReplicas(required) = change {
                self.required = required;
            }
        }
        Ok(())
    }

    /// Completes the directory: from here on it can be opened, and goes on in this timeline, unless its log is in a higher one.
    /// Durable on return.
    ///
    /// # Errors
    /// [`StoreError::Log`], [`StoreError::File`].
    pub fn finish(self, timeline: Timeline) -> Result<(), StoreError> {
        self.log.handle().sync(self.log.end_lsn())?;
        let own = KeptPromise { promise: Promise::asked_for(timeline), to: PromisedTo::Itself };
        own.write(&**self.copy.files(), self.copy.dir())?;
        self.copy.complete(&self.manifest)
    }
}
