// SPDX-License-Identifier: Apache-2.0
//! The files that COPY reads and writes.

use super::stream::Stream;
use crate::error::{SqlError, SqlState, file_error};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes read at once.
const PIECE_BYTES: usize = 1 << 20;

/// A file that is being written under another name beside its own, so that one of its own name is whole.
/// Dropping it without [`finish`](Self::finish) removes it.
pub(super) struct NewFile {
    temporary: PathBuf,
    path: PathBuf,
    /// A device or a pipe is written in place.
    is_plain: bool,
    is_finished: bool,
}

impl NewFile {
    /// Makes the file. Of a pipe that nobody reads it waits for who does.
    ///
    /// # Errors
    /// 58P01 if its directory is not there, 42809 if it is itself a directory, 58030 otherwise.
    pub(super) fn create(path: &Path) -> Result<(Self, Stream<'_>), SqlError> {
        let found = std::fs::metadata(path);
        if found.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
            let message = format!("\"{}\" is a directory", path.display());
            return Err(SqlError::new(SqlState::WrongObjectType, message));
        }
        let cannot_open = |error: io::Error| file_error(&error, path, "open", "writing");
        // What a link leads to is replaced, not the link.
        let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let in_place = |target: PathBuf| Self {
            temporary: target.clone(),
            path: target,
            is_plain: false,
            is_finished: false,
        };
        if found.as_ref().is_ok_and(|found| !found.is_file()) {
            return Ok((in_place(target), Stream::to_write(path)?));
        }
        let mut name = target.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.part", uuid::Uuid::new_v4().simple()));
        let temporary = target.with_file_name(name);
        match (File::create(&temporary), found) {
            (Ok(file), found) => {
                if let Ok(found) = found {
                    file.set_permissions(found.permissions()).map_err(cannot_open)?;
                }
                let new = Self { temporary, path: target, is_plain: true, is_finished: false };
                Ok((new, Stream::of_plain(file, path)))
            }
            // A file that may be written in a directory that may not.
            (Err(error), Ok(_)) if error.kind() == io::ErrorKind::PermissionDenied => {
                let file = File::create(&target).map_err(cannot_open)?;
                Ok((in_place(target), Stream::of_plain(file, path)))
            }
            (Err(error), _) => Err(cannot_open(error)),
        }
    }

    /// Gives the file, which is written, its name.
    ///
    /// # Errors
    /// 58030 if that fails; there is no new file then.
    pub(super) fn finish(mut self) -> Result<(), SqlError> {
        if self.is_plain {
            std::fs::rename(&self.temporary, &self.path)
                .map_err(|error| file_error(&error, &self.path, "rename", "writing"))?;
        }
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.is_plain && !self.is_finished {
            // Nothing more can be done about a part that cannot be removed.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Whether a file, which need not be there, is in a directory or one below it, by whatever links its name leads there.
pub(super) fn is_within(path: &Path, directory: &Path) -> bool {
    let real = std::fs::canonicalize(path).or_else(|_| {
        let (folder, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
        std::fs::canonicalize(folder).map(|folder| folder.join(name))
    });
    let directory = std::fs::canonicalize(directory);
    // Where no file can be, none is written.
    real.is_ok_and(|real| directory.is_ok_and(|directory| real.starts_with(directory)))
}

/// Gives the file's bytes to `take`, piece by piece.
///
/// # Errors
/// 58030 if it cannot be read, and what `take` answers.
pub(super) fn read_pieces(
    input: &mut Stream<'_>,
    mut take: impl FnMut(&[u8]) -> Result<(), SqlError>,
) -> Result<(), SqlError> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = input.read(&mut piece)?;
        if length == 0 {
            return Ok(());
        }
        take(&piece[..length])?;
    }
}

/// Bytes on their way to a file.
pub(super) struct Output<'a> {
    stream: Stream<'a>,
    pending: Vec<u8>,
}

impl Output<'_> {
    /// Where the next bytes go.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.pending
    }

    /// Writes what has gathered, once it is worth it.
    pub(super) fn flush_if_full(&mut self) -> Result<(), SqlError> {
        if self.pending.len() >= PIECE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), SqlError> {
        self.stream.write_all(&self.pending)?;
        self.pending.clear();
        Ok(())
    }
}

/// Writes a file with what `give` puts into the output.
///
/// # Errors
/// 58P01, 53100, 58030 if the file cannot be written, and what `give` answers. What the name stood for is then as
/// it was.
pub(super) fn write_pieces<T>(
    path: &Path,
    give: impl FnOnce(&mut Output<'_>) -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    let (new, stream) = NewFile::create(path)?;
    let mut output = Output { stream, pending: Vec::with_capacity(PIECE_BYTES * 2) };
    let given = give(&mut output)?;
    output.flush()?;
    new.finish()?;
    Ok(given)
}

#[cfg(test)]
mod tests;
