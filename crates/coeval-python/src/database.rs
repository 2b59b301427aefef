// SPDX-License-Identifier: Apache-2.0
//! An open database.

use crate::errors::{exception, refused};
use crate::session::Session;
use coeval::{DatabaseOptions, Durability};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::path::PathBuf;

/// A database that this process has open, in a directory or in memory.
///
/// # Locking
/// `open` is held for a look.
#[pyclass(frozen, module = "coeval._native")]
pub(crate) struct Database {
    open: Mutex<Option<coeval::Database>>,
}

#[pymethods]
impl Database {
    /// Opens the database in this directory, or a new one in memory if there is none.
    #[new]
    #[pyo3(signature = (path, durability, query_memory, data_memory))]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        durability: &str,
        query_memory: Option<usize>,
        data_memory: Option<u64>,
    ) -> PyResult<Self> {
        let options = options(py, durability, query_memory, data_memory)?;
        let opened = py.detach(|| match path {
            Some(path) => options.open(path),
            None => options.in_memory(),
        });
        let database = opened.map_err(|error| exception(py, &error))?;
        Ok(Self { open: Mutex::new(Some(database)) })
    }

    /// A new session.
    fn session(&self, py: Python<'_>) -> PyResult<Session> {
        let database = self.open.lock().clone();
        let database = database.ok_or_else(|| refused(py, "08003", "the database is closed", None))?;
        Ok(Session::new(database.session()))
    }

    /// Merges all changed rows into the columnar base and makes the log short.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        let database = self.open.lock().clone();
        let database = database.ok_or_else(|| refused(py, "08003", "the database is closed", None))?;
        py.detach(|| database.checkpoint()).map_err(|error| exception(py, &error))?;
        Ok(())
    }

    /// Closes it, as soon as its sessions and what they are reading are closed, too.
    fn close(&self, py: Python<'_>) {
        let database = self.open.lock().take();
        // The last one writes what is left, which takes its time.
        py.detach(|| drop(database));
    }
}

fn options(
    py: Python<'_>,
    durability: &str,
    query_memory: Option<usize>,
    data_memory: Option<u64>,
) -> PyResult<DatabaseOptions> {
    let durability = match durability {
        "fsync" => Durability::Fsync,
        "none" => Durability::None,
        other => {
            let message = format!("there is no durability {other:?}");
            return Err(refused(py, "22023", &message, Some("It is 'fsync' or 'none'.")));
        }
    };
    let mut options = coeval::Database::options().durability(durability);
    if let Some(bytes) = query_memory {
        options = options.query_memory(bytes);
    }
    if let Some(bytes) = data_memory {
        options = options.data_memory(bytes);
    }
    Ok(options)
}
