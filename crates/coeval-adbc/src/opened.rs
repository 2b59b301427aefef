// SPDX-License-Identifier: Apache-2.0
//! The databases that this process has open. One process has a directory open at a time; within it, all who open it share one.

use crate::errors::{misplaced, of_database};
use crate::location::Location;
use crate::panics::caught;
use adbc_core::error::Result;
use coeval::{DatabaseOptions, Session};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

/// The directories that are open.
///
/// # Locking
/// Held while a database is opened or closed, so that who comes meanwhile finds it open or closed, and not in between. Nothing
/// that is done under it takes another lock of this crate.
static DIRECTORIES: Mutex<BTreeMap<PathBuf, Weak<Opened>>> = Mutex::new(BTreeMap::new());

struct Opened {
    database: coeval::Database,
    directory: Option<PathBuf>,
    /// The process that opened it: one that was forked has none of the threads that it needs.
    process: u32,
}

/// A share in an open database. The last one that goes closes it, so sessions go before theirs.
#[derive(Clone)]
pub(crate) struct Share(Option<Arc<Opened>>);

impl Share {
    /// Opens a database, or takes part in one that is open, with whatever options that one was opened.
    ///
    /// # Errors
    /// What opening meets: the directory may be another process's.
    pub(crate) fn open(location: &Location, options: DatabaseOptions) -> Result<Self> {
        let process = std::process::id();
        let Location::Directory(path) = location else {
            let database = caught(|| options.in_memory().map_err(|error| of_database(&error)))?;
            return Ok(Self(Some(Arc::new(Opened { database, directory: None, process }))));
        };
        let mut directories = DIRECTORIES.lock();
        let known = path.canonicalize().ok().and_then(|path| directories.get(&path)?.upgrade());
        if let Some(known) = known.filter(|known| known.process == process) {
            return Ok(Self(Some(known)));
        }
        let database = caught(|| options.open(path).map_err(|error| of_database(&error)))?;
        // It is there now, and has one name.
        let directory = path.canonicalize().unwrap_or_else(|_| path.clone());
        let opened = Arc::new(Opened { database, directory: Some(directory.clone()), process });
        directories.insert(directory, Arc::downgrade(&opened));
        Ok(Self(Some(opened)))
    }

    /// A new session.
    ///
    /// # Errors
    /// In another process than the one that opened the database.
    pub(crate) fn session(&self) -> Result<Session> {
        self.refuse_fork()?;
        let opened = self.0.as_ref().ok_or_else(|| misplaced("the database is closed"))?;
        caught(|| Ok(opened.database.session()))
    }

    /// Refuses what was made by another process than this one.
    ///
    /// # Errors
    /// In another process than the one that opened the database.
    pub(crate) fn refuse_fork(&self) -> Result<()> {
        if self.0.as_ref().is_none_or(|opened| opened.process == std::process::id()) {
            return Ok(());
        }
        Err(misplaced(
            "this database was opened before the process forked: its threads and locks are the parent's\n\
             HINT: Open it in one process, and let others ask that one, or serve it.",
        ))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Some(opened) = self.0.take() else { return };
        let Some(directory) = opened.directory.clone() else { return };
        let mut directories = DIRECTORIES.lock();
        // Closing writes what is left. Whoever released the last of it is told nothing, so neither is he of a panic.
        let _ = caught(|| {
            drop(opened);
            Ok(())
        });
        if directories.get(&directory).is_some_and(|opened| opened.strong_count() == 0) {
            directories.remove(&directory);
        }
    }
}
