// SPDX-License-Identifier: Apache-2.0
//! The file `kept-log`: which part of the log is kept over a close, for an archive that has not got it yet, for slots, and for
//! replicas that may come.
//!
//! While a database is open, what somebody still needs is held in memory (`retention.rs`). This file says it to the next open.
//! It is written before a checkpoint's manifest, so what that manifest makes superfluous is known to be kept, and when
//! the feed that it is kept for is dropped. It may be older than the truth: then it keeps more than is needed, or names log that
//! is gone by now because it was archived meanwhile.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | position: the log is kept from here on |
//! | 8..16 | version: files of bulk loads of later versions are kept |
//! | 16..24 | bytes: no more log than this is kept; 0: none is kept for an archive |
//! | 24..28 | count of files |
//! | then each | number u64, version u64, of files of bulk loads that lie before the manifest's place in the log |
//! | if there are any | slots: each position u64, version u64, 1 if it is lost u8, length of the name u8, the name |
//! | if there are any | places of checkpoints before the manifest's, from the first of which on everything is kept: as slots, without a name |
//! | at the end | CRC32C of all before |
//!
//! Numbers are little-endian. A file that is cut off or damaged counts as if it were not there.

use crate::files::{FileError, FileSystem, replace_file};
use crate::log::Lsn;
use crate::retention::{Kept, Place, Slot};
use coeval_txn::Version;
use crc32c::crc32c;
use std::path::Path;

/// The name of the file.
pub(crate) const FILE_NAME: &str = "kept-log";

const HEAD_BYTES: usize = 28;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptLog {
    /// For an archive.
    pub(crate) kept: Option<Kept>,
    pub(crate) slots: Vec<Slot>,
    /// Of checkpoints, the oldest first.
    pub(crate) places: Vec<Place>,
    /// The segment files of bulk loads by number, each with the version of the load.
    pub(crate) loads: Vec<(u64, Version)>,
}

