// SPDX-License-Identifier: Apache-2.0
//! [`LogFile`]: the file, its batches, and what is left of them after a crash.

use super::{Durability, LogError};
use bytes::Bytes;
use std::fs::{File, OpenOptions, TryLockError, read, rename};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"COEVALCL";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = MAGIC.len() + size_of::<u32>();
const BATCH_MAGIC: &[u8; 4] = b"BTCH";
const FRAME_BYTES: usize = BATCH_MAGIC.len() + size_of::<u64>() + 2 * size_of::<u32>();
/// Nobody else reads or writes it.
const FILE_MODE: u32 = 0o600;
/// A batch of more bytes takes no further record.
const BATCH_BYTES: usize = 16 << 20;

/// Records that are written and synced as one.
#[derive(Debug)]
pub(crate) struct Batch {
    /// With room for the frame in front.
    bytes: Vec<u8>,
}

impl Batch {
    /// One without records.
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; FRAME_BYTES] }
    }

    /// Appends a record.
    ///
    /// # Panics
    /// If the batch would have 4 GiB or more.
    pub(crate) fn push(&mut self, record: &[u8]) {
        self.push_with(|bytes| bytes.extend_from_slice(record));
    }

    /// Appends a record, which is put behind what is there; how many bytes it has.
    ///
    /// # Panics
    /// As [`push`](Self::push).
    pub(crate) fn push_with(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> usize {
        const LENGTH_BYTES: usize = size_of::<u32>();
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(&[0; LENGTH_BYTES]);
        put(&mut self.bytes);
        let bytes = self.bytes.len() - begin - LENGTH_BYTES;
        let length = u32::try_from(bytes).expect("a record has fewer than 2^32 bytes");
        self.bytes[begin..begin + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    /// Whether it has no record.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.len() == FRAME_BYTES
    }

    /// Whether the next record had better go to another one.
    pub(crate) fn is_full(&self) -> bool {
        self.has(BATCH_BYTES)
    }

    /// Whether it has so many bytes.
    pub(crate) fn has(&self, bytes: usize) -> bool {
        self.bytes.len() >= bytes
    }

    fn seal(&mut self, number: u64) -> &[u8] {
        let length =
            u32::try_from(self.bytes.len() - FRAME_BYTES).expect("a batch has fewer than 2^32 bytes");
        let (frame, body) = self.bytes.split_at_mut(FRAME_BYTES);
        frame[..4].copy_from_slice(BATCH_MAGIC);
        frame[4..12].copy_from_slice(&number.to_le_bytes());
        frame[12..16].copy_from_slice(&length.to_le_bytes());
        frame[16..].copy_from_slice(&checksum(number, body).to_le_bytes());
        &self.bytes
    }
}

fn checksum(number: u64, body: &[u8]) -> u32 {
    let frame = crc32c::crc32c(&number.to_le_bytes());
    let frame = crc32c::crc32c_append(frame, &(body.len() as u64).to_le_bytes());
    crc32c::crc32c_append(frame, body)
}

/// A log that is open for writing, by nobody else.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    durability: Durability,
    /// The number of the next batch.
    next: u64,
}

impl LogFile {
    /// Opens the log, or makes an empty one. Gives all records that are in it.
    ///
    /// # Errors
    /// If it cannot be used.
    pub(crate) fn open(path: &Path, durability: Durability) -> Result<(Self, Vec<Bytes>), LogError> {
        let of_file = |error| LogError::File { path: path.to_owned(), error };
        let mut options = OpenOptions::new();
        // Rows are in it, and whose directory it is may have let others look into that.
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let mut file = options.open(path).map_err(of_file)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LogError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(of_file(error)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(of_file)?;
        let bytes = Bytes::from(bytes);
        if is_torn_header(&bytes) {
            begin(&mut file, path).map_err(of_file)?;
            return Ok((Self { path: path.to_owned(), file, durability, next: 0 }, Vec::new()));
        }
        let recovered = recover(path, &bytes)?;
        if recovered.end < bytes.len() {
            tracing::warn!(
                "{}: {} bytes of an unfinished write are cut off",
                path.display(),
                bytes.len() - recovered.end
            );
            file.set_len(recovered.end as u64).map_err(of_file)?;
            file.sync_all().map_err(of_file)?;
        }
        file.seek(SeekFrom::Start(recovered.end as u64)).map_err(of_file)?;
        Ok((Self { path: path.to_owned(), file, durability, next: recovered.batches }, recovered.records))
    }

    /// The records of a file that was finished once. A torn end is damage here.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged.
    pub(crate) fn read_finished(path: &Path) -> Result<Vec<Bytes>, LogError> {
        let bytes = Bytes::from(read(path).map_err(|error| LogError::File { path: path.to_owned(), error })?);
        let recovered = recover(path, &bytes)?;
        if recovered.end < bytes.len() {
            return Err(LogError::Damaged { path: path.to_owned(), at: recovered.end as u64 });
        }
        Ok(recovered.records)
    }

    /// Writes a batch behind those that are there, and syncs it. After an error the log must not be written any more: nobody
    /// knows what is on disk.
    ///
    /// # Errors
    /// If the file system refuses.
    pub(crate) fn write(&mut self, mut batch: Batch) -> Result<(), LogError> {
        self.write_kept(&mut batch)
    }

    /// As [`write`](Self::write), of a batch that may be written to another log too.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn write_kept(&mut self, batch: &mut Batch) -> Result<(), LogError> {
        self.write_unsynced(batch)?;
        let synced = match self.durability {
            Durability::Synced => self.file.sync_data(),
            Durability::Off => Ok(()),
        };
        synced.map_err(|error| LogError::File { path: self.path.clone(), error })
    }

