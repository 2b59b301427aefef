// SPDX-License-Identifier: Apache-2.0
//! What can go wrong while a workload runs.

use std::path::PathBuf;
use tokio_postgres::error::SqlState;

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
    /// TiQuE refused a statement or a transaction.
    #[error(transparent)]
    Tique(#[from] coeval_tique::TiqueError),
    /// An engine of TiQuE's refused a statement.
    #[error(transparent)]
    ForeignEngine(#[from] coeval_tique::EngineError),
    /// A transaction of an engine's own lost against another.
    #[error(transparent)]
    Lost(coeval_tique::EngineError),
    /// The server behind the URL refused something, or the connection to it broke.
    #[error("{}", of_server(.0))]
    Server(#[from] tokio_postgres::Error),
    /// Nodes of a cluster did not start, or a load on them did not commit.
    #[error(transparent)]
    Cluster(#[from] coeval_cluster::LoadFigureError),
    /// The threads that talk to a server could not be started.
    #[error("cannot start a client: {0}")]
    Client(std::io::Error),
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

/// What the server said, with its SQLSTATE; otherwise what happened to the connection.
fn of_server(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(said), _) => format!("{said} ({})", said.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

impl BenchError {
    /// Whether the transaction lost against another one and may be tried again: certification, or a deadlock.
    pub(crate) fn is_conflict(&self) -> bool {
        match self {
            Self::Engine(error) => error.is_conflict() || error.state() == coeval::SqlState::DeadlockDetected,
            Self::Server(error) => {
                let lost = [&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED];
                error.code().is_some_and(|code| lost.contains(&code))
            }
            Self::Lost(_) => true,
            Self::Tique(error) => error.state == coeval_tique::SqlState::SerializationFailure,
            Self::Options(_)
            | Self::ForeignEngine(_)
            | Self::Cluster(_)
            | Self::Client(_)
            | Self::File { .. }
            | Self::Arrow(_)
            | Self::Parquet(_)
            | Self::Population(_)
            | Self::Answer(_) => false,
        }
    }

    /// An I/O error with the file it happened to.
    pub(crate) fn file(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::File { path: path.into(), source }
    }
}