impl KeptLog {
    fn encode(&self) -> Vec<u8> {
        let none = Kept { log: Lsn::START, version: Version::ZERO, bytes_max: 0 };
        let Kept { log, version, bytes_max } = self.kept.unwrap_or(none);
        let mut bytes = Vec::new();
        for number in [log.get(), version.get(), bytes_max] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let count = u32::try_from(self.loads.len()).expect("there are fewer than 2^32 files");
        bytes.extend_from_slice(&count.to_le_bytes());
        for (number, version) in &self.loads {
            bytes.extend_from_slice(&number.to_le_bytes());
            bytes.extend_from_slice(&version.get().to_le_bytes());
        }
        let slots = self.slots.iter().map(|slot| (slot.log, slot.version, slot.is_lost, slot.name.as_str()));
        let places = self.places.iter().map(|place| (place.log, place.version, false, ""));
        for (log, version, is_lost, name) in slots.chain(places) {
            bytes.extend_from_slice(&log.get().to_le_bytes());
            bytes.extend_from_slice(&version.get().to_le_bytes());
            bytes.push(u8::from(is_lost));
            bytes.push(u8::try_from(name.len()).expect("names of slots are short"));
            bytes.extend_from_slice(name.as_bytes());
        }
        bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, checksum) = bytes.split_last_chunk::<4>()?;
        if crc32c(body) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let number = |at: usize| Some(u64::from_le_bytes(*body.get(at..)?.first_chunk()?));
        let count = u32::from_le_bytes(*body.get(24..)?.first_chunk()?) as usize;
        let kept =
            Kept { log: Lsn::new(number(0)?), version: Version::new(number(8)?), bytes_max: number(16)? };
        let (entries, mut rest) = body.get(HEAD_BYTES..)?.split_at_checked(count.checked_mul(16)?)?;
        let read = |bytes: &[u8]| Some(u64::from_le_bytes(*bytes.first_chunk()?));
        let entry = |entry: &[u8; 16]| Some((read(&entry[..8])?, Version::new(read(&entry[8..])?)));
        let loads = entries.as_chunks::<16>().0.iter().map(entry).collect::<Option<Vec<_>>>()?;
        let (mut slots, mut places) = (Vec::new(), Vec::new());
        while !rest.is_empty() {
            let (head, behind) = rest.split_first_chunk::<18>()?;
            let (name, behind) = behind.split_at_checked(usize::from(head[17]))?;
            rest = behind;
            let (log, version) = (Lsn::new(read(head)?), Version::new(read(&head[8..])?));
            if name.is_empty() {
                places.push(Place { log, version });
                continue;
            }
            let name = String::from_utf8(name.to_vec()).ok()?;
            slots.push(Slot { name, log, version, is_active: false, is_lost: head[16] == 1 });
        }
        let kept = (kept.bytes_max > 0).then_some(kept);
        Some(Self { kept, slots, places, loads })
    }

    /// Puts it in the place of what was noted before; durable on return.
    ///
    /// # Errors
    /// [`FileError`]; the directory has the old one or this one.
    pub(crate) fn write(&self, files: &dyn FileSystem, dir: &Path) -> Result<(), FileError> {
        replace_file(files, &dir.join(FILE_NAME), &self.encode())
    }

    /// Nothing is kept any more.
    ///
    /// # Errors
    /// [`FileError`].
    pub(crate) fn remove(files: &dyn FileSystem, dir: &Path) -> Result<(), FileError> {
        let path = dir.join(FILE_NAME);
        if !files.exists(&path)? {
            return Ok(());
        }
        files.remove(&path)?;
        files.sync_dir(dir)
    }

    /// Whether something was noted that cannot be read any more.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read.
    pub(crate) fn is_damaged(files: &dyn FileSystem, dir: &Path) -> Result<bool, FileError> {
        let path = dir.join(FILE_NAME);
        Ok(files.exists(&path)? && Self::decode(&files.read(&path)?).is_none())
    }

    /// What was noted, if anything was.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read.
    pub(crate) fn read(files: &dyn FileSystem, dir: &Path) -> Result<Option<Self>, FileError> {
        let path = dir.join(FILE_NAME);
        if !files.exists(&path)? {
            return Ok(None);
        }
        let read = Self::decode(&files.read(&path)?);
        if read.is_none() {
            tracing::warn!(path = %path.display(), "what is kept of the log cannot be read: it is not kept");
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{OpenMode, SimulatedFiles};

    #[test]
    fn what_is_written_is_read_and_each_byte_counts() {
        let files = SimulatedFiles::new(1);
        let dir = Path::new("/");
        assert_eq!(KeptLog::read(&files, dir).unwrap(), None);
        let kept = Kept { log: Lsn::new(700), version: Version::new(9), bytes_max: 1 << 33 };
        let slot = |name: &str, is_lost| Slot {
            name: name.to_owned(),
            log: Lsn::new(5),
            version: Version::new(6),
            is_active: false,
            is_lost,
        };
        let loads = vec![(4, Version::new(10)), (1 << 40, Version::new(12))];
        let slots = vec![slot("a", false), slot("west", true)];
        let place = |place| Place { log: Lsn::new(place), version: Version::new(place / 2) };
        let places = vec![place(8), place(9)];
        for (kept, loads, slots, places) in [
            (Some(kept), vec![], vec![], vec![]),
            (Some(kept), loads.clone(), vec![], vec![]),
            (None, loads.clone(), slots.clone(), vec![]),
            (Some(kept), vec![], slots.clone(), places.clone()),
            (None, loads, vec![], places),
        ] {
            let written = KeptLog { kept, slots, places, loads };
            written.write(&files, dir).unwrap();
            assert_eq!(KeptLog::read(&files, dir).unwrap(), Some(written.clone()));
            let bytes = written.encode();
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1;
                assert_eq!(KeptLog::decode(&damaged), None, "byte {at}");
                assert_eq!(KeptLog::decode(&bytes[..at]), None, "{at} bytes");
            }
        }
        KeptLog::remove(&files, dir).unwrap();
        assert_eq!(KeptLog::read(&files, dir).unwrap(), None);
        KeptLog::remove(&files, dir).unwrap();
        files.open(&dir.join(FILE_NAME), OpenMode::Create).unwrap();
        assert_eq!(KeptLog::read(&files, dir).unwrap(), None);
    }

    #[test]
    fn the_bytes_are_pinned() {
        let kept = Kept { log: Lsn::new(1), version: Version::new(2), bytes_max: 3 };
        let loads = vec![(4, Version::new(5))];
        let mut pinned = KeptLog { kept: Some(kept), slots: vec![], places: vec![], loads };
        let bytes = pinned.encode();
        let numbers = [1_u64, 2, 3].iter().flat_map(|number| number.to_le_bytes());
        let entry = [4_u64, 5].into_iter().flat_map(u64::to_le_bytes);
        let body: Vec<u8> = numbers.chain(1_u32.to_le_bytes()).chain(entry).collect();
        assert_eq!(bytes[..44], body);
        assert_eq!(bytes.len(), 48);
        pinned.places.push(Place { log: Lsn::new(6), version: Version::new(7) });
        let bytes = pinned.encode();
        let place: Vec<u8> = [6_u64, 7].into_iter().flat_map(u64::to_le_bytes).chain([0, 0]).collect();
        assert_eq!((&bytes[44..62], bytes.len()), (&place[..], 66));
    }
}
