// SPDX-License-Identifier: Apache-2.0
//! Connections between nodes, and what goes over them.
//!
//! | file | what it is |
//! |---|---|
//! | `options.rs`, `own_node.rs` | what a node is told: who it is, how it is protected, bounds, timeouts; and whom it knows |
//! | `node_transport.rs`, `peers.rs` | the whole, started and dropped; the handle by which things are sent |
//! | `handler.rs` | what is done with what comes in |
//! | `greeting.rs`, `fit.rs` | the first bytes of a connection, and who fits whom |
//! | `asking.rs` | the question of somebody who is no node yet |
//! | `tls.rs`, `strangers.rs` | certificates; what else may speak on the port |
//! | `connection.rs` | a connection that is greeted, and ends when it is told to |
//! | `dialing.rs`, `listening.rs` | how such a one comes about, on either side |
//! | `peer.rs`, `queue.rs`, `sending.rs` | another node; the frames that wait for it; the task that sends them |
//! | `calling.rs` | requests with answers |
//! | `service.rs`, `receiving.rs`, `frame_stream.rs`, `codec.rs` | what a node serves |
//! | `status.rs`, `error.rs` | what can be seen, and what can go wrong |
//!
//! The services are those of gRPC (`tonic`), as what distributes queries speaks it, on the same port. Messages are bytes: their
//! meaning is the business of whoever sends them.

mod asking;
mod call_channel;
mod calling;
mod codec;
mod connection;
mod dialing;
mod error;
mod fit;
mod frame_stream;
mod greeting;
mod handler;
mod listening;
mod methods;
mod node_transport;
mod options;
mod own_node;
mod peer;
mod peers;
mod queue;
mod receiving;
mod sending;
mod service;
mod status;
mod strangers;
mod tls;

pub use asking::AskOptions;
pub(crate) use asking::{AskError, ask};
pub use calling::Answer;
pub use error::{CallError, ConfigurationError, LinkError, SendError};
pub use fit::Misfit;
pub use handler::{AnswerParts, CallRefusal, Handler, ReceiverGone, Sender};
pub use node_transport::Transport;
pub use options::{Bounds, Certificates, Formats, ProtocolVersions, Security, Timeouts, TransportOptions};
pub use peers::Peers;
pub use status::{ConnectionState, CounterValues, PeerStatus, RefusedConnection, TransportStatus};
