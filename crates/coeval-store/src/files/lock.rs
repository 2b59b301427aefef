// SPDX-License-Identifier: Apache-2.0
//! The lock that lets one process at a time open a directory, and the note in it that says who.

use std::any::Any;
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::files::permissions::file_mode;
use crate::files::{FileError, Operation};

/// The name of the lock file in a database directory. The file itself stays; only the lock on it counts.
pub const LOCK_FILE_NAME: &str = "LOCK";

/// A command line longer than this is cut in the lock file: it is for people to read.
const COMMAND_BYTES_MAX: usize = 400;

/// The process that holds a directory, as its lock file names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The process id; `None` when the holder had not written it yet.
    pub pid: Option<u32>,
    /// The command line; empty when unknown.
    pub command: String,
}

impl Holder {
    /// This process.
    pub(crate) fn this_process() -> Holder {
        let arguments: Vec<String> =
            std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
        let mut command = arguments.join(" ").replace(['\n', '\r'], " ");
        command.truncate(command.floor_char_boundary(COMMAND_BYTES_MAX));
        Holder { pid: Some(std::process::id()), command }
    }

    /// The contents of the lock file: the pid on the first line, the command on the second.
    fn to_note(&self) -> String {
        let pid = self.pid.map(|pid| pid.to_string()).unwrap_or_default();
        format!("{pid}\n{}\n", self.command)
    }

    fn from_note(note: &str) -> Holder {
        let mut lines = note.lines();
        let pid = lines.next().and_then(|line| line.trim().parse().ok());
        Holder { pid, command: lines.next().unwrap_or_default().to_string() }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(formatter, "process {pid}")?,
            None => write!(formatter, "an unknown process")?,
        }
        if self.command.is_empty() { Ok(()) } else { write!(formatter, " ({})", self.command) }
    }
}

/// The exclusive right to a directory; dropping it gives the right back.
pub struct DirectoryLock {
    _held: Box<dyn Any + Send + Sync>,
}

impl DirectoryLock {
    pub(crate) fn new(held: impl Any + Send + Sync) -> DirectoryLock {
        DirectoryLock { _held: Box::new(held) }
    }
}

impl fmt::Debug for DirectoryLock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("DirectoryLock")
    }
}

/// Locks `dir` on the real disk. The lock belongs to the open file, so the system drops it with the process.
pub(crate) fn lock_on_disk(dir: &Path) -> Result<DirectoryLock, FileError> {
    let path = dir.join(LOCK_FILE_NAME);
    let failed = |source: io::Error| FileError::new(Operation::Lock, &path, source);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(file_mode(dir));
    let mut file = options.open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let holder = Holder::from_note(&read_note(&mut file));
            return Err(FileError::DirectoryInUse { path: dir.to_path_buf(), holder });
        }
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    let write_note = |file: &mut File| -> io::Result<()> {
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(Holder::this_process().to_note().as_bytes())
    };
    write_note(&mut file).map_err(failed)?;
    Ok(DirectoryLock::new(LockedFile { file }))
}

/// Unlocks on drop. Closing alone would not do: a child process that is just being started has a copy of the open
/// file for a moment, and the lock would live on with the copy.
struct LockedFile {
    file: File,
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Should it fail, closing the file gives the lock back all the same.
        let _ = self.file.unlock();
    }
}

/// The note of the present holder; a note that cannot be read makes the holder unknown, not the error another.
fn read_note(file: &mut File) -> String {
    let mut note = Vec::new();
    match file.take(4096).read_to_end(&mut note) {
        Ok(_) => String::from_utf8_lossy(&note).into_owned(),
        Err(_) => String::new(),
    }
}
