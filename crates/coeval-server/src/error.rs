// SPDX-License-Identifier: Apache-2.0
//! Why a server cannot start.

use coeval_secret::SecretFileError;
use std::io;
use std::net::SocketAddr;

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: String,
        /// What the system answers.
        error: io::Error,
    },
    /// Others than this machine could connect, and nobody would have to prove anything.
    #[error("{0} can be reached from other machines: give a role a password, or listen on 127.0.0.1")]
    Unprotected(SocketAddr),
    /// Others than this machine could ask for figures, and need not know anything.
    #[error("figures at {0} can be read from other machines: give them a token, or take 127.0.0.1")]
    UnprotectedMetrics(SocketAddr),
    /// Certificate or key cannot be used.
    #[error("{0}")]
    Certificate(String),
    /// A file with a secret cannot be used.
    #[error(transparent)]
    SecretFile(#[from] SecretFileError),
    /// The file with the rules cannot be used.
    #[error("{0}")]
    Rules(String),
    /// The secret for the salts of unknown names cannot be used.
    #[error("{0}")]
    MockSecret(String),
}
