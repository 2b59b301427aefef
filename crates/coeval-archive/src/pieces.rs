// SPDX-License-Identifier: Apache-2.0
//! Files in an archive: pieces that are named by what they contain.
//!
//! So equal contents are sent once, whatever file of whatever history they belong to, and a backup that failed goes on where it
//! was. Pieces are small enough to be held in memory, and to be put in one request that overwrites nothing.

use crate::archive::{Archive, Put};
use crate::error::ArchiveError;
use crate::names;
use bytes::Bytes;
use coeval_store::{CopiedFile, FileWriter};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::thread::Builder;

/// The longest piece.
pub(crate) const PIECE_BYTES: usize = 16 << 20;

/// Pieces that are worked on at once, each by a thread: one is checked while another is put or synced, and a storage that is far away
/// is asked for several. As many are in memory.
pub(crate) const PIECES_AT_ONCE: usize = 4;

/// Does the work for each of these, at the same time. The results are in their order.
pub(crate) fn at_once<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let Some((first, others)) = items.split_first() else { return Vec::new() };
    std::thread::scope(|scope| {
        let work = &work;
        let begin = |item| Builder::new().spawn_scoped(scope, move || work(item)).map_err(|_| item);
        let others: Vec<_> = others.iter().map(begin).collect();
        // The caller has a thread, too, and does what no other is to be had for.
        let first = work(first);
        let others = others.into_iter().map(|begun| match begun {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(item) => work(item),
        });
        std::iter::once(first).chain(others).collect()
    })
}

/// A piece: its SHA-256 in hexadecimal digits, and its length.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(String, u64)", into = "(String, u64)")]
pub(crate) struct Piece {
    pub(crate) sha256: String,
    pub(crate) bytes: u64,
}

impl From<(String, u64)> for Piece {
    fn from((sha256, bytes): (String, u64)) -> Self {
        Self { sha256, bytes }
    }
}

impl From<Piece> for (String, u64) {
    fn from(piece: Piece) -> Self {
        (piece.sha256, piece.bytes)
    }
}

impl Piece {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        use std::fmt::Write;
        let mut sha256 = String::with_capacity(64);
        for byte in digest(&SHA256, bytes).as_ref() {
            write!(sha256, "{byte:02x}").expect("a text takes what it is given");
        }
        Self { sha256, bytes: bytes.len() as u64 }
    }

    pub(crate) fn name(&self) -> String {
        names::piece(&self.sha256)
    }

    /// What an object with this name and length is called in a listing.
    pub(crate) fn listed(&self) -> (String, u64) {
        (self.name(), self.bytes)
    }

    /// Whether these are its contents.
    ///
    /// # Errors
    /// [`ArchiveError::Damaged`].
    pub(crate) fn check(&self, bytes: &[u8]) -> Result<(), ArchiveError> {
        if Self::of(bytes) == *self {
            return Ok(());
        }
        let what = format!("{} bytes that do not fit the checksum", bytes.len());
        Err(ArchiveError::Damaged { object: self.name(), what })
    }

    /// Its contents.
    ///
    /// # Errors
    /// [`ArchiveError::Damaged`], [`ArchiveError::Missing`], those of the storage.
    pub(crate) fn fetch(&self, archive: &Archive) -> Result<Bytes, ArchiveError> {
        let bytes = archive.fetch(&self.name())?;
        self.check(&bytes)?;
        Ok(bytes)
    }
}

/// A file of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArchivedFile {
    pub(crate) name: String,
    pub(crate) pieces: Vec<Piece>,
}

impl ArchivedFile {
    /// Reads a file to find its pieces.
    pub(crate) fn of(name: &str, file: &mut CopiedFile) -> Result<Self, ArchiveError> {
        file.rewind();
        let mut pieces = Vec::new();
        loop {
            let mut read = Vec::new();
            while read.len() < PIECES_AT_ONCE {
                let bytes = file.read(PIECE_BYTES)?;
                if bytes.is_empty() {
                    break;
                }
                read.push(bytes);
            }
            if read.is_empty() {
                return Ok(Self { name: name.to_owned(), pieces });
            }
            pieces.extend(at_once(&read, |bytes| Piece::of(bytes)));
        }
    }

    /// Writes it where it is wanted, and completes it there. Returns its bytes.
    ///
    /// # Errors
    /// [`ArchiveError::Damaged`], [`ArchiveError::Missing`], those of the storage and of who writes.
    pub(crate) fn write_to(&self, archive: &Archive, mut to: FileWriter) -> Result<u64, ArchiveError> {
        for pieces in self.pieces.chunks(PIECES_AT_ONCE) {
            for bytes in at_once(pieces, |piece| piece.fetch(archive)) {
                to.write(&bytes?)?;
            }
        }
        to.finish()?;
        Ok(self.bytes())
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }

    /// Sends the pieces that are not there, and notes them as there. Returns how many bytes that were.
    pub(crate) fn send(
        &self,
        archive: &Archive,
        file: &mut CopiedFile,
        there: &mut BTreeSet<(String, u64)>,
    ) -> Result<u64, ArchiveError> {
        if self.pieces.iter().all(|piece| there.contains(&piece.listed())) {
            return Ok(0);
        }
        file.rewind();
        let mut sent = 0;
        for pieces in self.pieces.chunks(PIECES_AT_ONCE) {
            let mut missing = Vec::new();
            for piece in pieces {
                let bytes = file.read(PIECE_BYTES)?;
                assert_eq!(bytes.len() as u64, piece.bytes, "files of segments never change");
                if !there.contains(&piece.listed()) {
                    missing.push((piece, Bytes::from(bytes)));
                }
            }
            let put = at_once(&missing, |(piece, bytes)| {
                piece.check(bytes)?;
                archive.put_new(&piece.name(), bytes.clone())
            });
            for ((piece, _), put) in missing.iter().zip(put) {
                if put? == Put::New {
                    sent += piece.bytes;
                }
                there.insert(piece.listed());
            }
        }
        Ok(sent)
    }
}
