// SPDX-License-Identifier: Apache-2.0
//! Files of queries that do not fit in memory.
//!
//! DataFusion's own temporary files stay open from the moment they are made, and an exchange between threads has one for
//! each batch that it puts aside (`opening/template.rs` says why): a large query would take all descriptors that there are
//! and with them the other sessions' connections. Here a file is open while it is written and while it is read.
//!
//! A failed write is not reported at once: the thread that reads those rows gets the error when it reads them, and the thread that
//! wrote them when it ends the file. If an exchange got the error in the middle of a batch, it would leave a file behind that is
//! neither written further nor ended, and its reader would wait for ever.

use crate::error::{SqlError, SqlState};
use bytes::Bytes;
use datafusion::common::DataFusionError;
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tempfile::{TempDir, TempPath};
use tokio_util::io::ReaderStream;

/// What all queries of an engine together may have in files: one query must not fill the disk that the log needs.
pub(super) const SPILLED_BYTES_MAX: u64 = 100 << 30;

/// Bytes read at a time.
const READ_BYTES: usize = 128 << 10;

/// Makes the directory for what does not fit when something does not, and removes it with the engine.
///
/// # Locking
/// `made` is a leaf, held while the directory is made.
pub(super) struct SpillDirectory {
    /// What it is made in; the system's directory for temporary files if not given.
    parent: Option<PathBuf>,
    bytes_max: u64,
    made: Mutex<Option<Arc<Made>>>,
}

impl SpillDirectory {
    pub(super) fn new(parent: Option<PathBuf>, bytes_max: u64) -> Self {
        Self { parent, bytes_max, made: Mutex::default() }
    }

    fn make(&self) -> io::Result<Arc<Made>> {
        let parent = self.parent.clone().unwrap_or_else(std::env::temp_dir);
        std::fs::create_dir_all(&parent)?;
        let directory = tempfile::Builder::new().prefix("queries-").tempdir_in(parent)?;
        Ok(Arc::new(Made { directory, bytes: AtomicU64::new(0), bytes_max: self.bytes_max }))
    }

    fn made(&self) -> io::Result<Arc<Made>> {
        let mut made = self.made.lock();
        match &*made {
            Some(made) => Ok(Arc::clone(made)),
            None => Ok(Arc::clone(made.insert(self.make()?))),
        }
    }

    fn create(&self) -> io::Result<RowsFile> {
        let made = self.made()?;
        let (file, path) = tempfile::Builder::new().tempfile_in(made.directory.path())?.into_parts();
        let written = Arc::new(Written { made, bytes: AtomicU64::new(0), error: OnceLock::new() });
        Ok(RowsFile { path, unwritten: Mutex::new(Some(file)), written })
    }
}

impl TempFileFactory for SpillDirectory {
    fn create_temp_file(&self, _: &str) -> Result<Arc<dyn SpillFile>, DataFusionError> {
        let file = self.create().map_err(|error| cannot("make", &error))?;
        Ok(Arc::new(file))
    }
}

/// The directory, while somebody has a file in it.
struct Made {
    directory: TempDir,
    /// Bytes in all files.
    bytes: AtomicU64,
    bytes_max: u64,
}

/// Rows that a query has put aside.
///
/// # Locking
/// `unwritten` is a leaf, held for a moment.
struct RowsFile {
    /// Removed with this. Before what keeps the directory: it is removed after its files.
    path: TempPath,
    /// Until somebody writes.
    unwritten: Mutex<Option<File>>,
    written: Arc<Written>,
}

/// What a file has in it.
struct Written {
    made: Arc<Made>,
    bytes: AtomicU64,
    /// Why it has not all that was written.
    error: OnceLock<SqlError>,
}

impl Written {
    fn note(&self, error: SqlError) {
        // The first says why; those behind it follow from it.
        let _ = self.error.set(error);
    }

    fn result(&self) -> Result<(), DataFusionError> {
        match self.error.get() {
            None => Ok(()),
            Some(error) => Err(error.clone().into()),
        }
    }

    /// Counts bytes that are about to be written.
    fn take(&self, bytes: u64) -> Result<(), SqlError> {
        let before = self.made.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes <= self.made.bytes_max {
            return Ok(());
        }
        let message = format!("queries may have {} bytes in temporary files", self.made.bytes_max);
        Err(SqlError::new(SqlState::ConfigurationLimitExceeded, message).with_hint(
            "Give queries more memory (coeval serve --query-memory), or let the statement sort, group or join fewer rows.",
        ))
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        self.made.bytes.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

impl SpillFile for RowsFile {
    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn size(&self) -> Option<u64> {
        Some(self.written.bytes.load(Ordering::Relaxed))
    }

    fn read_stream(
        &self,
    ) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes, DataFusionError>> + Send>>, DataFusionError> {
        self.written.result()?;
        let path = self.path.to_path_buf();
        let pieces = stream::once(tokio::fs::File::open(path))
            .map_ok(|file| ReaderStream::with_capacity(file, READ_BYTES))
            .try_flatten();
        Ok(pieces.map_err(|error| cannot("read", &error).into()).boxed())
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>, DataFusionError> {
        let file = self.unwritten.lock().take();
        let file = file.ok_or_else(|| SqlError::internal("a temporary file is written once"))?;
        Ok(Box::new(RowsWriter { file: BufWriter::new(file), written: Arc::clone(&self.written) }))
    }
}

/// Writes a file, which is closed with this.
struct RowsWriter {
    file: BufWriter<File>,
    written: Arc<Written>,
}

impl Write for RowsWriter {
    /// Never fails: see the module.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.written.error.get().is_none() {
            let taken = self.written.take(bytes.len() as u64);
            let done =
                taken.and_then(|()| self.file.write_all(bytes).map_err(|error| cannot("write", &error)));
            if let Err(error) = done {
                self.written.note(error);
            }
        }
        Ok(bytes.len())
    }

    /// Never fails either.
    fn flush(&mut self) -> io::Result<()> {
        if let Err(error) = self.file.flush() {
            self.written.note(cannot("write", &error));
        }
        Ok(())
    }
}

impl SpillWriter for RowsWriter {
    fn finish(&mut self) -> Result<(), DataFusionError> {
        self.flush()?;
        self.written.result()
    }
}

fn cannot(what: &str, error: &io::Error) -> SqlError {
    SqlError::new(SqlState::of_io(error), format!("could not {what} a temporary file of a query: {error}"))
}

#[cfg(test)]
mod tests;
