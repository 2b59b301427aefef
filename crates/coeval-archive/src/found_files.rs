// SPDX-License-Identifier: Apache-2.0
//! Files of a database on their way into an archive: read once to find their pieces, and once more to send those that are not there.
//!
//! A piece is read from its own place in the file, so several are read, summed up, put and synced at once, whichever files they are of.

use crate::archive::{Archive, Put};
use crate::error::ArchiveError;
use crate::pieces::{ArchivedFile, PIECE_BYTES, Piece, each_at_once};
use bytes::Bytes;
use coeval_store::CopiedFile;
use crc32c::{crc32c, crc32c_append};
use ring::digest::{Context, SHA256};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that are read at once to find a piece: so few that they are in a processor's cache while they are summed up.
const READ_BYTES: usize = 256 << 10;

/// A file that was read to find its pieces. It never changes.
#[derive(Debug)]
pub(crate) struct FoundFile {
    pub(crate) file: ArchivedFile,
    /// The CRC-32C of each piece. By it what is read again, to be sent, is known to be what the piece is named by: this is about faults of
    /// memory and disks, and costs a small part of another SHA-256. Who fetches a piece goes by that.
    pub(crate) checks: Vec<u32>,
}

impl FoundFile {
    /// Reads files, given with their names. `look` hears of the bytes of each piece, and may end it.
    ///
    /// # Errors
    /// [`StoreError::File`](coeval_store::StoreError::File) in [`ArchiveError::Store`]; that of `look`.
    pub(crate) fn find(
        files: &[(&str, &CopiedFile)],
        look: &mut dyn FnMut(u64) -> Result<(), ArchiveError>,
    ) -> Result<Vec<Self>, ArchiveError> {
        Self::find_by(files, PIECE_BYTES, look)
    }

    /// The same with pieces of so many bytes.
    pub(crate) fn find_by(
        files: &[(&str, &CopiedFile)],
        piece_bytes: usize,
        look: &mut dyn FnMut(u64) -> Result<(), ArchiveError>,
    ) -> Result<Vec<Self>, ArchiveError> {
        let mut places = Vec::new();
        for (file, (_, contents)) in files.iter().enumerate() {
            places.extend((0..contents.length()).step_by(piece_bytes).map(|offset| (file, offset)));
        }
        let read = |place: &(usize, u64)| {
            let (file, offset) = *place;
            read_piece(files[file].1, offset, piece_bytes)
        };
        let mut found = BTreeMap::new();
        each_at_once(&places, read, &mut |place, piece: (Piece, u32)| {
            let bytes = piece.0.bytes;
            found.insert(*place, piece);
            look(bytes)
        })?;
        let of_name = |(name, _): &(&str, &CopiedFile)| Self {
            file: ArchivedFile { name: (*name).to_owned(), pieces: Vec::new() },
            checks: Vec::new(),
        };
        let mut all: Vec<_> = files.iter().map(of_name).collect();
        // In the order of the places.
        for ((file, _), (piece, check)) in found {
            all[file].file.pieces.push(piece);
            all[file].checks.push(check);
        }
        Ok(all)
    }

    /// Whether none of its pieces is to be sent.
    pub(crate) fn is_in(&self, there: &BTreeSet<(String, u64)>) -> bool {
        self.file.pieces.iter().all(|piece| there.contains(&piece.listed()))
    }

    /// Sends the pieces of files that are not there, and notes them as there. `look` hears of how many bytes more are there, and how many
    /// of these were sent, and may end it.
    ///
    /// # Errors
    /// [`ArchiveError::Damaged`] if a file has other bytes than when it was read before; those of the storage and of the files; that of
    /// `look`.
    pub(crate) fn send(
        archive: &Archive,
        files: &[(&Self, &CopiedFile)],
        there: &mut BTreeSet<(String, u64)>,
        look: &mut dyn FnMut(u64, u64) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        let (mut missing, mut bytes_there) = (Vec::new(), 0);
        for &(found, contents) in files {
            let mut offset = 0;
            for (piece, check) in found.file.pieces.iter().zip(&found.checks) {
                if there.insert(piece.listed()) {
                    missing.push(MissingPiece { piece, check: *check, contents, offset });
                } else {
                    bytes_there += piece.bytes;
                }
                offset += piece.bytes;
            }
        }
        look(bytes_there, 0)?;
        let put = |missing: &MissingPiece<'_>| -> Result<Put, ArchiveError> {
            archive.put_new(&missing.piece.name(), missing.read()?)
        };
        each_at_once(&missing, put, &mut |missing, put: Put| {
            let bytes = missing.piece.bytes;
            look(bytes, if put == Put::New { bytes } else { 0 })
        })
    }
}

/// The piece that begins there, and its CRC-32C.
fn read_piece(file: &CopiedFile, offset: u64, piece_bytes: usize) -> Result<(Piece, u32), ArchiveError> {
    let length = (file.length() - offset).min(piece_bytes as u64);
    let (mut sha256, mut check) = (Context::new(&SHA256), 0);
    let (mut buffer, end) = (vec![0_u8; READ_BYTES.min(piece_bytes)], offset + length);
    let mut position = offset;
    while position < end {
        let count = usize::try_from(end - position).map_or(buffer.len(), |left| left.min(buffer.len()));
        let bytes = &mut buffer[..count];
        file.read_at(position, bytes)?;
        sha256.update(bytes);
        check = crc32c_append(check, bytes);
        position += count as u64;
    }
    Ok((Piece::of_digest(&sha256.finish(), length), check))
}

/// A piece that is to be sent.
struct MissingPiece<'f> {
    piece: &'f Piece,
    check: u32,
    contents: &'f CopiedFile,
    offset: u64,
}

impl MissingPiece<'_> {
    /// Its bytes, if they are those that it is named by.
    fn read(&self) -> Result<Bytes, ArchiveError> {
        let mut bytes = vec![0; usize::try_from(self.piece.bytes).expect("pieces fit into memory")];
        self.contents.read_at(self.offset, &mut bytes)?;
        if crc32c(&bytes) == self.check {
            return Ok(bytes.into());
        }
        let what = format!("the file has {} other bytes than when it was read before", bytes.len());
        Err(ArchiveError::Damaged { object: self.piece.name(), what })
    }
}
