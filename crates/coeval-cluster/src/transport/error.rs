// SPDX-License-Identifier: Apache-2.0
//! What can go wrong: when a node starts ([`ConfigurationError`]), between two nodes ([`LinkError`]), and for who sends
//! ([`SendError`]) or asks ([`CallError`]).

use super::fit::Misfit;
use crate::node::NodeId;
use crate::node_address::NodeAddress;
use coeval_secret::SecretFileError;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Why a node does not start, or does not take a list of nodes. Nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// Others could reach it, and nothing protects what it says.
    #[error(
        "a node without certificates only listens on a loopback address, and {0} is none: give it certificates, or \
         allow it to be insecure"
    )]
    NotLoopback(SocketAddr),
    /// The listener cannot be used.
    #[error("the listener: {0}")]
    Listener(io::Error),
    /// A file with certificates cannot be used.
    #[error("cannot use {path}: {what}")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// The private key cannot be read, or others can.
    #[error(transparent)]
    Key(#[from] SecretFileError),
    /// The node's own certificate does not name its host, so that all others would refuse it.
    #[error("the certificate in {path} is not for {host}, where the other nodes reach this one")]
    OwnCertificate {
        /// The file.
        path: PathBuf,
        /// The host.
        host: String,
    },
    /// Two nodes of a list have the same number.
    #[error("{0} is there twice")]
    Twice(NodeId),
}

/// Why a connection to another node has not come about, or has ended.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The host is not known, or takes no connection.
    #[error("{address}: {error}")]
    Unreachable {
        /// Where the node should be.
        address: String,
        /// What the system answers.
        error: Arc<io::Error>,
    },
    /// Connections without TLS stay within the machine.
    #[error(
        "{address} is not of this machine, and there are no certificates: configure them, or allow this node to be \
         insecure"
    )]
    NotLoopback {
        /// Where the node should be, or the connection came from.
        address: String,
    },
    /// Something was waited for in vain.
    #[error("{address}: {what} was waited for, for {} ms", after.as_millis())]
    TimedOut {
        /// The other side.
        address: String,
        /// What was waited for.
        what: &'static str,
        /// For how long.
        after: Duration,
    },
    /// TLS does not come about.
    #[error("TLS with {address}: {what}")]
    Tls {
        /// The other side.
        address: String,
        /// Why.
        what: String,
    },
    /// The other side speaks something else.
    #[error("{address} does not speak as a node: {what}")]
    Stranger {
        /// The other side.
        address: String,
        /// What it speaks.
        what: String,
    },
    /// The two nodes do not fit, as this one sees it.
    #[error("{address} is refused: {misfit}")]
    Misfit {
        /// The other side.
        address: String,
        /// In what they do not fit.
        misfit: Misfit,
    },
    /// Somebody has asked to be a node, or to be one again, and is not.
    #[error("{address} asks to be a node and is not taken: {what}")]
    NotTaken {
        /// The other side.
        address: String,
        /// Why not.
        what: String,
    },
    /// The two nodes do not fit, as the other one sees it.
    #[error("{address} refuses this node: {reason}")]
    Refused {
        /// The other side.
        address: String,
        /// Its reason.
        reason: String,
    },
    /// Nothing came by the connection any more, not even what was asked for as a sign of life.
    #[error("nothing was heard from {address} for {} ms", after.as_millis())]
    Silent {
        /// The other side.
        address: String,
        /// For how long.
        after: Duration,
    },
    /// The connection has ended.
    #[error("the connection with {address} has ended: {what}")]
    Ended {
        /// The other side.
        address: String,
        /// What is known of it.
        what: String,
    },
}

/// Why a frame is not sent. It is not kept either: whoever sends it does so again, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// As much waits for that node as may wait. It takes frames slowly, or cannot be reached.
    #[error("{bytes} bytes in {frames} frames wait for {node}, and no more may")]
    Full {
        /// The node.
        node: NodeId,
        /// How many frames wait.
        frames: usize,
        /// How many bytes they have.
        bytes: usize,
    },
    /// There is no other node of that number.
    #[error("there is no other {0}")]
    Unknown(NodeId),
    /// The frame is longer than frames may be.
    #[error("a frame of {bytes} bytes is longer than {limit}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The most.
        limit: usize,
    },
    /// The transport has ended.
    #[error("the transport has ended")]
    Closed,
}

/// Why there is no answer, or not all of it. What was asked for may have been done, except where it says that it was not.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// There is no other node of that number; nothing was asked.
    #[error("there is no other {0}")]
    Unknown(NodeId),
    /// The transport has ended.
    #[error("the transport has ended")]
    Closed,
    /// The request is longer than requests may be; nothing was asked.
    #[error("a request of {bytes} bytes is longer than {limit}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The most.
        limit: usize,
    },
    /// There is no connection; nothing was asked.
    #[error(transparent)]
    NotConnected(LinkError),
    /// The answer, or its next part, did not come in time. The other node is told that nobody waits any more.
    #[error("{node} at {address} did not answer within {} ms", after.as_millis())]
    TimedOut {
        /// The node.
        node: NodeId,
        /// Where it is.
        address: NodeAddress,
        /// How long was waited.
        after: Duration,
    },
    /// What was asked for is refused by the other node's handler.
    #[error("{node} refuses: {reason}")]
    Refused {
        /// The node.
        node: NodeId,
        /// Its reason.
        reason: String,
    },
    /// The connection was cut, or the answer is longer than answers may be.
    #[error("the answer of {node} at {address} is not whole: {what}")]
    Cut {
        /// The node.
        node: NodeId,
        /// Where it is.
        address: NodeAddress,
        /// What is known of it.
        what: String,
    },
}

/// What the library for gRPC says has happened.
pub(super) fn of_status(status: &tonic::Status) -> String {
    match status.source() {
        Some(error) => in_one_line(error),
        None => status.message().to_owned(),
    }
}

/// An error and those below it, in one line: libraries tell the reason only in the innermost. What repeats the one before
/// is left out.
pub(super) fn in_one_line(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(error) = below {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        below = error.source();
    }
    text
}
