// SPDX-License-Identifier: Apache-2.0
//! What a node is told when it starts.

use crate::node::{ClusterId, FormatVersion, Incarnation, NodeId};
use crate::node_address::NodeAddress;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What a node is told when it starts.
#[derive(Clone, Debug)]
pub struct TransportOptions {
    /// Its own number.
    pub node: NodeId,
    /// Where the others reach it. It may listen elsewhere, behind a forwarded port for one.
    pub address: NodeAddress,
    /// The cluster it is of.
    pub cluster: ClusterId,
    /// Which start of it this is.
    pub incarnation: Incarnation,
    /// What it writes and reads.
    pub formats: Formats,
    /// The versions of the protocol that it speaks; others than [`ProtocolVersions::OWN`] only in tests.
    pub versions: ProtocolVersions,
    /// How connections are protected.
    pub security: Security,
    /// How long it waits.
    pub timeouts: Timeouts,
    /// How much it keeps and takes.
    pub bounds: Bounds,
}

impl TransportOptions {
    /// A node with the usual timeouts and bounds, which only takes connections of its own machine until it is told how to
    /// protect them.
    #[must_use]
    pub fn new(node: NodeId, address: NodeAddress, cluster: ClusterId, formats: Formats) -> Self {
        Self {
            node,
            address,
            cluster,
            incarnation: Incarnation::new(1),
            formats,
            versions: ProtocolVersions::OWN,
            security: Security::LoopbackOnly,
            timeouts: Timeouts::default(),
            bounds: Bounds::default(),
        }
    }
}

/// The versions of the protocol between nodes that a program speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolVersions {
    /// The oldest.
    pub oldest: u32,
    /// The newest.
    pub newest: u32,
}

impl ProtocolVersions {
    /// Those of this program. From version 2 on, a frame may have several messages; from version 3 on, the rows of an append may be of
    /// several bricks; from version 4 on, a load may be one transaction with rows.
    pub const OWN: Self = Self { oldest: 4, newest: 4 };
}

impl fmt::Display for ProtocolVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.oldest == self.newest {
            write!(f, "version {}", self.newest)
        } else {
            write!(f, "versions {} to {}", self.oldest, self.newest)
        }
    }
}

/// The formats of files, and so of bricks on their way, that a program has to do with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formats {
    /// The newest that it writes.
    pub writes: FormatVersion,
    /// The newest that it reads. It is newer where a program is told to write an older one for as long as not all nodes have
    /// been brought up to date.
    pub reads: FormatVersion,
}

impl Formats {
    /// A program that reads up to what it writes.
    #[must_use]
    pub const fn up_to(newest: FormatVersion) -> Self {
        Self { writes: newest, reads: newest }
    }
}

/// How connections between nodes are protected.
#[derive(Clone, Debug)]
pub enum Security {
    /// By TLS, where both sides prove who they are.
    Certificates(Certificates),
    /// By nothing, so only connections within this machine are made and taken.
    LoopbackOnly,
    /// By nothing, with the permission of whoever runs the node: anybody who reaches its port can read everything and say to be
    /// any node.
    Insecure,
}

impl Security {
    /// Whether connections with this address are allowed.
    pub(super) fn allows(&self, address: IpAddr) -> bool {
        match self {
            Self::LoopbackOnly => address.to_canonical().is_loopback(),
            Self::Certificates(_) | Self::Insecure => true,
        }
    }
}

/// Files, in PEM, by which nodes prove who they are.
///
/// A node's certificate names its host as alternative name (DNS or IP), and is used on both ends of connections: if it lists
/// what it may be used for, both `serverAuth` and `clientAuth` are in the list.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The authorities that vouch for nodes. They are to vouch for nothing else.
    pub authorities: PathBuf,
    /// The node's own certificate, and those that vouch for it behind it.
    pub chain: PathBuf,
    /// Its private key, which nobody else may be able to read.
    pub key: PathBuf,
}

/// How long a node waits for others.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For a connection to be there: TCP, TLS and the greeting together.
    pub connect: Duration,
    /// For a sign of life on a connection, before it is cut: it is asked for after half of this.
    pub silence: Duration,
    /// For the whole answer of a call, and for each part of one in parts.
    pub call: Duration,
    /// Before the first attempt to connect again; each further pause is twice as long.
    pub pause_min: Duration,
    /// No pause is longer.
    pub pause_max: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            silence: Duration::from_secs(10),
            call: Duration::from_secs(30),
            pause_min: Duration::from_millis(20),
            pause_max: Duration::from_secs(2),
        }
    }
}

/// How much a node keeps and takes. What it takes must be no less than what others send: all nodes have the same.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Frames that wait for one node.
    pub queued_frames: usize,
    /// Their bytes. A frame that is alone may be larger.
    pub queued_bytes: usize,
    /// Bytes of one frame.
    pub frame_bytes: usize,
    /// Bytes of a request, of an answer, and of a part of one.
    pub call_bytes: usize,
    /// Calls that one node is answered at once, on one connection.
    pub calls: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            queued_frames: 65_536,
            queued_bytes: 64 << 20,
            frame_bytes: 16 << 20,
            call_bytes: 256 << 20,
            calls: 256,
        }
    }
}