    /// Writes a batch behind those that are there, and leaves it to a [sync](Self::sync) to bring it to disk.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub(crate) fn write_unsynced(&mut self, batch: &mut Batch) -> Result<(), LogError> {
        assert!(!batch.is_empty(), "a batch has records");
        let written = self.file.write_all(batch.seal(self.next));
        written.map_err(|error| LogError::File { path: self.path.clone(), error })?;
        self.next += 1;
        Ok(())
    }
}

impl LogFile {
    /// Gives the file another name, in the same directory; whatever had that is gone. It lasts when this returns.
    ///
    /// # Errors
    /// If the file system refuses.
    pub(crate) fn renamed(mut self, path: &Path) -> Result<Self, LogError> {
        let renamed = rename(&self.path, path).and_then(|()| sync_directory_of(path));
        renamed.map_err(|error| LogError::File { path: path.to_owned(), error })?;
        path.clone_into(&mut self.path);
        Ok(self)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Says whether what is written from now on is synced.
    pub(crate) fn set_durability(&mut self, durability: Durability) {
        self.durability = durability;
    }

    /// Brings all that was written to disk, also if it need not be.
    ///
    /// # Errors
    /// If the file system refuses.
    pub(crate) fn sync(&self) -> Result<(), LogError> {
        self.file.sync_all().map_err(|error| LogError::File { path: self.path.clone(), error })
    }
}

/// Whether the log was never finished being made: no batch can be behind less than its header.
fn is_torn_header(bytes: &[u8]) -> bool {
    bytes.len() < HEADER_BYTES
}

fn begin(file: &mut File, path: &Path) -> io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(MAGIC)?;
    file.write_all(&VERSION.to_le_bytes())?;
    file.sync_all()?;
    sync_directory_of(path)
}

/// Names in a directory last once that is synced.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

struct Recovered {
    records: Vec<Bytes>,
    batches: u64,
    /// Where the last whole batch ends.
    end: usize,
}

fn recover(path: &Path, bytes: &Bytes) -> Result<Recovered, LogError> {
    let foreign = |what| LogError::Foreign { path: path.to_owned(), what };
    if bytes.len() < HEADER_BYTES || !bytes.starts_with(MAGIC) {
        return Err(foreign("it begins otherwise"));
    }
    if bytes[MAGIC.len()..HEADER_BYTES] != VERSION.to_le_bytes() {
        return Err(foreign("its version is another one"));
    }
    let mut recovered = Recovered { records: Vec::new(), batches: 0, end: HEADER_BYTES };
    while let Some((number, body)) = batch_at(bytes, recovered.end) {
        if number != recovered.batches {
            break;
        }
        recovered.end += FRAME_BYTES + body.len();
        recovered.batches += 1;
        let records = records_of(&body).ok_or_else(|| foreign("a batch has something else in it"))?;
        recovered.records.extend(records);
    }
    if has_batch_after(bytes, &recovered) {
        return Err(LogError::Damaged { path: path.to_owned(), at: recovered.end as u64 });
    }
    Ok(recovered)
}

/// The whole batch that begins here.
fn batch_at(bytes: &Bytes, at: usize) -> Option<(u64, Bytes)> {
    let frame = bytes.get(at..at + FRAME_BYTES)?;
    if &frame[..4] != BATCH_MAGIC {
        return None;
    }
    let number = u64::from_le_bytes(frame[4..12].try_into().ok()?);
    let length = u32::from_le_bytes(frame[12..16].try_into().ok()?) as usize;
    let stored = u32::from_le_bytes(frame[16..].try_into().ok()?);
    let begin = at + FRAME_BYTES;
    let body = bytes.get(begin..begin.checked_add(length)?)?;
    (checksum(number, body) == stored).then(|| (number, bytes.slice(begin..begin + length)))
}

/// Whether a later batch is whole somewhere behind what was recovered.
fn has_batch_after(bytes: &Bytes, recovered: &Recovered) -> bool {
    let rest = &bytes[recovered.end..];
    let starts = rest.windows(BATCH_MAGIC.len()).enumerate().filter(|(_, window)| window == BATCH_MAGIC);
    let mut numbers = starts.filter_map(|(at, _)| Some(batch_at(bytes, recovered.end + at)?.0));
    numbers.any(|number| number >= recovered.batches)
}

fn records_of(body: &Bytes) -> Option<Vec<Bytes>> {
    let (mut records, mut at) = (Vec::new(), 0);
    while at < body.len() {
        let length = u32::from_le_bytes(body.get(at..at + 4)?.try_into().ok()?) as usize;
        let begin = at + 4;
        at = begin.checked_add(length)?;
        if at > body.len() {
            return None;
        }
        records.push(body.slice(begin..at));
    }
    Some(records)
}
