// SPDX-License-Identifier: Apache-2.0
//! Why the console cannot be served.

use std::io;
use std::net::SocketAddr;

/// Why the console cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsoleError {
    /// The address cannot be listened on.
    #[error("the console cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: String,
        /// What the system answers.
        error: io::Error,
    },
    /// Passwords and rows would go over the network as they are.
    #[error(
        "the console at {0} can be reached from other machines, and nothing is encrypted: give the server a certificate \
         (--tls-cert, --tls-key), or take 127.0.0.1"
    )]
    Unencrypted(SocketAddr),
    /// Others than this machine could log in, and nobody would have to prove anything.
    #[error(
        "the console at {0} can be reached from other machines: give a role a password, or take 127.0.0.1"
    )]
    Unprotected(SocketAddr),
}
