// SPDX-License-Identifier: Apache-2.0
//! How far a log was durable when it was closed, noted beside its segments: the file `end`.
//!
//! Headers attest what lies before them, in the same files. So a log whose last segment is gone, or was cut off at the border
//! of a record, looks like a shorter one that is whole. What this file says stays true for ever, as a log only grows: a log
//! that ends before it has lost something. So it may be old, and need not be there; nothing waits for it but a close. (A log that is
//! cut on purpose loses the file first: `log/cutting.rs`.)
//!
//! | bytes | field | value |
//! |---|---|---|
//! | 0..8 | magic | `COEVALED` |
//! | 8..12 | version | 1 |
//! | 12..16 | checksum | CRC32C of bytes 0..12 and 16..32 |
//! | 16..24 | segment | the first LSN of the last segment |
//! | 24..32 | end | the LSN up to which the log was durable |
//!
//! Numbers are little-endian.

use std::path::{Path, PathBuf};

use crc32c::{crc32c, crc32c_append};

use crate::files::{FileError, FileSystem, replace_file};
use crate::log::{ChecksumPolicy, Damage, LogError, Lsn};

const FILE_NAME: &str = "end";
const MAGIC: [u8; 8] = *b"COEVALED";
const FORMAT_VERSION: u32 = 1;
const BYTES: usize = 32;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndNote {
    /// Where the last segment started.
    pub(crate) segment: Lsn,
    /// Up to here the log was durable.
    pub(crate) end: Lsn,
}

impl EndNote {
    /// Puts it in the place of the one before; durable on return.
    ///
    /// # Errors
    /// Those of the file layer; the directory has the old one or this one.
    pub(crate) fn write(self, files: &dyn FileSystem, dir: &Path) -> Result<(), FileError> {
        replace_file(files, &end_note_path(dir), &self.encode())
    }

    /// What was noted, if anything was.
    ///
    /// # Errors
    /// [`LogError::Damaged`] if the file is not what was written, [`LogError::UnsupportedVersion`], [`LogError::File`].
    pub(crate) fn read(
        files: &dyn FileSystem,
        dir: &Path,
        checksums: ChecksumPolicy,
    ) -> Result<Option<Self>, LogError> {
        let path = end_note_path(dir);
        if !files.exists(&path)? {
            return Ok(None);
        }
        Self::decode(&files.read(&path)?, path, checksums).map(Some)
    }

    fn encode(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.segment.get().to_le_bytes());
        bytes[24..].copy_from_slice(&self.end.get().to_le_bytes());
        let checksum = checksum_of(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8], path: PathBuf, checksums: ChecksumPolicy) -> Result<Self, LogError> {
        let number =
            |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("the length was checked"));
        let short =
            |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("the length was checked"));
        let is_ours = bytes.len() == BYTES && bytes[..8] == MAGIC;
        let is_trusted = checksums == ChecksumPolicy::IgnoredOnPurpose;
        if !is_ours || !(is_trusted || short(12) == checksum_of(bytes)) {
            return Err(LogError::Damaged { path, offset: 0, damage: Damage::EndNote });
        }
        if short(8) != FORMAT_VERSION {
            return Err(LogError::UnsupportedVersion { path, found: short(8), supported: FORMAT_VERSION });
        }
        let note = Self { segment: Lsn::new(number(16)), end: Lsn::new(number(24)) };
        if note.segment > note.end {
            return Err(LogError::Damaged { path, offset: 16, damage: Damage::EndNote });
        }
        Ok(note)
    }
}

/// Where the note of the log in `dir` lies.
pub(crate) fn end_note_path(dir: &Path) -> PathBuf {
    dir.join(FILE_NAME)
}

fn checksum_of(bytes: &[u8]) -> u32 {
    crc32c_append(crc32c(&bytes[..12]), &bytes[16..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_version_1() {
        let note = EndNote { segment: Lsn::new(64), end: Lsn::new(0x0102) };
        let bytes = note.encode();
        assert_eq!(bytes[..12], *b"COEVALED\x01\0\0\0");
        assert_eq!(bytes[16..], [64, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
        let read = |bytes: &[u8]| EndNote::decode(bytes, PathBuf::new(), ChecksumPolicy::Verified);
        assert_eq!(read(&bytes).unwrap(), note);
        for length in 0..BYTES {
            assert!(matches!(read(&bytes[..length]), Err(LogError::Damaged { .. })), "{length} bytes");
        }
        for place in 0..BYTES {
            let mut flipped = bytes;
            flipped[place] ^= 0x10;
            assert!(matches!(read(&flipped), Err(LogError::Damaged { .. })), "byte {place}");
        }
        let mut later = bytes;
        later[8] = 2;
        let checksum = checksum_of(&later);
        later[12..16].copy_from_slice(&checksum.to_le_bytes());
        assert!(matches!(read(&later), Err(LogError::UnsupportedVersion { found: 2, .. })));
    }
}
