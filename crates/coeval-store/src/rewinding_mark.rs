// SPDX-License-Identifier: Apache-2.0
//! The file `rewinding`: while a directory has it, its log is being cut back ([`crate::rewind`]), and nobody opens it.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | the place that the log is cut back to |
//! | 8..16 | where it ended |
//! | 16..24 | the version of the world that is left |
//! | 24..32 | how many transactions lie behind the place |
//! | then | the name of the directory in `rewound` that has them |
//! | at the end | CRC32C of all before |
//!
//! Numbers are little-endian. Damage is an error: without the place nobody knows what is left to be done.

use crate::disk::{REWINDING_FILE, REWOUND_DIR};
use crate::error::StoreError;
use crate::files::{FileSystem, replace_file};
use crate::log::Lsn;
use coeval_txn::Version;
use crc32c::crc32c;
use std::path::{Path, PathBuf};

const NUMBER_BYTES: usize = 32;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RewindingMark {
    pub(crate) place: Lsn,
    pub(crate) end: Lsn,
    pub(crate) version: Version,
    pub(crate) transactions: u64,
    pub(crate) aside: String,
}

impl RewindingMark {
    fn encode(&self) -> Vec<u8> {
        let numbers = [self.place.get(), self.end.get(), self.version.get(), self.transactions];
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        bytes.extend_from_slice(self.aside.as_bytes());
        bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, checksum) = bytes.split_last_chunk::<4>()?;
        if crc32c(body) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let (numbers, aside) = body.split_at_checked(NUMBER_BYTES)?;
        let number = |at: usize| Some(u64::from_le_bytes(*numbers.get(at..)?.first_chunk()?));
        Some(Self {
            place: Lsn::new(number(0)?),
            end: Lsn::new(number(8)?),
            version: Version::new(number(16)?),
            transactions: number(24)?,
            aside: String::from_utf8(aside.to_vec()).ok()?,
        })
    }

    /// Writes it; durable on return.
    ///
    /// # Errors
    /// [`StoreError::File`]; the directory has it or not.
    pub(crate) fn write(&self, files: &dyn FileSystem, dir: &Path) -> Result<(), StoreError> {
        Ok(replace_file(files, &dir.join(REWINDING_FILE), &self.encode())?)
    }

    /// That of the directory, if it has one.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::File`].
    pub(crate) fn read(files: &dyn FileSystem, dir: &Path) -> Result<Option<Self>, StoreError> {
        let path = dir.join(REWINDING_FILE);
        if !files.exists(&path)? {
            return Ok(None);
        }
        let damaged = || {
            let what =
                "this does not say where the log is to be cut; what it had is in the directory \"rewound\"";
            StoreError::corrupt(&path, 0, what)
        };
        Self::decode(&files.read(&path)?).map(Some).ok_or_else(damaged)
    }

    /// Removes it; durable on return.
    ///
    /// # Errors
    /// [`StoreError::File`]; the directory has it or not.
    pub(crate) fn remove(files: &dyn FileSystem, dir: &Path) -> Result<(), StoreError> {
        files.remove(&dir.join(REWINDING_FILE))?;
        Ok(files.sync_dir(dir)?)
    }

    /// Where the records lie that were cut off.
    pub(crate) fn aside_in(&self, dir: &Path) -> PathBuf {
        dir.join(REWOUND_DIR).join(&self.aside)
    }
}

/// Refuses a directory whose log is being cut back.
///
/// # Errors
/// [`StoreError::UnfinishedRewinding`], [`StoreError::File`].
pub(crate) fn refuse_unfinished_rewinding(files: &dyn FileSystem, dir: &Path) -> Result<(), StoreError> {
    if files.exists(&dir.join(REWINDING_FILE))? {
        return Err(StoreError::UnfinishedRewinding { directory: dir.display().to_string() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::SimulatedFiles;

    #[test]
    fn the_bytes_are_pinned_and_each_counts() {
        let mark = RewindingMark {
            place: Lsn::new(1),
            end: Lsn::new(2),
            version: Version::new(3),
            transactions: 4,
            aside: "term".to_owned(),
        };
        let bytes = mark.encode();
        let numbers: Vec<u8> = [1_u64, 2, 3, 4].into_iter().flat_map(u64::to_le_bytes).collect();
        assert_eq!((&bytes[..32], &bytes[32..36], bytes.len()), (&numbers[..], &b"term"[..], 40));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(RewindingMark::decode(&damaged), None, "byte {at}");
            assert_eq!(RewindingMark::decode(&bytes[..at]), None, "{at} bytes");
        }
        let (files, dir) = (SimulatedFiles::new(1), Path::new("/"));
        assert_eq!(RewindingMark::read(&files, dir).unwrap(), None);
        mark.write(&files, dir).unwrap();
        assert_eq!(RewindingMark::read(&files, dir).unwrap(), Some(mark.clone()));
        assert!(matches!(
            refuse_unfinished_rewinding(&files, dir),
            Err(StoreError::UnfinishedRewinding { .. })
        ));
        files.damage(&dir.join(REWINDING_FILE), 3, 1);
        assert!(matches!(RewindingMark::read(&files, dir), Err(StoreError::Corrupt { .. })));
        RewindingMark::remove(&files, dir).unwrap();
        refuse_unfinished_rewinding(&files, dir).unwrap();
    }
}
