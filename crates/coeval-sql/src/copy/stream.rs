// SPDX-License-Identifier: Apache-2.0
//! Reading and writing files of which another process may have the other end: pipes, terminals and other devices.
//!
//! Such a file keeps who opens, reads or writes it waiting until that process does its part, which may be never. So files are
//! opened as ones that do not block, and the wait is made here: for a moment at a time, and between two of them it is looked
//! whether the statement is to end. A plain file is always ready.

use crate::cancel;
use crate::error::{SqlError, cannot_read, file_error, not_plain};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, poll};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// How long a wait lasts before it is looked whether the statement is to end.
const MOMENT_MS: u8 = 20;

/// An open file, read or written from its beginning to its end.
pub(super) struct Stream<'a> {
    file: File,
    path: &'a Path,
    is_plain: bool,
}

impl<'a> Stream<'a> {
    /// Opens a file to read. A pipe is open at once: the first [`read`](Self::read) waits for who writes it.
    ///
    /// # Errors
    /// 58P01 if it is not there, 42809 if it is a directory, 58030 otherwise.
    pub(super) fn to_read(path: &'a Path) -> Result<Self, SqlError> {
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
        let with_metadata = opened.and_then(|file| file.metadata().map(|metadata| (file, metadata)));
        let (file, metadata) = with_metadata.map_err(|error| cannot_read(path, &error))?;
        if metadata.is_dir() {
            return Err(not_plain(path, &metadata));
        }
        Ok(Self { file, path, is_plain: metadata.is_file() })
    }

    /// Opens a pipe or a device to write, once somebody reads the pipe.
    ///
    /// # Errors
    /// 58030; the error of the statement if it is to end.
    pub(super) fn to_write(path: &'a Path) -> Result<Self, SqlError> {
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(libc::O_NONBLOCK);
        loop {
            cancel::check()?;
            match options.open(path) {
                Ok(file) => return Ok(Self { file, path, is_plain: false }),
                Err(error) if is_unread_pipe(path, &error) => {
                    thread::sleep(Duration::from_millis(MOMENT_MS.into()));
                }
                Err(error) => return Err(file_error(&error, path, "open", "writing")),
            }
        }
    }

    /// A plain file that is open to be written; errors name this path.
    pub(super) fn of_plain(file: File, path: &'a Path) -> Self {
        Self { file, path, is_plain: true }
    }

    /// The file, to be read in any order.
    ///
    /// # Errors
    /// 42809 if it is not plain.
    pub(super) fn into_plain(self) -> Result<File, SqlError> {
        if self.is_plain {
            return Ok(self.file);
        }
        let metadata = self.file.metadata().map_err(|error| cannot_read(self.path, &error))?;
        Err(not_plain(self.path, &metadata))
    }

    /// Reads the next bytes. There are none at the end: that of a pipe is where everybody has closed it who wrote it.
    ///
    /// # Errors
    /// 58030; the error of the statement if it is to end.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize, SqlError> {
        loop {
            // A pipe that nobody has written yet would seem to be at its end. The wait tells the two apart.
            self.wait(PollFlags::POLLIN, "reading")?;
            match self.file.read(into) {
                Ok(length) => return Ok(length),
                Err(error) if is_not_ready(&error) => {}
                Err(error) => return Err(file_error(&error, self.path, "read", "reading")),
            }
        }
    }

    /// Writes all of these bytes.
    ///
    /// # Errors
    /// 53100, 58030; the error of the statement if it is to end. A part of the bytes may be written then.
    pub(super) fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), SqlError> {
        while !bytes.is_empty() {
            self.wait(PollFlags::POLLOUT, "writing")?;
            let written = match self.file.write(bytes) {
                Ok(0) => Err(ErrorKind::WriteZero.into()),
                Err(error) if is_not_ready(&error) => continue,
                outcome => outcome,
            };
            let length = written.map_err(|error| file_error(&error, self.path, "write", "writing"))?;
            bytes = &bytes[length..];
        }
        Ok(())
    }

    /// Waits until reading or writing would not wait.
    fn wait(&self, event: PollFlags, purpose: &str) -> Result<(), SqlError> {
        loop {
            cancel::check()?;
            if self.is_plain {
                return Ok(());
            }
            match poll(&mut [PollFd::new(self.file.as_fd(), event)], MOMENT_MS) {
                Ok(0) | Err(Errno::EINTR) => {}
                // Also if the other end has gone, or broken: what is called next says so.
                Ok(_) => return Ok(()),
                Err(error) => return Err(file_error(&error.into(), self.path, "wait for", purpose)),
            }
        }
    }
}

/// Whether there was nothing to read, or no room to write, although the wait had ended; or a signal came.
fn is_not_ready(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Whether a file could not be opened to write because it is a pipe that nobody reads. A socket answers the same, for good.
fn is_unread_pipe(path: &Path, error: &io::Error) -> bool {
    let is_pipe = || std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
    error.raw_os_error() == Some(libc::ENXIO) && is_pipe()
}

#[cfg(test)]
mod tests;
