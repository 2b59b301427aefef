// SPDX-License-Identifier: Apache-2.0
//! How the nodes of a cluster talk to each other.
//!
//! ```text
//!        node 1                                              node 2
//!   +---------------+      frames (in order, may be lost)  +---------------+
//!   | the protocol  |-- send --> queue of node 2 ========> | handler       |
//!   | of epochs     |                                      |               |
//!   |               |   calls (an answer, whole or in      |               |
//!   | fetches of    |   parts; a connection of their own)  |               |
//!   | bricks        |-- call, fetch ====================>  |               |
//!   |               |                                      |               |
//!   | query tasks   |-- Peers::channel ==================> | other services|
//!   +---------------+                                      +---------------+
//!
//!   a connection:  TCP | TLS, both with certificates | greeting, both ways | HTTP/2 with services on it
//! ```
//! Each node opens the connections that it sends on, so between two nodes there are up to two for frames. Whoever is at the
//! other end of one is known from its greeting before anything else is read.
//!
//! # Owns
//! Who a node is ([`NodeId`], [`NodeAddress`], [`Incarnation`], [`ClusterId`]) and the [`Transport`]: the listener, the
//! connections to other nodes, who is let in, the queues of what is sent, timeouts, counters.
//!
//! # Never does
//! Anything with what is sent: bytes are handed to the [`Handler`] as they came. It sends nothing again, and decides nothing
//! about who is in the cluster: it is told ([`Peers::set_nodes`]). No epochs, no tables, no SQL.
//!
//! # Invariants
//! - A frame that arrives is whole, and arrives once. Frames that arrive by one connection do so in the order they were sent;
//!   when a connection is cut, frames may be lost, and none of the old connection is handed over after one of the new.
//! - Sending waits for nothing, and what waits for a node is bounded in frames and bytes.
//! - Nothing is taken from, or given to, whoever has not said in its greeting that it is a node of this cluster, and with TLS
//!   proven to be the host which that node is at.
//! - When a [`Transport`] is dropped, all its tasks end.
//!
//! # Start reading at
//! `transport.rs` for the files, [`Peers`] for what callers do, then `transport/greeting.rs` and `transport/fit.rs`.

mod node;
mod node_address;
mod transport;

pub use node::{ClusterId, FormatVersion, Incarnation, NodeId};
pub use node_address::{NodeAddress, NodeAddressError};
pub use transport::{
    Answer, AnswerParts, Bounds, CallError, CallRefusal, Certificates, ConfigurationError, ConnectionState,
    CounterValues, Formats, Handler, LinkError, Misfit, PeerStatus, Peers, ProtocolVersions, ReceiverGone,
    RefusedConnection, Security, SendError, Sender, Timeouts, Transport, TransportOptions, TransportStatus,
};
