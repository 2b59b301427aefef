// SPDX-License-Identifier: Apache-2.0
//! What a follower knew of safe snapshots when it was closed: the contents of the file that marks its directory.
//!
//! The primary says where the boundary is beside the log, so a restart would know nothing of it before it is connected again.
//! What is noted here counts if the log still has all that had come with it: with less, members of a safe snapshot might be
//! missing that were known then.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | boundary, a version |
//! | 8..16 | position: the end of the log that it belongs to |
//! | 16..24 | the newest version that the primary has said is published |
//! | 24..28 | CRC32C of these |
//!
//! Numbers are little-endian. An empty file, or another one, says nothing.

use crate::disk::FOLLOWER_FILE;
use crate::error::StoreError;
use crate::files::{FileSystem, replace_file};
use crate::log::Lsn;
use coeval_txn::Version;
use crc32c::crc32c;
use std::path::Path;

const BYTES: usize = 28;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FollowerStanding {
    pub(crate) boundary: Version,
    pub(crate) position: Lsn,
    pub(crate) published: Version,
}

impl FollowerStanding {
    /// Puts it in the place of what was noted before; durable on return.
    ///
    /// # Errors
    /// [`StoreError::File`]; the directory has the old one or this one.
    pub(super) fn write(&self, files: &dyn FileSystem, dir: &Path) -> Result<(), StoreError> {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(&self.boundary.get().to_le_bytes());
        bytes.extend_from_slice(&self.position.get().to_le_bytes());
        bytes.extend_from_slice(&self.published.get().to_le_bytes());
        bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
        Ok(replace_file(files, &dir.join(FOLLOWER_FILE), &bytes)?)
    }

    /// What was noted, if anything was.
    ///
    /// # Errors
    /// [`StoreError::File`] if the file cannot be read.
    pub(crate) fn read(files: &dyn FileSystem, dir: &Path) -> Result<Option<Self>, StoreError> {
        let bytes = files.read(&dir.join(FOLLOWER_FILE))?;
        let Some(bytes) = bytes.first_chunk::<BYTES>() else { return Ok(None) };
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let checksum = u32::from_le_bytes(bytes[24..].try_into().expect("four bytes"));
        let is_whole = crc32c(&bytes[..24]) == checksum;
        Ok(is_whole.then(|| Self {
            boundary: Version::new(number(0)),
            position: Lsn::new(number(8)),
            published: Version::new(number(16)),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{OpenMode, SimulatedFiles};

    #[test]
    fn what_is_noted_is_read_and_damage_says_nothing() {
        let (files, dir) = (SimulatedFiles::new(1), Path::new("/copy"));
        files.create_dir_all(dir).unwrap();
        let path = dir.join(FOLLOWER_FILE);
        files.open(&path, OpenMode::Create).unwrap();
        assert_eq!(FollowerStanding::read(&files, dir).unwrap(), None);
        let standing = FollowerStanding {
            boundary: Version::new(7),
            position: Lsn::new(900),
            published: Version::new(8),
        };
        standing.write(&files, dir).unwrap();
        assert_eq!(FollowerStanding::read(&files, dir).unwrap(), Some(standing));
        files.damage(&path, 3, 1);
        assert_eq!(FollowerStanding::read(&files, dir).unwrap(), None);
    }
}
