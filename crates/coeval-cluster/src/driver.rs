// SPDX-License-Identifier: Apache-2.0
//! A node that runs: the protocol's state with a network, a log, bricks, timers and callers.
//!
//! ```text
//!    callers           other nodes             timers          the log's thread
//!       | begin, append,   | frames, requests     | resend         | synced
//!       v  commit, read    v                      v                v
//!   +---------------------------------------------------------------------+
//!   | Life: one lock                                                      |
//!   |   Engine:  ClusterNode (the protocol) -- effects, in order -->      |
//!   |            log and bricks | frames | who waits for an outcome       |
//!   +---------------------------------------------------------------------+
//! ```
//! Whatever happens takes the lock, tells the protocol, and does what the protocol wants done, all in one go and without
//! waiting: sending fills queues, logging fills a buffer. What has to wait for the disk waits in a list until the log's thread
//! has synced. Copies of bricks and reads at other nodes are tasks that take the lock for each step.
//!
//! A node has *lives*. When the cluster has gone on without it, the life ends as if the process had crashed, and the next one
//! begins with what is on disk.
//!
//! | file | what it is |
//! |---|---|
//! | `options.rs`, `error.rs`, `status.rs`, `counters.rs` | what a node is told, what can go wrong, what can be seen |
//! | `node.rs`, `load.rs`, `delete.rs`, `snapshot.rs`, `codes.rs` | what callers have |
//! | `life.rs` | the lock, the tasks of a life, how it ends |
//! | `engine.rs`, `effects.rs` | the state behind the lock, and what is done with effects |
//! | `texts.rs` | codes for rows that are loaded, texts for rows that go to other nodes and to readers |
//! | `adding.rs`, `changing.rs` | nodes that come, are drained, are removed |
//! | `addresses.rs`, `remembering.rs` | where they are, and what of that is written down |
//! | `incoming.rs`, `ticking.rs` | frames and requests that come in; timers |
//! | `copying.rs`, `pace.rs`, `reading.rs` | bricks that come from other nodes, for good and how fast, or for a reader |
//! | `listing.rs`, `shares.rs` | which bricks a table has, on any node; what of all bricks each node has |
//! | `pieces.rs` | pieces of queries that run where the bricks are |
//! | `comparing.rs` | whether all replicas of a brick have the same rows |
//! | `loopback.rs`, `loopback_table.rs` | nodes in one process, with a table, for figures and tests |

mod adding;
mod addresses;
mod changing;
mod codes;
mod comparing;
mod copying;
mod counters;
mod delete;
mod effects;
mod engine;
mod error;
mod incoming;
mod life;
mod listing;
mod load;
mod loopback;
mod loopback_table;
mod node;
mod options;
mod pace;
mod pieces;
mod reading;
mod remembering;
mod shares;
mod snapshot;
mod status;
mod texts;
mod ticking;

pub use comparing::BrickSum;
pub use counters::{KindCounts, MessageCounts};
pub use delete::Delete;
pub use error::{ChangeNodesError, CodesError, LoadError, ReadError};
pub use load::{CommitWait, Committed, Load, NamedLoad};
pub(crate) use loopback::start_on_loopback;
pub(crate) use loopback_table::{TABLE, loopback_tables, row_of};
pub use node::Node;
pub use options::{ClusterTimeouts, NodeOptions};
pub use pieces::{Piece, PieceOrder, PieceRows, PieceRunner, PlacedBricks};
pub use shares::NodeShare;
pub use snapshot::Snapshot;
pub use status::NodeStatus;
