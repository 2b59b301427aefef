// SPDX-License-Identifier: Apache-2.0
//! What can go wrong while a workload runs.

use std::path::PathBuf;

/// A workload could not run, or what it found was not what it must find.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The options contradict each other or ask for something that is not there.
    #[error("{0}")]
    Options(String),
    /// The engine refused a statement or a transaction.
    #[error(transparent)]
    Engine(#[from] coeval::Error),
    /// A file of the benchmark (not of the database) could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Arrow refused to build or convert a batch.
    #[error(transparent)]
    Arrow(#[from] arrow::error::ArrowError),
    /// A Parquet file could not be read or written.
    #[error(transparent)]
    Parquet(#[from] parquet::errors::ParquetError),
    /// The database in the directory does not hold what the workload expects there.
    #[error("{0}")]
    Population(String),
    /// A query gave another shape of answer than the workload reads.
    #[error("{0}")]
    Answer(String),
}

impl BenchError {
    /// An I/O error with the file it happened to.
    pub(crate) fn file(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::File { path: path.into(), source }
    }
}
