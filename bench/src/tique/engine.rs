// SPDX-License-Identifier: Apache-2.0
//! The engine that a run is about, and where its data lies.

use crate::error::BenchError;
use crate::options::Options;
use coeval::Durability;
use coeval_tique::{AdbcEngine, DataFusionEngine, Engine, MonetDbEngine};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// What TiQuE is told.
pub(super) fn settings(options: &Options, checkpoint_at: usize) -> coeval_tique::Options {
    coeval_tique::Options { checkpoint_at, certification: options.certification, ..Default::default() }
}

/// A directory, removed at the end unless the options named it.
pub(super) struct Place {
    path: PathBuf,
    name: String,
    library: Option<PathBuf>,
    address: Option<String>,
    durability: Durability,
    _temporary: Option<TempDir>,
}

impl Place {
    pub(super) fn new(options: &Options) -> Result<Self, BenchError> {
        let temporary = match &options.dir {
            Some(_) => None,
            None => Some(TempDir::new().map_err(|error| BenchError::file(std::env::temp_dir(), error))?),
        };
        let path = match (&options.dir, &temporary) {
            (Some(dir), _) => dir.clone(),
            (None, Some(temporary)) => temporary.path().to_owned(),
            (None, None) => unreachable!("one of the two is there"),
        };
        std::fs::create_dir_all(&path).map_err(|error| BenchError::file(&path, error))?;
        let (name, library) = (options.engine.clone(), options.engine_library.clone());
        let address = options.engine_address.clone();
        Ok(Self { path, name, library, address, durability: options.durability, _temporary: temporary })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the engine.
    ///
    /// # Errors
    /// There is none of that name; its driver is not there.
    pub(super) fn engine(&self) -> Result<Arc<dyn Engine>, BenchError> {
        let library = |name: &str| self.library.clone().unwrap_or_else(|| PathBuf::from(name));
        Ok(match self.name.as_str() {
            "datafusion" => {
                let durability = match self.durability {
                    Durability::Fsync => coeval_tique::Durability::Machine,
                    Durability::None => coeval_tique::Durability::Process,
                };
                Arc::new(DataFusionEngine::open(&self.path.join("engine"), durability)?)
            }
            "duckdb" => Arc::new(AdbcEngine::duckdb(
                &library("libduckdb.so"),
                Some(&self.path.join("engine.duckdb")),
            )?),
            "monetdb" => Arc::new(MonetDbEngine::open(
                &library("libmonetdbe.so"),
                Some(&self.path.join("engine.monetdb")),
            )?),
            "postgresql" => {
                let address = self.address.as_deref().unwrap_or("postgresql://");
                Arc::new(AdbcEngine::postgresql(&library("libadbc_driver_postgresql.so"), address)?)
            }
            other => {
                let message = format!("there is no engine {other}: datafusion, duckdb, monetdb, postgresql");
                return Err(BenchError::Options(message));
            }
        })
    }
}
