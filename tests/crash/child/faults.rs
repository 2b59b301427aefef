// SPDX-License-Identifier: Apache-2.0
//! Faults on purpose: each must be seen by the test that kills this process.

use coeval_store::files::{DirectoryLock, DiskFiles, File, FileError, FileSystem, OpenMode, ReadFile};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// What the process does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Nothing,
    /// Says that a commit was acknowledged before it was asked for.
    AcknowledgesEarly,
    /// Commits what belongs together in two transactions.
    SplitsTransactions,
    /// The last write of the log stays in memory until the next one, whatever is synced.
    HoldsLogBack,
    /// One bit of each segment file is turned.
    TurnsBits,
}

impl Fault {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "nothing" => Self::Nothing,
            "acknowledges-early" => Self::AcknowledgesEarly,
            "splits-transactions" => Self::SplitsTransactions,
            "holds-log-back" => Self::HoldsLogBack,
            "turns-bits" => Self::TurnsBits,
            _ => return None,
        })
    }

    /// The file layer with this fault.
    pub(crate) fn files(self) -> Arc<dyn FileSystem> {
        match self {
            Self::HoldsLogBack | Self::TurnsBits => Arc::new(FaultyFiles { fault: self }),
            Self::Nothing | Self::AcknowledgesEarly | Self::SplitsTransactions => Arc::new(DiskFiles),
        }
    }
}

/// The disk, with a fault in the files it opens.
#[derive(Debug)]
struct FaultyFiles {
    fault: Fault,
}

impl FileSystem for FaultyFiles {
    fn create_dir_all(&self, dir: &Path) -> Result<(), FileError> {
        DiskFiles.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>, FileError> {
        DiskFiles.list(dir)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>, FileError> {
        let file = DiskFiles.open(path, mode)?;
        let is_in = |name: &str| path.parent().is_some_and(|parent| parent.ends_with(name));
        Ok(match self.fault {
            Fault::HoldsLogBack if is_in("log") => Arc::new(HeldFile { file, held: Mutex::default() }),
            Fault::TurnsBits if is_in("segments") => Arc::new(TurnedFile { file }),
            _ => file,
        })
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError> {
        DiskFiles.read(path)
    }

    fn open_to_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>, FileError> {
        DiskFiles.open_to_read(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), FileError> {
        DiskFiles.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<(), FileError> {
        DiskFiles.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> Result<(), FileError> {
        DiskFiles.sync_dir(dir)
    }

    fn exists(&self, path: &Path) -> Result<bool, FileError> {
        DiskFiles.exists(path)
    }

    fn len(&self, path: &Path) -> Result<u64, FileError> {
        DiskFiles.len(path)
    }

    fn lock(&self, dir: &Path) -> Result<DirectoryLock, FileError> {
        DiskFiles.lock(dir)
    }
}

/// So many writes are held back. The last one alone may be of a commit that nobody has been told of: then nothing is missed.
const HELD_WRITES: usize = 4;

/// Writes each stretch of bytes when some more have come.
#[derive(Debug)]
struct HeldFile {
    file: Arc<dyn File>,
    /// The offsets and the bytes of the last writes.
    ///
    /// # Locking
    /// Held across one write of the file below; nothing is locked inside.
    held: Mutex<VecDeque<(u64, Vec<u8>)>>,
}

impl File for HeldFile {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<(), FileError> {
        let mut held = self.held.lock().expect("no writer panics");
        held.push_back((offset, bytes.to_vec()));
        if held.len() <= HELD_WRITES {
            return Ok(());
        }
        let (offset, bytes) = held.pop_front().expect("there are some");
        self.file.write_all_at(offset, &bytes)
    }

    fn sync_data(&self) -> Result<(), FileError> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> Result<(), FileError> {
        self.file.sync_all()
    }

    fn len(&self) -> Result<u64, FileError> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<(), FileError> {
        self.file.set_len(len)
    }
}

/// Turns a bit in the middle of each long write.
#[derive(Debug)]
struct TurnedFile {
    file: Arc<dyn File>,
}

impl File for TurnedFile {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<(), FileError> {
        let mut bytes = bytes.to_vec();
        let middle = bytes.len() / 2;
        if let Some(byte) = bytes.get_mut(middle) {
            *byte ^= 1;
        }
        self.file.write_all_at(offset, &bytes)
    }

    fn sync_data(&self) -> Result<(), FileError> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> Result<(), FileError> {
        self.file.sync_all()
    }

    fn len(&self) -> Result<u64, FileError> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<(), FileError> {
        self.file.set_len(len)
    }
}
