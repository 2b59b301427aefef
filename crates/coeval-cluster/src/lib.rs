// SPDX-License-Identifier: Apache-2.0
//! The nodes of a cluster: how they talk to each other, and how loads of bricks become visible on all of them.
//!
//! ```text
//!                  callers: begin, append, commit, snapshot, read
//!                       |
//!        node 1         v                                    node 2
//!   +----------------------------------+                 +---------------+
//!   | driver: the protocol of epochs   |                 | driver        |
//!   |   (coeval-txn), its effects      |                 |               |
//!   |   in order      keeper of views  |                 |               |
//!   |     |    |           |  (on one)  |                 |               |
//!   | store    |       records, held   |                 | records, held |
//!   | log,     |                       |                 |               |
//!   | bricks   v                       |                 |               |
//!   | transport                        |                 | transport     |
//!   |   frames, in order, may be lost  |== queue of 2 ==>|  handler      |
//!   |   requests, answers in parts     |================>|               |
//!   |   other services on the port     |================>| other services|
//!   +----------------------------------+                 +---------------+
//!
//!   a connection:  TCP | TLS, both with certificates | greeting, both ways | HTTP/2 with services on it
//! ```
//! Each node opens the connections that it sends on, so between two nodes there are up to two for frames. Whoever is at the
//! other end of one is known from its greeting before anything else is read.
//!
//! Who runs a node, and gives it to SQL, is above this crate. What a node keeps stands behind [`NodeStore`]: [`ColumnStore`] has a log,
//! files of flushed rows, and the bricks of `coeval-brick`, in columns, of the tables that are declared to it ([`Tables`]).
//!
//! # Owns
//! Who a node is ([`NodeAddress`], [`ClusterId`]) and how it comes to be one ([`Membership`]), the [`Transport`] (the listener, connections to other nodes, who is let in,
//! queues, timeouts, counters), the binary form of the protocol's messages and records, the [`Node`] that runs the protocol,
//! where bricks are ([`RingPlacement`]), and the keeper of the views.
//!
//! # Never does
//! The rules of the protocol: those are `coeval_txn::cluster`'s, which the driver calls and whose effects it carries out, and
//! nothing else decides. How rows lie in bricks and who sees them: that is `coeval-brick`. No SQL. The transport knows no meaning of what is sent.
//!
//! # Invariants
//! - A frame that arrives is whole, and arrives once. Frames that arrive by one connection do so in the order they were sent;
//!   when a connection is cut, frames may be lost, and none of the old connection is handed over after one of the new.
//! - Sending waits for nothing, and what waits for a node is bounded in frames and bytes.
//! - Nothing is taken from, or given to, whoever has not said in its greeting that it is a node of this cluster, and with TLS
//!   proven to be the host which that node is at.
//! - Effects of the protocol are done in their order, under one lock, each once; what promises something is sent only when
//!   the log is on disk up to there.
//! - Whatever bytes come, they are a message that the protocol may be handed, or refused.
//! - A number of a node, and where it is, are on the disks of enough nodes before anybody hears of them.
//! - When a [`Transport`] is dropped, all its tasks end; when a [`Node`] is, all of it.
//!
//! # Start reading at
//! `driver.rs` for how a node runs; `transport.rs` for how nodes talk, then `transport/greeting.rs` and `transport/fit.rs`.

mod brick_change;
mod brick_rows;
mod driver;
mod figure;
mod joining;
mod keeper;
mod log;
mod membership;
mod node;
mod node_address;
mod placement;
mod row_transactions;
mod start_error;
mod store;
mod tables;
mod texts;
mod transport;
mod wire;

pub use brick_change::BrickChange;
pub use brick_rows::{BrickRows, StoredBrick};
pub use coeval_txn::cluster::{
    BeginError, BrickAddress, ChangeError, Code, DictionaryError, DictionaryId, Member, Purpose,
    RecoverError, Spelling, ViewNumber,
};
pub use coeval_txn::{Epoch, EpochSet};
pub use driver::{
    BrickSum, ChangeNodesError, ClusterTimeouts, CodesError, CommitWait, Committed, Delete, KindCounts, Load,
    LoadError, MessageCounts, NamedLoad, Node, NodeOptions, NodeShare, NodeStatus, Piece, PieceOrder,
    PieceRows, PieceRunner, PlacedBricks, ReadError, Snapshot,
};
pub use figure::{LoadFigure, LoadFigureError, LoadFigureOptions, measure_small_loads};
pub use joining::JoinError;
pub use keeper::Founding;
pub use log::{Durability, LogError};
pub use membership::Membership;
pub use node::{ClusterId, FormatVersion, Incarnation, NodeId};
pub use node_address::{NodeAddress, NodeAddressError};
pub use placement::RingPlacement;
pub use row_transactions::RowTransactions;
pub use start_error::StartError;
pub use store::{
    ColumnStore, CountBricks, HeldBrick, LogPosition, NodeStore, RoundOptions, StoreFailed, SyncedTo,
};
pub use tables::{DefinitionError, RowsOf, RowsRefused, Tables};
pub use texts::{NoText, RowCodes, RowTexts};
pub use transport::{
    Answer, AnswerParts, AskOptions, Bounds, CallError, CallRefusal, Certificates, ConfigurationError,
    ConnectionState, CounterValues, Formats, Handler, LinkError, Misfit, PeerStatus, Peers, ProtocolVersions,
    ReceiverGone, RefusedConnection, Security, SendError, Sender, Timeouts, Transport, TransportOptions,
    TransportStatus,
};
