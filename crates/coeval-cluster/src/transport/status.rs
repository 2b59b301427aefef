// SPDX-License-Identifier: Apache-2.0
//! What can be seen of a transport: the state of each connection, counters, and who was refused.

use super::error::LinkError;
use crate::node::{Incarnation, NodeId};
use crate::node_address::NodeAddress;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// How it stands with the connection by which frames go to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// There is none, as nothing is to be sent.
    Unused,
    /// It is being opened.
    Connecting,
    /// It is there.
    Connected,
    /// It did not come about or was cut, and is opened again after a pause.
    Pausing,
}

impl fmt::Display for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unused => "unused",
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Pausing => "pausing",
        })
    }
}

/// What is known of another node.
#[derive(Clone, Debug)]
pub struct PeerStatus {
    /// The node.
    pub node: NodeId,
    /// Where it is.
    pub address: NodeAddress,
    /// How it stands with the connection by which frames go to it.
    pub connection: ConnectionState,
    /// The newest incarnation that was met, once one was.
    pub incarnation: Option<Incarnation>,
    /// Why there was no connection the last time that there was none, and when that was.
    pub last_error: Option<(SystemTime, LinkError)>,
    /// Frames that wait for it.
    pub queued_frames: usize,
    /// Their bytes.
    pub queued_bytes: usize,
    /// What has been counted since it is known.
    pub counters: CounterValues,
}

/// A connection that came in and was not taken.
#[derive(Clone, Debug)]
pub struct RefusedConnection {
    /// When.
    pub at: SystemTime,
    /// From where.
    pub from: SocketAddr,
    /// Which node it said to be, if it came to that.
    pub node: Option<NodeId>,
    /// Why it was not taken.
    pub error: LinkError,
}

/// What can be seen of a transport.
#[derive(Clone, Debug)]
pub struct TransportStatus {
    /// The other nodes, by their numbers.
    pub peers: Vec<PeerStatus>,
    /// How many connections came in and were not taken.
    pub refused_connections: u64,
    /// The last few of them.
    pub last_refused: Vec<RefusedConnection>,
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What is counted of another node, since it is known.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CounterValues {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl CounterValues {
            /// Each counter with its name, for a page of metrics.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }

        /// The counters themselves. Each stands alone: no two are read as of one moment.
        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(pub(super) $name: AtomicU64,)*
        }

        impl Counters {
            /// What they stand at.
            pub(super) fn values(&self) -> CounterValues {
                CounterValues { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Frames that were given to a connection.
    frames_sent,
    /// Their bytes.
    frame_bytes_sent,
    /// Frames that came from it.
    frames_received,
    /// Their bytes.
    frame_bytes_received,
    /// Frames that were not taken for sending, because the queue was full.
    frames_refused,
    /// Frames that were given to a connection which was cut before the other side said that it has them. Some may have arrived.
    frames_dropped,
    /// Connections for frames that came about.
    connections,
    /// Those among them that came after another one had been cut.
    reconnections,
    /// Attempts to connect that failed.
    failed_connections,
    /// Connections that came in from it and were taken.
    connections_received,
    /// Requests that it was asked, whole or in parts answered.
    calls_sent,
    /// Bytes of them.
    call_bytes_sent,
    /// Bytes of its answers.
    answer_bytes_received,
    /// Requests that it did not answer.
    calls_failed,
    /// Requests that came from it.
    calls_received,
    /// Bytes of them.
    call_bytes_received,
    /// Bytes of what it was answered.
    answer_bytes_sent,
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

impl Counters {
    /// A frame has gone out.
    pub(super) fn sent(&self, bytes: usize) {
        add(&self.frames_sent, 1);
        add(&self.frame_bytes_sent, bytes);
    }

    /// A frame has come in.
    pub(super) fn received(&self, bytes: usize) {
        add(&self.frames_received, 1);
        add(&self.frame_bytes_received, bytes);
    }
}
