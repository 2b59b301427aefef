// SPDX-License-Identifier: Apache-2.0
//! What a backup is: one object, written last, that names all pieces of a checkpoint.

use crate::archive::Archive;
use crate::error::ArchiveError;
use crate::names::BackupName;
use crate::pieces::{ArchivedFile, Piece};
use crate::sealed::{seal, unseal};
use crate::spread_rows::ArchivedSpread;
use bytes::Bytes;
use coeval_store::log::Lsn;
use coeval_store::{CopyWriter, LogTime};
use coeval_txn::Version;
use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BackupEntry {
    pub(crate) database: u64,
    /// The term in which it was made.
    pub(crate) term: u64,
    /// It has what the log has up to here.
    pub(crate) position: u64,
    pub(crate) version: u64,
    /// The last time that the log has up to there.
    pub(crate) time: u64,
    /// When it was made, by the clock of the machine.
    pub(crate) made: u64,
    /// Up to here the log was archived with it.
    pub(crate) log_end: u64,
    pub(crate) manifest: Vec<Piece>,
    pub(crate) files: Vec<ArchivedFile>,
    /// Whether it was made by itself, and no archiver sends the log behind it: that none is there then is no loss. An older program does
    /// not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) is_alone: Option<bool>,
    /// The rows of tables that are spread over a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) spread: Option<ArchivedSpread>,
    /// The names of such tables whose rows it does not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) left_out: Vec<String>,
}

impl BackupEntry {
    pub(crate) fn name(&self) -> BackupName {
        let spread = self.spread.as_ref().map(ArchivedSpread::taken);
        BackupName { position: self.position(), term: self.term, spread }
    }

    pub(crate) fn position(&self) -> Lsn {
        Lsn::new(self.position)
    }

    pub(crate) fn version(&self) -> Version {
        Version::new(self.version)
    }

    pub(crate) fn time(&self) -> LogTime {
        LogTime::from_micros(self.time)
    }

    /// Everything that it names.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        let of_files = self.files.iter().flat_map(|file| &file.pieces);
        self.manifest.iter().chain(of_files).chain(self.spread.iter().flat_map(ArchivedSpread::pieces))
    }

    /// Writes its files into a copy, and returns the manifest that completes it. `written` hears of each file's bytes.
    ///
    /// # Errors
    /// [`ArchiveError::Damaged`], [`ArchiveError::Missing`], those of the storage and of the copy.
    pub(crate) fn fetch_into(
        &self,
        archive: &Archive,
        copy: &CopyWriter,
        written: &mut dyn FnMut(u64),
    ) -> Result<Vec<u8>, ArchiveError> {
        for file in &self.files {
            written(file.write_to(archive, copy.file(&file.name)?)?);
        }
        let mut manifest = Vec::new();
        for piece in &self.manifest {
            manifest.extend_from_slice(&piece.fetch(archive)?);
        }
        Ok(manifest)
    }

    pub(crate) fn seal(&self) -> Bytes {
        seal(self, &[])
    }

    /// # Errors
    /// [`ArchiveError::Damaged`], [`ArchiveError::Missing`], those of the storage.
    pub(crate) fn fetch(archive: &Archive, name: BackupName) -> Result<Self, ArchiveError> {
        let object = name.name();
        let (entry, _) = unseal::<Self>(&object, &archive.fetch(&object)?)?;
        if entry.name() != name {
            return Err(ArchiveError::Damaged { object, what: "it is another backup".to_owned() });
        }
        Ok(entry)
    }
}
