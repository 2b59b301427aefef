// SPDX-License-Identifier: Apache-2.0
//! A file of Arrow or Parquet on its way from the server to the browser.

use bytes::Bytes;
use serde::Deserialize;
use std::io;
use tokio::sync::mpsc::Receiver;

/// What a query is made into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CopyFormat {
    /// Arrow's stream format.
    Arrow,
    Parquet,
}

impl CopyFormat {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Arrow => "arrow",
            Self::Parquet => "parquet",
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Arrow => "application/vnd.apache.arrow.stream",
            Self::Parquet => "application/vnd.apache.parquet",
        }
    }

    pub(crate) fn file_name(self) -> &'static str {
        match self {
            Self::Arrow => "result.arrows",
            Self::Parquet => "result.parquet",
        }
    }
}

/// A file that is being made. Dropping it ends the query.
pub(crate) struct Copy {
    pub(crate) format: CopyFormat,
    pub(crate) pieces: Receiver<io::Result<Bytes>>,
}
